"""What can be known about a key without reading the table: type, order, bounds, windows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg
from psycopg import sql

from penstock.backends.api.facts import KeyStatistics, WeightedBound
from penstock.backends.postgresql.catalog.key_texts import ranked
from penstock.backends.postgresql.catalog.relations import inherited
from penstock.backends.postgresql.compare.conditions import key_expression
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import quoted, raw, relation, statement, type_name
from penstock.backends.sql.bounds import check_ranged
from penstock.backends.sql.keys import (
    NOTHING,
    TILES_PER_PARTITION,
    check_positive,
    check_timed,
    check_windows,
)
from penstock.backends.sql.session import closed
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key
from penstock.model.tables import Query, Relation, TableRef

# Types whose text form is exact and whose order is total.
RANGED = (
    "int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz",
    "uuid", "text", "varchar", "bpchar",
)  # fmt: skip
# Enough for a thousand even partitions, read in well under half a second.
SAMPLE_BLOCKS = 300

type_sql = type_name


# A condition that is tried on bounds, which are no rows of the table, may fail in either way.
UNUSABLE = (psycopg.errors.ProgrammingError, psycopg.errors.DataError, psycopg.NotSupportedError)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    nullable: bool
    indexed: bool
    collation: sql.Composable | None
    """None where the type has none."""


def column_facts(connection: Connection, read: Relation, column: str) -> ColumnFacts:
    with planning("source", f"--key {column}"):
        if isinstance(read, Query):
            return ColumnFacts(True, False, collation_of(connection, read, Key(column)))
        assert isinstance(read, TableRef)
        found = connection.execute(
            statement("key"), {"table": quoted(read).as_string(connection), "column": column}
        ).fetchone()
    if found is None:
        raise PlanningError(f"--key {column}: no such column in {read}")
    nullable, indexed, schema, name = found
    return ColumnFacts(nullable, indexed, sql.Identifier(schema, name) if name else None)


def collation_of(connection: Connection, read: Relation, key: Key) -> sql.Composable | None:
    if not is_collatable(connection, read, key):
        return None
    found = connection.execute(
        sql.SQL("SELECT pg_catalog.pg_collation_for((SELECT {} FROM {} LIMIT 0))").format(
            key_expression(key), relation(read)
        )
    ).fetchone()
    # It is quoted by the server. A mixture of collations has none, and cannot be compared.
    return sql.SQL(found[0]) if found and found[0] else None


def key_type(connection: Connection, read: Relation, key: Key) -> str:
    return _describe(connection, read, key)[0]


def is_collatable(connection: Connection, read: Relation, key: Key) -> bool:
    return _describe(connection, read, key)[1]


def _describe(connection: Connection, read: Relation, key: Key) -> tuple[str, bool]:
    """The tag of the key's type, and whether it has a collation."""
    expression = key_expression(key)
    with planning("source", f"--key {key.text}"):
        if key.expression:
            check_closed(connection, read, key.text)
        cursor = connection.execute(
            sql.SQL("SELECT {} FROM {} LIMIT 0").format(expression, relation(read))
        )
        assert cursor.description is not None
        found = connection.execute(
            statement("base_type"), {"oid": cursor.description[0].type_code}
        ).fetchone()
    assert found is not None
    schema, name, collatable = found
    return (name if schema == "pg_catalog" else f"{schema}.{name}"), collatable


def check_closed(connection: Connection, read: Relation, text: str) -> None:
    """Have the server refuse SQL that closes a bracket which it did not open."""
    query = closed(text, relation(read).as_string(connection))
    connection.execute(sql.SQL(f"EXPLAIN {query}"))


def ranged_type(connection: Connection, read: Relation, key: Key) -> str:
    type_ = key_type(connection, read, key)
    check_ranged(key, type_, RANGED)
    return type_


def key_statistics(
    connection: Connection, read: Relation, key: Key, where: str | None
) -> KeyStatistics:
    type_ = ranged_type(connection, read, key)
    facts = column_facts(connection, read, key.text)
    rows, origin = _histogram(connection, read, key, type_, where, facts)
    null_fraction = float(rows[0][2]) if rows else 0.0
    if not rows:
        rows, origin = _sample(connection, read, key, where)
    return _weighted(connection, key, type_, facts, rows, null_fraction, origin)


def ntile(
    connection: Connection, read: Relation, key: Key, where: str | None, count: int
) -> KeyStatistics:
    type_ = ranged_type(connection, read, key)
    facts = column_facts(connection, read, key.text)
    with planning("source", f"--strategy ntile: --key {key.text}"):
        rows = connection.execute(
            statement("ntile").format(
                key=key_expression(key),
                rows=relation(read),
                condition=sql.SQL("true") if where is None else raw(where),
                count=sql.Literal(count * TILES_PER_PARTITION),
            )
        ).fetchall()
    null_fraction = float(rows[0][2]) if rows else 0.0
    origin = "the key of every row, read once"
    return _weighted(connection, key, type_, facts, rows, null_fraction, origin)


def _weighted(
    connection: Connection,
    key: Key,
    type_: str,
    facts: ColumnFacts,
    rows: list[tuple[Any, ...]],
    null_fraction: float,
    origin: str,
) -> KeyStatistics:
    _check_ascending(connection, key, type_, facts, [row[0] for row in rows])
    return KeyStatistics(
        key=key,
        nullable=facts.nullable,
        null_fraction=null_fraction,
        bounds=tuple(WeightedBound(Bound(type_, row[0]), float(row[1])) for row in rows),
        origin=origin,
        indexed=facts.indexed,
    )


