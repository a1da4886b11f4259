"""The children of a partitioned table, and which of them runs of mode attach have made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.statements import name, statement
from penstock.model.tables import TableRef
from penstock.spec.modes import mode_names

DEFAULT = "DEFAULT"
"""Instead of bounds."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A child that is there."""

    oid: int
    ref: TableRef
    bounds: str
    """As the server writes them."""


def read_children(connection: Connection, table: TableRef) -> list[Existing]:
    """Call it where names are full. It locks none of the tables."""
    rows = connection.execute(statement("children_of"), {"table": name(table)}).fetchall()
    return [Existing(row[0], TableRef(row[1], row[2]), row[3]) for row in rows]


def read_attached(connection: Connection, schema: str) -> Mapping[int, tuple[str, ...]]:
    """The runs of mode attach that have attached a child, by its object id.

    Parameters:
        schema: of the control tables, which need not be there.
    """
    runs = sql.Identifier(schema, "run").as_string(connection)
    if connection.value("SELECT pg_catalog.to_regclass(%s)", [runs]) is None:
        return {}
    query = statement("attached_by").format(schema=sql.Identifier(schema))
    modes = list(mode_names(lambda mode: mode.attaches))
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for oid, run_id in connection.execute(query, {"modes": modes}).fetchall():
        found[oid] += (run_id,)
    return found
