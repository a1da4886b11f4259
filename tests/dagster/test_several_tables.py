"""Several tables in one step."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from penstock.backends.postgresql.attempt.older_sessions import is_table_run
from penstock_testkit.servers import free_port

from .warehouse import copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

U, V = dg.AssetKey(["dw", "u"]), dg.AssetKey(["dw", "v"])


def test_a_failed_table_does_not_stop_the_others(warehouse: Warehouse) -> None:
    for name in ("u", "v"):
        warehouse.target.execute(f"CREATE TABLE dw.{name} (LIKE dw.t INCLUDING ALL)".encode())
    warehouse.target.execute("ALTER TABLE dw.u ADD CONSTRAINT no CHECK (id <> 150)")
    warehouse.target.execute("CREATE TABLE dw.other (other int)")
    specs = [
        warehouse.spec(key="day", target_table=f"dw.{name}", verify="counts")
        for name in ("t", "u", "v")
    ]
    specs.append(warehouse.spec(key="day", target_table="dw.other"))
    orders = copying(specs, partitions_def=days())
    keys = ("2024-01-01", "2024-01-02")
    run = warehouse.run(orders, keys=keys)
    assert run.reported() == run.reported(V) == ["2024-01-01", "2024-01-02"]
    assert run.reported(U) == ["2024-01-01"]
    assert run.failed == ["dw/u 2024-01-02", "dw/other"]
    assert "dw/u: partition 2024-01-02" in run.failure.description
    assert "dw/other: " in run.failure.description
    assert {each.asset_key for each in run.evaluations} == {dg.AssetKey(["dw", "t"]), V}
    first, second, *details = run.at_level(logging.ERROR)
    assert first.startswith("public.t cannot be copied: public.t does not fit into dw.other")
    assert second == "failed: public.t 2024-01-02 (day [2024-01-02, 2024-01-03)), attempt 1"
    assert 'violates check constraint "no"' in details[0]
    # A single table, together with its check.
    warehouse.target.execute("ALTER TABLE dw.u DROP CONSTRAINT no")
    alone = warehouse.run(orders, keys=keys, selection=dg.AssetSelection.assets(U))
    assert alone.ok
    assert alone.reported(U) == ["2024-01-01", "2024-01-02"]
    assert alone.reported() == alone.reported(V) == []
    assert {each.asset_key for each in alone.evaluations} == {U}


def many(warehouse: Warehouse, count: int) -> list[str]:
    """Create small tables in both databases."""
    names = [f"small_{number:02}" for number in range(count)]
    for name in names:
        warehouse.source.execute(f"CREATE TABLE public.{name} (LIKE public.t)".encode())
        warehouse.source.execute(
            f"INSERT INTO public.{name} SELECT * FROM public.t WHERE id < 300".encode()
        )
        warehouse.target.execute(f"CREATE TABLE dw.{name} (LIKE dw.t)".encode())
    return names


def test_whole_tables_are_one_batch_with_one_snapshot(warehouse: Warehouse) -> None:
    names = many(warehouse, 8)
    specs = [
        warehouse.spec(
            table=f"public.{name}",
            target_table=f"dw.{name}",
            mode="truncate",
            verify="checksums",
            partitions=2,
        )
        for name in names
    ]
    # A missing table fails alone.
    specs.insert(3, warehouse.spec(table="public.no", target_table="dw.no", mode="truncate"))
    tables = copying(specs)
    run = warehouse.run(tables)
    assert run.failed == ["dw/no"]
    assert "dw/no: source: table public.no" in run.failure.description
    for name in names:
        asset = dg.AssetKey(["dw", name])
        (_,) = run.materializations(asset)
        metadata = run.metadata(asset=asset)
        assert metadata["dagster/row_count"] == 300
        assert metadata["penstock/source_table"] == f"public.{name}"
        assert metadata["penstock/report"].startswith("**done**: 2 of 2 partitions committed")
        warehouse.check_same(f"public.{name}", f"dw.{name}")
    assert {each.passed for each in run.evaluations} == {True}
    assert len(run.evaluations) == len(names)
    moments = {read for (read,) in warehouse.target.execute(READ_AT).fetchall()}
    assert len(moments) == 1
    assert "8 of 9 done" in run.log
    (error,) = run.at_level(logging.ERROR)
    assert error.startswith("    public.no: source: table public.no does not exist")
    # The run ids show that the tables belong to one batch.
    (batch_id,) = set(re.findall(r"batch (dagster-[0-9a-f]{16})\b", run.log))
    found = warehouse.target.execute("SELECT run_id FROM penstock.run").fetchall()
    assert len(found) == len(names)
    assert all(is_table_run(run_id, batch_id) for (run_id,) in found)


READ_AT = "SELECT DISTINCT read_at FROM penstock.commit_record"


def test_only_the_failed_tables_of_a_batch_are_copied_again(warehouse: Warehouse) -> None:
    names = many(warehouse, 4)
    warehouse.target.execute("ALTER TABLE dw.small_01 ADD CONSTRAINT no CHECK (region <> 'bad')")
    warehouse.source.execute("UPDATE public.small_01 SET region = 'bad' WHERE id = 299")
    specs = [
        warehouse.spec(
            table=f"public.{name}",
            target_table=f"dw.{name}",
            mode="append",
            strategy="range",
            key="id",
            partitions=2,
            on_error="continue",
        )
        for name in names
    ]
    tables = copying(specs)
    first = warehouse.run(tables)
    assert first.failed == ["dw/small_01"]
    assert "violates check constraint" in first.failure.description
    assert first.failure.metadata["penstock/errors"].value.count("dw/small_01") == 1
    warehouse.source.execute("UPDATE public.small_01 SET region = 'good' WHERE id = 299")
    # Dagster's own selection: assets that are not materialized.
    again = warehouse.run(
        tables, after=first, selection=dg.AssetSelection.assets(["dw", "small_01"])
    )
    assert again.ok, again.log
    # Run it all again: nothing remains to be done, and no row is duplicated.
    assert warehouse.run(tables, after=first).ok
    for name in names:
        warehouse.check_same(f"public.{name}", f"dw.{name}")
    refused = warehouse.run(tables)
    assert sorted(refused.failed) == [f"dw/{name}" for name in names]


def test_partitions_of_several_tables_are_reported_as_they_are_committed(
    warehouse: Warehouse,
) -> None:
    warehouse.target.execute("CREATE TABLE dw.u (LIKE dw.t INCLUDING ALL)")
    specs = [warehouse.spec(key="day", target_table=f"dw.{name}", verify="counts") for name in "tu"]
    tables = copying(specs, partitions_def=days())
    keys = ("2024-01-01", "2024-01-04")
    run = warehouse.run(tables, keys=keys)
    assert run.ok
    assert set(run.rows().values()) == set(run.rows(U).values()) == {100}
    assert run.reported() == run.reported(U) == [f"2024-01-0{day}" for day in range(1, 5)]
    assert len({each.asset_key for each in run.evaluations}) == 2
    moments = {read for (read,) in warehouse.target.execute(READ_AT).fetchall()}
    assert len(moments) == 1
    # A retry finds everything, and reports nothing twice.
    again = warehouse.run(tables, keys=keys, after=run)
    assert again.ok
    assert again.reported() == again.reported(U) == []


def test_tables_that_cannot_share_streams_are_copied_too(warehouse: Warehouse) -> None:
    """Each degree has its own streams."""
    warehouse.target.execute("CREATE TABLE dw.u (LIKE dw.t INCLUDING ALL)")
    specs = [
        warehouse.spec(target_table=f"dw.{name}", mode="truncate", degree=degree)
        for name, degree in (("t", 1), ("u", 2))
    ]
    run = warehouse.run(copying(specs), degree=None)
    assert run.ok
    assert "batch dagster-" not in run.log
    warehouse.check_same()
    warehouse.check_same(target="dw.u")
    moments = {read for (read,) in warehouse.target.execute(READ_AT).fetchall()}
    assert len(moments) == 2


def test_a_server_that_is_down_fails_each_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_SRC", f"postgresql://me@127.0.0.1:{free_port()}/db")
    specs = [warehouse.spec(target_table=f"dw.{name}", mode="truncate") for name in "tu"]
    run = warehouse.run(copying(specs, retry_policy=dg.RetryPolicy(max_retries=1)))
    assert run.failed == ["dw/t", "dw/u"]
    assert run.failure.description.count("refused") == 2
    types = [event.event_type_value for event in run.result.all_events]
    assert "STEP_UP_FOR_RETRY" in types
