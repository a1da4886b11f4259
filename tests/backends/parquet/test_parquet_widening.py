"""Files that store a column as different types: widened where nothing is lost, else refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import PlanningError
from penstock.backends.parquet.files.snapshot import FilesSnapshot, schema_of
from penstock.backends.parquet.files.types import in_file
from penstock.backends.parquet.files.widening import widened
from penstock.backends.parquet.source import ParquetSource
from penstock.errors import PenstockError
from penstock.model.extents import Whole
from penstock.model.tables import Located

from ..conftest import Pair

ROWS = Located()
SAFE: list[tuple[pa.Array, pa.Array, str]] = [
    (pa.nulls(2), pa.array(["x"]), "string"),
    (pa.array(["x"]), pa.nulls(2), "string"),
    (pa.nulls(1), pa.nulls(2), "int32"),
    (pa.nulls(1), pa.array([[1, 2]]), "list<item: int64>"),
    (pa.array([[]], pa.list_(pa.null())), pa.array([["x"]]), "list<item: string>"),
    (pa.array([1], pa.int32()), pa.array([2**40]), "int64"),
    (pa.array([1], pa.int8()), pa.array([300], pa.uint16()), "int32"),
    (pa.array([-1]), pa.array([2**64 - 1], pa.uint64()), "decimal128(20, 0)"),
    (pa.array([1.5], pa.float32()), pa.array([0.1]), "double"),
    (pa.array([1], pa.int32()), pa.array([0.5]), "double"),
    (pa.array([1]), pa.array([None, 0.5]), "double"),
    (
        pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
        pa.array([Decimal("9.99")], pa.decimal128(3, 2)),
        "decimal128(5, 2)",
    ),
    (pa.array([7]), pa.array([Decimal("0.5")], pa.decimal128(4, 1)), "decimal128(20, 1)"),
    (pa.array([1], pa.timestamp("ms")), pa.array([1], pa.timestamp("us")), "timestamp[us]"),
    (
        pa.array([1], pa.timestamp("ms", "UTC")),
        pa.array([1], pa.timestamp("us", "Asia/Tokyo")),
        "timestamp[us, tz=UTC]",
    ),
    (pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.large_string()), "string"),
    (
        pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
        pa.array([{"a": 2**40}]),
        "struct<a: int64>",
    ),
]
UNLIKE = [
    (pa.array([1]), pa.array(["x"])),
    (pa.array([True]), pa.array([1])),
    (pa.array([1.5]), pa.array([Decimal("1.5")])),
    (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
    (pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us"))),
    (pa.array([b"x"]), pa.array(["x"])),
    (pa.array([{"a": 1}]), pa.array([{"b": 1}])),
]


def write(folder: Path, first: pa.Array, second: pa.Array) -> str:
    for name, array in (("a", first), ("b", second)):
        table = pa.table({"n": pa.array(range(len(array))), "v": array})
        pq.write_table(table, folder / f"{name}.parquet")
    return f"file://{folder}/*.parquet"


def values_of(url: str) -> tuple[str, list[Any]]:
    """Return the type of the column, and its values as a scan and as DuckDB read them."""
    source = ParquetSource(url)
    try:
        kind = source._schema.field("v").type
        files = source._files
        batches = list(source._scan.batches(files.parts, ["v"]))
        (rows,) = source._session.fetch("SELECT list(v) FROM source WHERE n >= 0", "rows")
        read = [value for batch in batches for value in batch.column("v").to_pylist()]
        assert len(rows[0]) == len(read)
        return str(kind), read
    finally:
        source.close()


@pytest.mark.parametrize(("first", "second", "kind"), SAFE, ids=str)
def test_a_column_gets_a_type_that_holds_all_values(
    tmp_path: Path, first: pa.Array, second: pa.Array, kind: str
) -> None:
    for pair in ((first, second), (second, first)):
        url = write(tmp_path, *pair)
        found, read = values_of(url)
        assert found.replace("element", "item") == kind
        whole = pa.array([v for array in pair for v in array.to_pylist()], common_type(pair))
        assert read == whole.to_pylist()
        token = FilesSnapshot(url).snapshot.token
        stored = schema_of(token)
        if first.type != second.type and kind != "int32":
            source = ParquetSource(url)
            same = stored is None
            notes = source.statistics(ROWS, None).notes
            assert same == (not notes)
            assert same or stored.field("v").type == source._schema.field("v").type
            source.close()


def common_type(pair: tuple[pa.Array, pa.Array]) -> pa.DataType:
    kind = widened(*(in_file(array.type) for array in pair))
    assert kind is not None
    return kind


@pytest.mark.parametrize(("first", "second"), UNLIKE, ids=str)
def test_columns_that_are_too_unlike_are_named(
    tmp_path: Path, first: pa.Array, second: pa.Array
) -> None:
    url = write(tmp_path, first, second)
    with pytest.raises(PlanningError, match=r"different columns(.|\n)*b\.parquet *v "):
        ParquetSource(url)


def test_a_missing_column_is_not_assumed_to_be_null(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
    with pytest.raises(PlanningError, match=r"b\.parquet *b *int64 *-"):
        ParquetSource(f"file://{tmp_path}/*.parquet")


def test_a_value_that_does_not_fit_is_named(tmp_path: Path) -> None:
    url = write(tmp_path, pa.array([1, 2**60 + 1]), pa.array([0.5]))
    with pytest.raises(PenstockError, match=r"a\.parquet: column 'v', row 2: .*double"):
        values_of(url)


def test_a_folder_from_pandas_is_copied(pair: Pair, tmp_path: Path) -> None:
    """Directly, by a condition, and resumed: every worker reads the same types."""
    for number in range(4):
        table = pa.table(
            {
                "id": pa.array([number * 2, number * 2 + 1], pa.int32() if number else pa.int64()),
                "note": pa.nulls(2) if number % 2 else pa.array(["x", None]),
            }
        )
        pq.write_table(table, tmp_path / f"{number}.parquet")
    common = {"source": f"file://{tmp_path}/*.parquet", "target_table": "public.t"}
    plan = pair.plan(None, mode="recreate", **common)  # type: ignore[arg-type]
    assert any("'note'" in reason and "null" in reason for reason in plan.reasons)
    assert any("'id'" in reason and "int64" in reason for reason in plan.reasons)
    for options in ({}, {"where": "id >= 0"}, {"strategy": "range", "key": "id", "partitions": 2}):
        pair.copy(None, mode="recreate", verify="checksums", **common, **options)
        assert pair.target.rows("SELECT id, note FROM public.t ORDER BY id") == [
            (id_, "x" if id_ % 4 == 0 else None) for id_ in range(8)
        ]


def test_rows_are_counted_without_widening(tmp_path: Path) -> None:
    url = write(tmp_path, pa.nulls(3), pa.array(["x"]))
    source = ParquetSource(url)
    assert source.checksum(ROWS, None, Whole(), ()).rows == 4
    source.close()
