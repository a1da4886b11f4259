"""docs/types.md between unlike systems, against a real server: each of its lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.backends.postgresql.arrow.types import made_for
from penstock.backends.postgresql.arrow.writing import Encoder
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.backends.shared.arrow import arrow_type
from penstock.model.tables import Column, TableRef

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

PAGE = (Path(__file__).parents[3] / "docs" / "types.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (.+?)\n(.+?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
# By the names that Arrow gives them, which are those of the page.
ARROW_TYPES = {
    str(type_): type_
    for type_ in (
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
        pa.decimal128(15, 2), pa.decimal128(15, 4), pa.decimal128(5, -2), pa.decimal256(76, 4),
        pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()),
        pa.binary(), pa.binary(16), pa.uuid(), pa.json_(pa.string()), pa.date32(), pa.date64(),
        pa.time32("s"), pa.time64("us"), pa.time64("ns"), pa.timestamp("us"), pa.timestamp("ns"),
        pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.duration("us"),
        pa.month_day_nano_interval(), pa.list_(pa.int32()), pa.list_(pa.int64()),
        pa.list_(pa.string()), pa.list_(pa.list_(pa.int32())), pa.struct({"a": pa.int32()}),
        pa.struct({"a": pa.int32(), "b": pa.string()}), pa.map_(pa.string(), pa.int64()),
    )
}  # fmt: skip


def lines(section: str) -> list[list[str]]:
    """The cells of the section's first table."""
    found = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in found[2:]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def prepare(pair: Pair) -> None:
    (statements,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    pair.both("CREATE EXTENSION citext", "CREATE EXTENSION hstore", "CREATE EXTENSION ltree")
    pair.both(statements)


def test_from_a_server(pair: Pair) -> None:
    prepare(pair)
    source = PostgresSource(pair.source.url)
    checked = 0
    try:
        for cells in lines("From PostgreSQL"):
            types, wanted = map(named, cells)
            for place, type_ in enumerate(types):
                pair.source.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {type_})")
                ref = TableRef("public", "t")
                (found,) = source.in_arrow(ref, source.columns(ref))
                each = len(wanted) == len(types)
                assert str(arrow_type(found)) == wanted[place if each else 0], type_
                checked += 1
    finally:
        source.close()
    assert checked > 50


def test_into_a_server(pair: Pair) -> None:
    prepare(pair)
    target = PostgresTarget(pair.target.url, "penstock")
    known = set()
    try:
        for mine, theirs, stream, kind, warning in lines("Into PostgreSQL"):
            type_ = ARROW_TYPES[named(mine)[0]]
            pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {named(theirs)[0]})")
            columns = target.columns(TableRef("public", "t"))
            (fit,) = target.fit([Column("a", mine, traits={"arrow": type_})], columns)
            told = (mine, theirs, fit)
            assert bool(fit.reason) == (stream == "refused"), told
            if fit.reason:
                continue
            encoder = Encoder(pa.schema([("a", type_)]), columns, "t", all_send=True)
            assert encoder.format.partition("-")[2] == stream, told
            assert (fit.warning, [fit.canonical]) == (warning, named(kind) or [""]), told
            assert bool(fit.canonical) or fit.lossy or not kind, told
            known.add(fit.canonical.removeprefix("list:"))
    finally:
        target.close()
    assert len(lines("Into PostgreSQL")) > 70
    kinds = {named(kind)[0] for kind, _ in lines("How values are compared")}
    assert kinds - {"list:"} <= known


def test_columns_that_are_made(pair: Pair) -> None:
    for mine, theirs in lines("Columns that are made"):
        for name in named(mine):
            assert made_for(ARROW_TYPES[name]) == named(theirs)[0], name
            # It is what the server itself calls it.
            pair.target.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (a {named(theirs)[0]})")
            found = pair.target.value(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 't'::regclass AND attnum = 1"
            )
            assert found == named(theirs)[0]
