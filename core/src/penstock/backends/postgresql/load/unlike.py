"""Mode recreate from an unlike source: only the columns are recreated."""

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
from penstock.model.tables import Column, TableRef


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


def plain_content(ref: TableRef, columns: Sequence[Column]) -> Mapping[str, Any]:
    """The content of a definition.

    Parameters:
        columns: as `made_columns` has found them.
    """
    written = [(c.name, _written(c), None, c.nullable) for c in columns]
    return {"tables": [plain_table(ref.name, written)], "types": [], "warnings": []}


def _written(column: Column) -> str:
    """With all dimensions of an array: they are what a reader of the table goes by."""
    more = column.traits["dimensions"] - 1 if data_type(column).kind == "array" else 0
    return column.type + "[]" * more
