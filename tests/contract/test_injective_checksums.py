"""Values that differ in any component have different checksums, whatever the type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import pytest

from penstock.backends.shared.values.arrow import arrow_type, kind_of
from penstock.model.extents import Whole
from penstock.model.tables import ColumnPair, TableRef

from .database import Database, SqlDatabase
from .databases.clickhouse import ClickHouse
from .distinct_values import POSTGRESQL_KINDS, VALUES

FIRST = {
    "postgresql": (
        "CREATE TYPE penstock_pair AS (a text, b text)",
        "CREATE TYPE penstock_label AS ENUM ('a', 'A', 'a ')",
    ),
}
AFTER = {"clickhouse": " ENGINE = MergeTree ORDER BY k"}
NULL = "NULL"


def without_null(type_: str) -> bool:
    return type_.startswith(("Array", "FixedString"))


Statements = SqlDatabase | ClickHouse
Types = Sequence[tuple[str, Sequence[str]]]


def fill(database: Statements, types: Types) -> list[list[str]]:
    """Create a table with a column for each type, and a row for each value and NULL.

    Returns:
        The different values of each column, in the order of the rows.
    """
    for statement in FIRST.get(database.name, ()):
        database.execute(statement)
    distinct = [[*values, *([] if without_null(type_) else [NULL])] for type_, values in types]
    number = "number(9,0)" if database.name == "snowflake" else "int"
    columns = ", ".join(f"c{place} {type_}" for place, (type_, _) in enumerate(types))
    after = AFTER.get(database.name, "")
    database.execute(f"CREATE TABLE {database.table} (k {number}, {columns}){after}")
    for row in range(max(map(len, distinct))):
        texts = [values[min(row, len(values) - 1)] for values in distinct]
        database.execute(f"INSERT INTO {database.table} SELECT {', '.join([str(row), *texts])}")
    return distinct


def check_distinct(
    database: Statements, types: Types, compared: Sequence[Mapping[str, str | None]]
) -> None:
    """Check that each value of a column has a checksum of its own.

    Args:
        database: an empty database.
        types: the types and values of its table's columns, which are named c0, c1 and so on.
        compared: sets of columns to compare, with the form in which each is compared, as in
            `ColumnPair.canonical`; None for its own.
    """
    distinct = fill(database, types)
    wrong = []
    with closing(database.backend.source(database.url)) as source:
        schema, name = str(database.table).split(".")
        table = TableRef(schema, name)
        columns = source.in_arrow(table, source.columns(table))
        found = {each.name.lower(): each for each in columns}
        for chosen in compared:
            pairs = [
                ColumnPair(
                    found[column].name,
                    column,
                    canonical=kind_of(arrow_type(found[column])) if kind is None else kind,
                )
                for column, kind in chosen.items()
            ]
            rows = zip(*(distinct[int(name[1:])] for name in chosen), strict=True)
            texts: dict[str, tuple[str, ...]] = {}
            for row, values in enumerate(rows):
                digest = source.checksum(table, f"k = {row}", Whole(), pairs).digest
                other = texts.setdefault(digest, values)
                if other != values:
                    wrong.append(f"{types[int(next(iter(chosen))[1:])][0]}: {other} as {values}")
    assert not wrong


@pytest.mark.parametrize("name", VALUES)
def test_values_of_each_type(name: str, open_database: Callable[[str], Database]) -> None:
    database = open_database(name)
    assert isinstance(database, Statements)
    types = list(VALUES[name].items())
    kind = "" if name == "postgresql" else None
    check_distinct(database, types, [{f"c{place}": kind} for place in range(len(types))])


def test_values_in_the_form_of_other_systems(open_database: Callable[[str], Database]) -> None:
    database = open_database("postgresql")
    assert isinstance(database, Statements)
    types = [(type_, values) for type_, (_, values) in POSTGRESQL_KINDS.items()]
    kinds = [kind for kind, _ in POSTGRESQL_KINDS.values()]
    check_distinct(database, types, [{f"c{place}": kind} for place, kind in enumerate(kinds)])


@pytest.mark.parametrize("name", VALUES)
def test_values_of_several_columns(name: str, open_database: Callable[[str], Database]) -> None:
    """Where one value ends and the next begins is part of them."""
    database = open_database(name)
    assert isinstance(database, Statements)
    pairs = [
        ("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), (None, "abc"), ("abc", None),
        (None, ""), ("", None), ("", ""), ("a;1:b", ""), ("a", "b"), ("b", "a"), ("a", "a"),
        ("b", "b"), ("-", None), (None, "-"), ("NULL", None),
    ]  # fmt: skip
    type_ = next(iter(VALUES[name]))
    sides = [
        [NULL if text is None else f"'{text}'" for text in side]
        for side in zip(*pairs, strict=True)
    ]
    kinds: list[str | None] = ["", "text"] if name == "postgresql" else [None]
    check_distinct(
        database, [(type_, side) for side in sides], [{"c0": kind, "c1": kind} for kind in kinds]
    )
