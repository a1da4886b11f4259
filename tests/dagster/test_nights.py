"""Loads that repeat: each materialization is a night, from the current watermark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import pytest

import penstock
from dagster_penstock.identity import batch_id_of, run_id_of
from penstock import CopySpec

from .warehouse import TABLE, copying, days

if TYPE_CHECKING:
    from .warehouse import Run, Warehouse

NIGHT: dict[str, Any] = {"mode": "upsert", "incremental": "xmin", "deletes": "hard"}


def change(warehouse: Warehouse) -> None:
    warehouse.source.execute("UPDATE public.t SET region = 'new' WHERE id % 100 = 0")
    warehouse.source.execute("DELETE FROM public.t WHERE id = (SELECT max(id) FROM public.t)")


def test_a_night_reports_its_changes(warehouse: Warehouse) -> None:
    table = copying([warehouse.spec(**NIGHT)])
    first = warehouse.run(table).metadata()
    assert first["penstock/full_read_reason"] == "this is the first night"
    warehouse.check_same()
    change(warehouse)
    second = warehouse.run(table).metadata()
    warehouse.check_same()
    assert second["penstock/rows_read"] == second["penstock/rows_updated"] == 10
    assert second["penstock/rows_deleted"] == 1
    assert second["penstock/rows_inserted"] == 0
    assert second["dagster/row_count"] == warehouse.count() == 999
    assert second["penstock/since"] == first["penstock/as_of"]
    assert (first["penstock/epoch"], second["penstock/epoch"]) == (1, 2)
    assert "penstock/full_read_reason" not in second


def test_an_asset_with_partitions_cannot_be_a_night(warehouse: Warehouse) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"incremental: .* partitions_def"):
        copying([warehouse.spec(**NIGHT, key="day", strategy="time")], partitions_def=days())


def overtake(warehouse: Warehouse, run: Run, url: dict[str, Any], *, snapshot: bool) -> None:
    """Merge another night after the run has planned its own.

    Args:
        snapshot: whether the run has taken its snapshot by then.
    """
    spec = CopySpec(**url, table="public.t", target_table="dw.t", degree=2, partitions=2, **NIGHT)
    step = SimpleNamespace(assets_def=SimpleNamespace(node_def=SimpleNamespace(name="copy")))
    run_id = run_id_of(TABLE, batch_id_of(cast("Any", step), run.run_id), ())
    planned = penstock.create(replace(spec, run_id=run_id)).run
    if snapshot:
        first = planned.plan.partitions[0].id
        for _ in penstock.resume(run_id, **url, only=[first], finish=False):
            pass
    for _ in penstock.copy(spec):
        pass


@pytest.fixture
def url(source_url: str, target_url: str) -> dict[str, Any]:
    return {"source": source_url, "target": target_url}


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_night_overtaken_by_another(
    warehouse: Warehouse, url: dict[str, Any], *, snapshot: bool
) -> None:
    table = copying([warehouse.spec(**NIGHT, partitions=2)])
    # A run that failed before planning.
    warehouse.target.execute("ALTER TABLE dw.t RENAME COLUMN region TO other")
    failed = warehouse.run(table)
    assert not failed.ok
    warehouse.target.execute("ALTER TABLE dw.t RENAME COLUMN other TO region")
    overtake(warehouse, failed, url, snapshot=snapshot)
    again = warehouse.run(table, after=failed)
    assert again.ok
    warehouse.check_same()
    if snapshot:
        by = again.metadata()["penstock/covered_by"]
        assert f"is covered by run {by}, which read" in again.log
    else:
        assert again.metadata()["penstock/epoch"] == 2
        assert "starts from the new watermark" in again.log
    change(warehouse)
    assert warehouse.run(table).ok
    warehouse.check_same()


def test_several_nights_in_one_step(warehouse: Warehouse, url: dict[str, Any]) -> None:
    warehouse.both("CREATE TABLE public.u (id int PRIMARY KEY)")
    warehouse.source.execute("INSERT INTO public.u SELECT generate_series(1, 10)")
    other = warehouse.spec(**NIGHT, table="public.u", target_table="public.u")
    both = copying([warehouse.spec(**NIGHT, partitions=2), other])
    assert warehouse.run(both).ok
    warehouse.source.execute("DELETE FROM public.u WHERE id = 3")
    run = warehouse.run(both)
    assert run.metadata(asset=dg.AssetKey(["public", "u"]))["penstock/rows_deleted"] == 1
    warehouse.check_same("public.u", "public.u")
    warehouse.check_same()
    # One night is overtaken, in a step that continues.
    warehouse.target.execute("ALTER TABLE dw.t RENAME COLUMN region TO other")
    failed = warehouse.run(both)
    assert not failed.ok
    warehouse.target.execute("ALTER TABLE dw.t RENAME COLUMN other TO region")
    change(warehouse)
    overtake(warehouse, failed, url, snapshot=True)
    again = warehouse.run(both, after=failed)
    assert again.ok
    assert "penstock/covered_by" in again.metadata()
    warehouse.check_same()
