"""A table like that of an unlike source: columns, keys, and every other part with an equivalent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.arrow.types import arrow_type_of, column_type_for
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.catalog.datatypes import Types
from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.definition import plain_table
from penstock.backends.postgresql.ddl.text import LONGEST_NAME, shorten, temporary_name
from penstock.backends.postgresql.ddl.types import (
    create_type,
    enum_type,
    missing_types,
    read_namesakes,
    type_name,
)
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.target_facts import TargetFacts, check_place
from penstock.backends.postgresql.new_tables.late_parts import LateParts
from penstock.backends.postgresql.new_tables.plain_tables import can_be_key
from penstock.backends.postgresql.new_tables.rehearsal import (
    NEEDS,
    Rehearsals,
    read_created,
    without_rehearsed_ids,
)
from penstock.backends.postgresql.session.statements import ident, name, statement
from penstock.backends.shared.values.arrow import arrow_type, value_kind
from penstock.backends.sql.definitions.definition import omitted_parts
from penstock.backends.sql.definitions.expressions import UUID
from penstock.backends.sql.definitions.rendering import (
    ForeignKey,
    Rendering,
    computed_columns,
)
from penstock.backends.sql.definitions.rendering import shortened as short_name
from penstock.errors import PlanningError
from penstock.model.table_model import ENUM, JSON, TEXT, KeyModel, TableDefinition, TableModel
from penstock.model.tables import Column, NotCopied, TableRef
from penstock.spec.modes import Table

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import (
        ColumnPart,
        ConstraintPart,
        Content,
        SequencePart,
        TypePart,
    )

MOST_CHARACTERS = 10_485_760
"""The maximum of `varchar(n)`. https://www.postgresql.org/docs/current/datatype-character.html"""


def enum_types(
    ref: TableRef,
    columns: Sequence[Column],
    definition: TableDefinition,
    specified: Collection[str] = (),
) -> dict[str, TypePart]:
    """Return the enum types created with a table, by the columns that use them.

    Args:
        ref: the table to create.
        columns: with the trait `arrow`, or the server's own.
        definition: the source's definition.
        specified: columns whose types the user specified.
    """
    if definition.enums != "type":
        return {}
    types = definition.model.types
    return {
        each.name: enum_type(
            ref.schema,
            short_name(f"{ref.name}_{each.name}_enum", LONGEST_NAME),
            types[each.name].labels,
        )
        for each in columns
        if each.name in types and each.name not in specified and types[each.name].kind == ENUM
    }


def types_for(
    columns: Sequence[Column], model: TableModel, enums: Mapping[str, TypePart]
) -> dict[str, str]:
    """Return, by name, the types of columns created like another system's.

    Args:
        columns: with the trait `arrow`.
        model: the source's model, for what Arrow does not keep: the length of a text, and JSON,
            which travel as text.
        enums: as for `enum_types`.
    """
    types = {each.name: column_type_for(arrow_type(each)) for each in columns}
    for column, type_ in model.types.items():
        if types.get(column) != "text":
            continue
        if column in enums:
            types[column] = type_name(enums[column])
        elif type_.kind == JSON:
            types[column] = "jsonb"
        elif type_.kind == TEXT and 0 < (type_.length or 0) <= MOST_CHARACTERS:
            types[column] = f"character varying({type_.length})"
    return types


def created_columns(
    facts: TargetFacts,
    ref: TableRef,
    columns: Sequence[Column],
    types: Mapping[str, str],
    specified: Mapping[str, str],
    enums: Mapping[str, TypePart],
) -> tuple[Column, ...]:
    """Return the columns of a table created for other columns.

    If the user specified types, or types are created with the table, the table is created,
    described, and rolled back.

    Args:
        facts: the facts about the target.
        ref: the table to create.
        columns: the source's columns.
        types: the types of all columns.
        specified: the types that the user specified.
        enums: as for `enum_types`.

    Raises:
        PlanningError: the table cannot be created, or a type does not exist or is a different one
            of that name.
    """
    check_place(facts, ref, NEEDS)
    if not (specified or enums):
        with planning("target", f"{NEEDS}: {ref}"):
            return facts.derive(Rehearsals).builtin_columns(
                [(c.name, types[c.name], c.nullable) for c in columns]
            )
    for column, type_text in specified.items():
        _check_type(facts.connection, column, type_text)
    if enums:
        _check_enums(facts.connection, ref, enums)
    with types_of_columns(facts, ref, columns, types, enums) as table:
        if not enums:
            return read_created(facts.connection, [table], facts.types)[table]
        rehearsed = read_created(facts.connection, [table], Types(facts.connection))
    return without_rehearsed_ids(facts.connection, rehearsed)[table]


