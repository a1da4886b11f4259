"""Every type that ships with PostgreSQL and contrib, and user-defined types, compared by value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import PlanningError
from penstock.backends.postgresql.session.statements import BINARY, TEXT
from penstock.backends.postgresql.source import PostgresSource
from penstock.backends.postgresql.target import PostgresTarget
from penstock.model.tables import TableRef

from .type_values import BY_NAME, CONTRIB, NOT_LOADABLE, OWN, OWN_TYPES, SYSTEM, known_values

if TYPE_CHECKING:
    from tests.backends.conftest import Pair, Side

IN_THREE: dict[str, Any] = {"strategy": "range", "key": "id", "partitions": 3}


@dataclass(frozen=True)
class Types:
    """Two databases with all types, under different object ids and in different schemas."""

    pair: Pair
    values: Mapping[str, list[str]]
    extensions: frozenset[str]

    def fill(self, without: Collection[str] = ()) -> dict[str, str]:
        """Create a table with a column of each type, and one of arrays of it.

        Returns:
            The type of each column.
        """
        columns: dict[str, str] = {"id": "int"}
        filled: list[tuple[str, list[str]]] = []
        for number, (type_, values) in enumerate(self.values.items()):
            if type_ in without:
                continue
            literals = [f"{_literal(value)}::{type_}" for value in values]
            columns[f"c{number}"] = type_
            filled.append((f"c{number}", literals))
            if not type_.endswith(("[]", ")")):
                columns[f"a{number}"] = f"{type_}[]"
                filled.append((f"a{number}", _arrays(type_, literals)))
        self.pair.both(f"CREATE TABLE t ({', '.join(map(' '.join, columns.items()))})")
        for row in range(max(len(values) for _, values in filled)):
            row_values = [(name, values[row]) for name, values in filled if row < len(values)]
            self.pair.source.run(
                f"INSERT INTO t (id, {', '.join(name for name, _ in row_values)})"
                f" VALUES ({row}, {', '.join(value for _, value in row_values)})"
            )
        self.pair.source.run("INSERT INTO t (id) VALUES (NULL)")
        return columns

    def formats(self) -> dict[str, tuple[str, ...]]:
        """Return the stream formats that can carry each column."""
        ref = TableRef("public", "t")
        source = PostgresSource(self.pair.source.url)
        target = PostgresTarget(self.pair.target.url, "penstock")
        try:
            columns = source.columns(ref)
            fits = target.fit(columns, target.columns(ref))
        finally:
            source.close()
            target.close()
        # XML is cast, so that its declaration is kept.
        assert {fit.cast for fit in fits} <= {"", "text"}
        assert not any(fit.reason for fit in fits)
        return {column.name: fit.formats for column, fit in zip(columns, fits, strict=True)}

    def assert_same_bytes(self, columns: list[str]) -> None:
        """Check that the types' own send functions return the same for both sides."""
        query = f"SELECT {', '.join(columns)} FROM public.t ORDER BY id"
        mine, theirs = (
            _binary_columns(self.pair.source, query),
            _binary_columns(self.pair.target, query),
        )
        for column, expected, actual in zip(columns, mine, theirs, strict=True):
            assert expected == actual, column


def _binary_columns(side: Side, query: str) -> list[list[bytes | None]]:
    """Return the columns of a result in binary form."""
    result = side.connection.execute(query.encode(), binary=True).pgresult
    assert result is not None
    return [
        [result.get_value(row, column) for row in range(result.ntuples)]
        for column in range(result.nfields)
    ]


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _arrays(type_: str, literals: list[str]) -> list[str]:
    """Return arrays: empty, with a NULL, with other lower bounds, and of several dimensions."""
    return [
        f"'{{}}'::{type_}[]",
        f"ARRAY[{', '.join(literals)}, NULL]::{type_}[]",
        f"array_fill({literals[0]}, ARRAY[2], ARRAY[-1])",
        f"array_fill({literals[-1]}, ARRAY[2, 1, 2], ARRAY[0, 7, -3])",
        f"array_fill(NULL::{type_}, ARRAY[1, 1])",
    ]


def _extensions(side: Side) -> set[str]:
    return {
        name
        for (name,) in side.rows(
            "SELECT name FROM pg_available_extensions WHERE name = ANY (ARRAY["
            + ", ".join(f"'{name}'" for name in (*CONTRIB, "btree_gist", "pg_trgm"))
            + "])"
        )
    }


