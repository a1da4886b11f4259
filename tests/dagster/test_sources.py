"""Observations of the assets that copies read, and what follows for those that they load."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from dagster_penstock import (
    CopiedTable,
    PenstockMetadataSet,
    PenstockResource,
    PenstockTranslator,
    source_assets,
)
from penstock import FoundColumn, FoundTable, TableRef, describe_tables

from .warehouse import TABLE, Run, copying, days

if TYPE_CHECKING:
    from pathlib import Path

    from .warehouse import Warehouse

SOURCE = dg.AssetKey(["pg_src", "public", "t"])
VERSION = "dagster/data_version"


def observations(run: Run) -> list[dg.AssetObservation]:
    return [
        event.asset_observation_data.asset_observation
        for event in run.result.all_events
        if event.event_type_value == "ASSET_OBSERVATION"
    ]


def version_of(run: Run) -> str:
    (observation,) = observations(run)
    return observation.tags[VERSION]


@pytest.mark.parametrize("partitioned", [True, False])
def test_a_copy_observes_its_source(
    warehouse: Warehouse, source_url: str, *, partitioned: bool
) -> None:
    warehouse.source.execute("COMMENT ON COLUMN public.t.region IS 'of the shop'")
    spec = warehouse.spec(**({"key": "day"} if partitioned else {"mode": "truncate"}))
    copy = copying([spec], partitions_def=days() if partitioned else None)
    run = warehouse.run(copy, keys=("2024-01-02", "2024-01-04") if partitioned else None)
    (observation,) = observations(run)
    assert observation.asset_key == SOURCE
    assert observation.tags[VERSION]
    url = urlsplit(source_url)
    found: dict[str, Any] = {name: each.value for name, each in observation.metadata.items()}
    columns = found.pop("dagster/column_schema").columns
    assert [(each.name, each.description) for each in columns] == [
        ("id", None),
        ("day", None),
        ("region", "of the shop"),
    ]
    ((snapshot,),) = warehouse.target.execute(
        "SELECT snapshots -> 0 ->> 'taken_at' FROM penstock.run"
    ).fetchall()
    assert found == {
        "dagster/uri": f"postgres://{url.hostname}:{url.port}/{url.path[1:]}/public/t",
        "dagster/table_name": "public.t",
        "dagster/storage_kind": "postgresql",
        "penstock/run_id": run.materializations()[0].metadata["penstock/run_id"].value,
        "penstock/as_of": snapshot,
    }
    assert PenstockMetadataSet.extract(observation.metadata).as_of == snapshot


def stale_status(warehouse: Warehouse, copy: dg.AssetsDefinition) -> StaleStatus:
    defs = dg.Definitions(
        assets=[copy, *source_assets(copy)], resources={"penstock": PenstockResource()}
    )
    graph = defs.get_repository_def().asset_graph
    loading = LoadingContextForTest(warehouse.instance)
    return CachingStaleStatusResolver(warehouse.instance, graph, loading).get_status(TABLE)


def test_an_observation_does_not_make_copies_stale(warehouse: Warehouse) -> None:
    copy = copying([warehouse.spec(mode="truncate")])
    first = warehouse.run(copy)
    assert stale_status(warehouse, copy) is StaleStatus.FRESH
    warehouse.source.execute("INSERT INTO public.t VALUES (5000, '2024-01-01', 'new')")
    # The step notes the first observation, although it reads the table after it.
    second = warehouse.run(copy)
    assert version_of(first) != version_of(second)
    assert stale_status(warehouse, copy) is StaleStatus.FRESH


def test_files_that_stay_have_one_version(warehouse: Warehouse, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "lake" / "orders"
    into = copying(
        [warehouse.spec(target=folder.as_uri(), target_table=None, mode="recreate")], name="into"
    )
    assert warehouse.run(into).ok
    back = copying(
        [
            warehouse.spec(
                source=folder.as_uri(), table=None, target_table="dw.back", mode="recreate"
            )
        ],
        name="back",
    )
    runs = [warehouse.run(back), warehouse.run(back)]
    assert all(run.ok for run in runs)
    found = [observation for run in runs for observation in observations(run)]
    assert [each.metadata["dagster/uri"].value for each in found] == [folder.as_uri()] * 2
    assert [each.metadata["dagster/storage_kind"].value for each in found] == ["parquet"] * 2
    assert len({each.tags[VERSION] for each in found}) == 1


class Materialized(PenstockTranslator):
    """The source is an asset that Dagster materializes."""

    def get_source_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        return dg.AssetSpec("upstream")


def test_others_assets_and_rows_of_several_moments_are_not_observed(warehouse: Warehouse) -> None:
    spec = warehouse.spec(mode="truncate")
    assert not observations(warehouse.run(copying([spec], translator=Materialized())))
    unfixed = warehouse.spec(mode="truncate", snapshot="none")
    assert not observations(warehouse.run(copying([unfixed])))


def test_a_step_reads_the_catalog_of_a_source_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(source: str, tables: Any) -> Any:
        asked.append((source, list(tables)))
        return describe_tables(source, tables)

    monkeypatch.setattr("dagster_penstock.sources.describe_tables", counted)
    warehouse.source.execute("CREATE TABLE public.u (id int PRIMARY KEY)")
    specs = [warehouse.spec(mode="truncate", table=f"public.{name}", target_table=f"dw.{name}")
             for name in ("t", "u")]  # fmt: skip
    warehouse.target.execute("CREATE TABLE dw.u (id int PRIMARY KEY)")
    run = warehouse.run(copying(specs))
    assert asked == [("env:PG_SRC", [TableRef("public", "t"), TableRef("public", "u")])]
    assert {each.asset_key for each in observations(run)} == {
        SOURCE,
        dg.AssetKey(["pg_src", "public", "u"]),
    }


def test_tables_and_views_are_described(warehouse: Warehouse, source_url: str) -> None:
    with contextlib.closing(warehouse.source.cursor()) as cursor:
        cursor.execute("COMMENT ON TABLE public.t IS 'sales'")
        cursor.execute("CREATE VIEW public.v AS SELECT id FROM public.t")
    refs = [TableRef("", "t"), TableRef("public", "v"), TableRef("public", "gone")]
    table, view, gone = describe_tables(source_url, refs)
    assert table is not None
    assert (table.name, table.comment) == ("public.t", "sales")
    assert [column.name for column in table.columns] == ["id", "day", "region"]
    assert view == FoundTable("public.v", (FoundColumn("id", "integer", True),))
    assert gone is None
