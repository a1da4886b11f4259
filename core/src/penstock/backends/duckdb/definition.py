"""How a table is made: read from a database, and as statements for another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.errors import first_lines
from penstock.backends.duckdb.quoting import ident
from penstock.backends.duckdb.tables import constraints
from penstock.errors import PlanningError
from penstock.model import Column, Relation, TableDefinition, TableRef

DIALECT = "duckdb"
_KEYS = ("PRIMARY KEY", "UNIQUE")


def read_definition(
    connection: DuckDBPyConnection,
    catalog: str,
    relation: Relation,
    columns: Sequence[Column],
    is_table: Callable[[Relation], bool],
) -> TableDefinition:
    """Columns, and keys where it is a table; types are written out in full."""
    keys: list[list[object]] = []
    left: list[str] = []
    if isinstance(relation, TableRef) and is_table(relation):
        for constraint in constraints(connection, catalog, relation):
            if constraint.kind in _KEYS:
                keys.append([constraint.kind, list(constraint.columns)])
            elif constraint.kind != "NOT NULL":
                left.append(constraint.text)
        indexes = connection.execute(
            "SELECT index_name FROM duckdb_indexes()"
            " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3 ORDER BY 1",
            [catalog, relation.schema, relation.name],
        ).fetchall()
        left += [f"index {name}" for (name,) in indexes]
        left += [f"the default of {column.name}" for column in columns if column.has_default]
    content = {
        "columns": [[column.name, column.type, column.nullable] for column in columns],
        "keys": keys,
        "left": left,
    }
    return TableDefinition(DIALECT, content)


def keys_of(definition: TableDefinition, columns: Sequence[str]) -> list[str]:
    """Constraints of a table that is made like a source, whose columns are all there."""
    if definition.dialect != DIALECT:
        return []
    return [
        f"{kind} ({', '.join(map(ident, names))})"
        for kind, names in definition.content["keys"]
        if set(names) <= set(columns)
    ]


def left_out(definition: TableDefinition) -> list[str]:
    """What of the source's table is not made."""
    return list(definition.content["left"]) if definition.dialect == DIALECT else []


def type_text(column: Column) -> str:
    return column.type + ("" if column.nullable else " NOT NULL")


def read_type(written: str, name: str) -> str:
    """A type that somebody wrote, as DuckDB writes it.

    Raises:
        PlanningError: it is no type.
    """
    with duckdb.connect() as scratch:
        try:
            found = scratch.sql(f"SELECT CAST(NULL AS\n{written}\n)")
            types = found.types
        except duckdb.Error as error:
            raise PlanningError(
                f"--types: {name}: expected a type of DuckDB's, found {written!r}: "
                f"{first_lines(str(error))}"
            ) from error
    if len(types) != 1:
        raise PlanningError(f"--types: {name}: expected one type, found {written!r}")
    return str(types[0])
