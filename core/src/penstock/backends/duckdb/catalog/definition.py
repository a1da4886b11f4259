"""How a table is created: definitions from a database, and types that the user wrote."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from penstock.backends.duckdb.catalog.table_model import model_of
from penstock.backends.duckdb.catalog.tables import constraints, index_definitions
from penstock.backends.duckdb.connection import instance
from penstock.backends.duckdb.errors import first_lines
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.sql.catalog.relations import matching_tables
from penstock.backends.sql.definitions.definition import KEYS, KINDS, definition_of
from penstock.errors import PlanningError
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, NotCopied, TableRef

DIALECT = "duckdb"


def read_definition(
    session: DuckSession, table: TableRef, columns: Sequence[Column]
) -> TableDefinition:
    """Return the definition of a table.

    Args:
        session: a session with the database.
        table: the table.
        columns: the table's columns, with the trait `TYPE`.
    """
    omitted = [
        NotCopied(KINDS[constraint.kind], constraint.text)
        for constraint in constraints(session, table)
        if constraint.kind not in (*KEYS, "NOT NULL")
    ]
    omitted += [NotCopied("indexes", *index) for index in index_definitions(session, table)]
    omitted += [NotCopied("defaults", column.name) for column in columns if column.has_default]
    return definition_of(DIALECT, model_of(session, table, columns), omitted)


def read_other_objects(
    session: DuckSession, include: Sequence[str], exclude: Sequence[str]
) -> tuple[NotCopied, ...]:
    """Return views and sequences that match patterns.

    Args:
        session: a session with the database.
        include: patterns of which a name must match at least one.
        exclude: patterns of which a name must match none.
    """
    rows = session.connection.execute(
        "SELECT 'sequences', schema_name, sequence_name, sql FROM duckdb_sequences()"
        " WHERE database_name = $1 UNION ALL"
        " SELECT 'views', schema_name, view_name, sql FROM duckdb_views()"
        " WHERE database_name = $1 AND NOT internal ORDER BY 1, 2, 3",
        [session.catalog],
    ).fetchall()
    matches = matching_tables(
        [TableRef(schema, name) for _, schema, name, _ in rows], include, exclude
    )
    return tuple(
        NotCopied(kind, f"{schema}.{name}", sql or "")
        for kind, schema, name, sql in rows
        if TableRef(schema, name) in matches
    )


def read_type(text: str, name: str) -> str:
    """Return a user's type in DuckDB's spelling.

    Raises:
        PlanningError: the text is not a type.
    """
    with instance() as scratch:
        try:
            types = scratch.sql(f"SELECT CAST(NULL AS\n{text}\n)").types
        except duckdb.Error as error:
            raise PlanningError(
                f"--types: column {name}: expected a DuckDB type, found {text!r}: "
                f"{first_lines(str(error))}"
            ) from error
    if len(types) != 1:
        raise PlanningError(f"--types: column {name}: expected one type, found {text!r}")
    return str(types[0])
