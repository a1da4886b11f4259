"""Foreign keys and comments of a table."""

from __future__ import annotations

from penstock.backends.mssql.catalog.native_parts import COMMENTS
from penstock.backends.mssql.dialect import DESCRIPTION
from penstock.backends.mssql.session import MssqlSession
from penstock.model.table_model import FOREIGN_KEYS, ForeignKeyModel
from penstock.model.tables import NotCopied, TableRef


def is_modelled(item: NotCopied) -> bool:
    """Whether an attached object is part of the model."""
    return item.kind == FOREIGN_KEYS or (item.kind == COMMENTS and item.name == DESCRIPTION)


def read_foreign_keys(session: MssqlSession, table: TableRef) -> tuple[ForeignKeyModel, ...]:
    """Return a table's foreign keys."""
    keys: dict[str, ForeignKeyModel] = {}
    for (
        name,
        schema,
        referenced,
        on_delete,
        on_update,
        disabled,
        distrusted,
        mine,
        theirs,
    ) in session.catalog_rows("foreign_keys", table):
        before = keys.get(name)
        keys[name] = ForeignKeyModel(
            name,
            (*(before.columns if before else ()), mine),
            TableRef(schema, referenced),
            (*(before.referenced if before else ()), theirs),
            _action(on_delete),
            _action(on_update),
            checked=not (disabled or distrusted),
        )
    return tuple(keys.values())


def _action(description: str) -> str:
    return "" if description == "NO_ACTION" else description.replace("_", " ")


def read_comments(session: MssqlSession, table: TableRef) -> dict[str, str]:
    """Return comments by column; the table's own has no name."""
    rows = session.catalog_rows("comments", table)
    return {name or "": text for name, text in rows if text}
