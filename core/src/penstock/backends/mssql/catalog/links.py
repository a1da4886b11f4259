"""Foreign keys and comments of a table."""

from __future__ import annotations

from penstock.backends.mssql.catalog.own_parts import COMMENTS
from penstock.backends.mssql.catalog.tables import of_table
from penstock.backends.mssql.dialect import DESCRIPTION
from penstock.backends.mssql.session import MssqlSession
from penstock.model.table_model import FOREIGN_KEYS, ForeignKeyModel
from penstock.model.tables import NotCopied, TableRef


def is_modelled(item: NotCopied) -> bool:
    """Whether what hangs on a table is a part of its model."""
    return item.kind == FOREIGN_KEYS or (item.kind == COMMENTS and item.name == DESCRIPTION)


def read_foreign_keys(session: MssqlSession, table: TableRef) -> tuple[ForeignKeyModel, ...]:
    more = (
        "JOIN sys.foreign_keys AS f ON f.parent_object_id = o.object_id"
        " JOIN sys.foreign_key_columns AS x ON x.constraint_object_id = f.object_id"
        " JOIN sys.columns AS m ON m.object_id = x.parent_object_id"
        " AND m.column_id = x.parent_column_id"
        " JOIN sys.columns AS c ON c.object_id = x.referenced_object_id"
        " AND c.column_id = x.referenced_column_id"
    )
    rows = session.facts(
        "SELECT f.name, OBJECT_SCHEMA_NAME(f.referenced_object_id),"
        " OBJECT_NAME(f.referenced_object_id), f.delete_referential_action_desc,"
        " f.update_referential_action_desc, f.is_disabled, f.is_not_trusted, m.name, c.name"
        f" {of_table(more)} ORDER BY f.name, x.constraint_column_id",
        table,
    )
    found: dict[str, ForeignKeyModel] = {}
    for name, schema, other, on_delete, on_update, disabled, distrusted, mine, theirs in rows:
        before = found.get(name)
        found[name] = ForeignKeyModel(
            name,
            (*(before.columns if before else ()), mine),
            TableRef(schema, other),
            (*(before.referenced if before else ()), theirs),
            _action(on_delete),
            _action(on_update),
            checked=not (disabled or distrusted),
        )
    return tuple(found.values())


def _action(described: str) -> str:
    return "" if described == "NO_ACTION" else described.replace("_", " ")


def read_comments(session: MssqlSession, table: TableRef) -> dict[str, str]:
    """By column; that of the table has no name."""
    more = (
        "JOIN sys.extended_properties AS p ON p.major_id = o.object_id AND p.class = 1"
        f" AND p.name = N'{DESCRIPTION}'"
        " LEFT JOIN sys.columns AS c ON c.object_id = p.major_id AND c.column_id = p.minor_id"
    )
    rows = session.facts(
        f"SELECT c.name, CAST(p.value AS nvarchar(4000)) {of_table(more)}"
        " AND (p.minor_id = 0 OR c.column_id IS NOT NULL)",
        table,
    )
    return {name or "": text for name, text in rows if text}
