"""Values at the edges of their types: read back by Penstock and by PostgreSQL, unchanged."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.backends.parquet.files.listing import local_file
from penstock.backends.parquet.files.scan import whole_file
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.shared.values.arrow import kind_of
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.load.text_format import TextFormat
from penstock.backends.text.location import parse

from .text_files import schema_of, table_of

DAY = 86_400_000_000
# 1970, year 1, 1 BC, the Ides of March of 44 BC, the server's first day, 9999, 10000, 202401, and
# the server's last day.
DAYS = [
    0, -719_162, -719_163, -735_160, -2_440_588, 2_932_896, 2_932_897, 73_205_920, 2_145_031_948,
]  # fmt: skip
MOMENTS = [
    0, -1, -719_162 * DAY, -719_162 * DAY - 1, -735_160 * DAY + 3_723_000_001, -2_440_588 * DAY,
    2_932_897 * DAY - 1, 2_932_897 * DAY, 11_248_737 * DAY, 106_751_990 * DAY + 123_456,
]  # fmt: skip


def numbers(values: list[int], kind: pa.DataType) -> pa.Array:
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([*values, None], whole).view(kind)


def decimals(texts: list[str], kind: pa.DataType) -> pa.Array:
    return pa.array([*map(Decimal, texts), None], kind)


EDGES: dict[str, tuple[str, pa.Array]] = {
    "date": ("date", numbers(DAYS, pa.date32())),
    "date64": ("date", numbers([86_400_000 * day for day in DAYS], pa.date64())),
    "time": ("time", numbers([0, DAY - 1, DAY, 1], pa.time64("us"))),
    "time in ms": ("time", numbers([0, 86_399_999, 86_400_000], pa.time32("ms"))),
    "timestamp": ("timestamp", numbers(MOMENTS, pa.timestamp("us"))),
    "timestamp in s": (
        "timestamp",
        numbers([moment // 1_000_000 for moment in MOMENTS], pa.timestamp("s")),
    ),
    "timestamp in ms": (
        "timestamp",
        numbers([moment // 1000 for moment in MOMENTS], pa.timestamp("ms")),
    ),
    "timestamptz": ("timestamptz", numbers(MOMENTS, pa.timestamp("us", "UTC"))),
    "zoned in another zone": ("timestamptz", numbers(MOMENTS, pa.timestamp("us", "Asia/Tokyo"))),
    "decimal": (
        "numeric(38,10)",
        decimals(["0.0000000001", "0", "-0.5", "9999999999999999999999999999.9999999999"],
                 pa.decimal128(38, 10)),
    ),
    "only fractions": ("numeric(38,38)", decimals(["1E-38", "-1E-38"], pa.decimal128(38, 38))),
    "wide decimal": (
        "numeric(70,30)",
        decimals(["1E-30", "1E39", "0"], pa.decimal256(70, 30)),
    ),
    "tens": ("numeric", decimals(["1200", "-100"], pa.decimal128(5, -2))),
    "float8": (
        "float8",
        pa.array([float("nan"), float("inf"), float("-inf"), 5e-324, -0.0, 1e308, 0.1, 1e16, None]),
    ),
    "float4": (
        "float4",
        pa.array([float("nan"), float("-inf"), 1e-45, 3.4028235e38, 0.1, None], pa.float32()),
    ),
    "bytea": ("bytea", pa.array([b"", b"\x00\xff\"'\\", None])),
    "text": ("text", pa.array(["", "NULL", 'a"b\r\n,', "\\N", "\\.", "\ufeff x", " ", None])),
    "uint64": ("numeric", pa.array([2**64 - 1, 0, None], pa.uint64())),
    "boolean": ("boolean", pa.array([True, False, None])),
}  # fmt: skip
NAMES = ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz", "a.ndjson.zst"]


def write_file(path: Path, table: pa.Table) -> str:
    location = parse(f"file://{path}", "--target")
    with path.open("wb") as file:
        writer = TextFormat(location.options, whole=False).writer(
            file, table.schema, None, frozenset()
        )
        writer.write_table(table, table.num_rows)
        writer.close()
    return f"file://{path}"


def edge(name: str) -> tuple[str, pa.Table]:
    type_, array = EDGES[name]
    return type_, pa.table({"i": pa.array(range(len(array))), "v": array})


@pytest.mark.parametrize("file", NAMES)
def test_penstock_reads_what_it_wrote(tmp_path: Path, file: str) -> None:
    """Both with the types of the table that was written, and with those it infers."""
    for name in EDGES:
        _, table = edge(name)
        path = tmp_path / f"{name.replace(' ', '_')}.{file.partition('.')[2]}"
        url = write_file(path, table)
        location = parse(url, "--source")
        scan = TextScan(file_system(location.files, "source"), table.schema, location.options)
        part = whole_file(local_file(str(path), path.stat()))
        found = pa.Table.from_batches(scan.batches([part], ["i", "v"]))
        assert repr_of(found["v"]) == repr_of(table["v"]), name
        inferred = table_of(url)["v"]
        if name not in ("tens", "only fractions", "wide decimal"):
            assert same_kind(inferred.type, table.schema.field("v").type), (name, inferred.type)


def repr_of(column: pa.ChunkedArray) -> list[str]:
    array = column.combine_chunks()
    kind = array.type
    if pa.types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return list(map(str, array.view(whole).to_pylist()))
    return [
        format(value, "f") if isinstance(value, Decimal) else repr(value)
        for value in array.to_pylist()
    ]


def same_kind(found: pa.DataType, written: pa.DataType) -> bool:
    pair = kind_of(found), kind_of(written)
    return pair[0] == pair[1] or pair == ("decimal", "integer")


def test_the_server_reads_what_was_written(tmp_path: Path, target: Any) -> None:
    """By COPY for CSV; each line as a row for JSON lines; compared with the server's own values."""
    target.prepare_threshold = None  # the tables change under their names
    header = "match" if target.info.server_version >= 150000 else "true"
    command = f"COPY mine FROM STDIN (FORMAT csv, HEADER {header})".encode()
    for name in EDGES:
        type_, table = edge(name)
        target.execute(f"CREATE TEMPORARY TABLE mine (i int, v {type_})".encode())
        target.execute(f"CREATE TEMPORARY TABLE theirs (i int, v {type_})".encode())
        write_file(tmp_path / "a.csv.gz", table)
        with target.cursor() as cursor:
            with cursor.copy(command) as copy:
                copy.write(gzip.decompress((tmp_path / "a.csv.gz").read_bytes()))
            write_file(tmp_path / "a.jsonl", table)
            for line in (tmp_path / "a.jsonl").read_bytes().splitlines():
                cursor.execute(
                    "INSERT INTO theirs SELECT * FROM json_populate_record(NULL::theirs, %s::json)",
                    [line.decode()],
                )
        differing = target.execute(
            "SELECT * FROM mine FULL JOIN theirs USING (i) WHERE mine.v::text"
            " IS DISTINCT FROM theirs.v::text"
        ).fetchall()
        assert not differing, name
        kind = table.schema.field("v").type
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            found = target.execute(
                "SELECT (extract(epoch FROM v) * 1000000)::numeric(30,0) FROM mine ORDER BY i"
            ).fetchall()
            unit = {"s": 1_000_000, "ms": 1000, "us": 1}.get(getattr(kind, "unit", ""), 0)
            unit = unit or (DAY if kind == pa.date32() else 1000)
            expected = [None if n == "None" else int(n) * unit for n in repr_of(table["v"])]
            assert [row[0] if row[0] is None else int(row[0]) for row in found] == expected, name
        target.execute("DROP TABLE mine, theirs")


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["202401-01-01", "0044-03-15 BC", "5874897-12-31"], "date32[day]"),
        (["32768-01-01 00:00:00", "0001-01-01 00:00:00"], "timestamp[us]"),
        (["32768-01-01T00:00:00.5+05:30", "0044-03-15 01:02:03Z BC"], "timestamp[us, tz=UTC]"),
        (["24:00:00", "00:00:00"], "time64[us]"),
        (["10000-02-30"], "string"),
        (["24:00:01"], "string"),
        (["294248-01-01 00:00:00"], "string"),
        (["2024-01-01 24:00:00"], "string"),
    ],
)
def test_inferred_types_of_years_with_more_digits(
    tmp_path: Path, texts: list[str], kind: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["c", *texts]))
    assert schema_of(f"file://{path}") == {"c": kind}
