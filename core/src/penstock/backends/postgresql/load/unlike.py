"""Mode recreate from an unlike source: the columns are recreated, and the keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.backends.postgresql.arrow.types import made_for
from penstock.backends.postgresql.catalog.columns import data_type, read_columns
from penstock.backends.postgresql.catalog.privileges import check_creatable
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.definition import plain_table
from penstock.backends.postgresql.ddl.text import beside
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.rehearsal import NEEDS, check_place
from penstock.backends.postgresql.statements import ident, name
from penstock.backends.shared.arrow import arrow_type
from penstock.errors import PlanningError
from penstock.model.tables import Column, NotCopied, TableKey, TableRef


def made_columns(
    connection: Connection, ref: TableRef, columns: Sequence[Column], types: Mapping[str, str]
) -> tuple[Column, ...]:
    """The columns of a table made for others: it is made, looked at, and rolled back.

    Parameters:
        columns: with the trait `arrow`.
        types: the types that the user asks for, by column.

    Raises:
        PlanningError: it cannot be made, or the server does not know a type.
    """
    check_place(connection, ref)
    rehearsed = TableRef(ref.schema, beside("rehearsal", ref.name))
    for column, wanted in types.items():
        _check_type(connection, column, wanted)
    definitions = [
        f"{ident(c.name)} {types.get(c.name) or made_for(arrow_type(c))}"
        + ("" if c.nullable else " NOT NULL")
        for c in columns
    ]
    with planning("target", f"{NEEDS}: {ref}"), connection.transaction(force_rollback=True):
        if not check_creatable(connection, ref.schema, NEEDS):
            connection.execute(f"CREATE SCHEMA {ident(ref.schema)}")
        connection.execute(f"CREATE UNLOGGED TABLE {name(rehearsed)} ({', '.join(definitions)})")
        return read_columns(connection, rehearsed, "target")


def _check_type(connection: Connection, column: str, wanted: str) -> None:
    with planning("target", f"--types {column}={wanted}"):
        found = connection.value("SELECT pg_catalog.to_regtype(%s)", [wanted])
    if found is None:
        raise PlanningError(f"--types {column}={wanted}: expected a type that the target knows")


def plain_content(
    connection: Connection, ref: TableRef, columns: Sequence[Column], keys: Sequence[TableKey]
) -> tuple[Mapping[str, Any], list[NotCopied]]:
    """The content of a definition, and what of the keys stands for those that it has.

    Parameters:
        columns: as `made_columns` has found them.
        keys: the source's.
    """
    written = [(c.name, _written(c), None, c.nullable) for c in columns]
    names = {column.name for column in columns}
    made, warnings = [], []
    for key in keys:
        if not names.issuperset(key.names):
            continue
        why = _obstacle(connection, written, key)
        if why:
            warnings.append(f"key ({', '.join(key.names)}) of the source is not made: {why}")
        else:
            made.append(key)
    table = plain_table(ref.name, written, made)
    content = {"tables": [table], "types": [], "warnings": warnings}
    return content, [key.left for key in made]


def _obstacle(
    connection: Connection, columns: Sequence[tuple[str, str, int | None, bool]], key: TableKey
) -> str:
    """Why the server does not make a key; empty where it does."""
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
