"""Tables and views by their names, and their columns."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from penstock.backends.sql.session import Session
from penstock.errors import PlanningError, replaced_while_planned
from penstock.model.tables import Column, TableRef

TYPE = "sql type"
"""The trait that holds a column's type as described by the driver."""


def read_relations(session: Session) -> dict[TableRef, bool]:
    """Return the database's tables and views, and for each whether it is a view."""
    if session.catalog_facts is None:
        return read_relations_anew(session)
    return session.catalog_facts.once("relations", lambda: read_relations_anew(session))


def read_relations_anew(session: Session) -> dict[TableRef, bool]:
    """Return tables and views without using known facts."""
    rows = session.fetch(session.dialect.relations, "tables", [session.catalog])
    return {TableRef(schema, name): kind == "VIEW" for schema, name, kind in rows}


def read_columns(session: Session, table: TableRef) -> tuple[Column, ...]:
    """Return a table's columns.

    Raises:
        PlanningError: the table or view does not exist.
    """
    relations = read_relations(session)
    if table not in relations:
        raise missing_table_error(table, relations, session.side)
    rows = session.about(session.dialect.column_facts, table)
    facts = {column: traits for column, *traits in rows}
    columns = []
    for place, (column, type_) in enumerate(session.column_types(table), start=1):
        # The catalog describes a view as of its creation.
        nullable, default, computed = facts.get(column, ("YES", None, 0))
        columns.append(
            Column(
                column,
                str(type_),
                nullable=relations[table] or nullable == "YES",
                generated=computed == 1,
                has_default=default is not None,
                traits={TYPE: type_},
                place=place,
                formula=str(default) if computed == 1 and default is not None else "",
            )
        )
    return tuple(columns)


def check_is_table(session: Session, table: TableRef, needs: str) -> None:
    """Check that a relation is a table.

    Args:
        session: the session with the database.
        table: the table.
        needs: the option that needs it, for messages.

    Raises:
        PlanningError: it is a view.
        TableReplaced: it is no longer there, or not at this moment; known facts are dropped.
    """
    relations = read_relations(session)
    if table not in relations:
        if session.catalog_facts is not None:
            session.catalog_facts.forget()
        raise replaced_while_planned(table, session.side)
    if relations[table]:
        raise PlanningError(f"{needs}: expected {table} to be a table, found a view")


def find_relation(session: Session, name: str) -> TableRef | None:
    """Return the first table or view of that name in the search path."""
    relations = read_relations(session)
    refs = (TableRef(schema, name) for schema in session.search_path())
    return next((ref for ref in refs if ref in relations), None)


def matching_tables(
    tables: Sequence[TableRef], include: Sequence[str], exclude: Sequence[str]
) -> tuple[TableRef, ...]:
    """Return tables whose ``schema.name`` matches an included pattern and no excluded one.

    Args:
        tables: the tables to choose from.
        include: patterns of tables to include; empty for all.
        exclude: patterns of tables to leave out.
    """

    def is_one(table: TableRef, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(f"{table.schema}.{table.name}", pattern) for pattern in patterns)

    return tuple(t for t in tables if is_one(t, include) and not is_one(t, exclude))


def missing_table_error(
    table: TableRef, existing: Collection[TableRef], side: str
) -> PlanningError:
    """Return an error that names existing tables, those with similar names first.

    Args:
        table: the table that does not exist.
        existing: the existing tables.
        side: `source` or `target`, for messages.
    """
    names = [str(ref) for ref in existing]
    near = get_close_matches(str(table), names, 3, 0.6) or [
        str(ref) for ref in existing if ref.name == table.name
    ]
    hint = f"; similar names: {', '.join(near)}" if near else ""
    if not near and names:
        hint = f"; there are {', '.join(names[:5])}" + (" and more" if len(names) > 5 else "")
    return PlanningError(f"{side}: expected table {table}, found no such table{hint}")


def replacement_table(run_id: str, table: TableRef, longest_name: int = 128) -> TableRef:
    """Return the name of a table that a run builds in the same schema to replace another.

    Args:
        run_id: the id of the run.
        table: the table to replace.
        longest_name: the maximum length of a name; four characters are left for an ending.
    """
    ending = f"~{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
    return TableRef(table.schema, table.name[: longest_name - len(ending) - 4] + ending)