@pytest.fixture
def types(any_versions: Pair) -> Types:
    pair = any_versions
    extensions = _extensions(pair.source) & _extensions(pair.target)
    # So that no object id is the same on both sides.
    pair.target.run(*(f"CREATE TYPE burnt_{number} AS ENUM ()" for number in range(50)))
    for side, schema in ((pair.source, "mine"), (pair.target, "theirs")):
        side.run(
            *OWN_TYPES,
            f"CREATE SCHEMA {schema}",
            f"SET search_path = {schema}",
            *(f"CREATE EXTENSION IF NOT EXISTS {name} CASCADE" for name in sorted(extensions)),
            f"SET search_path = public, {schema}",
        )
    known = SYSTEM | BY_NAME | OWN
    for extension in extensions & set(CONTRIB):
        known = known | CONTRIB[extension]
    values = known_values(known, pair.version)
    if not all(_has_xml(side) for side in (pair.source, pair.target)):
        del values["xml"]
    return Types(pair, values, frozenset(extensions))


# Their binary form is refused if empty or incomplete.
TEXTS = {"int2vector", "oidvector", "tsquery", "xml"}


def _has_xml(side: Side) -> bool:
    try:
        side.value("SELECT '<a/>'::xml::text")
    except psycopg.errors.FeatureNotSupported:  # built without libxml
        return False
    return True


def test_no_type_is_forgotten(types: Types) -> None:
    known = {name.strip('"') for name in (*SYSTEM, *BY_NAME, *NOT_LOADABLE)}
    known |= {name for extension in CONTRIB.values() for name in extension}
    for side in (types.pair.source, types.pair.target):
        found = side.rows(
            "SELECT t.typname FROM pg_type AS t"
            " LEFT JOIN pg_class AS c ON c.oid = t.typrelid"
            " WHERE t.typnamespace::regnamespace::text IN ('pg_catalog', 'mine', 'theirs')"
            " AND t.typtype <> 'p' AND t.typsend <> 'array_send'::regproc"
            " AND (t.typtype <> 'c' OR c.relkind = 'c')"
        )
        assert {name for (name,) in found} - known == set()


def test_every_value_is_unchanged_in_text_streams(types: Types) -> None:
    types.fill()
    pair = types.pair
    assert pair.plan().format == TEXT
    # If one column has no binary input, binary COPY cannot fill the others either.
    assert set(types.formats().values()) == {(TEXT,)}
    pair.copy(**IN_THREE)
    pair.both("SET search_path = pg_catalog")
    pair.assert_same()


def test_every_value_is_unchanged_in_binary_streams(types: Types) -> None:
    columns = types.fill(without={"aclitem", *CONTRIB["intarray"], *CONTRIB["isn"], "seg"})
    pair = types.pair
    formats = types.formats()
    for column, type_ in columns.items():
        name = type_.removesuffix("[]")
        if name in BY_NAME or (name in TEXTS and type_ != "xml[]"):
            assert formats[column] == (TEXT,), type_
        elif type_ in SYSTEM or name in SYSTEM:
            assert formats[column] == (BINARY, TEXT), type_
    binary = [column for column, carried in formats.items() if BINARY in carried]
    assert pair.plan(columns=tuple(binary)).format == BINARY
    pair.copy(columns=tuple(binary), **IN_THREE)
    pair.both("SET search_path = pg_catalog")
    pair.assert_same(columns=", ".join(binary))
    types.assert_same_bytes(binary)


def test_types_without_values_are_refused(types: Types) -> None:
    side = types.pair.source
    source_types = [
        name
        for name in sorted(NOT_LOADABLE)
        if side.value(f"SELECT to_regtype('{name}')") is not None
    ]
    for name in source_types:
        with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.InternalError_)):
            side.value(f"SELECT ''::{name}")
    source_types = [
        name
        for name in source_types
        if types.pair.target.value(f"SELECT to_regtype('{name}')") is not None
    ]
    types.pair.both(
        f"CREATE TABLE t ({', '.join(f'{name}_column {name}' for name in source_types)})"
    )
    with pytest.raises(PlanningError) as caught:
        types.pair.plan()
    for name in source_types:
        assert f"{name}_column" in caught.value.message
    assert caught.value.message.count("its input function rejects every value") == len(source_types)
