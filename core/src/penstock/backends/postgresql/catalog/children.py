"""The children of a partitioned table."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.statements import name, statement
from penstock.model.tables import TableRef
from penstock.spec.modes import mode_names


@dataclass(frozen=True, slots=True)
class Existing:
    """A child that is there."""

    oid: int
    ref: TableRef
    kind: str
    bounds: str
    """As the server writes them."""
    attached_by: tuple[str, ...]
    """The runs of mode attach that have made it; empty if none of these control tables has."""


def read_children(connection: Connection, schema: str, table: TableRef) -> list[Existing]:
    """Call it where names are full. It locks none of the tables.

    Parameters:
        schema: of the control tables.
    """
    runs = sql.Identifier(schema, "run")
    known = connection.value(
        "SELECT pg_catalog.to_regclass(%s) IS NOT NULL", [runs.as_string(connection)]
    )
    modes = sql.Literal(list(mode_names(lambda mode: mode.attaches)))
    by = statement("attached_by").format(schema=sql.Identifier(schema), modes=modes)
    query = statement("children_of").format(
        attached=by if known else sql.SQL("'{}'::text[]"), table=sql.Literal(name(table))
    )
    return [
        Existing(oid, TableRef(within, called), kind, bounds, tuple(runs))
        for oid, within, called, kind, bounds, runs in connection.execute(query).fetchall()
    ]
