"""The statements that create tables, from SHOW CREATE TABLE."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.mysql.session import MySqlSession
from penstock.model.tables import TableRef


def read_statement(session: MySqlSession, table: TableRef) -> str:
    """Return the statement that creates a table.

    Raises:
        PlanningError: the table does not exist.
    """
    statement = session.batched_fact(
        "statements", table, lambda tables: tables, lambda tables: read_statements(session, tables)
    )
    if statement is None:
        ((_, statement, *_),) = session.fetch(_show_create(session, table), str(table))
    return str(statement)


def read_statements(session: MySqlSession, tables: Sequence[TableRef]) -> dict[TableRef, str]:
    """Return the current statements of several tables, read together, one statement each."""
    statements: dict[TableRef, str] = {}
    with session.limited_lock_waits():
        answers = session.fetch_each([_show_create(session, table) for table in tables])
    for table, answer in zip(tables, answers, strict=True):
        for _, statement, *_ in answer or ():
            statements[table] = statement
    return statements


def _show_create(session: MySqlSession, table: TableRef) -> str:
    return f"SHOW CREATE TABLE {session.table(table)}"