def _check_enums(connection: Connection, ref: TableRef, enums: Mapping[str, TypePart]) -> None:
    with planning("target", f"{NEEDS}: {ref}"):
        existing = read_namesakes(connection, [type_name(each) for each in enums.values()])
    _, lines = missing_types(list(enums.values()), existing.__getitem__)
    if lines:
        raise PlanningError(
            f"--enums type: {'; '.join(lines)}: drop it, together with the table that uses it, or "
            "change it to match the source's (ALTER TYPE ... ADD VALUE)"
        )


@contextmanager
def types_of_columns(
    facts: TargetFacts,
    ref: TableRef,
    columns: Sequence[Column],
    types: Mapping[str, str],
    enums: Mapping[str, TypePart],
) -> Iterator[TableRef]:
    """Create the table of `created_columns`, which exists until the transaction is rolled back.

    Args:
        facts: the facts about the target.
        ref: the table, which gets another name for the rehearsal.
        columns: the source's columns.
        types: the types of all columns.
        enums: as for `enum_types`.
    """
    connection = facts.connection
    rehearsed = TableRef(ref.schema, temporary_name("rehearsal", ref.name))
    definitions = [
        f"{ident(c.name)} {types[c.name]}" + ("" if c.nullable else " NOT NULL") for c in columns
    ]
    with planning("target", f"{NEEDS}: {ref}"), connection.transaction(force_rollback=True):
        if not facts.creatable(ref.schema, NEEDS):
            connection.execute(statement("lock_making"))
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {ident(ref.schema)}")
        for each in enums.values():
            connection.execute(create_type(each))
        # Types that the user specified may lack a schema.
        with connection.users_path():
            connection.execute(
                f"CREATE UNLOGGED TABLE {name(rehearsed)} ({', '.join(definitions)})"
            )
        yield rehearsed


def with_generated(
    model: TableModel, columns: Sequence[Column], specified: Collection[str]
) -> tuple[Column, ...]:
    """Return a new table's columns, with those that the target computes marked as generated.

    Args:
        model: the source's model.
        columns: the new table's columns.
        specified: the columns that keep a type that the user specified.
    """
    texts = computed_columns(model, kinds_of(columns), DIALECT)
    return tuple(
        replace(column, generated=column.name in texts and column.name not in specified)
        for column in columns
    )


def kinds_of(columns: Sequence[Column]) -> dict[str, str]:
    """Return the kinds of columns for `expressions`.

    Operators and functions do not treat an enum as text.
    """
    return {
        column.name: "" if data_type(column).kind == "enum" else value_kind(arrow_type_of(column))
        for column in columns
    }


def _check_type(connection: Connection, column: str, type_text: str) -> None:
    with planning("target", f"--types {column}={type_text}"), connection.users_path():
        oid = connection.value("SELECT pg_catalog.to_regtype(%s)", [type_text])
    if oid is None:
        raise PlanningError(f"--types {column}={type_text}: expected a type that the target has")


@dataclass(frozen=True, slots=True)
class TranslatedTable:
    """A table that is created like another system's."""

    content: Content
    """The content of a definition, in the form in which the catalog would be read."""
    omitted: tuple[NotCopied, ...]
    late: LateParts


