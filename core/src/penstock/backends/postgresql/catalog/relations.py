"""What kinds of relations can be read, and which tables there are."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from psycopg import sql

from penstock.backends.postgresql.catalog.definition import full_names
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.statements import quoted, statement
from penstock.errors import PlanningError
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


def check_readable(connection: Connection, ref: TableRef) -> None:
    """
    Raises:
        PlanningError: it holds no rows that could be copied, or hides some from this user.
    """
    with planning("source", f"table {ref}"):
        found = connection.execute(
            statement("relation"), {"table": quoted(ref).as_string(connection)}
        ).fetchone()
    assert found is not None
    kind, temporary, populated, hidden = found
    user = connection.info.user
    if kind not in READABLE:
        raise PlanningError(
            f"source: expected {ref} to be a table, view, materialized view or foreign table, "
            f"found {KINDS.get(kind, f'kind {kind!r}')}"
        )
    if temporary:
        raise PlanningError(
            f"source: {ref} is a temporary table, which only the session that made it can read; "
            "expected one that others see too"
        )
    if not populated:
        raise PlanningError(
            f"source: materialized view {ref} was never filled; expected REFRESH MATERIALIZED "
            f"VIEW {quoted(ref).as_string(connection)} before"
        )
    if hidden:
        raise PlanningError(
            f"source: row security on {ref} may hide rows from {user!r}; expected its owner "
            "(without FORCE ROW LEVEL SECURITY), a user with BYPASSRLS, or a superuser"
        )


def list_tables(
    connection: Connection, include: Sequence[str], exclude: Sequence[str]
) -> tuple[TableRef, ...]:
    """Tables by patterns on ``schema.name``, in the order of their names.

    Views, materialized views, foreign tables and system tables are found by patterns without
    wildcards alone.
    """
    with translated("source"):
        rows = connection.execute(statement("tables")).fetchall()
    found = []
    for schema, name, by_name_alone in rows:
        written = (f"{schema}.{name}", str(TableRef(schema, name)))
        patterns = [
            pattern
            for pattern in include
            if not (by_name_alone and any(sign in pattern for sign in PATTERN_SIGNS))
        ]
        if _matches(written, patterns) and not _matches(written, exclude):
            found.append(TableRef(schema, name))
    return tuple(found)


def list_others(
    connection: Connection, include: Sequence[str], exclude: Sequence[str]
) -> tuple[NotCopied, ...]:
    """Functions, views and the like by the same patterns."""
    with translated("source"), full_names(connection):
        rows = connection.execute(statement("others")).fetchall()
    found = []
    for kind, schema, name, remedy in rows:
        ref = TableRef(schema, name)
        written = (f"{schema}.{name}", str(ref))
        if _matches(written, include) and not _matches(written, exclude):
            found.append(NotCopied(kind, str(ref), remedy))
    return tuple(found)


def search_path(connection: Connection, side: str) -> tuple[str, ...]:
    """The schemas of the search path that are there and that the user may look into."""
    with translated(side):
        found = connection.execute("SELECT pg_catalog.current_schemas(false)").fetchone()
    return tuple(found[0]) if found else ()


def find_by_name(connection: Connection, name: str, side: str) -> TableRef | None:
    with translated(side):
        found = connection.execute(statement("find"), {"name": name}).fetchone()
    return None if found is None else TableRef(found[0], name)


def list_heirs(connection: Connection, ref: TableRef) -> tuple[TableRef, ...]:
    """See `SourceCatalog.heirs`."""
    with planning("source", f"table {ref}"):
        rows = connection.execute(
            statement("heirs"), {"table": quoted(ref).as_string(connection)}
        ).fetchall()
    return tuple(TableRef(*row) for row in rows)


def _matches(written: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(
        text == pattern or fnmatchcase(text, pattern) for text in written for pattern in patterns
    )


def inherited(connection: Connection) -> sql.SQL:
    """The condition on pg_inherits, as `i`, that a child still belongs to its parent."""
    detaching = connection.info.server_version >= 140000
    return sql.SQL("NOT i.inhdetachpending" if detaching else "true")
