"""Rehearsals on temporary tables, which show a plan what the server rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pymysql

from penstock.backends.mysql.errors import planning
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definitions.definition import TableExtras, listed_columns
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

NEW_TABLE = "the new table"
PRIMARY = "PRIMARY KEY"


def refused_clauses(
    session: MySqlSession, columns: Sequence[Column], clauses: Sequence[str], options: str = ""
) -> Mapping[str, str]:
    """Return keys and checks that such a table cannot have, with the server's messages.

    Args:
        session: a session on the target.
        columns: the columns of the table.
        clauses: the keys and checks, as in CREATE TABLE.
        options: the table options.
    """
    if not clauses:
        return {}
    with suppress(PlanningError):
        # Nearly always the server accepts all of them.
        _make(session, columns, clauses, options)
        return {}
    plain = without_numbers(columns)
    reasons = {}
    own = own_key(session, ())
    with temporary_table(session, _body(session, plain, own), options) as name:
        for clause in clauses:
            replaced = "DROP PRIMARY KEY, " if own and clause.startswith(PRIMARY) else ""
            try:
                session.connection.change(f"ALTER TABLE {name} {replaced}ADD {clause}")
            except pymysql.DatabaseError as error:
                reasons[clause] = str(error.args[-1])
    return reasons


def check_creatable(
    session: MySqlSession, table: TableRef, columns: Sequence[Column], extras: TableExtras
) -> None:
    """Check that the server can create a table.

    Args:
        session: a session on the target.
        table: the table to create, for error messages.
        columns: its columns.
        extras: its keys, options, and what follows the types of its columns.

    Raises:
        PlanningError: the server would reject it.
    """
    # Some servers require unique names for constraints.
    keys = [each for each in extras.constraints if not each.startswith("CONSTRAINT ")]
    _make(session, columns, keys, extras.options, f"{table}", extras.columns, as_is=True)


def refused_columns(
    session: MySqlSession,
    columns: Sequence[Column],
    more: Mapping[str, str],
    keys: Sequence[str],
    options: str,
) -> Mapping[str, str]:
    """Return columns that cannot have their clauses, with the server's messages.

    Args:
        session: a session on the target.
        columns: the columns of the table.
        more: the clauses that follow the types of some columns.
        keys: the table's keys.
        options: the table options.
    """
    if not more:
        return {}
    with suppress(PlanningError):
        _make(session, columns, keys, options, more=more)
        return {}
    reasons = {}
    for column in columns:
        if text := more.get(column.name):
            key = f"KEY ({session.dialect.ident(column.name)})"
            # It is computed from other columns.
            listed = columns if column.generated else [column]
            try:
                _make(session, listed, [key] * (AUTOMATIC in text), "", more={column.name: text})
            except PlanningError as error:
                reasons[column.name] = error.message
    return reasons


AUTOMATIC = "AUTO_INCREMENT"


def without_numbers(columns: Sequence[Column]) -> list[Column]:
    """Return the columns for a table without keys.

    An AUTO_INCREMENT column would have to be a key.
    """
    return [replace(each, type=each.type.replace(f" {AUTOMATIC}", "")) for each in columns]


def own_key(session: MySqlSession, clauses: Sequence[str]) -> list[str]:
    """Return the key of a table without one, if the server requires one."""
    if any(each.startswith(PRIMARY) for each in clauses):
        return []
    with planning("target", "settings"):
        own = session.connection.own_key(counted=False)
    return [own] if own else []


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
    subject: str = NEW_TABLE,
    more: Mapping[str, str] | None = None,
    *,
    as_is: bool = False,
) -> None:
    """Try a table; each distinct definition is tried once, within `describing`.

    Without a key it gets one of its own where the server requires one, except `as_is`.
    """
    own = own_key(session, clauses)
    accepted = _accepted_clauses(session, columns, options, more, own)
    if as_is and own:
        own, accepted = [], set()
    if "" in accepted and accepted.issuperset(clauses):
        return  # a table with more clauses was created
    body = _body(session, columns, [*own, *clauses], more)
    with temporary_table(session, body, options, subject):
        accepted.update(("", *clauses))


def _accepted_clauses(
    session: MySqlSession,
    columns: Sequence[Column],
    options: str,
    more: Mapping[str, str] | None = None,
    own: Sequence[str] = (),
) -> set[str]:
    """Return the accepted clauses, and the empty text if a table was created."""
    return session.cached(("rehearsed", _body(session, columns, own, more), options), set)


def rehearse_all(
    session: MySqlSession, tables: Sequence[tuple[Sequence[Column], Sequence[str], str]]
) -> None:
    """Create some tables within `describing`, and keep which of them the server accepts.

    Args:
        session: a session on the target.
        tables: the columns, clauses and options of each.
    """
    statements = []
    for number, (columns, clauses, options) in enumerate(tables):
        name = session.table(TableRef(session.search_path()[0], f"penstock_rehearsed_{number}"))
        body = _body(session, columns, clauses)
        statements.append(f"CREATE TEMPORARY TABLE {name} ({body}) {options}")
        statements.append(f"DROP TEMPORARY TABLE IF EXISTS {name}")
    answers = session.fetch_each(statements)[::2] if len(tables) > 1 else []
    for (columns, clauses, options), answer in zip(tables, answers, strict=False):
        if answer is not None:
            _accepted_clauses(session, columns, options).update(("", *clauses))


@contextmanager
def temporary_table(
    session: MySqlSession, body: str, options: str = "", subject: str = NEW_TABLE
) -> Iterator[str]:
    """Create a temporary table, as an item of FROM.

    Args:
        session: a session on the target, with a current database.
        body: the columns and keys, as in CREATE TABLE.
        options: the table options.
        subject: the table, for error messages.

    Raises:
        PlanningError: the server rejects it.
    """
    name = session.table(TableRef(session.search_path()[0], "penstock_rehearsed"))
    with planning("target", subject):
        session.connection.change(f"CREATE TEMPORARY TABLE {name} ({body}) {options}")
    try:
        yield name
    finally:
        with planning("target", subject):
            session.connection.change(f"DROP TEMPORARY TABLE {name}")