def read_translated(
    facts: TargetFacts, request: LoadRequest, definition: TableDefinition
) -> TranslatedTable:
    """Plan a table like another system's.

    Args:
        facts: the facts about the target.
        request: the request, with the columns found by `created_columns`.
        definition: the source's definition.
    """
    connection = facts.connection
    ref, columns, model = request.target, request.new_columns, definition.model
    enum_of_column = enum_types(ref, columns, definition)
    enums = {
        each.name: enum_of_column[each.name]
        for each in columns
        if each.name in enum_of_column and data_type(each).name == enum_of_column[each.name]["name"]
    }
    # Until they are created, text stands in: it can be a key wherever they can.
    keyed = [(c.name, "text" if c.name in enums else _type_text(c)) for c in columns]
    column_types = [
        (c.name, type_name(enums[c.name]) if c.name in enums else _type_text(c), None, c.nullable)
        for c in columns
    ]
    names = {column.name for column in columns}
    accepted, warnings = [], []
    for key in model.keys:
        if not names.issuperset(key.columns):
            continue
        why = _obstacle(connection, keyed, key)
        if why:
            warnings.append(f"key ({', '.join(key.columns)}) of the source is not created: {why}")
        else:
            accepted.append(key)
    table = plain_table(ref.name, column_types, accepted)
    kinds = kinds_of(columns)
    texts = computed_columns(model.only(list(names)), kinds, DIALECT)
    if connection.info.server_version < 130000:
        # The server has no function for a new UUID.
        kinds = {name: kind for name, kind in kinds.items() if kind != UUID}
    rendering = Rendering(
        DIALECT,
        request.source,
        ref,
        kinds,
        request.siblings,
        computed={column.name: texts[column.name] for column in columns if column.generated},
        at_once=request.mode.table is not Table.RECREATED,
        taken_names=partial(_is_taken, facts, ref),
    )
    rendered = rendering.of(model.only(list(names)))
    sequences: list[SequencePart] = []
    modelled = {column.name: column for column in model.columns}
    for column in table["columns"]:
        name = column["name"]
        modelled_column = modelled.get(name)
        if modelled_column is None:
            continue
        column["comment"] = modelled_column.comment or None
        if name in rendering.computed:
            column["generated"], column["default"] = "s", rendering.computed[name]
        elif name in rendered.numbered and modelled_column.identity is not None:
            sequence = _sequence(
                ref, column, modelled_column.identity.first, modelled_column.identity.step
            )
            sequences.append(sequence)
            if sequence["identity"]:
                column["identity"] = "d"
            else:
                column["default"] = f"nextval({sequence['written']})"
        elif name in rendered.columns:
            column["default"] = rendered.columns[name].removeprefix("DEFAULT ")
    for index in rendered.indexes:
        facts.claimed_names.add(ref.schema, index.name, ref)
    table["sequences"] = sequences
    table["comment"] = model.comment or None
    table["constraints"] = [_foreign_key(each, model, request) for each in rendered.foreign_keys]
    content: Content = {
        "tables": [table],
        "types": list(enums.values()),
        "warnings": [*warnings, *rendered.warnings],
        "of_partitions": [],
    }
    omitted = (*omitted_parts(DIALECT, definition, ref, accepted), *rendered.omitted)
    return TranslatedTable(content, omitted, LateParts(rendered, ref))


def _is_taken(facts: TargetFacts, ref: TableRef, name: str) -> bool:
    """Whether another relation has a name, or will have it, in the schema of a new table."""
    dropped = [relation.oid for relation in facts.tree(ref)]
    return facts.claimed_names.holds(ref.schema, name) or facts.names(ref.schema).holds(
        name, dropped
    )


def _foreign_key(key: ForeignKey, model: TableModel, request: LoadRequest) -> ConstraintPart:
    """Return a foreign key in the form in which the catalog would be read."""
    refers = next(each.target for each in model.foreign_keys if each.columns == key.columns)
    return {
        "name": key.name, "kind": "f", "definition": key.definition, "validated": True,
        "no_inherit": False, "column": key.columns[0], "inherited": False, "comment": None,
        "columns": ", ".join(map(ident, key.columns)), "references_itself": key.itself,
        "references": [refers.schema, refers.name], "from": list(key.columns), "to": None,
        "on_delete": "a", "on_update": "a", "local": True,
    }  # fmt: skip


_BITS = {"smallint": 15, "integer": 31}
_WHOLE = (*_BITS, "bigint")


def _sequence(ref: TableRef, column: ColumnPart, first: int, step: int) -> SequencePart:
    """Return the sequence of an identity column, in the form in which the catalog would be read.

    If the column cannot be an identity column, return the sequence of its default: the column may
    be NULL, or hold unsigned 64-bit numbers, which are a decimal here.
    """
    most = (1 << _BITS.get(column["type"], 63)) - 1
    name = shorten(ref.name, f"_{column['name']}_seq")
    low, high = (1, most) if step > 0 else (-most - 1, -1)
    return {
        "schema": "", "name": name, "written": "\0", "column": column["name"],
        "identity": column["type"] in _WHOLE and column["not_null"],
        "persistence": "p", "type": column["type"] if column["type"] in _BITS else "bigint",
        "start": first, "increment": step, "min": min(first, low), "max": max(first, high),
        "cache": 1, "cycle": False, "readable": True, "comment": None, "value": None, "grants": [],
    }  # fmt: skip


def _obstacle(connection: Connection, columns: Sequence[tuple[str, str]], key: KeyModel) -> str:
    """Return why the server cannot create a key; empty if it can."""
    if can_be_key(key.columns, dict(columns)):
        return ""
    listed = ", ".join(f"{ident(name)} {type_}" for name, type_ in columns)
    unique = f"UNIQUE ({', '.join(map(ident, key.columns))})"
    try:
        with planning("target", f"{NEEDS}"), connection.transaction(force_rollback=True):
            connection.execute(f"CREATE TEMPORARY TABLE penstock_rehearsed ({listed}, {unique})")
    except PlanningError as error:
        return error.message
    return ""


def _type_text(column: Column) -> str:
    """Return a type with all dimensions of an array, for the benefit of readers of the table."""
    more = column.traits["dimensions"] - 1 if data_type(column).kind == "array" else 0
    return column.type + "[]" * more
