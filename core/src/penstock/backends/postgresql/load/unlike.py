"""A table like that of an unlike source: columns and keys, and what means the same of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.arrow.types import made_for, travels_as
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.definition import plain_table
from penstock.backends.postgresql.ddl.steps import LAST
from penstock.backends.postgresql.ddl.text import Json, beside, shortened
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.plain_tables import can_be_key
from penstock.backends.postgresql.load.rehearsal import NEEDS, read_made
from penstock.backends.postgresql.load.target_facts import TargetFacts, check_place
from penstock.backends.postgresql.statements import ident, name
from penstock.backends.shared.arrow import arrow_type, held_kind
from penstock.backends.sql.expressions import UUID
from penstock.backends.sql.parts import made_parts
from penstock.errors import PlanningError
from penstock.model.plans import Step
from penstock.model.tables import (
    IDENTITY,
    Column,
    NotCopied,
    TableDefinition,
    TableKey,
    TableRef,
)


def made_columns(
    facts: TargetFacts, ref: TableRef, columns: Sequence[Column], types: Mapping[str, str]
) -> tuple[Column, ...]:
    """The columns of a table made for others. Where the user names types, which may be anything,
    it is made, looked at, and rolled back.

    Parameters:
        columns: with the trait `arrow`.
        types: the types that the user asks for, by column.

    Raises:
        PlanningError: it cannot be made, or the server does not know a type.
    """
    check_place(facts, ref, NEEDS)
    if not types:
        with planning("target", f"{NEEDS}: {ref}"):
            return facts.rehearsals.written(
                [(c.name, made_for(arrow_type(c)), c.nullable) for c in columns]
            )
    for column, wanted in types.items():
        _check_type(facts.connection, column, wanted)
    with made_for_columns(facts, ref, columns, types) as made:
        return read_made(facts.connection, [made], facts.types)[made]


@contextmanager
def made_for_columns(
    facts: TargetFacts, ref: TableRef, columns: Sequence[Column], types: Mapping[str, str]
) -> Iterator[TableRef]:
    """See `made_columns`: a table that is there until the transaction is rolled back."""
    connection = facts.connection
    rehearsed = TableRef(ref.schema, beside("rehearsal", ref.name))
    definitions = [
        f"{ident(c.name)} {types.get(c.name) or made_for(arrow_type(c))}"
        + ("" if c.nullable else " NOT NULL")
        for c in columns
    ]
    with planning("target", f"{NEEDS}: {ref}"), connection.transaction(force_rollback=True):
        if not facts.creatable(ref.schema, NEEDS):
            connection.execute(f"CREATE SCHEMA {ident(ref.schema)}")
        connection.execute(f"CREATE UNLOGGED TABLE {name(rehearsed)} ({', '.join(definitions)})")
        yield rehearsed


def _check_type(connection: Connection, column: str, wanted: str) -> None:
    with planning("target", f"--types {column}={wanted}"):
        found = connection.value("SELECT pg_catalog.to_regtype(%s)", [wanted])
    if found is None:
        raise PlanningError(f"--types {column}={wanted}: expected a type that the target knows")


def plain_content(
    connection: Connection, request: LoadRequest, definition: TableDefinition
) -> tuple[Mapping[str, Any], list[NotCopied], list[Step]]:
    """The content of a definition, what of the source's stands for all that is made, and steps
    that make more of it.

    Parameters:
        request: its columns are as `made_columns` has found them.
        definition: the source's.
    """
    ref, columns = request.target, request.made
    written = [(c.name, _written(c), None, c.nullable) for c in columns]
    names = {column.name for column in columns}
    made, warnings = [], []
    for key in definition.keys:
        if not names.issuperset(key.names):
            continue
        why = _obstacle(connection, written, key)
        if why:
            warnings.append(f"key ({', '.join(key.names)}) of the source is not made: {why}")
        else:
            made.append(key)
    table = plain_table(ref.name, written, made)
    kinds = {column.name: held_kind(travels_as(column)) for column in columns}
    if connection.info.server_version < 130000:
        # There is no function for a new UUID.
        kinds = {name: kind for name, kind in kinds.items() if kind != UUID}
    parts = made_parts(DIALECT, ref, kinds, definition, at_once=not request.mode.recreates)
    numbers = {part.names[0]: part.meaning for part in definition.parts if part.kind == IDENTITY}
    sequences: list[Json] = []
    for column in table["columns"]:
        name = column["name"]
        if name in parts.numbered:
            column["identity"] = "d"
            sequences.append(_sequence(ref, column, *numbers[name]))
        elif name in parts.columns:
            column["default"] = parts.columns[name].removeprefix("DEFAULT ") or None
    content = {
        "tables": [{**table, "sequences": sequences}],
        "types": [],
        "warnings": warnings,
    }
    # After all that is done to the table's own row in the catalog.
    late = [replace(step, rank=LAST + step.rank) for step in parts.steps]
    return content, [*(key.left for key in made), *parts.left], late


_BITS = {"smallint": 15, "integer": 31}


def _sequence(ref: TableRef, column: Json, first: int, step: int) -> Json:
    """That of an identity column, as if it had been read."""
    most = (1 << _BITS.get(column["type"], 63)) - 1
    name = shortened(ref.name, f"_{column['name']}_seq")
    low, high = (1, most) if step > 0 else (-most - 1, -1)
    return {
        "schema": "", "name": name, "written": "\0", "column": column["name"], "identity": True,
        "persistence": "p", "type": column["type"] if column["type"] in _BITS else "bigint",
        "start": first, "increment": step, "min": min(first, low), "max": max(first, high),
        "cache": 1, "cycle": False, "readable": True, "comment": None, "value": None,
    }  # fmt: skip


def _obstacle(
    connection: Connection, columns: Sequence[tuple[str, str, int | None, bool]], key: TableKey
) -> str:
    """Why the server does not make a key; empty where it does."""
    if can_be_key(key.names, {name: type_ for name, type_, *_ in columns}):
        return ""
    listed = ", ".join(f"{ident(name)} {type_}" for name, type_, *_ in columns)
    unique = f"UNIQUE ({', '.join(map(ident, key.names))})"
    try:
        with planning("target", f"{NEEDS}"), connection.transaction(force_rollback=True):
            connection.execute(f"CREATE TEMPORARY TABLE penstock_rehearsed ({listed}, {unique})")
    except PlanningError as error:
        return error.message
    return ""


def _written(column: Column) -> str:
    """With all dimensions of an array: they are what a reader of the table goes by."""
    more = column.traits["dimensions"] - 1 if data_type(column).kind == "array" else 0
    return column.type + "[]" * more
