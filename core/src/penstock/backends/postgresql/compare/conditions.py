"""A partition's extent as an SQL condition, the same on source and target.

Bounds are literals, cast to the key's type: COPY takes no parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.postgresql.statements import relation, type_name
from penstock.backends.sql import conditions
from penstock.backends.sql.dialect import Dialect
from penstock.model.extents import Bound, ChildBlocks, Children, Extent, Key
from penstock.model.tables import Relation, TableRef


class PostgresDialect(Dialect):
    """Names and values are quoted by the driver."""

    name = "PostgreSQL"

    def ident(self, name: str) -> str:
        return sql.Identifier(name).as_string(None)

    def literal(self, text: str) -> str:
        super().literal(text)
        return sql.Literal(text).as_string(None)

    def key(self, key: Key) -> str:
        expression = super().key(key)
        return f"{expression} COLLATE {self.ident(key.collation)}" if key.collation else expression

    def bound(self, bound: Bound) -> str:
        return f"{self.literal(bound.text)}::{type_name(bound.type).as_string(None)}"

    def blocks(self, lower: int, upper: int | None) -> Sequence[str]:
        # A TID range scan reads just these blocks from PostgreSQL 14 on.
        parts = [f"ctid >= '({lower},0)'::tid"]
        return parts if upper is None else [*parts, f"ctid < '({upper},0)'::tid"]

    def hashed(self, value: str) -> str:
        # The sign bit is taken off, since % keeps the sign. COLLATE "C" hashes the bytes, whatever
        # the column's collation holds for equal.
        return f'(pg_catalog.hashtextextended({value}::text COLLATE "C", 0) & 9223372036854775807)'


DIALECT = PostgresDialect()


def key_expression(key: Key) -> sql.SQL:
    return sql.SQL(DIALECT.key(key))


def condition(where: str | None, extent: Extent) -> sql.SQL:
    """The whole predicate of a partition: its extent and the run's condition."""
    return sql.SQL(conditions.condition(DIALECT, where, extent))


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
