"""How a table is made that is like a source's: its columns, its keys, and what is left out.

The definition of a table in another table's place is plain data, stored with the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.backends.sql.dialect import CatalogDialect, Dialect
from penstock.backends.sql.making import make_step
from penstock.model.codec import from_json, to_json
from penstock.model.plans import Step
from penstock.model.tables import (
    Column,
    NotCopied,
    Relation,
    TableDefinition,
    TableKey,
    TablePart,
    TableRef,
)

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


@dataclass(frozen=True, slots=True)
class Besides:
    """What a table gets besides its columns, where it is made like a source's."""

    constraints: tuple[str, ...] = ()
    """Those that it is made with."""
    options: str = ""
    """What follows its columns and constraints in the statement that makes it."""
    after: tuple[Step, ...] = ()
    links: tuple[Step, ...] = ()
    """See `LoadPlan`."""
    left: tuple[NotCopied, ...] = ()
    warnings: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """What follows the types of some columns."""
    complete: tuple[str, ...] = ()
    """Statements for a table that is made by a mode which loads what it finds: done at once."""
    keys: tuple[TableKey, ...] = ()
    """Those of the constraints by which mode upsert may find rows."""


def definition_of(
    dialect: str,
    columns: Sequence[Column],
    keys: Sequence[tuple[str, Sequence[str]]],
    left: Sequence[NotCopied],
    parts: Sequence[TablePart] = (),
) -> TableDefinition:
    """
    Parameters:
        dialect: in which types and statements are written.
        keys: each a kind of `KEYS`, and its columns.
        left: what a table of the same system is made without.
        parts: what stands for them is in `left`, or added to what others leave out.
    """
    content: dict[str, Any] = {
        "columns": [[column.name, column.type, column.nullable] for column in columns],
        "left": to_json(left),
    }
    known = tuple(
        TableKey(tuple(names), kind == KEYS[0], NotCopied(KINDS[kind], f"({', '.join(names)})"))
        for kind, names in keys
    )
    besides = [
        *(key.left for key in known),
        # Statements that make them are of this dialect.
        *(replace(item, remedy="") for item in left),
    ]
    parts = [replace(part, left=replace(part.left, remedy="")) for part in parts]
    return TableDefinition(dialect, content, tuple(besides), known, tuple(parts))


def key_clause(dialect: Dialect, key: TableKey) -> str:
    return f"{KEYS[not key.primary]} ({', '.join(map(dialect.ident, key.names))})"


def left_out(
    definition: TableDefinition,
    source: Relation,
    target: TableRef,
    made: Collection[NotCopied] = (),
    *,
    alike: bool,
) -> tuple[NotCopied, ...]:
    """What of the source's table is not made.

    Parameters:
        made: what stands for what is.
        alike: source and target are of one system.
    """
    left = definition.besides
    if alike:
        own = from_json(tuple[NotCopied, ...], definition.content["left"])
        left = (*(key.left for key in definition.keys), *own)
    left = tuple(item for item in left if item not in made)
    # A statement is for a table of the source's name.
    return tuple(
        replace(item, table=str(target), remedy=item.remedy if source == target else "")
        for item in left
    )


def listed_columns(
    dialect: Dialect, columns: Sequence[Column], more: Mapping[str, str] | None = None
) -> list[str]:
    """
    Parameters:
        more: see `Besides.columns`.
    """
    found = []
    for column in columns:
        words = [dialect.ident(column.name), column.type, (more or {}).get(column.name, "")]
        found.append(" ".join(filter(None, [*words, "" if column.nullable else "NOT NULL"])))
    return found


def create_steps(
    dialect: CatalogDialect,
    table: TableRef,
    columns: Sequence[Column],
    besides: Besides,
    *,
    fresh: bool,
) -> list[Step]:
    """
    Parameters:
        fresh: a table of that name is dropped first; else it is kept.
    """
    name = dialect.table(table)
    body = ", ".join([*listed_columns(dialect, columns, besides.columns), *besides.constraints])
    keeps = "" if fresh else dialect.unless_there
    create = f"CREATE TABLE {keeps}{name} ({body}) {besides.options}".rstrip()
    schemas = [
        Step(SCHEMA, f"create schema {table.schema}", statement)
        for statement in dialect.schema_made(table.schema)
    ]
    if not fresh:
        return [*schemas, make_step(table, [create, *besides.complete], columns)]
    return [
        *schemas,
        Step("create", f"create {table}", f"DROP TABLE IF EXISTS {name};\n{create}"),
    ]
