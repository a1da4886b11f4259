"""What the server would not make, found out on temporary tables before anything is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pymysql

from penstock.backends.mysql.errors import planning
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definition import Besides, listed_columns
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

MADE = "the table that is made"


def refused_clauses(
    session: MySqlSession, columns: Sequence[Column], clauses: Sequence[str], options: str = ""
) -> Mapping[str, str]:
    """Keys and checks that a table of such columns cannot have, and what the server says.

    Parameters:
        options: of the table.
    """
    if not clauses:
        return {}
    with suppress(PlanningError):
        # Nearly always it takes all of them.
        _make(session, _body(session, columns, clauses), options)
        return {}
    # An automatic column would have to be a key already.
    plain = [replace(each, type=each.type.replace(" AUTO_INCREMENT", "")) for each in columns]
    found = {}
    with _made(session, _body(session, plain, ()), options) as name:
        for clause in clauses:
            try:
                session.connection.change(f"ALTER TABLE {name} ADD {clause}")
            except pymysql.DatabaseError as error:
                found[clause] = str(error.args[-1])
    return found


def check_makes(
    session: MySqlSession, table: TableRef, columns: Sequence[Column], besides: Besides
) -> None:
    """
    Raises:
        PlanningError: the server would not make the table.
    """
    # Some servers want the names of constraints for themselves.
    keys = [each for each in besides.constraints if not each.startswith("CONSTRAINT ")]
    _make(session, _body(session, columns, keys), besides.options, f"{table}")


def _body(session: MySqlSession, columns: Sequence[Column], clauses: Sequence[str]) -> str:
    return ", ".join([*listed_columns(session.dialect, columns), *clauses])


def _make(session: MySqlSession, body: str, options: str, subject: str = MADE) -> None:
    """Once for each such table, within `describing`."""

    def make() -> bool:
        with _made(session, body, options, subject):
            return True

    session.once(("rehearsed", body, options), make)


@contextmanager
def _made(session: MySqlSession, body: str, options: str, subject: str = MADE) -> Iterator[str]:
    name = session.table(TableRef(session.search_path()[0], "penstock_rehearsed"))
    with planning("target", subject):
        session.connection.change(f"CREATE TEMPORARY TABLE {name} ({body}) {options}")
    try:
        yield name
    finally:
        session.connection.change(f"DROP TEMPORARY TABLE {name}")
