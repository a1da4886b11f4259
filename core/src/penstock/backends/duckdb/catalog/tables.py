"""What the catalog of a database knows of its tables."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.sql.relations import no_such
from penstock.model.tables import Column, TableRef

TYPE = "duckdb"
"""The trait of a column that holds its `DuckDBPyType`."""
OF_TABLE = "WHERE database_name = $1 AND schema_name = $2 AND table_name = $3"
"""For `DuckSession.facts`."""


@dataclass(frozen=True, slots=True)
class Constraint:
    kind: str
    """As DuckDB writes it: ``PRIMARY KEY``, ``UNIQUE``, ``CHECK``, ``FOREIGN KEY``, ``NOT NULL``"""
    text: str
    names: tuple[str, ...]
    """Of its columns."""
    obstacle = ""

    @property
    def primary(self) -> bool:
        return self.kind == "PRIMARY KEY"

    def __str__(self) -> str:
        return self.text


def relations(connection: DuckDBPyConnection, catalog: str) -> dict[TableRef, bool]:
    """Tables and views that people have made, and of each whether it is a view."""
    with planning("source", "tables"):
        rows = connection.execute(
            "SELECT schema_name, table_name, false FROM duckdb_tables()"
            " WHERE database_name = $1 AND NOT internal UNION ALL"
            " SELECT schema_name, view_name, true FROM duckdb_views()"
            " WHERE database_name = $1 AND NOT internal ORDER BY 1, 2",
            [catalog],
        ).fetchall()
    return {TableRef(schema, name): is_view for schema, name, is_view in rows}


def search_path(session: DuckSession) -> tuple[str, ...]:
    """``main``, where nobody has said otherwise."""
    ((names,),) = session.fetch("SELECT current_schemas(true)", "search path")
    return tuple(name for name in dict.fromkeys(names) if name != "pg_catalog")


def read_columns(session: DuckSession, table: TableRef) -> tuple[Column, ...]:
    """
    Raises:
        PlanningError: no such table or view.
    """
    known = relations(session.connection, session.catalog)
    if table not in known:
        raise no_such(table, known, session.side)
    types = session.describe(f"SELECT * FROM {session.table(table)}", f"table {table}")
    rows = session.facts(
        "SELECT column_name, is_nullable, column_default IS NOT NULL FROM duckdb_columns() "
        f"{OF_TABLE}",
        table,
    )
    facts = {name: (nullable, default) for name, nullable, default in rows}
    created = "" if known[table] else definition_of(session, table)
    computed = generated(created) if " GENERATED ALWAYS AS" in created else frozenset()
    return tuple(
        Column(
            name,
            str(type_),
            nullable=known[table] or facts[name][0],
            generated=name in computed,
            has_default=facts[name][1] if name in facts else False,
            traits={TYPE: type_},
        )
        for name, type_ in types
    )


def definition_of(session: DuckSession, table: TableRef) -> str:
    """The statement that makes the table, as DuckDB writes it."""
    ((statement,),) = session.facts(f"SELECT sql FROM duckdb_tables() {OF_TABLE}", table)
    return str(statement)


def index_definitions(session: DuckSession, table: TableRef) -> list[tuple[str, str]]:
    """Names of its indexes, and the statements that make them; empty for those of constraints."""
    rows = session.facts(
        f"SELECT index_name, sql FROM duckdb_indexes() {OF_TABLE} ORDER BY index_name", table
    )
    return [(name, statement or "") for name, statement in rows]


def generated(created: str) -> frozenset[str]:
    """Names of the columns that a table computes: made anew in memory, they take no value."""
    names = set()
    body = created[created.index("(") :].rstrip(";")
    with duckdb.connect() as scratch:
        scratch.execute(f"CREATE TABLE t {body}")
        for (name,) in scratch.execute("SELECT column_name FROM duckdb_columns()").fetchall():
            try:
                scratch.execute(f"EXPLAIN INSERT INTO t ({ident(name)}) VALUES (NULL)").fetchall()
            except duckdb.Error as error:
                if "generated column" in str(error).lower():
                    names.add(name)
    return frozenset(names)


def constraints(session: DuckSession, table: TableRef) -> tuple[Constraint, ...]:
    rows = session.facts(
        "SELECT constraint_type, constraint_text, constraint_column_names "
        f"FROM duckdb_constraints() {OF_TABLE} ORDER BY constraint_index",
        table,
    )
    return tuple(Constraint(kind, text, tuple(names)) for kind, text, names in rows)


def unique_keys(session: DuckSession, table: TableRef) -> tuple[Constraint, ...]:
    """Constraints that tell rows apart, the primary key first."""
    found = [c for c in constraints(session, table) if c.kind in ("PRIMARY KEY", "UNIQUE")]
    return tuple(sorted(found, key=lambda constraint: not constraint.primary))
