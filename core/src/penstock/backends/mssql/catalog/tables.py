"""Tables as described by the server's catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.types import type_of
from penstock.backends.sql.catalog.relations import TYPE, missing_table_error, read_relations
from penstock.backends.sql.catalog.unique_keys import DeclaredKey
from penstock.backends.sql.session import Row
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

DIALECT = "mssql"
COLLATION = "collation"
"""The trait of a column with texts."""
CODE_PAGE = "code page"
"""The trait of a column whose texts have a code page; 0 for others."""
IDENTITY = "identity"
"""The trait of the column that the server numbers."""
PAGE = 8192
_IN_CODE_PAGES = ("char", "varchar", "text")


def table_columns(session: MssqlSession, table: TableRef) -> tuple[Column, ...]:
    """Return all columns, including those that `SELECT *` does not show.

    Raises:
        PlanningError: the table or view does not exist.
    """
    rows = session.catalog_rows("columns", table)
    if not rows:
        raise missing_table_error(table, read_relations(session), session.side)
    columns = []
    for row in rows:
        name, type_name, *sizes, nullable, computed, identity, default, collation = row[:10]
        page, table_id, number, formula = row[10:]
        type_ = type_of(type_name, *sizes)
        generated = bool(computed) or type_.name in ("timestamp", "rowversion")
        columns.append(
            Column(
                name,
                str(type_),
                nullable=bool(nullable),
                generated=generated,
                has_default=bool(identity) or bool(default),
                traits={
                    TYPE: type_,
                    COLLATION: collation or "",
                    CODE_PAGE: int(page or 0) if type_.name in _IN_CODE_PAGES else 0,
                    IDENTITY: bool(identity),
                },
                identity=f"{table_id}.{number}",
                collation=collation or "",
                formula=formula or "",
            )
        )
    return tuple(columns)


def unique_keys(session: MssqlSession, table: TableRef) -> tuple[DeclaredKey, ...]:
    """Return the keys that identify rows, the primary key first, without filtered ones."""
    keys: dict[int, tuple[bool, list[str]]] = {}
    for number, primary, name in session.catalog_rows("unique_keys", table):
        keys.setdefault(number, (bool(primary), []))[1].append(name)
    return tuple(DeclaredKey(tuple(names), primary) for primary, names in keys.values())


def leading_columns(session: MssqlSession, table: TableRef) -> Sequence[str]:
    """Return the first column of each index, the clustered one's first."""
    return [name for (name,) in session.catalog_rows("leading_columns", table)]


def size_of(session: MssqlSession, table: TableRef) -> tuple[int, int]:
    """Return approximately how many rows and bytes a table has; 0 if unknown."""
    rows = _one(session.catalog_rows("rows", table))
    try:
        pages = _one(session.catalog_rows("pages", table))
    except PlanningError:  # Babelfish has no such view
        return int(rows), 0
    return int(rows), int(pages) * PAGE


def _one(rows: Sequence[Row]) -> int:
    """Return a sum; 0 if there is nothing to add."""
    return int(rows[0][0] or 0) if rows else 0


def creation_mark(session: MssqlSession, table: TableRef) -> str:
    """Return a text that changes when the table is dropped and recreated."""
    rows = session.catalog_rows("made", table)
    return ":".join(map(str, rows[0])) if rows else ""


def layout_mark(session: MssqlSession, table: TableRef) -> str:
    """Return a text that also changes when all rows are rewritten, as by an index rebuild."""
    rows = session.catalog_rows("layout", table)
    last = rows[0][0] if rows else None
    return f"{creation_mark(session, table)}:{last}"


def storage_kind(session: MssqlSession, table: TableRef) -> tuple[str, bool]:
    """Describe how a table's rows are stored, and return whether each has a place on a page."""
    for type_, in_memory in session.catalog_rows("storage", table):
        if type_ in _PAGED and not in_memory:
            return _PAGED[type_], not session.connection.babelfish
    return "a table whose rows have no pages", False


_PAGED = {0: "a heap", 1: "a table with a clustered index"}
"""Types of indexes with pages:
https://learn.microsoft.com/en-us/sql/relational-databases/system-catalog-views/sys-indexes-transact-sql
"""


def last_numbers(session: MssqlSession, table: TableRef) -> tuple[str, int, int, int | None] | None:
    """Return the identity column's name, first number, step and last number; None without one.

    The last number is None if no row has one yet.
    """
    for name, first, step, number in session.catalog_rows("numbering", table):
        return str(name), int(first), int(step), None if number is None else int(number)
    return None


def enabled_indexes(session: MssqlSession, table: TableRef) -> Mapping[str, str]:
    """Return the non-unique, non-clustered indexes, by name as in `IndexChange`."""
    return {name: name for (name,) in session.catalog_rows("enabled_indexes", table)}
