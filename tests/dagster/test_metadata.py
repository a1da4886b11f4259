"""The metadata of a materialization, compared with the actual rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import dagster as dg
import pytest

from dagster_penstock import PenstockMetadataSet

from .warehouse import copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse


def recorded(warehouse: Warehouse) -> tuple[Any, ...]:
    row = warehouse.target.execute(
        "SELECT run_id, rows, bytes, extract(epoch FROM committed_at - started_at)::float"
        " FROM penstock.commit_record"
    ).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("partitioned", [True, False])
def test_every_metadata_entry(warehouse: Warehouse, target_url: str, *, partitioned: bool) -> None:
    """The target's columns have other names and types than the source's."""
    warehouse.source.execute("COMMENT ON COLUMN public.t.day IS 'when it was sold'")
    warehouse.target.execute("DROP TABLE dw.t")
    warehouse.target.execute("CREATE TABLE dw.t (number bigint NOT NULL, at timestamp, place text)")
    options: dict[str, Any] = {"map": "position", "columns": ("id", "day", "region")}
    if partitioned:
        options |= {"key": "day", "mode": "append"}
        assets = copying([warehouse.spec(**options)], partitions_def=days())
        run = warehouse.run(assets, key="2024-01-03")
        metadata = run.metadata("2024-01-03")
        (reported,) = run.materializations()
    else:
        assets = copying([warehouse.spec(mode="truncate", partitions=1, **options)])
        run = warehouse.run(assets)
        metadata = run.metadata()
        (reported,) = run.materializations()
        assert metadata.pop("penstock/report").startswith("**done**")
    core_run, rows, size, seconds = recorded(warehouse)
    assert rows == warehouse.count() == (100 if partitioned else 1000)
    took = metadata.pop("penstock/seconds")
    assert 0 <= took <= seconds + 1
    for name, amount in (("rows", rows), ("bytes", size)):
        rate = metadata.pop(f"penstock/{name}_per_second")
        assert rate == pytest.approx(amount / max(took, 0.001), rel=0.1)
    url = urlsplit(target_url)
    schema = metadata.pop("dagster/column_schema")
    lineage = metadata.pop("dagster/column_lineage").deps_by_column
    source = dg.AssetKey(["pg_src", "public", "t"])
    assert {
        name: [(each.asset_key, each.column_name) for each in deps]
        for name, deps in lineage.items()
    } == {
        "number": [(source, "id")],
        "at": [(source, "day")],
        "place": [(source, "region")],
    }
    assert metadata == {
        **(
            {"dagster/partition_row_count": 100, "penstock/bounds": "day [2024-01-03, 2024-01-04)"}
            if partitioned
            else {"dagster/row_count": 1000, "penstock/partitions": 1}
        ),
        "penstock/bytes": size,
        "penstock/attempts": 1,
        "penstock/run_id": core_run,
        "penstock/request": run.run_id,
        "penstock/source_table": "public.t",
        "penstock/target_table": "dw.t",
        "dagster/table_name": "dw.t",
        "dagster/storage_kind": "postgresql",
        "dagster/uri": f"postgres://{url.hostname}:{url.port}/{url.path[1:]}/dw/t",
    }
    columns = [(c.name, c.type, c.description, c.constraints.nullable) for c in schema.columns]
    assert columns == [
        ("number", "bigint", None, False),
        ("at", "timestamp without time zone", "when it was sold", True),
        ("place", "text", None, True),
    ]
    assert isinstance(schema, dg.TableSchema)
    typed = PenstockMetadataSet.extract(reported.metadata)
    assert (typed.run_id, typed.bytes, typed.seconds) == (core_run, size, took)
    assert typed.rows_read is None


@pytest.mark.parametrize("partitioned", [True, False])
def test_an_upsert_counts_its_changes(warehouse: Warehouse, *, partitioned: bool) -> None:
    warehouse.target.execute("INSERT INTO dw.t VALUES (200, '2024-01-03', 'old')")
    warehouse.target.execute("INSERT INTO dw.t VALUES (201, '2024-01-03', 'r0')")
    assets = copying(
        [warehouse.spec(mode="upsert", **({"key": "day"} if partitioned else {}))],
        partitions_def=days() if partitioned else None,
    )
    key = "2024-01-03" if partitioned else None
    metadata = warehouse.run(assets, key=key).metadata(key)
    assert metadata["penstock/rows_inserted"] == (98 if partitioned else 998)
    assert metadata["penstock/rows_updated"] == 1
    assert metadata["penstock/rows_unchanged"] == 1
