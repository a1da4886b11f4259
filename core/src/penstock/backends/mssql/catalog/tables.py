"""What the catalog of a server knows of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.mssql.session import ONE_TABLE, MssqlSession
from penstock.backends.mssql.types import type_of
from penstock.backends.sql.relations import TYPE, no_such, read_relations
from penstock.backends.sql.session import Row
from penstock.backends.sql.unique_keys import DeclaredKey
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

DIALECT = "mssql"
COLLATION = "collation"
"""The trait of a column whose values are texts."""
CODE_PAGE = "code page"
"""The trait of a column whose texts are in one of few characters; 0 for others."""
IDENTITY = "identity"
"""The trait of the column that the server numbers by itself."""
OF_TABLE = f"{ONE_TABLE} {{more}} WHERE 1 = 1"
"""For `Session.facts`."""
PAGE = 8192
_IN_CODE_PAGES = ("char", "varchar", "text")


def of_table(more: str) -> str:
    return OF_TABLE.format(more=more)


def table_columns(session: MssqlSession, table: TableRef) -> tuple[Column, ...]:
    """All columns, those too that `SELECT *` does not show.

    Raises:
        PlanningError: no such table or view.
    """
    more = (
        "JOIN sys.columns AS c ON c.object_id = o.object_id JOIN sys.types AS t ON t.user_type_id ="
        " CASE WHEN c.system_type_id IN (SELECT system_type_id FROM sys.types"
        " WHERE user_type_id = system_type_id) THEN c.system_type_id ELSE c.user_type_id END"
    )
    rows = session.facts(
        "SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_computed,"
        " c.is_identity, c.default_object_id, c.collation_name,"
        " CAST(COLLATIONPROPERTY(c.collation_name, 'CodePage') AS int)"
        f" {of_table(more)} ORDER BY c.column_id",
        table,
    )
    if not rows:
        raise no_such(table, read_relations(session), session.side)
    columns = []
    for name, type_name, *sizes, nullable, computed, identity, default, collation, page in rows:
        type_ = type_of(type_name, *sizes)
        made = bool(computed) or type_.name in ("timestamp", "rowversion")
        columns.append(
            Column(
                name,
                str(type_),
                nullable=bool(nullable),
                generated=made,
                has_default=bool(identity) or bool(default),
                traits={
                    TYPE: type_,
                    COLLATION: collation or "",
                    CODE_PAGE: int(page or 0) if type_.name in _IN_CODE_PAGES else 0,
                    IDENTITY: bool(identity),
                },
            )
        )
    return tuple(columns)


def unique_keys(session: MssqlSession, table: TableRef) -> tuple[DeclaredKey, ...]:
    """Those that tell rows apart, the primary key first; not of part of the rows."""
    more = (
        "JOIN sys.indexes AS i ON i.object_id = o.object_id"
        " JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id"
        " JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id"
    )
    found: dict[int, tuple[bool, list[str]]] = {}
    for number, primary, name in session.facts(
        f"SELECT i.index_id, i.is_primary_key, c.name {of_table(more)} AND i.is_unique = 1"
        " AND i.has_filter = 0 AND i.is_disabled = 0 AND x.is_included_column = 0"
        " ORDER BY i.is_primary_key DESC, i.index_id, x.key_ordinal",
        table,
    ):
        found.setdefault(number, (bool(primary), []))[1].append(name)
    return tuple(DeclaredKey(tuple(names), primary) for primary, names in found.values())


def indexed(session: MssqlSession, table: TableRef) -> Sequence[str]:
    """Columns that are the first one of an index, the clustered one's first."""
    more = (
        "JOIN sys.indexes AS i ON i.object_id = o.object_id"
        " JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id"
        " JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id"
    )
    return [
        name
        for (name,) in session.facts(
            f"SELECT c.name {of_table(more)} AND x.key_ordinal = 1 AND i.is_disabled = 0"
            " AND i.has_filter = 0 AND i.type IN (1, 2) ORDER BY i.index_id",
            table,
        )
    ]


