"""How a table is created like a source's: columns, keys, and what is left out.

The definition of a new table is plain data, stored with the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.backends.sql.definitions.missing_table import make_step
from penstock.backends.sql.dialect import CatalogDialect, Dialect
from penstock.model.plans import Step
from penstock.model.table_model import (
    ColumnModel,
    KeyModel,
    TableDefinition,
    TableModel,
    omitted_key,
)
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
"""What messages call the constraints."""


@dataclass(frozen=True, slots=True)
class TableExtras:
    """The parts of a new table besides its columns, if it is created like a source's."""

    constraints: tuple[str, ...] = ()
    """The constraints to create with it."""
    options: str = ""
    """What follows the columns and constraints in CREATE TABLE."""
    after: tuple[Step, ...] = ()
    """As in `LoadPlan`: what needs no name that the table it replaces has."""
    late: tuple[Step, ...] = ()
    """Steps after those: what needs such a name, or the table's own final one."""
    links: tuple[Step, ...] = ()
    """As in `LoadPlan`."""
    omitted: tuple[NotCopied, ...] = ()
    warnings: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """What follows the types of some columns."""
    complete: tuple[str, ...] = ()
    """Statements executed along with the one that creates the table."""
    keys: tuple[KeyModel, ...] = ()
    """Those constraints by which mode upsert may find rows."""


def definition_of(
    dialect: str,
    model: TableModel,
    omitted: Sequence[NotCopied] = (),
    system_objects: Sequence[NotCopied] = (),
) -> TableDefinition:
    """Return the definition of a table.

    Args:
        dialect: the dialect of the types and statements.
        model: the model of the table.
        omitted: the parts, other than keys, that a copy on the same system does not create.
        system_objects: objects that have no form in other systems.
    """
    # The statements that create them are in this dialect.
    others = tuple(replace(item, remedy="") for item in system_objects)
    return TableDefinition(dialect, model, others, tuple(omitted))


def plain_model(
    columns: Sequence[Column], keys: Sequence[tuple[str, Sequence[str]]] = ()
) -> TableModel:
    """Return a model of columns and keys alone.

    Args:
        columns: the columns.
        keys: each a kind from `KEYS`, and its columns.
    """
    return TableModel(
        tuple(ColumnModel(each.name, native=each.type, nullable=each.nullable) for each in columns),
        tuple(KeyModel("", tuple(names), kind == KEYS[0]) for kind, names in keys),
    )


def key_clause(dialect: Dialect, key: KeyModel) -> str:
    """Return a key as a clause of CREATE TABLE, without the name of the constraint."""
    return f"{KEYS[not key.primary]} ({', '.join(map(dialect.ident, key.columns))})"


def omitted_of_clone(
    definition: TableDefinition,
    source: Relation,
    target: TableRef,
    created_keys: Collection[KeyModel],
) -> tuple[NotCopied, ...]:
    """Return the parts of a table that are not created in a target of the same system.

    Args:
        definition: the definition of the source's table.
        source: the source's table or query.
        target: the target's table.
        created_keys: the keys that are created.
    """
    omitted = [
        *(omitted_key(key) for key in definition.model.keys if key not in created_keys),
        *definition.omitted,
    ]
    # Statements refer to a table with the source's name.
    return tuple(
        replace(item, table=str(target), remedy=item.remedy if source == target else "")
        for item in omitted
    )


def omitted_parts(
    dialect: Dialect,
    definition: TableDefinition,
    target: TableRef,
    created_keys: Collection[KeyModel],
) -> Iterator[NotCopied]:
    """Yield the keys and attached objects of another system's table that are not created.

    Args:
        dialect: the dialect of the statement.
        definition: the definition of the source's table.
        target: the target's table.
        created_keys: the keys that are created.
    """
    for key in definition.model.keys:
        if key not in created_keys:
            statement = dialect.key_statement(target, key.columns, primary=key.primary)
            remedy = f"{statement};" if statement else ""
            yield replace(omitted_key(key), remedy=remedy, table=str(target))
    for item in definition.others:
        yield replace(item, table=str(target))


def listed_columns(
    dialect: Dialect, columns: Sequence[Column], more: Mapping[str, str] | None = None
) -> list[str]:
    """Return the column list of a CREATE TABLE.

    Args:
        dialect: the dialect of the statement.
        columns: the columns.
        more: as in `TableExtras.columns`.
    """
    clauses = []
    for column in columns:
        words = [dialect.ident(column.name), column.type, (more or {}).get(column.name, "")]
        clauses.append(" ".join(filter(None, [*words, "" if column.nullable else "NOT NULL"])))
    return clauses


def create_steps(
    dialect: CatalogDialect,
    table: TableRef,
    columns: Sequence[Column],
    extras: TableExtras,
    *,
    fresh: bool,
    beside: TableRef | None = None,
) -> list[Step]:
    """Return the steps that create a table.

    Args:
        dialect: the dialect of the statement.
        table: the table.
        columns: the columns.
        extras: the keys and options of the new table.
        fresh: first drop a table of the same name; otherwise keep it.
        beside: the existing table that it will replace.
    """
    name = dialect.table(table)
    body = ", ".join([*listed_columns(dialect, columns, extras.columns), *extras.constraints])
    keeps = "" if fresh else dialect.if_not_exists
    create = f"CREATE TABLE {keeps}{name} ({body}) {extras.options}".rstrip()
    schemas = [
        Step(SCHEMA, f"create schema {table.schema}", statement)
        for statement in dialect.schema_statements(table.schema)
    ]
    if not fresh:
        return [*schemas, make_step(table, [create, *extras.complete], columns)]
    script = ";\n".join([f"DROP TABLE IF EXISTS {name}", create, *extras.complete])
    name = f"create {table} beside {beside}" if beside else f"create {table}"
    return [*schemas, Step("create", name, script)]
