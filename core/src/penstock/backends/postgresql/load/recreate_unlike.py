"""Mode recreate from an unlike source: the target is dropped, and made of columns alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.arrow.types import made_for
from penstock.backends.postgresql.catalog.columns import data_type, read_columns
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load import ddl, existing, indexes
from penstock.backends.postgresql.load.ddl import ident, name, script
from penstock.backends.postgresql.load.links import restore, undo
from penstock.backends.postgresql.load.recreate import (
    NEEDS,
    check_droppable,
    check_place,
    dropped_with,
    told_of_owner,
)
from penstock.backends.shared.arrow import arrow_type
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import Column, TableRef


def made_columns(
    connection: Connection, ref: TableRef, columns: Sequence[Column], types: Mapping[str, str]
) -> tuple[Column, ...]:
    """The columns of a table made for others: it is made, looked at, and rolled back.

    Parameters:
        columns: with the trait `arrow`.
        types: what somebody wants columns to be, by name.

    Raises:
        PlanningError: it cannot be made, or the server does not know a type.
    """
    check_place(connection, ref)
    rehearsed = TableRef(ref.schema, ddl.beside("rehearsal", ref.name))
    for column, wanted in types.items():
        _check_type(connection, column, wanted)
    definitions = [
        _definition(c.name, types.get(c.name) or made_for(arrow_type(c)), nullable=c.nullable)
        for c in columns
    ]
    with planning("target", f"{NEEDS}: {ref}"), connection.transaction(force_rollback=True):
        if not existing.check_creatable(connection, ref.schema, NEEDS):
            connection.execute(f"CREATE SCHEMA {ident(ref.schema)}".encode())
        connection.execute(_create(rehearsed, definitions, unlogged=True).encode())
        return read_columns(connection, rehearsed, "target")


def plan_made(connection: Connection, request: LoadRequest) -> LoadPlan:
    """
    Raises:
        PlanningError: something depends on the target's table, or a privilege is missing.
    """
    ref = request.target
    old, linked = check_droppable(connection, ref, request.siblings.remade)
    with planning("target", f"{NEEDS}: {ref}"):
        warnings = told_of_owner(connection, old)
        lost = dropped_with(connection, old)
        missing = not existing.check_creatable(connection, ref.schema, NEEDS)
    definitions = [_definition(c.name, _written(c), nullable=c.nullable) for c in request.made]
    assert request.definition is not None
    left = [replace(item, table=str(ref)) for item in request.definition.besides]
    steps = [
        *undo(linked),
        Step("drop", f"drop {ref}", script([f"DROP TABLE IF EXISTS {name(ref)}"])),
    ]
    if missing:
        create = f"CREATE SCHEMA IF NOT EXISTS {ident(ref.schema)}"
        steps.append(Step("schema", f"create schema {ref.schema}", script([create])))
    made = _create(ref, definitions, unlogged=request.unlogged)
    steps.append(Step("create", f"create {ref}", script([made])))
    if request.unlogged:
        steps.append(indexes.set_logged(ref, 0))
    return LoadPlan(
        ref,
        tuple(steps),
        volatile=request.unlogged,
        warnings=tuple(warnings),
        not_copied=(*left, *lost),
        links=tuple(restore(linked)),
    )


def _check_type(connection: Connection, column: str, wanted: str) -> None:
    with planning("target", f"--types {column}={wanted}"):
        found = connection.execute("SELECT pg_catalog.to_regtype(%s)", [wanted]).fetchone()
    if found is None or found[0] is None:
        raise PlanningError(f"--types {column}={wanted}: expected a type that the target knows")


def _create(ref: TableRef, definitions: Sequence[str], *, unlogged: bool) -> str:
    kind = "UNLOGGED TABLE" if unlogged else "TABLE"
    return f"CREATE {kind} {name(ref)} ({', '.join(definitions)})"


def _definition(column: str, type_: str, *, nullable: bool) -> str:
    return f"{ident(column)} {type_}{'' if nullable else ' NOT NULL'}"


def _written(column: Column) -> str:
    """With all dimensions of an array: they are what a reader of the table goes by."""
    more = column.traits["dimensions"] - 1 if data_type(column).kind == "array" else 0
    return column.type + "[]" * more
