"""What exists in the target already: the table, and what depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.catalog.relations import KINDS, find_oid
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.statements import statement
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or one of its partitions."""

    oid: int
    ref: TableRef
    kind: str
    persistence: str
    mine: bool
    """The user has all that its owner has."""
    owner: str
    partition: bool
    inherits: bool


def kind_name(relation: Relation) -> str:
    """The kind of relation, as messages name it."""
    return KINDS.get(relation.kind, f"kind {relation.kind!r}")


def table_tree(connection: Connection, ref: TableRef) -> list[Relation]:
    """The table and its partitions, from the top down; empty where there is none."""
    oid = find_oid(connection, ref)
    if oid is None:
        return []
    rows = connection.execute(statement("tree").format(table=sql.Literal(oid))).fetchall()
    return [Relation(row[0], TableRef(row[1], row[2]), *row[3:]) for row in rows]


@dataclass(frozen=True, slots=True)
class Linked:
    """Another table, and what links it to those that are looked at."""

    kind: str
    """``foreign key``, ``inheritance``; ``sequence``: a default of its names one of theirs."""
    ref: TableRef
    root: TableRef
    """The table that it is a partition of, or itself."""
    oid: int
    object: int
    """The object id of what depends on them."""
    name: str
    definition: str | None
    sequence: str | None
    """Quoted, as the next one."""
    of: str | None
    """What it inherits from."""


def find_links(connection: Connection, relations: Sequence[Relation]) -> list[Linked]:
    oids = sql.Literal([relation.oid for relation in relations])
    rows = connection.execute(statement("linked").format(tables=oids)).fetchall()
    return [Linked(row[0], TableRef(*row[1:3]), TableRef(*row[3:5]), *row[5:]) for row in rows]


def find_dependents(
    connection: Connection,
    relations: Sequence[Relation],
    *,
    sequences: str = "ai",
    undone: Sequence[Linked] = (),
) -> list[str]:
    """Other objects that cannot exist without the tables, as messages name them.

    Parameters:
        sequences: which count as parts: those of serial columns (a), of identity columns (i).
        undone: links that do not count.
    """
    query = statement("dependents").format(
        tables=sql.Literal([relation.oid for relation in relations]),
        sequences=sql.Literal(list(sequences)),
        undone=sql.Literal([link.object for link in undone]),
    )
    return [described for (described,) in connection.execute(query).fetchall()]


def taken_names(connection: Connection, schema: str, relations: Sequence[Relation]) -> set[str]:
    """Names of relations in a schema that are still there when these are dropped."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_catalog.pg_class AS c"
        " WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace AS n"
        "   WHERE n.nspname = %(schema)s)"
        " AND NOT c.oid = ANY (%(tables)s::oid[])"
        " AND NOT EXISTS (SELECT FROM pg_catalog.pg_index AS x WHERE x.indexrelid = c.oid"
        "   AND x.indrelid = ANY (%(tables)s::oid[]))"
        " AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d"
        "   WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid"
        "   AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')"
        "   AND d.refobjid = ANY (%(tables)s::oid[]))",
        {"schema": schema, "tables": [relation.oid for relation in relations]},
    ).fetchall()
    return {name for (name,) in rows}
