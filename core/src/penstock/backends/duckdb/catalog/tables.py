"""What the catalog of a database knows of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import full_name
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.rows import first
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

TYPE = "duckdb"
"""The trait of a column that holds its `DuckDBPyType`."""


@dataclass(frozen=True, slots=True)
class Constraint:
    kind: str
    """As DuckDB writes it: ``PRIMARY KEY``, ``UNIQUE``, ``CHECK``, ``FOREIGN KEY``, ``NOT NULL``"""
    text: str
    columns: tuple[str, ...]


def relations(connection: DuckDBPyConnection, catalog: str) -> dict[TableRef, bool]:
    """Tables and views of people's own, and of each whether it is a view."""
    with planning("source", "tables"):
        rows = connection.execute(
            "SELECT schema_name, table_name, false FROM duckdb_tables()"
            " WHERE database_name = $1 AND NOT internal UNION ALL"
            " SELECT schema_name, view_name, true FROM duckdb_views()"
            " WHERE database_name = $1 AND NOT internal ORDER BY 1, 2",
            [catalog],
        ).fetchall()
    return {TableRef(schema, name): is_view for schema, name, is_view in rows}


def search_path(connection: DuckDBPyConnection) -> tuple[str, ...]:
    """``main``, where nobody has said otherwise."""
    found = first(connection.execute("SELECT current_schemas(true)"))
    return tuple(name for name in dict.fromkeys(found[0] if found else ()) if name != "pg_catalog")


def find_by_name(connection: DuckDBPyConnection, catalog: str, name: str) -> TableRef | None:
    known = relations(connection, catalog)
    refs = (TableRef(schema, name) for schema in search_path(connection))
    return next((ref for ref in refs if ref in known), None)


def matching(
    known: Sequence[TableRef], include: Sequence[str], exclude: Sequence[str]
) -> tuple[TableRef, ...]:
    def is_one(table: TableRef, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(f"{table.schema}.{table.name}", pattern) for pattern in patterns)

    return tuple(t for t in known if is_one(t, include) and not is_one(t, exclude))


def no_such(table: TableRef, known: Sequence[TableRef], side: str) -> PlanningError:
    names = [str(ref) for ref in known]
    near = get_close_matches(str(table), names, 3, 0.6) or [
        str(ref) for ref in known if ref.name == table.name
    ]
    found = f"; near names: {', '.join(near)}" if near else ""
    if not near and names:
        found = f"; there are {', '.join(names[:5])}" + (" and more" if len(names) > 5 else "")
    return PlanningError(f"{side}: expected table {table}, found no such table{found}")


def read_columns(
    connection: DuckDBPyConnection, catalog: str, table: TableRef, side: str
) -> tuple[Column, ...]:
    """
    Raises:
        PlanningError: no such table or view.
    """
    known = relations(connection, catalog)
    if table not in known:
        raise no_such(table, list(known), side)
    with planning(side, f"table {table}"):
        shown = connection.sql(f"SELECT * FROM {full_name(catalog, table)}")
        types = dict(zip(shown.columns, shown.types, strict=True))
        rows = connection.execute(
            "SELECT column_name, is_nullable, column_default IS NOT NULL FROM duckdb_columns()"
            " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3",
            [catalog, table.schema, table.name],
        ).fetchall()
        created = "" if known[table] else definition_of(connection, catalog, table)
    facts = {name: (nullable, default) for name, nullable, default in rows}
    computed = generated(connection, created) if " GENERATED ALWAYS AS" in created else frozenset()
    return tuple(
        Column(
            name,
            str(type_),
            nullable=known[table] or facts[name][0],
            generated=name in computed,
            has_default=facts[name][1] if name in facts else False,
            traits={TYPE: type_},
        )
        for name, type_ in types.items()
    )


def definition_of(connection: DuckDBPyConnection, catalog: str, table: TableRef) -> str:
    """The statement that makes the table, as DuckDB writes it."""
    found = first(
        connection.execute(
            "SELECT sql FROM duckdb_tables()"
            " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3",
            [catalog, table.schema, table.name],
        )
    )
    assert found is not None
    return str(found[0])


def generated(connection: DuckDBPyConnection, created: str) -> frozenset[str]:
    """Names of the columns that a table computes: made anew in memory, they take no value."""
    import duckdb  # noqa: PLC0415

    names = set()
    body = created[created.index("(") :].rstrip(";")
    with duckdb.connect() as scratch:
        scratch.execute(f"CREATE TABLE t {body}")
        for (name,) in scratch.execute("SELECT column_name FROM duckdb_columns()").fetchall():
            quoted = '"' + name.replace('"', '""') + '"'
            try:
                scratch.execute(f"EXPLAIN INSERT INTO t ({quoted}) VALUES (NULL)").fetchall()
            except duckdb.Error as error:
                if "generated column" in str(error).lower():
                    names.add(name)
    return frozenset(names)


def constraints(
    connection: DuckDBPyConnection, catalog: str, table: TableRef
) -> tuple[Constraint, ...]:
    with planning("target", f"table {table}"):
        rows = connection.execute(
            "SELECT constraint_type, constraint_text, constraint_column_names"
            " FROM duckdb_constraints()"
            " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3"
            " ORDER BY constraint_index",
            [catalog, table.schema, table.name],
        ).fetchall()
    return tuple(Constraint(kind, text, tuple(names)) for kind, text, names in rows)


def unique_keys(
    connection: DuckDBPyConnection, catalog: str, table: TableRef
) -> tuple[Constraint, ...]:
    """Constraints that tell rows apart, the primary key first."""
    found = [
        constraint
        for constraint in constraints(connection, catalog, table)
        if constraint.kind in ("PRIMARY KEY", "UNIQUE")
    ]
    return tuple(sorted(found, key=lambda constraint: constraint.kind != "PRIMARY KEY"))
