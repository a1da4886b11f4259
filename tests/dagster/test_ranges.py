"""`ranges`: buckets with the bounds of a plan that is created once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from dagster_penstock import ranges
from dagster_penstock.identity import plan_id_of, series_of
from dagster_penstock.partitions import stored_ranges
from penstock import Extent

from .warehouse import TABLE, copying

if TYPE_CHECKING:
    from .warehouse import Run, Warehouse

ALL = ("000", "003")


def bounds(run: Run) -> dict[str | None, Any]:
    return {
        each.partition: each.metadata["penstock/bounds"].value for each in run.materializations()
    }


def test_bounds_stay_fixed_while_data_changes(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(key="id")], partitions_def=ranges(4))
    first = warehouse.run(orders, keys=ALL)
    assert first.rows() == dict.fromkeys(["000", "001", "002", "003"], 250)
    assert bounds(first) == {
        "000": "id < 250",
        "001": "id [250, 500)",
        "002": "id [500, 750)",
        "003": "id >= 750",
    }
    warehouse.source.execute("DELETE FROM public.t WHERE id < 200")
    warehouse.source.execute("INSERT INTO public.t SELECT n FROM generate_series(-9, -1) AS n")
    warehouse.source.execute("INSERT INTO public.t SELECT n FROM generate_series(5000, 5999) AS n")
    warehouse.source.execute("ANALYZE public.t")
    # Other columns and another condition do not change the plan.
    later = copying([warehouse.spec(key="id", degree=1)], partitions_def=ranges(4))
    second = warehouse.run(later, keys=("002", "003"))
    assert second.rows() == {"002": 250, "003": 1250}
    assert warehouse.run(later, key="000").rows() == {"000": 59}
    warehouse.check_same()


def test_a_new_version_creates_a_new_plan(warehouse: Warehouse) -> None:
    def asset(count: int = 4, version: str = "1", **options: Any) -> Any:
        options = {"key": "id", **options}
        return copying([warehouse.spec(**options)], partitions_def=ranges(count, version))

    warehouse.run(asset(), keys=ALL)
    warehouse.source.execute("UPDATE public.t SET id = id + 10000")
    warehouse.source.execute("ANALYZE public.t")
    for other, found in (
        (asset(count=5), "5 of id by auto"),
        (asset(key="day"), "4 of day by auto"),
        (asset(strategy="ntile"), "4 of id by ntile"),
    ):
        run = warehouse.run(other, key="000")
        assert not run.reported()
        assert run.failure.description == (
            "dw/t: ranges: the plan stored as version '1' has 4 ranges of id by strategy "
            f"range, not {found}: pass another version, then copy every partition again"
        )
    new = warehouse.run(asset(version="2"), keys=ALL)
    assert all(200 < rows < 300 for rows in new.rows().values())
    assert bounds(new)["000"].startswith("id < 102")
    warehouse.check_same()


@pytest.mark.parametrize("strategy", ["auto", "ntile", "hash"])
def test_every_row_is_in_one_range(empty: Warehouse, strategy: str) -> None:
    """This includes rows whose key is NULL."""
    empty.source.execute("CREATE TABLE public.t (id int, k text)")
    empty.target.execute("CREATE TABLE dw.t (id int, k text)")
    empty.source.execute(
        "INSERT INTO public.t SELECT n, CASE WHEN n % 10 > 0 THEN md5(n::text) END"
        " FROM generate_series(0, 999) AS n"
    )
    empty.source.execute("ANALYZE public.t")
    spec = empty.spec(key="k", strategy=strategy, verify="checksums")
    run = empty.run(copying([spec], partitions_def=ranges(4)), keys=ALL)
    assert run.ok
    assert run.reported() == ["000", "001", "002", "003"]
    assert sum(run.rows().values()) == 1000
    if strategy != "hash":
        assert run.rows()["003"] == 100
        assert bounds(run)["003"] == "k is null"
    assert [each.passed for each in run.evaluations] == [True] * 4
    empty.check_same()
    empty.source.execute("UPDATE public.t SET id = id + 1")
    for key in ("003", "002", "001", "000"):
        assert empty.run(copying([spec], partitions_def=ranges(4)), key=key).ok
    empty.check_same()


def test_ranges_beyond_the_distinct_values_are_empty(warehouse: Warehouse) -> None:
    warehouse.source.execute("UPDATE public.t SET day = '2024-01-01'")
    warehouse.source.execute("UPDATE public.t SET day = '2024-01-02' WHERE id < 500")
    warehouse.source.execute("ALTER TABLE public.t ALTER day SET NOT NULL")
    warehouse.source.execute("ANALYZE public.t")
    orders = copying([warehouse.spec(key="day", verify="counts")], partitions_def=ranges(4))
    run = warehouse.run(orders, keys=ALL)
    assert run.ok
    assert run.reported() == ["000", "001", "002", "003"]
    assert run.rows()["003"] == run.rows()["002"] == 0
    assert sum(run.rows().values()) == 1000
    assert bounds(run)["003"] == "empty: the source had fewer distinct values than there are ranges"
    assert [each.passed for each in run.evaluations] == [True] * 4
    warehouse.check_same()
    alone = warehouse.run(orders, key="003")
    assert alone.ok
    assert alone.rows() == {"003": 0}
    assert warehouse.run(orders, key="003", after=alone).reported() == []


def test_two_processes_create_one_plan(warehouse: Warehouse) -> None:
    spec, series = warehouse.spec(key="id"), series_of(TABLE, "dw.t", "1")
    spec = replace(spec, source="env:PG_SRC", target="env:PG_DST")
    barrier = threading.Barrier(2)

    def plan_at_once(_: int) -> dict[str, Extent]:
        barrier.wait(60)
        return stored_ranges(spec, ranges(4), series)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(plan_at_once, range(2))
    assert first == second
    assert [str(extent) for extent in first.values()][:2] == ["id < 250", "id [250, 500)"]
    stored = penstock.status(plan_id_of(series), target="env:PG_DST")
    assert [partition.extent for partition in stored.run.plan.partitions] == [*first.values()]


def test_a_key_that_became_nullable_is_rejected(warehouse: Warehouse) -> None:
    """Rows with a NULL key would be in none of the ranges."""
    orders = copying([warehouse.spec(key="id")], partitions_def=ranges(4))
    warehouse.run(orders, keys=ALL)
    warehouse.source.execute("ALTER TABLE public.t DROP CONSTRAINT t_pkey")
    warehouse.source.execute("ALTER TABLE public.t ALTER id DROP NOT NULL")
    run = warehouse.run(orders, keys=ALL)
    assert run.reported() == []
    assert "id can be NULL now" in run.failure.description
