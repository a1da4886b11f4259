"""The children of a partitioned table, and those attached by runs of mode attach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import for_server, name, statement
from penstock.model.tables import TableRef
from penstock.spec.modes import Entry, mode_names

DEFAULT = "DEFAULT"
"""Used in place of bounds."""


@dataclass(frozen=True, slots=True)
class ExistingChild:
    """An existing child."""

    oid: int
    ref: TableRef
    bounds: str
    """The bounds as the server writes them."""


def read_children(connection: Connection, table: TableRef) -> list[ExistingChild]:
    """Return a table's children. Call it while names are full; it locks none of the tables."""
    return children_of(connection, [table])[table]


def children_of(
    connection: Connection, tables: Sequence[TableRef]
) -> dict[TableRef, list[ExistingChild]]:
    """Return the children of each table."""
    children: dict[TableRef, list[ExistingChild]] = {table: [] for table in tables}
    parameters = {"tables": [name(table) for table in tables]}
    for place, oid, schema, child, bounds in connection.execute(
        statement("children_of"), parameters
    ):
        children[tables[place - 1]].append(ExistingChild(oid, TableRef(schema, child), bounds))
    return children


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The partitioning of a table, and what rows loaded directly into a child bypass."""

    strategy: str
    keys: int
    """The number of columns and expressions in its key."""
    column: str | None
    """The first column of the key; None for an expression."""
    type: str | None
    nested: bool
    """Whether it is a child table itself."""
    key: str
    """The key as named in PARTITION BY."""
    triggers: list[str]
    publications: list[str]
    identities: list[str]
    """The identity columns."""
    default: str | None
    """The child table for all other rows."""


def read_partitioned(connection: Connection, tables: Sequence[int]) -> dict[int, Partitioned]:
    """Return how the partitioned ones among some tables are partitioned, by object id."""
    query = for_server(connection, "partitioned", tables=sql.Literal(list(tables)))
    return {oid: Partitioned(*facts) for oid, *facts in connection.execute(query).fetchall()}


def read_attached(connection: Connection, schema: str) -> Mapping[int, tuple[str, ...]]:
    """Return, by the child's object id, the runs of mode attach that attached it.

    Args:
        connection: a session on the target.
        schema: the control schema, which may not exist.
    """
    runs = sql.Identifier(schema, "run").as_string(connection)
    if connection.value("SELECT pg_catalog.to_regclass(%s)", [runs]) is None:
        return {}
    query = statement("attached_by").format(schema=sql.Identifier(schema))
    modes = list(mode_names(lambda mode: mode.entry is Entry.ATTACH))
    runs_of: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for oid, run_id in connection.execute(query, {"modes": modes}).fetchall():
        runs_of[oid] += (run_id,)
    return runs_of
