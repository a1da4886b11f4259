"""A copy whose partitions several steps of one run share, one of which is killed."""

# No future annotations: Dagster inspects the annotations of a step's context.
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from dagster_penstock import PenstockMetadataSet

from .warehouse import TABLE, Run, copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

FOUR = ("2024-01-02", "2024-01-05")
FOUR_DAYS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]
STEPS = {"copy.plan", "copy.worker_1", "copy.worker_2", "copy.worker_3", "copy.end"}


def workers_of(run: Run) -> dict[str, PenstockMetadataSet]:
    """Return what each worker says that it did, by step."""
    return {
        str(event.step_key): PenstockMetadataSet.extract(event.step_output_data.metadata)
        for event in run.result.all_events
        if event.event_type_value == "STEP_OUTPUT" and "worker" in str(event.step_key)
    }


def test_workers_share_a_table(warehouse: "Warehouse") -> None:
    spec = warehouse.spec(mode="truncate", partitions=8, strategy="ctid", verify="counts")
    run = warehouse.run(copying([spec], workers=3))
    assert run.ok
    assert {event.step_key for event in run.result.all_events if event.step_key} == STEPS
    warehouse.check_same()
    assert run.metadata()["dagster/row_count"] == 1000
    workers = workers_of(run)
    assert [each.worker for each in workers.values()] == [1, 2, 3]
    assert sum(each.rows or 0 for each in workers.values()) == 1000
    assert [each.passed for each in run.evaluations] == [True]


def test_workers_share_asset_partitions(warehouse: "Warehouse") -> None:
    orders = copying(
        [warehouse.spec(key="day", verify="checksums")], partitions_def=days(), workers=3
    )
    seen: list[int] = []

    @dg.asset(deps=[orders], partitions_def=days(), backfill_policy=dg.BackfillPolicy.single_run())
    def downstream() -> None:
        seen.append(warehouse.count())

    run = warehouse.run(orders, downstream, keys=FOUR)
    assert run.ok
    assert run.rows() == dict.fromkeys(FOUR_DAYS, 100)
    assert run.reported() == FOUR_DAYS
    assert seen == [400]
    assert sum(each.partitions or 0 for each in workers_of(run).values()) == 4
    assert sorted(str(each.partition) for each in run.evaluations) == FOUR_DAYS
    assert warehouse.instance.get_materialized_partitions(TABLE) == set(FOUR_DAYS)
