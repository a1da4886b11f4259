"""Concurrent copies into one table, by the command line and by Dagster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

import penstock

from .warehouse import copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

AGAIN = dg.RetryPolicy(max_retries=1)


def other_spec(warehouse: Warehouse, **options: Any) -> penstock.CopySpec:
    """Return the spec of another copy of the table."""
    spec = warehouse.spec(partitions=4, strategy="range", **options)
    return replace(spec, source="env:PG_SRC", target="env:PG_DST", run_id="by-hand", degree=1)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("truncate", "replace"), ("swap", "upsert"), ("replace", "replace")]
)
def test_the_second_copy_waits_and_succeeds_on_retry(
    warehouse: Warehouse, theirs: str, ours: str
) -> None:
    orders = copying(
        [warehouse.spec(key="day", mode=ours)], partitions_def=days(), retry_policy=AGAIN
    )
    first = penstock.copy(other_spec(warehouse, mode=theirs, key="id"))
    # Its first partition is in progress, so none of Dagster's partitions may begin.
    for event in first:
        if event.name == "opened":
            break
    refused = warehouse.run(orders, key="2024-01-03")
    assert not refused.ok
    assert "run by-hand" in refused.failure.description, refused.failure.description
    assert "STEP_UP_FOR_RETRY" in [each.event_type_value for each in refused.result.all_events]
    assert refused.reported() == []
    for _ in first:
        pass
    assert warehouse.run(orders, key="2024-01-03", after=refused).reported() == ["2024-01-03"]
    warehouse.check_same()
