"""A database's tables, as its catalog describes them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.session import Session
from penstock.model.tables import TableRef


def query(columns: str, rows: str, order: str = "") -> TableQuery:
    """Return a query about tables.

    Args:
        columns: the columns to select.
        rows: a DuckDB function that lists facts about tables.
        order: the columns to sort by; empty for any order.
    """
    return TableQuery(
        columns, rows, "schema_name", "table_name", "database_name = {catalog}", order
    )


_DEFINITIONS = query("sql", "duckdb_tables()")
_INDEXES = query("index_name, sql", "duckdb_indexes()", "index_name")
_CONSTRAINTS = query(
    "constraint_type, constraint_text, constraint_column_names",
    "duckdb_constraints()",
    "constraint_index",
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a table."""

    kind: str
    """In DuckDB's spelling: ``PRIMARY KEY``, ``UNIQUE``, ``CHECK``, ``FOREIGN KEY``, ``NOT NULL``
    """
    text: str
    names: tuple[str, ...]
    """The names of its columns."""
    obstacle = ""

    @property
    def primary(self) -> bool:
        return self.kind == "PRIMARY KEY"

    def __str__(self) -> str:
        return self.text


def definition_of(session: Session, table: TableRef) -> str:
    """Return DuckDB's text of the statement that creates the table."""
    ((statement,),) = session.about(_DEFINITIONS, table)
    return str(statement)


def index_definitions(session: Session, table: TableRef) -> list[tuple[str, str]]:
    """Return the names and statements of a table's indexes; statements of constraints are empty."""
    return [(name, statement or "") for name, statement in session.about(_INDEXES, table)]


def constraints(session: Session, table: TableRef) -> tuple[Constraint, ...]:
    """Return a table's constraints, in the order of their definition."""
    rows = session.about(_CONSTRAINTS, table)
    return tuple(Constraint(kind, text, tuple(names)) for kind, text, names in rows)


def unique_keys(session: Session, table: TableRef) -> tuple[Constraint, ...]:
    """Return constraints that identify rows, the primary key first."""
    keys = [c for c in constraints(session, table) if c.kind in ("PRIMARY KEY", "UNIQUE")]
    return tuple(sorted(keys, key=lambda constraint: not constraint.primary))
