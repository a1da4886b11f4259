"""DuckDB's own types, there and back: every value is unchanged, or its column is rejected."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock import CopySpec, PlanningError, copy

VALUES = {
    "hugeint": ["99999999999999999999999999999999999999::HUGEINT", "(-5)::HUGEINT"],
    "uhugeint": ["340282366920938463463374607431768211455::UHUGEINT", "0::UHUGEINT"],
    "bignum": ["'123456789012345678901234567890123456789012345678901'::BIGNUM", "'-5'::BIGNUM"],
    "bit": ["'0000000000101'::BIT", "'1'::BIT"],
    "mood": ["'b'::mood", "'a'::mood"],
    "map": ["MAP {'a': 1, 'b': NULL}", "MAP {}::MAP(VARCHAR, INT)"],
    "struct": ["{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': NULL}"],
    "array": ["[1, 2, 3]::INT[3]", "[NULL, 2, 3]::INT[3]"],
    "timetz": ["'12:34:56.123456+15:59:59'::TIMETZ", "'24:00:00+00'::TIMETZ"],
    "time": ["'24:00:00'::TIME", "'23:59:59.999999'::TIME"],
    "time_ns": ["'12:34:56.123456789'::TIME_NS", "'00:00:00'::TIME_NS"],
    "ns": ["'2020-01-01 00:00:00.123456789'::TIMESTAMP_NS", "'1677-09-22'::TIMESTAMP_NS"],
    "s": ["'290000-01-01 00:00:01'::TIMESTAMP_S", "'2020-01-01 00:00:01'::TIMESTAMP_S"],
    "ms": ["'2020-01-01 00:00:01.123'::TIMESTAMP_MS", "'1970-01-01'::TIMESTAMP_MS"],
    "us": ["'290309-12-22 (BC)'::TIMESTAMP", "'294247-01-10 04:00:54.775806'::TIMESTAMP"],
    "zoned": ["'2020-01-01 00:00:00+02'::TIMESTAMPTZ", "'1900-01-01 00:00:00Z'::TIMESTAMPTZ"],
    "zoned_ns": ["'2020-01-01 00:00:00.123456789+02'::TIMESTAMPTZ_NS", "NULL::TIMESTAMPTZ_NS"],
    "day": ["'5877642-06-25 (BC)'::DATE", "'5881580-07-10'::DATE"],
    "interval": ["INTERVAL '1 year 2 months 3 days 4.567891 seconds'", "INTERVAL '-40 days'"],
    "uuid": [
        "'6e5e7d1c-0000-4000-8000-ffffffffffff'::UUID",
        "'00000000-0000-0000-0000-000000000000'",
    ],
    "json": ['\'{"b": 1, "a": [1, 2.50]}\'::JSON', "'null'::JSON"],
    "geometry": ["'POINT (1 2)'::GEOMETRY", "'POINT (-1 0)'::GEOMETRY"],
    "blob": ["'\\x00\\xFF'::BLOB", "''::BLOB"],
    "nan": ["'nan'::DOUBLE", "'-inf'::DOUBLE"],
    "lists": ["[{'a': ['b'::mood], 'u': uuid()}]", "[]"],
    "bits": ["['101'::BIT, NULL]", "[]::BIT[]"],
    "spans": ["[INTERVAL '1 month 2 days 3 seconds']", "[]::INTERVAL[]"],
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
        first, second = (
            ", ".join(f'{values[place]} AS "{name}"' for name, values in VALUES.items())
            for place in (0, 1)
        )
        connection.execute(
            f"CREATE TABLE t AS SELECT 1 AS id, {first} UNION ALL SELECT 2, {second}"
            f" UNION ALL SELECT 3, {', '.join(['NULL'] * len(VALUES))}"
        )
    return path


def shown(path: Path, table: str) -> tuple[list[str], list[tuple[str | None, ...]]]:
    """Return types, and values as DuckDB writes them."""
    with duckdb.connect(str(path), read_only=True) as connection:
        found = connection.sql(f"SELECT * FROM {table}")
        texts = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in found.columns)
        rows = connection.execute(f"SELECT {texts} FROM {table} ORDER BY id").fetchall()
        return list(map(str, found.types)), rows


def test_types_copied_between_databases(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.duckdb"
    list(
        copy(
            CopySpec(
                source=f"duckdb:///{source}", target=f"duckdb:///{target}", table="main.t",
                mode="recreate", degree=1, verify="checksums",
            )
        )
    )  # fmt: skip
    assert shown(target, "t") == shown(source, "t")


@pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 26,
    reason="pyarrow reads lists of a fixed length that are NULL from version 26 on",
)
def test_types_copied_through_files(source: Path, tmp_path: Path) -> None:
    files = f"file://{tmp_path}/files"
    list(copy(CopySpec(source=f"duckdb:///{source}", target=files, table="main.t", degree=1)))
    with duckdb.connect(str(source)) as connection:
        connection.execute("CREATE TABLE back AS SELECT * FROM t LIMIT 0")
    list(copy(CopySpec(source=files, target=f"duckdb:///{source}", target_table="back", degree=1)))
    assert shown(source, "back") == shown(source, "t")


@pytest.mark.parametrize("type_", ["UNION(n INTEGER, s VARCHAR)", "VARIANT"])
@pytest.mark.parametrize("within", ["{}", "{}[]", "STRUCT(a {})"])
def test_types_with_ambiguous_texts(tmp_path: Path, type_: str, within: str) -> None:
    path = tmp_path / "both.duckdb"
    with duckdb.connect(str(path)) as connection:
        for name in ("t", "u"):
            connection.execute(f"CREATE TABLE {name} (v {within.format(type_)})")
    spec = CopySpec(
        source=f"duckdb:///{path}", target=f"duckdb:///{tmp_path}/target.duckdb", table="main.t",
        mode="recreate", degree=1,
    )  # fmt: skip
    with pytest.raises(PlanningError, match=f"do not tell what a {type_[:5]}"):
        list(copy(spec))
