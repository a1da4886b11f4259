"""How a table is made: read from a database, and as statements for another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.catalog.tables import constraints, matching
from penstock.backends.duckdb.errors import first_lines
from penstock.backends.duckdb.quoting import ident
from penstock.errors import PlanningError
from penstock.model.codec import from_json, to_json
from penstock.model.tables import Column, NotCopied, Relation, TableDefinition, TableRef

DIALECT = "duckdb"
_KEYS = ("PRIMARY KEY", "UNIQUE")
_KINDS = {
    "PRIMARY KEY": "primary keys",
    "UNIQUE": "unique constraints",
    "FOREIGN KEY": "foreign keys",
    "CHECK": "check constraints",
}


def read_definition(
    connection: DuckDBPyConnection,
    catalog: str,
    relation: Relation,
    columns: Sequence[Column],
    is_table: Callable[[Relation], bool],
) -> TableDefinition:
    """Columns, and keys where it is a table; types are written out in full."""
    keys: list[tuple[str, list[str]]] = []
    left: list[NotCopied] = []
    if isinstance(relation, TableRef) and is_table(relation):
        for constraint in constraints(connection, catalog, relation):
            if constraint.kind in _KEYS:
                keys.append((constraint.kind, list(constraint.columns)))
            elif constraint.kind != "NOT NULL":
                left.append(NotCopied(_KINDS[constraint.kind], constraint.text))
        indexes = connection.execute(
            "SELECT index_name, sql FROM duckdb_indexes()"
            " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3 ORDER BY 1",
            [catalog, relation.schema, relation.name],
        ).fetchall()
        left += [NotCopied("indexes", name, sql or "") for name, sql in indexes]
        left += [NotCopied("defaults", column.name) for column in columns if column.has_default]
    content = {
        "columns": [[column.name, column.type, column.nullable] for column in columns],
        "keys": keys,
        "left": to_json(left),
    }
    besides = [
        *(NotCopied(_KINDS[kind], f"({', '.join(names)})") for kind, names in keys),
        # Statements that make them are of this dialect.
        *(replace(item, remedy="") for item in left),
    ]
    return TableDefinition(DIALECT, content, tuple(besides))


def keys_of(definition: TableDefinition, columns: Sequence[str]) -> list[str]:
    """Constraints of a table that is made like a source, whose columns are all there."""
    if definition.dialect != DIALECT:
        return []
    return [
        f"{kind} ({', '.join(map(ident, names))})"
        for kind, names in definition.content["keys"]
        if set(names) <= set(columns)
    ]


def left_out(
    definition: TableDefinition, source: Relation, target: TableRef
) -> tuple[NotCopied, ...]:
    """What of the source's table is not made."""
    left = definition.besides
    if definition.dialect == DIALECT:
        left = from_json(tuple[NotCopied, ...], definition.content["left"])
    # A statement that the server wrote is for a table of the same name.
    return tuple(
        replace(item, table=str(target), remedy=item.remedy if source == target else "")
        for item in left
    )


def read_others(
    connection: DuckDBPyConnection, catalog: str, include: Sequence[str], exclude: Sequence[str]
) -> tuple[NotCopied, ...]:
    """Views and sequences by patterns."""
    rows = connection.execute(
        "SELECT 'sequences', schema_name, sequence_name, sql FROM duckdb_sequences()"
        " WHERE database_name = $1 UNION ALL"
        " SELECT 'views', schema_name, view_name, sql FROM duckdb_views()"
        " WHERE database_name = $1 AND NOT internal ORDER BY 1, 2, 3",
        [catalog],
    ).fetchall()
    wanted = matching([TableRef(schema, name) for _, schema, name, _ in rows], include, exclude)
    return tuple(
        NotCopied(kind, f"{schema}.{name}", sql or "")
        for kind, schema, name, sql in rows
        if TableRef(schema, name) in wanted
    )


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
