"""docs/types.md between unlike systems: the lines on DuckDB and Parquet, against the code."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock.backends.duckdb.catalog.values import arrow_types
from penstock.backends.duckdb.load.fitting import column_type
from penstock.backends.parquet.files.column_types import stored_as
from penstock.backends.parquet.files.types import travelling
from penstock.backends.shared.arrow import kind_of

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (.+?)\n(.+?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
ARROW_TYPES = {
    str(type_): type_
    for type_ in (
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
        pa.decimal32(5, 2), pa.decimal64(15, 2), pa.decimal128(15, 2), pa.decimal256(76, 4),
        pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()),
        pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(16), pa.uuid(), pa.json_(),
        pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
        pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"),
        pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"),
        pa.duration("us"), pa.month_day_nano_interval(), pa.list_(pa.int32()),
        pa.list_(pa.field("element", pa.int32())), pa.large_list(pa.int32()),
        pa.list_(pa.int32(), 3), pa.struct({"a": pa.int32()}), pa.map_(pa.string(), pa.int64()),
    )
}  # fmt: skip


def lines(section: str) -> list[list[list[str]]]:
    """The names in each cell of the section's table."""
    found = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in found[2:]]
    return [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows]


def pairs(section: str) -> list[tuple[str, str]]:
    """Each name of the first column, and the one of the second that is beside it."""
    return [
        (name, theirs[place] if len(theirs) > 1 else theirs[0])
        for mine, theirs, *_ in lines(section)
        for place, name in enumerate(mine)
    ]


@pytest.mark.parametrize(("mine", "theirs"), pairs("From DuckDB"))
def test_from_duckdb(mine: str, theirs: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        described = connection.sql(f"SELECT NULL::{mine} AS c")
        (found,) = arrow_types(
            connection, f"(SELECT NULL::{mine} AS c)", ["c"], list(described.types)
        )
    assert str(found) == theirs


@pytest.mark.parametrize("row", lines("From DuckDB"))
def test_how_values_of_duckdb_are_compared(row: list[list[str]]) -> None:
    _, theirs, kinds = row
    known = {**ARROW_TYPES, "decimal128(38, 0)": pa.decimal128(38, 0)}
    for name in theirs:
        if kinds and name in known:
            assert kind_of(known[name]) == kinds[0]


@pytest.mark.parametrize(("mine", "theirs"), pairs("Into DuckDB"))
def test_into_duckdb(mine: str, theirs: str) -> None:
    assert column_type(ARROW_TYPES[mine], "c")[0] == theirs


@pytest.mark.parametrize(("mine", "theirs"), pairs("From Parquet"))
def test_from_parquet(mine: str, theirs: str) -> None:
    assert str(travelling(ARROW_TYPES[mine])) == theirs


@pytest.mark.parametrize(("mine", "theirs"), pairs("Into Parquet"))
def test_into_parquet(mine: str, theirs: str) -> None:
    try:
        found = str(stored_as(ARROW_TYPES[mine]))
    except ValueError:
        found = "refused"
    assert found == theirs
