"""Relations: which kinds can be read, which tables exist, and what names resolve to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.session.statements import for_server, name, statement
from penstock.errors import PlanningError, did_you_mean
from penstock.model.tables import NotCopied, TableRef

# https://www.postgresql.org/docs/current/catalog-pg-class.html
KINDS = {
    "r": "a table",
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "p": "a partitioned table",
    "S": "a sequence",
    "i": "an index",
    "I": "a partitioned index",
    "t": "a TOAST table",
    "c": "a composite type",
}
READABLE = "rvmfp"
PATTERN_SIGNS = "*?["
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Nature:
    """The properties of a relation that decide whether it can be read."""

    kind: str
    temporary: bool
    populated: bool
    hidden: bool
    """Whether row security may hide some rows from this user."""


def natures_of(connection: Connection, oids: Sequence[int]) -> dict[int, Nature]:
    """Return the properties of relations, by object id."""
    rows = connection.execute(statement("relation"), {"oids": list(oids)}).fetchall()
    return {oid: Nature(*row) for oid, *row in rows}


def check_readable(ref: TableRef, nature: Nature, user: str) -> None:
    """Check that a relation can be read.

    Args:
        ref: the relation, for error messages.
        nature: its properties.
        user: the user, for error messages.

    Raises:
        PlanningError: it holds no rows that could be copied, or hides some from this user.
    """
    kind = nature.kind
    if kind not in READABLE:
        raise PlanningError(
            f"source: expected {ref} to be a table, view, materialized view or foreign table, "
            f"found {KINDS.get(kind, f'kind {kind!r}')}"
        )
    if nature.temporary:
        raise PlanningError(
            f"source: expected {ref} to be a permanent table, found a temporary one, which only "
            "the session that created it can read"
        )
    if not nature.populated:
        raise PlanningError(
            f"source: materialized view {ref} has never been filled; run REFRESH MATERIALIZED VIEW "
            f"{name(ref)} first"
        )
    if nature.hidden:
        raise PlanningError(
            f"source: row security on {ref} may hide rows from {user!r}; expected its owner "
            "(without FORCE ROW LEVEL SECURITY), a user with BYPASSRLS, or a superuser"
        )


def read_tables(connection: Connection) -> Rows:
    """Return the rows that `match_tables` filters."""
    return connection.execute(statement("tables")).fetchall()


def match_tables(
    rows: Rows, include: Sequence[str], exclude: Sequence[str]
) -> tuple[TableRef, ...]:
    """Return tables that match patterns on ``schema.name``, sorted by name.

    Views, materialized views, foreign tables and system tables match only patterns without
    wildcards.

    Args:
        rows: the rows from `read_tables`.
        include: patterns of the tables to return.
        exclude: patterns of the tables to leave out.
    """
    tables = []
    for schema, table, by_name_alone in rows:
        ref = TableRef(schema, table)
        names = (f"{schema}.{table}", str(ref))
        patterns = [
            pattern
            for pattern in include
            if not (by_name_alone and any(sign in pattern for sign in PATTERN_SIGNS))
        ]
        if _matches(names, patterns) and not _matches(names, exclude):
            tables.append(ref)
    return tuple(tables)


def read_other_objects(connection: Connection) -> Rows:
    """Return the rows that `match_other_objects` filters."""
    with full_names(connection):
        return connection.execute(for_server(connection, "others")).fetchall()


def match_other_objects(
    rows: Rows, include: Sequence[str], exclude: Sequence[str]
) -> tuple[NotCopied, ...]:
    """Return functions, views and the like that match the same patterns.

    Objects without a schema match patterns for every schema.

    Args:
        rows: the rows from `read_other_objects`.
        include: patterns of the objects to return.
        exclude: patterns of the objects to leave out.
    """
    objects = []
    for kind, schema, label, remedy, shown in rows:
        ref = TableRef(schema, label)
        names = (f"{schema}.{label}", str(ref))
        if _matches(names, include) and not _matches(names, exclude):
            objects.append(NotCopied(kind, shown or (str(ref) if schema else label), remedy))
    return tuple(objects)


def search_path(connection: Connection, side: str) -> tuple[str, ...]:
    """Return the existing schemas of the search path that the user may use."""
    with translated(side), connection.users_path():
        return tuple(connection.value("SELECT pg_catalog.current_schemas(false)"))


def find_by_name(connection: Connection, table: str, side: str) -> TableRef | None:
    """Return the table that an unqualified name resolves to; None without one.

    Args:
        connection: a session on the server.
        table: the name, unquoted.
        side: the side of the server, for error messages.
    """
    with translated(side), connection.users_path():
        schema = connection.value(statement("find"), {"name": table})
    return None if schema is None else TableRef(schema, table)


def find_oid(connection: Connection, ref: TableRef) -> int | None:
    """Return a relation's object id; None if no relation has the name."""
    oid: int | None = connection.value("SELECT pg_catalog.to_regclass(%s)::oid", [name(ref)])
    return oid


def oids_of(connection: Connection, refs: Sequence[TableRef]) -> dict[TableRef, int]:
    """Return the object ids of the relations that exist in schemas that the user may use."""
    parameters = {"schemas": [ref.schema for ref in refs], "names": [ref.name for ref in refs]}
    rows = connection.execute(statement("oids"), parameters).fetchall()
    return {refs[place - 1]: oid for place, oid in rows}


def table_oid(connection: Connection, ref: TableRef, side: str) -> int:
    """Return a table's object id.

    Args:
        connection: a session on the server.
        ref: the table.
        side: the side of the server, for error messages.

    Raises:
        PlanningError: the table does not exist.
    """
    oid = find_oid(connection, ref)
    if oid is None:
        raise missing_table(connection, ref, side)
    return oid


def missing_table(connection: Connection, ref: TableRef, side: str) -> PlanningError:
    """Return the error for a table that does not exist.

    Args:
        connection: a session on the server.
        ref: the table.
        side: the side of the server; for the target, the message says how to create the table.
    """
    return PlanningError(
        f"{side}: table {ref} does not exist in database {connection.info.dbname!r} (or "
        f"{connection.info.user!r} may not use its schema)"
        + did_you_mean(str(ref), _neighbours(connection, ref, side))
        + (
            "; create it from the output of penstock schema, or use --mode recreate, or "
            "--schema-only, which creates it and copies no rows"
            if side == "target"
            else ""
        )
    )


def _neighbours(connection: Connection, ref: TableRef, side: str) -> list[str]:
    """Return the names of the tables and views of the same schema, or of all if it is missing."""
    with translated(side):
        rows = connection.execute(statement("neighbours"), {"schema": ref.schema}).fetchall()
    return [str(TableRef(*row)) for row in rows]


def heirs_of(connection: Connection, oids: Sequence[int]) -> dict[int, tuple[TableRef, ...]]:
    """See `SourceCatalog.heirs`."""
    heirs: dict[int, tuple[TableRef, ...]] = dict.fromkeys(oids, ())
    for oid, *row in connection.execute(statement("heirs"), {"oids": list(oids)}).fetchall():
        heirs[oid] += (TableRef(*row),)
    return heirs


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(
        text == pattern or fnmatchcase(text, pattern) for text in names for pattern in patterns
    )
