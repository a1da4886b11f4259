"""How a table is made that is like a source's: its columns, its keys, and what is left out.

The definition of a table in another table's place is plain data, stored with the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.backends.sql.definitions.making import make_step
from penstock.backends.sql.dialect import CatalogDialect, Dialect
from penstock.model.codec import from_json, to_json
from penstock.model.plans import Step
from penstock.model.table_model import ColumnModel, KeyModel, TableDefinition, TableModel, left_key
from penstock.model.tables import Column, NotCopied, Relation, TableRef

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
    """Statements that are done with the one that makes the table."""
    keys: tuple[KeyModel, ...] = ()
    """Those of the constraints by which mode upsert may find rows."""


def definition_of(
    dialect: str,
    columns: Sequence[Column],
    model: TableModel,
    left: Sequence[NotCopied] = (),
    others: Sequence[NotCopied] = (),
) -> TableDefinition:
    """
    Parameters:
        dialect: in which types and statements are written.
        left: what a table of the same system is made without, besides keys.
        others: what has no form that other systems know.
    """
    content: dict[str, Any] = {
        "columns": [[column.name, column.type, column.nullable] for column in columns],
        "left": to_json(left),
    }
    # Statements that make them are of this dialect.
    return TableDefinition(
        dialect, content, model, tuple(replace(item, remedy="") for item in others)
    )


def plain_model(
    columns: Sequence[Column], keys: Sequence[tuple[str, Sequence[str]]] = ()
) -> TableModel:
    """Of columns and keys alone.

    Parameters:
        keys: each a kind of `KEYS`, and its columns.
    """
    return TableModel(
        tuple(ColumnModel(each.name, native=each.type, nullable=each.nullable) for each in columns),
        tuple(KeyModel("", tuple(names), kind == KEYS[0]) for kind, names in keys),
    )


def key_clause(dialect: Dialect, key: KeyModel) -> str:
    return f"{KEYS[not key.primary]} ({', '.join(map(dialect.ident, key.columns))})"


def left_alike(
    definition: TableDefinition, source: Relation, target: TableRef, made: Collection[KeyModel]
) -> tuple[NotCopied, ...]:
    """What of the table of a source of the same system is not made.

    Parameters:
        made: the keys that are.
    """
    own = from_json(tuple[NotCopied, ...], definition.content["left"])
    left = [*(left_key(key) for key in definition.model.keys if key not in made), *own]
    # A statement is for a table of the source's name.
    return tuple(
        replace(item, table=str(target), remedy=item.remedy if source == target else "")
        for item in left
    )


def left_unlike(
    dialect: Dialect,
    definition: TableDefinition,
    target: TableRef,
    made: Collection[KeyModel],
) -> Iterator[NotCopied]:
    """The keys of another system's table that are not made, and what hangs on it."""
    for key in definition.model.keys:
        if key not in made:
            made_later = dialect.key_made(target, key.columns, primary=key.primary)
            remedy = f"{made_later};" if made_later else ""
            yield replace(left_key(key), remedy=remedy, table=str(target))
    for item in definition.others:
        yield replace(item, table=str(target))


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
    script = ";\n".join([f"DROP TABLE IF EXISTS {name}", create, *besides.complete])
    return [*schemas, Step("create", f"create {table}", script)]