def collate_clause(connection: Connection, read: Relation, key: Key) -> sql.Composable:
    """The collation by which the partitions' conditions compare."""
    return _collate(key, None if key.collation else collation_of(connection, read, key))


def _collate(key: Key, own: sql.Composable | None) -> sql.Composable:
    """
    Parameters:
        own: the collation of the key itself.
    """
    collation = sql.Identifier(key.collation) if key.collation else own
    return sql.SQL("") if collation is None else sql.SQL("COLLATE {}").format(collation)


def _check_ascending(
    connection: Connection, key: Key, type_: str, facts: ColumnFacts, bounds: list[str]
) -> None:
    """All rests on this order: bounds that overlap would double rows, or lose them."""
    found = ranked(connection, key, type_, _collate(key, facts.collation), bounds)
    if any(before.rank >= after.rank for before, after in pairwise(found)):
        raise PlanningError(
            f"--key {key.text}: the source does not order the bounds as it listed them; "
            "expected them to ascend (is the index or the collation damaged?)"
        )


def _histogram(
    connection: Connection,
    read: Relation,
    key: Key,
    type_: str,
    where: str | None,
    facts: ColumnFacts,
) -> tuple[list[tuple[Any, ...]], str]:
    """Weighted bounds from pg_stats; those that the run's condition rules out are left out.

    The condition is tried on the bounds alone, which works where it speaks of the key only.
    """
    if isinstance(read, Query):
        return [], ""
    assert isinstance(read, TableRef)
    for condition in (where, None) if where is not None else (None,):
        query = statement("histogram").format(
            type=type_name(type_),
            schema=sql.Literal(read.schema),
            table=sql.Literal(read.name),
            only=sql.Literal(read.only),
            column=sql.Literal(key.text),
            column_name=sql.Identifier(key.text),
            key=key_expression(key),
            collate=_collate(key, facts.collation),
            condition=sql.SQL("true") if condition is None else raw(condition),
        )
        try:
            with connection.transaction():
                rows = connection.execute(query).fetchall()
        except UNUSABLE as error:
            if condition is None:
                with planning("source", f"--key {key.text}"):
                    raise error
            continue
        if not rows:
            return [], ""
        origin = f"the source's statistics: {rows[0][3]} histogram bounds"
        if rows[0][4]:
            origin += f", {rows[0][4]} common values"
        return rows, origin + (", those within --where" if condition is not None else "")
    return [], ""


def _sample(
    connection: Connection, read: Relation, key: Key, where: str | None
) -> tuple[list[tuple[Any, ...]], str]:
    if isinstance(read, Query):
        return [], NOTHING
    assert isinstance(read, TableRef)
    with planning("source", f"table {read}"):
        found = connection.execute(
            statement("blocks").format(inherited=inherited(connection)),
            {"table": quoted(read).as_string(connection)},
        ).fetchone()
        assert found is not None
        if not found[0]:
            return [], NOTHING
        percent = min(100.0, 100.0 * SAMPLE_BLOCKS / found[1])
        rows = connection.execute(
            statement("sample").format(
                key=key_expression(key),
                table=relation(read),
                percent=sql.Literal(percent),
                condition=sql.SQL("true") if where is None else raw(where),
            )
        ).fetchall()
    return rows, f"a sample of {min(int(found[1]), SAMPLE_BLOCKS)} blocks (never analyzed)"


def windows(
    connection: Connection,
    read: Relation,
    key: Key,
    interval: str,
    where: str | None,
    limit: int,
) -> tuple[tuple[Bound, ...], str]:
    type_ = key_type(connection, read, key)
    check_timed(key, type_)
    with planning("source", f"--interval {interval!r}"):
        positive = connection.execute("SELECT %s::interval > interval '0'", [interval]).fetchone()
    check_positive(interval, positive=positive is not None and bool(positive[0]))
    low, high, origin = _first_and_last(connection, read, key, type_)
    if low is None or high is None:
        return (), origin
    for condition in (where, None) if where is not None else (None,):
        query = statement("windows").format(
            interval=sql.Literal(interval),
            type=type_name(type_),
            low=sql.Literal(low),
            high=sql.Literal(high),
            limit=sql.Literal(limit + 1),
            column_name=sql.Identifier(key.text),
            condition=sql.SQL("true") if condition is None else raw(condition),
        )
        try:
            with connection.transaction():
                rows = connection.execute(query).fetchall()
            break
        except UNUSABLE as error:
            if condition is None:
                with planning("source", f"--interval {interval!r}"):
                    raise error
    check_windows(interval, len(rows), limit, low, high)
    return tuple(Bound(type_, text) for (text,) in rows), origin


def _first_and_last(
    connection: Connection, read: Relation, key: Key, type_: str
) -> tuple[str | None, str | None, str]:
    """The key's least and greatest finite value, as far as they can be had without a scan."""
    facts = column_facts(connection, read, key.text)
    if not facts.indexed:
        finite = f"isfinite({key_expression(key).as_string(connection)})"
        rows, origin = _histogram(connection, read, key, type_, finite, facts)
        if not rows:
            rows, origin = _sample(connection, read, key, finite)
        if rows:
            return rows[0][0], rows[-1][0], origin.replace(", those within --where", "")
    with planning("source", f"--key {key.text}"):
        found = connection.execute(
            sql.SQL("SELECT min({0})::text, max({0})::text FROM {1} WHERE isfinite({0})").format(
                key_expression(key), relation(read)
            )
        ).fetchone()
    assert found is not None
    return found[0], found[1], "the index on the key" if facts.indexed else "a scan of the key"
