"""Days of an asset into a missing table: one of them creates it, the others load it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from .warehouse import Warehouse, copying, days

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def missing(warehouse: Warehouse) -> Warehouse:
    warehouse.target.execute("DROP TABLE dw.t; DROP SCHEMA dw")
    warehouse.source.execute("CREATE INDEX ON t (day)")
    return warehouse


def daily(warehouse: Warehouse) -> dg.AssetsDefinition:
    return copying([warehouse.spec(key="day", create=True)], partitions_def=days())


def keys(count: int = 10) -> Sequence[str]:
    return days(count).get_partition_keys()


def check_statement(warehouse: Warehouse) -> None:
    warehouse.check_same()
    assert warehouse.value("SELECT count(*) FROM pg_index WHERE indrelid = 'dw.t'::regclass") == 2


def test_one_run_for_each_day(missing: Warehouse) -> None:
    asset = daily(missing)
    first = missing.run(asset, key=keys()[0])
    assert first.ok
    assert "created there: schema dw and table dw.t" in first.log
    later = [missing.run(asset, key=key) for key in keys()[1:]]
    assert all(run.ok for run in later)
    assert not [run for run in later if "missing in the target" in run.log]
    check_statement(missing)
    assert missing.run(asset, key=keys()[3]).ok  # a second run replaces the day's rows
    check_statement(missing)


def test_one_run_for_all_days(missing: Warehouse) -> None:
    assert missing.run(daily(missing), keys=(keys()[0], keys()[-1])).ok
    check_statement(missing)


def test_concurrent_runs_of_days(missing: Warehouse) -> None:
    """A backfill whose runs start at the same moment, each on its own instance."""
    asset = daily(missing)

    def run(key: str) -> bool:
        with dg.DagsterInstance.ephemeral() as instance:
            alone = Warehouse(missing.source, missing.target, instance)
            return alone.run(asset, key=key).ok

    with ThreadPoolExecutor(5) as pool:
        assert all(pool.map(run, keys()))
    check_statement(missing)
