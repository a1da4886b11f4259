"""The layout of Penstock's Parquet files, and values that take much memory."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import PermanentError
from penstock.backends.parquet.load.file_format import PARQUET
from penstock.backends.parquet.load.large_values import LARGE_BYTES, check_memory, large_columns
from penstock.backends.shared import resources

MB = 1 << 20
# Writes a value as a worker does; prints the peak of the process's memory in bytes.
PROGRAM = """
import sys, pyarrow as pa
from penstock.backends.parquet.load.file_format import PARQUET
from penstock.backends.parquet.load.large_values import large_columns
size = int(sys.argv[1])
array = pa.array([1, 2]), pa.array(["a" * size, "b" * (size // 2)])
batch = pa.record_batch(list(array), ["id", "value"])
large = large_columns(batch) if sys.argv[2] == "large" else frozenset()
with open(sys.argv[3], "wb") as file:
    writer = PARQUET.writer(file, batch.schema, None, large)
    writer.write_table(pa.Table.from_batches([batch]), row_group_size=2)
    writer.close()
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(line.split()[1]) * 1024)
"""


def written(batch: pa.RecordBatch) -> bytes:
    sink = BytesIO()
    writer = PARQUET.writer(sink, batch.schema, None, PARQUET.large_columns(batch))
    writer.write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)
    writer.close()
    return sink.getvalue()


DECIMALS = {
    "nine": (pa.decimal128(9, 2), "9999999.99", "INT32"),
    "eighteen": (pa.decimal128(18, 0), "9" * 18, "INT64"),
    "nineteen": (pa.decimal128(19, 4), "999999999999999.9999", "FIXED_LEN_BYTE_ARRAY"),
    "wide": (pa.decimal256(76, 38), "1" * 38 + "." + "2" * 38, "FIXED_LEN_BYTE_ARRAY"),
}


def test_decimals_as_integers_are_read_by_others(tmp_path: Path) -> None:
    arrays = {
        name: pa.array([Decimal(text), -Decimal(text), None, Decimal(0)], kind)
        for name, (kind, text, _) in DECIMALS.items()
    }
    batch = pa.record_batch(list(arrays.values()), list(arrays))
    path = tmp_path / "a.parquet"
    path.write_bytes(written(batch))
    group = pq.read_metadata(path).row_group(0)
    physical = [group.column(place).physical_type for place in range(len(DECIMALS))]
    assert physical == [expected for *_, expected in DECIMALS.values()]
    assert pq.read_table(path).equals(pa.Table.from_batches([batch]))
    names = list(DECIMALS)[:3]  # DuckDB has no decimals of more than 38 digits
    with duckdb.connect() as session:
        rows = session.sql(f"SELECT {', '.join(names)} FROM '{path}'").fetchall()
        (chosen,) = session.sql(f"SELECT count(*) FROM '{path}' WHERE nine < 0").fetchall()
    assert rows == [tuple(row[name] for name in names) for row in batch.to_pylist()]
    assert chosen == (1,)


def test_small_values_keep_dictionaries_and_statistics() -> None:
    batch = pa.record_batch([pa.array(["a" * 1000] * 50 + ["b"] * 50)], ["v"])
    (column,) = [pq.read_metadata(BytesIO(written(batch))).row_group(0).column(0)]
    assert column.has_dictionary_page
    assert column.statistics.null_count == 0


def test_columns_with_large_values_have_neither() -> None:
    size = LARGE_BYTES
    batch = pa.record_batch(
        [
            pa.array([1, 2, 3]),
            pa.array(["a" * size, "b", None]),
            pa.array([b"a" * (size - 1), b"b" * 100, b"c"]),
            pa.array([["a" * size, "b" * size], ["c" * size], [None]]),
        ],
        ["id", "text", "blob", "list"],
    )
    assert large_columns(batch) == {"text", "list"}
    content = written(batch)
    group = pq.read_metadata(BytesIO(content)).row_group(0)
    found = {group.column(n).path_in_schema: group.column(n) for n in range(4)}
    assert {path for path, column in found.items() if column.has_dictionary_page} == {"id", "blob"}
    assert {path for path, column in found.items() if column.is_stats_set} == {"id", "blob"}
    assert pq.read_table(BytesIO(content)).equals(pa.Table.from_batches([batch]))


def test_memory_for_a_large_value(tmp_path: Path) -> None:
    def peak(size: int, how: str) -> int:
        program = [sys.executable, "-c", PROGRAM, str(size), how, str(tmp_path / "a.parquet")]
        done = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True)
        return int(done.stdout)

    size = 60 * MB  # and another half
    grown = peak(size, "large") - peak(1000, "large")
    assert grown < peak(size, "small") - peak(1000, "large") - 2 * size
    assert grown < 10 * size


def test_too_large_a_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch([pa.array([1, 2]), pa.array(["a", "b" * (20 * MB)])], ["id", "text"])
    monkeypatch.setattr(resources, "memory", lambda: 120 * MB)
    check_memory(batch, {"text"}, 5, "target: partition p0001")
    monkeypatch.setattr(resources, "memory", lambda: 100_000_000)
    with pytest.raises(
        PermanentError,
        match=r"^target: partition p0001: column 'text', row 7: expected a value of at most 17 MB, "
        r"found one of 21 MB: .* 100 MB of memory; use a machine",
    ):
        check_memory(batch, {"text"}, 5, "target: partition p0001")
    monkeypatch.setattr(resources, "share", lambda: 60_000_000)
    with pytest.raises(
        PermanentError,
        match=r"at most 10 MB, found one of 21 MB: .* 60 MB of memory for each stream; raise "
        r"--max-memory or lower --degree",
    ):
        check_memory(batch, {"text"}, 5, "target: partition p0001")
