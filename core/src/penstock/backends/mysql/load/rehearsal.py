"""What the server would not make, found out on temporary tables before anything is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pymysql

from penstock.backends.mysql.errors import planning
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definitions.definition import Besides, listed_columns
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
        _make(session, columns, clauses, options)
        return {}
    plain = without_numbers(columns)
    found = {}
    with made_for_now(session, _body(session, plain, ()), options) as name:
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
    _make(session, columns, keys, besides.options, f"{table}", besides.columns)


def refused_columns(
    session: MySqlSession,
    columns: Sequence[Column],
    more: Mapping[str, str],
    keys: Sequence[str],
    options: str,
) -> Mapping[str, str]:
    """The columns that cannot have what is to follow their types, and what the server says.

    Parameters:
        more: what follows the types of some columns.
        keys: of the table.
    """
    if not more:
        return {}
    with suppress(PlanningError):
        _make(session, columns, keys, options, more=more)
        return {}
    found = {}
    for column in columns:
        if text := more.get(column.name):
            key = f"KEY ({session.dialect.ident(column.name)})"
            # It is computed from others.
            some = columns if column.generated else [column]
            try:
                _make(session, some, [key] * (AUTOMATIC in text), "", more={column.name: text})
            except PlanningError as error:
                found[column.name] = error.message
    return found


AUTOMATIC = "AUTO_INCREMENT"


def without_numbers(columns: Sequence[Column]) -> list[Column]:
    """The columns of a table without keys: an automatic one would have to be a key."""
    return [replace(each, type=each.type.replace(f" {AUTOMATIC}", "")) for each in columns]


def _body(
    session: MySqlSession,
    columns: Sequence[Column],
    clauses: Sequence[str],
    more: Mapping[str, str] | None = None,
) -> str:
    return ", ".join([*listed_columns(session.dialect, columns, more), *clauses])


def _make(
    session: MySqlSession,
    columns: Sequence[Column],
    clauses: Sequence[str],
    options: str,
    subject: str = MADE,
    more: Mapping[str, str] | None = None,
) -> None:
    """Once for each such table, within `describing`."""
    taken = _taken(session, columns, options, more)
    if "" in taken and taken.issuperset(clauses):
        return  # one with more was made
    with made_for_now(session, _body(session, columns, clauses, more), options, subject):
        taken.update(("", *clauses))


def _taken(
    session: MySqlSession,
    columns: Sequence[Column],
    options: str,
    more: Mapping[str, str] | None = None,
) -> set[str]:
    """The clauses that the server takes for a table of such columns, and the empty text, if it has
    made one."""
    return session.kept(("rehearsed", _body(session, columns, (), more), options), set)


def rehearse_all(
    session: MySqlSession, tables: Sequence[tuple[Sequence[Column], Sequence[str], str]]
) -> None:
    """Within `describing`, make some tables, and keep which of them the server takes.

    Parameters:
        tables: columns, clauses and options of each.
    """
    statements = []
    for number, (columns, clauses, options) in enumerate(tables):
        name = session.table(TableRef(session.search_path()[0], f"penstock_rehearsed_{number}"))
        body = _body(session, columns, clauses)
        statements.append(f"CREATE TEMPORARY TABLE {name} ({body}) {options}")
        statements.append(f"DROP TEMPORARY TABLE IF EXISTS {name}")
    made = session.fetch_each(statements)[::2] if len(tables) > 1 else []
    for (columns, clauses, options), answer in zip(tables, made, strict=False):
        if answer is not None:
            _taken(session, columns, options).update(("", *clauses))


@contextmanager
def made_for_now(
    session: MySqlSession, body: str, options: str = "", subject: str = MADE
) -> Iterator[str]:
    """A temporary table, as an item of FROM.

    Raises:
        PlanningError: the server does not make it.
    """
    name = session.table(TableRef(session.search_path()[0], "penstock_rehearsed"))
    with planning("target", subject):
        session.connection.change(f"CREATE TEMPORARY TABLE {name} ({body}) {options}")
    try:
        yield name
    finally:
        with planning("target", subject):
            session.connection.change(f"DROP TEMPORARY TABLE {name}")
