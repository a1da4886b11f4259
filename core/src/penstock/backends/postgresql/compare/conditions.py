"""A partition's extent as an SQL condition, the same on source and target.

Bounds are literals, quoted by the driver and cast to the key's type: COPY takes no parameters.
"""

from __future__ import annotations

from psycopg import sql

from penstock.backends.postgresql.statements import raw, relation, type_name
from penstock.errors import PlanningError
from penstock.model.extents import (
    BlockRange,
    Bound,
    ChildBlocks,
    Children,
    Extent,
    Files,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)
from penstock.model.tables import Relation, TableRef


def key_expression(key: Key) -> sql.Composable:
    expression: sql.Composable = raw(key.text) if key.expression else sql.Identifier(key.text)
    if key.collation:
        return sql.SQL("{} COLLATE {}").format(expression, sql.Identifier(key.collation))
    return expression


def literal(bound: Bound) -> sql.Composed:
    return sql.SQL("{}::{}").format(sql.Literal(bound.text), type_name(bound.type))


def condition(where: str | None, extent: Extent) -> sql.Composable:
    """The whole predicate of a partition: its extent and the run's condition."""
    parts: list[sql.Composable] = [] if where is None else [raw(where)]
    parts += _extent(extent)
    return sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")


def select(
    read: Relation, extent: Extent, where: str | None, columns: sql.Composable
) -> sql.Composable:
    """The rows of a partition, each table that it reads with the whole predicate."""
    return sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {} FROM {} WHERE {}").format(columns, rows, condition(where, extent))
        for rows in _rows(read, extent)
    )


def tables_of(read: Relation, extent: Extent) -> tuple[Relation, ...]:
    """What a partition's rows are read from: the relation, or tables that it consists of."""
    match extent:
        case Children(tables):
            return tables
        case ChildBlocks(table):
            return (table,)
        case _:
            return (read,)


def _rows(read: Relation, extent: Extent) -> list[sql.Composable]:
    if not isinstance(extent, Children | ChildBlocks):
        return [relation(read)]
    assert isinstance(read, TableRef)
    # Its children have their columns in an order of their own, so each is read by itself; by its
    # parent's name, for the run's condition may speak of that.
    return [
        sql.SQL("ONLY {} AS {}").format(relation(table), sql.Identifier(read.name))
        for table in tables_of(read, extent)
    ]


def _extent(extent: Extent) -> list[sql.Composable]:
    match extent:
        case Whole() | Children():
            return []
        case BlockRange(lower, upper) | ChildBlocks(_, lower, upper):
            # A TID range scan reads just these blocks from PostgreSQL 14 on.
            parts = [sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({lower},0)"))]
            if upper is not None:
                parts.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({upper},0)")))
            return [*parts]
        case KeyRange(key, None, None):
            return [sql.SQL("{} IS NOT NULL").format(key_expression(key))]
        case KeyRange(key, first, last):
            name = key_expression(key)
            ends: list[sql.Composable] = []
            if first is not None:
                ends.append(sql.SQL("{} >= {}").format(name, literal(first)))
            if last is not None:
                ends.append(sql.SQL("{} < {}").format(name, literal(last)))
            return ends
        case KeyIsNull(key):
            return [sql.SQL("{} IS NULL").format(key_expression(key))]
        case KeyValues(key, values):
            return [sql.SQL("{} IN ({})").format(key_expression(key), _literals(values))]
        case KeyOther(key, ()):
            return [sql.SQL("{} IS NOT NULL").format(key_expression(key))]
        case KeyOther(key, values):
            return [sql.SQL("{} NOT IN ({})").format(key_expression(key), _literals(values))]
        case HashBucket(key, modulus, remainder):
            # The sign bit is taken off, since % keeps the sign; NULL goes to bucket 0. COLLATE "C"
            # hashes the bytes, whatever the column's collation holds for equal.
            return [
                sql.SQL(
                    'coalesce((pg_catalog.hashtextextended({}::text COLLATE "C", 0)'
                    " & 9223372036854775807) % {}, 0) = {}"
                ).format(key_expression(key), sql.Literal(modulus), sql.Literal(remainder))
            ]

        case Files():
            raise PlanningError(f"expected an extent of a table, found files: {extent}")


def _literals(values: tuple[Bound, ...]) -> sql.Composed:
    return sql.SQL(", ").join(literal(value) for value in values)
