"""How a table is made that is like a source's: its columns, its keys, and what is left out.

The definition of a table in another table's place is plain data, stored with the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.backends.sql.dialect import CatalogDialect, Dialect
from penstock.model.codec import from_json, to_json
from penstock.model.plans import Step
from penstock.model.tables import Column, NotCopied, Relation, TableDefinition, TableRef

SCHEMA = "schema"
"""The id of the step that creates a schema."""
KEYS = ("PRIMARY KEY", "UNIQUE")
KINDS = {
    "PRIMARY KEY": "primary keys",
    "UNIQUE": "unique constraints",
    "FOREIGN KEY": "foreign keys",
    "CHECK": "check constraints",
}
"""What constraints are called, for people."""


def definition_of(
    dialect: str,
    columns: Sequence[Column],
    keys: Sequence[tuple[str, Sequence[str]]],
    left: Sequence[NotCopied],
) -> TableDefinition:
    """
    Parameters:
        dialect: in which types and statements are written.
        keys: each a kind of `KEYS`, and its columns.
        left: what a table of the same system is made without.
    """
    content: dict[str, Any] = {
        "columns": [[column.name, column.type, column.nullable] for column in columns],
        "keys": [[kind, list(names)] for kind, names in keys],
        "left": to_json(left),
    }
    besides = [
        *(NotCopied(KINDS[kind], f"({', '.join(names)})") for kind, names in keys),
        # Statements that make them are of this dialect.
        *(replace(item, remedy="") for item in left),
    ]
    return TableDefinition(dialect, content, tuple(besides))


def keys_of(dialect: Dialect, definition: TableDefinition, columns: Sequence[str]) -> list[str]:
    """The constraints of a table that has some of the columns."""
    return [
        f"{kind} ({', '.join(map(dialect.ident, names))})"
        for kind, names in definition.content["keys"]
        if set(names) <= set(columns)
    ]


def left_out(
    definition: TableDefinition, source: Relation, target: TableRef, *, alike: bool
) -> tuple[NotCopied, ...]:
    """What of the source's table is not made.

    Parameters:
        alike: source and target are of one system.
    """
    left = definition.besides
    if alike:
        left = from_json(tuple[NotCopied, ...], definition.content["left"])
    # A statement is for a table of the source's name.
    return tuple(
        replace(item, table=str(target), remedy=item.remedy if source == target else "")
        for item in left
    )


def create_steps(
    dialect: CatalogDialect,
    table: TableRef,
    columns: Sequence[Column],
    keys: Sequence[str],
    *,
    fresh: bool,
) -> list[Step]:
    """
    Parameters:
        keys: constraints, as `keys_of` has them.
        fresh: a table of that name is dropped first; else it is kept.
    """
    name = dialect.table(table)
    listed = [
        f"{dialect.ident(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in columns
    ]
    body = ", ".join([*listed, *keys])
    create = f"CREATE TABLE {'' if fresh else 'IF NOT EXISTS '}{name} ({body})"
    drop = f"DROP TABLE IF EXISTS {name};\n" if fresh else ""
    return [
        *(
            Step(SCHEMA, f"create schema {table.schema}", statement)
            for statement in dialect.schema_made(table.schema)
        ),
        Step("create", f"create {table}", f"{drop}{create}"),
    ]
