"""The columns of a relation, with what the catalog knows of their types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.catalog.datatypes import DataType, read_types
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import quoted, statement
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column as a server describes it."""

    name: str
    type: int
    """Its object id."""
    typmod: int = -1
    nullable: bool = True
    generated: bool = False
    has_default: bool = False
    dimensions: int = 0
    """Of an array, as far as it was said."""


def read_columns(connection: Connection, ref: TableRef, side: str) -> tuple[Column, ...]:
    """
    Raises:
        PlanningError: no such table.
    """
    name = quoted(ref).as_string(connection)
    with planning(side, f"table {ref}"):
        found = connection.execute("SELECT pg_catalog.to_regclass(%s)", [name]).fetchone()
        if found is None or found[0] is None:
            raise PlanningError(
                f"{side}: table {ref} does not exist in database "
                f"{connection.info.dbname!r} (or {connection.info.user!r} may not use its schema)"
                + ("; create it, or use --mode recreate, which does" if side == "target" else "")
            )
        query = statement("columns").format(table=sql.Literal(name))
        rows = connection.execute(query).fetchall()
        return described(connection, [Attribute(*row) for row in rows])


def described(connection: Connection, attributes: Sequence[Attribute]) -> tuple[Column, ...]:
    """Columns, whatever relation they are of."""
    types = read_types(connection, [(item.type, item.typmod) for item in attributes])
    encoding = connection.info.parameter_status("server_encoding")
    # Binary COPY looks up the input function of every column, even of those that it does not fill.
    all_send = all(kind.sends for kind, _ in types)
    return tuple(
        Column(
            item.name,
            text,
            item.nullable and kind.nullable,
            item.generated,
            item.has_default,
            {
                "type": kind,
                "encoding": encoding,
                "all_send": all_send,
                "dimensions": item.dimensions,
            },
        )
        for item, (kind, text) in zip(attributes, types, strict=True)
    )


def data_type(column: Column) -> DataType:
    """What `described` has found out of the column's type."""
    found = column.traits["type"]
    assert isinstance(found, DataType)
    return found
