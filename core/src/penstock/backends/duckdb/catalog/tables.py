"""What the catalog of a database knows of its tables."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.sql.session import Session
from penstock.model.tables import TableRef

OF_TABLE = "WHERE database_name = $1 AND schema_name = $2 AND table_name = $3"
"""For `Session.facts`."""


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


def definition_of(session: Session, table: TableRef) -> str:
    """The statement that makes the table, as DuckDB writes it."""
    ((statement,),) = session.facts(f"SELECT sql FROM duckdb_tables() {OF_TABLE}", table)
    return str(statement)


def index_definitions(session: Session, table: TableRef) -> list[tuple[str, str]]:
    """Names of its indexes, and the statements that make them; empty for those of constraints."""
    rows = session.facts(
        f"SELECT index_name, sql FROM duckdb_indexes() {OF_TABLE} ORDER BY index_name", table
    )
    return [(name, statement or "") for name, statement in rows]


def constraints(session: Session, table: TableRef) -> tuple[Constraint, ...]:
    rows = session.facts(
        "SELECT constraint_type, constraint_text, constraint_column_names "
        f"FROM duckdb_constraints() {OF_TABLE} ORDER BY constraint_index",
        table,
    )
    return tuple(Constraint(kind, text, tuple(names)) for kind, text, names in rows)


def unique_keys(session: Session, table: TableRef) -> tuple[Constraint, ...]:
    """Constraints that tell rows apart, the primary key first."""
    found = [c for c in constraints(session, table) if c.kind in ("PRIMARY KEY", "UNIQUE")]
    return tuple(sorted(found, key=lambda constraint: not constraint.primary))
