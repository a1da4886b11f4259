"""What stands in the target already: the table, what depends on it, and what one may do there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.catalog.definition import find_oid
from penstock.backends.postgresql.catalog.relations import KINDS
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.load.ddl import ident
from penstock.backends.postgresql.statements import statement
from penstock.errors import PlanningError
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


def found_kind(relation: Relation) -> str:
    """What it is, for people."""
    return KINDS.get(relation.kind, f"kind {relation.kind!r}")


def tree(connection: Connection, ref: TableRef) -> list[Relation]:
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
    oid: int
    object: int
    """The object id of what depends on them."""
    name: str
    definition: str | None
    sequence: str | None
    """Quoted, as the next one."""
    of: str | None
    """What it inherits from."""
    root: TableRef
    """The table that it is a partition of, or itself."""


def linked(connection: Connection, relations: Sequence[Relation]) -> list[Linked]:
    oids = sql.Literal([relation.oid for relation in relations])
    rows = connection.execute(statement("linked").format(tables=oids)).fetchall()
    found = []
    for kind, schema, table, *about, root_schema, root in rows:
        oid, object_, label, text, sequence, of = about
        found.append(
            Linked(
                kind=kind,
                ref=TableRef(schema, table),
                oid=oid,
                object=object_,
                name=label,
                definition=text,
                sequence=sequence,
                of=of,
                root=TableRef(root_schema, root),
            )
        )
    return found


def dependents(
    connection: Connection,
    relations: Sequence[Relation],
    *,
    sequences: str = "ai",
    undone: Sequence[Linked] = (),
) -> list[str]:
    """Objects that are no part of the tables and cannot be without them, for people.

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


def check_owned(connection: Connection, relations: Sequence[Relation], what: str) -> None:
    """
    Parameters:
        what: needs it, for people.

    Raises:
        PlanningError: the user does not own one of them.
    """
    user = connection.info.user
    for relation in relations:
        if not relation.mine:
            raise PlanningError(
                f"target: {user!r} does not own {relation.ref}, which {what} needs; expected its "
                f"owner {relation.owner!r}, or GRANT {ident(relation.owner)} TO {ident(user)}"
            )


def check_creatable(connection: Connection, schema: str, what: str) -> bool:
    """Whether the schema is there; the user may make tables in it, or make it.

    Raises:
        PlanningError: the user may not; with the GRANT that would do.
    """
    found = connection.execute(
        statement("ddl_privileges").format(schema=sql.Literal(ident(schema)))
    ).fetchone()
    assert found is not None
    exists, usage, create, create_schema, database = found
    user = ident(connection.info.user)
    if not exists and not create_schema:
        raise PlanningError(
            f"target: schema {schema!r} does not exist, and {connection.info.user!r} may not "
            f"create it, which {what} needs; expected GRANT CREATE ON DATABASE {ident(database)} "
            f"TO {user}"
        )
    missing = [w for w, given in (("USAGE", usage), ("CREATE", create)) if not given]
    if exists and missing:
        raise PlanningError(
            f"target: {connection.info.user!r} may not {' and '.join(missing)} in schema "
            f"{schema!r}, which {what} needs; expected GRANT {', '.join(missing)} ON SCHEMA "
            f"{ident(schema)} TO {user}"
        )
    return bool(exists)


def taken(connection: Connection, schema: str, relations: Sequence[Relation]) -> set[str]:
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


def check_writable_server(connection: Connection) -> None:
    """
    Raises:
        PlanningError: nothing can be written there.
    """
    found = connection.execute("SHOW transaction_read_only").fetchone()
    if found and found[0] == "on":
        raise PlanningError(
            "target: expected a server that can be written, found one that is read-only "
            f"(a standby?) at {connection.info.host}:{connection.info.port}"
        )
