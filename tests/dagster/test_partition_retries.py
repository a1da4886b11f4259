"""Asset partitions are copied in parallel; only failed ones are retried; each is reported once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from .warehouse import TABLE, copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

# The parameter of `dg.asset` that gives an asset its upstream assets.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

FOUR = ("2024-01-02", "2024-01-05")
FOUR_DAYS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]


def fail(warehouse: Warehouse, ids: str = "250") -> None:
    warehouse.target.execute(f"ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> {ids})".encode())


def mend(warehouse: Warehouse) -> None:
    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")


def test_only_the_selected_partitions_are_copied(warehouse: Warehouse) -> None:
    warehouse.target.execute("INSERT INTO dw.t VALUES (-1, '2024-01-01', 'mine'), (250, NULL, 'x')")
    warehouse.target.execute("UPDATE dw.t SET day = '2024-01-03' WHERE id = 250")
    orders = copying([warehouse.spec(key="day")], partitions_def=days())
    run = warehouse.run(orders, keys=FOUR)
    assert run.rows() == dict.fromkeys(FOUR_DAYS, 100)
    assert run.reported() == FOUR_DAYS
    assert warehouse.count(where="day BETWEEN '2024-01-02' AND '2024-01-05'") == 400
    assert warehouse.count() == 401
    assert warehouse.instance.get_materialized_partitions(TABLE) == set(FOUR_DAYS)
    # A line every few seconds and a report, rather than a line for each partition.
    assert "dw/t: planned: 4 partitions" in run.log
    assert "dw/t: report of the run" in run.log
    assert "committed: 2024-01-02" not in run.log


def test_only_a_failed_partition_is_copied_again(warehouse: Warehouse) -> None:
    fail(warehouse)
    orders = copying([warehouse.spec(key="day")], partitions_def=days())
    first = warehouse.run(orders, keys=FOUR)
    assert not first.ok
    assert first.reported() == ["2024-01-02", "2024-01-04", "2024-01-05"]
    assert first.failed == ["dw/t 2024-01-03"]
    # The core's own message.
    assert first.failure.description.startswith(
        "dw/t: partition 2024-01-03 (day [2024-01-03, 2024-01-04)): [23514] target: new row for "
        'relation "t" violates check constraint "no"\ndetail: Failing row contains (250, '
    )
    row = first.failure.metadata["penstock/errors"].value.splitlines()[2]
    assert row.startswith('| dw/t | 2024-01-03 | 1 | target: new row for relation "t" violates')
    before = warehouse.value("SELECT max(committed_at)::text FROM penstock.commit_record")

    mend(warehouse)
    warehouse.source.execute("UPDATE public.t SET region = 'new'")
    again = warehouse.run(orders, keys=FOUR, after=first)
    assert again.ok
    assert again.reported() == ["2024-01-03"]
    assert warehouse.count(where="region = 'new'") == 100
    assert warehouse.count() == 400
    assert (
        warehouse.value(
            "SELECT count(*) FROM penstock.commit_record"
            f" WHERE committed_at <= '{before}'::timestamptz"
        )
        == 3
    )
    # A third run has nothing to do, and nothing is reported twice.
    third = warehouse.run(orders, keys=FOUR, after=again)
    assert third.ok
    assert third.reported() == []


def test_a_run_continues_after_a_row_is_corrected(warehouse: Warehouse) -> None:
    warehouse.target.execute("ALTER TABLE dw.t ADD CHECK (region <> 'bad')")
    warehouse.source.execute("UPDATE public.t SET region = 'bad' WHERE id = 250")
    orders = copying([warehouse.spec(key="day", verify="checksums")], partitions_def=days())
    seen: list[int] = []

    @dg.asset(deps=[orders], partitions_def=days(), backfill_policy=dg.BackfillPolicy.single_run())
    def downstream() -> None:
        seen.append(warehouse.count())

    first = warehouse.run(orders, downstream, keys=FOUR)
    assert first.failed == ["dw/t 2024-01-03"]
    warehouse.source.execute("UPDATE public.t SET region = 'good' WHERE id = 250")
    # Committed rows stay unchanged, and the checks say so.
    warehouse.source.execute("UPDATE public.t SET region = 'later' WHERE id = 150")
    again = warehouse.run(orders, downstream, keys=FOUR, after=first)
    assert again.ok
    assert (again.reported(), seen) == (["2024-01-03"], [400])
    assert len(again.evaluations) == 4
    assert all(evaluation.passed for evaluation in again.evaluations)
    assert any(", as requested" in line for line in again.warnings)
    assert any("read later than the rest" in line for line in again.warnings)
    (reported,) = [
        line for line in again.log.splitlines() if line.lstrip().startswith("read later ")
    ]
    assert "2024-01-03, as of " in reported


def test_executing_all_steps_again_copies_everything_again(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(key="day")], partitions_def=days())
    first = warehouse.run(orders, keys=FOUR)
    warehouse.source.execute("UPDATE public.t SET region = 'new'")
    again = {"dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
    second = warehouse.run(orders, keys=FOUR, tags=again)
    assert second.reported() == FOUR_DAYS
    assert warehouse.count(where="region = 'new'") == warehouse.count() == 400
    assert len(warehouse.runs()) == 2


def test_an_unreported_commit_is_reported_and_not_copied_again(warehouse: Warehouse) -> None:
    fail(warehouse)
    orders = copying([warehouse.spec(key="day")], partitions_def=days())
    first = warehouse.run(orders, keys=FOUR)
    warehouse.instance.wipe_assets([TABLE])
    mend(warehouse)
    warehouse.source.execute("UPDATE public.t SET region = 'new'")
    again = warehouse.run(orders, keys=FOUR, after=first)
    assert again.rows() == dict.fromkeys(FOUR_DAYS, 100)
    assert warehouse.count(where="region = 'new'") == 100
    old, new = first.metadata("2024-01-02"), again.metadata("2024-01-02")
    different = {name for name in old if old[name] != new[name]}
    # Their seconds are measured up to the commit record's time, when the transaction began.
    assert different <= {
        "penstock/seconds",
        "penstock/rows_per_second",
        "penstock/bytes_per_second",
    }
    assert old.keys() == new.keys()


def test_a_partition_copied_by_another_run_is_not_reported_again(warehouse: Warehouse) -> None:
    fail(warehouse)
    orders = copying([warehouse.spec(key="day")], partitions_def=days())
    first = warehouse.run(orders, keys=FOUR)
    mend(warehouse)
    other = warehouse.run(orders, key="2024-01-04")
    assert other.reported() == ["2024-01-04"]
    assert warehouse.run(orders, keys=FOUR, after=first).reported() == ["2024-01-03"]


def test_a_retry_policy_copies_the_remaining_partitions(warehouse: Warehouse) -> None:
    """The first two tries of a partition fail with serialization errors."""
    warehouse.target.execute("CREATE SEQUENCE tries")
    warehouse.target.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.id = 250 AND nextval('public.tries') < 3 THEN"
        "  RAISE 'not now' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$"
    )
    warehouse.target.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON dw.t FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    orders = copying(
        [warehouse.spec(key="day", attempts=1, verify="counts")],
        partitions_def=days(),
        retry_policy=dg.RetryPolicy(max_retries=5),
    )
    run = warehouse.run(orders, keys=FOUR)
    assert run.ok
    assert run.reported() == FOUR_DAYS
    retried = [e for e in run.result.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    assert len(retried) == 2
    assert len(run.evaluations) == 4
    assert len(warehouse.runs()) == 1


def test_a_retry_policy_does_not_retry_permanent_errors(warehouse: Warehouse) -> None:
    fail(warehouse)
    orders = copying(
        [warehouse.spec(key="day")],
        partitions_def=days(),
        retry_policy=dg.RetryPolicy(max_retries=3),
    )
    run = warehouse.run(orders, keys=FOUR)
    types = [event.event_type_value for event in run.result.all_events]
    assert "STEP_UP_FOR_RETRY" not in types
    assert run.failed == ["dw/t 2024-01-03"]


def test_a_retry_accepts_new_options(warehouse: Warehouse) -> None:
    fail(warehouse)
    first = warehouse.run(copying([warehouse.spec(key="day")], partitions_def=days()), keys=FOUR)
    mend(warehouse)
    same = copying([warehouse.spec(key="day", attempts=1, grace=1)], partitions_def=days())
    assert warehouse.run(same, keys=FOUR, after=first).reported() == ["2024-01-03"]


def test_a_retry_with_another_condition_starts_over(warehouse: Warehouse) -> None:
    """All its partitions are copied again, and replace the rows that the condition selects."""
    fail(warehouse)
    first = warehouse.run(copying([warehouse.spec(key="day")], partitions_def=days()), keys=FOUR)
    mend(warehouse)
    other = copying([warehouse.spec(key="day", where="id % 2 = 0")], partitions_def=days())
    assert warehouse.run(other, keys=FOUR, after=first).reported() == FOUR_DAYS
    assert warehouse.count() == 300 - 150 + 200


def test_downstream_waits_and_each_partition_is_reported_once(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(key="day", verify="checksums")], partitions_def=days())
    seen: list[int] = []

    @dg.asset(deps=[orders], partitions_def=days(), backfill_policy=dg.BackfillPolicy.single_run())
    def downstream() -> None:
        seen.append(warehouse.count())

    @dg.asset_check(asset=TABLE)
    def is_there() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=warehouse.count() == 400)

    run = warehouse.run(orders, downstream, is_there, keys=FOUR)
    assert run.ok
    assert seen == [400]
    assert run.reported() == FOUR_DAYS
    assert run.reported(dg.AssetKey("downstream")) == FOUR_DAYS
    assert [each.passed for each in run.evaluations if each.check_name == "is_there"] == [True]
    alone = warehouse.run(orders, downstream, key="2024-01-01")
    assert alone.reported() == ["2024-01-01"]
    assert seen == [400, 500]

    fail(warehouse, "550")
    failed = warehouse.run(orders, downstream, keys=("2024-01-05", "2024-01-06"))
    assert failed.reported() == ["2024-01-05"]
    assert seen == [400, 500]


def test_a_dagster_without_self_reported_steps(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Downstream assets need a run of their own, and nothing is reported twice."""
    monkeypatch.setattr("dagster_penstock.copies.partitioned_copy._SELF_REPORTED", "")
    orders = copying([warehouse.spec(key="day", verify="counts")], partitions_def=days())

    @dg.asset(deps=[orders], partitions_def=days(), backfill_policy=dg.BackfillPolicy.single_run())
    def downstream() -> None:
        raise AssertionError

    run = warehouse.run(orders, downstream, keys=FOUR)
    assert run.ok
    assert run.reported() == FOUR_DAYS
    assert run.skipped == {"downstream"}


def test_a_run_without_partitions_is_rejected(warehouse: Warehouse) -> None:
    @dg.asset
    def other() -> Iterator[Any]:
        yield dg.MaterializeResult()

    run = warehouse.run(copying([warehouse.spec(key="day")], partitions_def=days()))
    assert "expected a run with one or more partitions" in run.failure.description