def stored(session: MssqlSession, table: TableRef) -> tuple[int, int]:
    """About how many rows a table has, and how many bytes they take; 0 where that is not known."""
    parts = "JOIN sys.partitions AS p ON p.object_id = o.object_id AND p.index_id IN (0, 1)"
    rows = _one(session.facts(f"SELECT SUM(p.rows) {of_table(parts)} {_EACH}", table))
    parts += " JOIN sys.allocation_units AS a ON a.container_id = p.hobt_id"
    try:
        query = f"SELECT SUM(a.total_pages) {of_table(parts)} {_EACH}"
        pages = _one(session.facts(query, table))
    except PlanningError:  # Babelfish has no such view
        return int(rows), 0
    return int(rows), int(pages) * PAGE


_EACH = "GROUP BY o.object_id"


def _one(found: Sequence[Row]) -> int:
    """A sum; of nothing, 0."""
    return int(found[0][0] or 0) if found else 0


def made_at(session: MssqlSession, table: TableRef) -> str:
    """What is another one for a table that was made anew."""
    more = "JOIN sys.tables AS t ON t.object_id = o.object_id"
    rows = session.facts(
        f"SELECT o.object_id, CONVERT(varchar(40), t.create_date, 121) {of_table(more)}", table
    )
    return ":".join(map(str, rows[0])) if rows else ""


def laid_out(session: MssqlSession, table: TableRef) -> str:
    """What is another one where all rows are stored anew, too, as where an index is rebuilt."""
    parts = "JOIN sys.partitions AS p ON p.object_id = o.object_id AND p.index_id IN (0, 1)"
    found = session.facts(f"SELECT MAX(p.hobt_id) {of_table(parts)} {_EACH}", table)
    last = found[0][0] if found else None
    return f"{made_at(session, table)}:{last}"


def kept_as(session: MssqlSession, table: TableRef) -> tuple[str, bool]:
    """How a table's rows are stored, for people; and whether each has a place on a page."""
    more = (
        "JOIN sys.tables AS t ON t.object_id = o.object_id"
        " JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id IN (0, 1)"
    )
    for type_, in_memory in session.facts(
        f"SELECT i.type, t.is_memory_optimized {of_table(more)}", table
    ):
        if type_ in _PAGED and not in_memory:
            return _PAGED[type_], not session.connection.babelfish
    return "a table without pages of rows", False


_PAGED = {0: "a heap", 1: "a table with a clustered index"}
"""Types of indexes: https://learn.microsoft.com/en-us/sql/relational-databases/system-catalog-views/sys-indexes-transact-sql"""


def last_numbers(session: MssqlSession, table: TableRef) -> tuple[str, int, int, int | None] | None:
    """Of the column that the server numbers by itself: its name, the first number, the step, and
    the last number; None where no row has got one."""
    # The catalog of Babelfish has other tables' numbers, too.
    last = (
        "CASE WHEN i.last_value IS NOT NULL"
        " THEN IDENT_CURRENT(QUOTENAME(OBJECT_SCHEMA_NAME(o.object_id)) + '.'"
        " + QUOTENAME(OBJECT_NAME(o.object_id))) END"
    )
    rows = session.facts(
        "SELECT i.name, CAST(i.seed_value AS varchar(40)), CAST(i.increment_value AS varchar(40)),"
        f" {last} " + of_table("JOIN sys.identity_columns AS i ON i.object_id = o.object_id"),
        table,
    )
    for name, first, step, found in rows:
        return str(name), int(first), int(step), None if found is None else int(found)
    return None


def enabled_indexes(session: MssqlSession, table: TableRef) -> Mapping[str, str]:
    """Those that keep no row out, and that the rows are not stored in; by their names, as
    `IndexChange` has them."""
    rows = session.facts(
        f"SELECT i.name {of_table('JOIN sys.indexes AS i ON i.object_id = o.object_id')}"
        " AND i.type IN (2, 6) AND i.is_unique = 0 AND i.is_disabled = 0"
        " AND i.is_hypothetical = 0 ORDER BY i.name",
        table,
    )
    return {name: name for (name,) in rows}
