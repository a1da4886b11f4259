"""The locks of a snapshot, which prevent rewrites of the tables it reads, without deadlocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.session.statements import name, quoted, relation, statement
from penstock.backends.postgresql.session.waiting import (
    OtherSession,
    rewriters,
    session_list,
)
from penstock.backends.shared.bisection import halved, is_no_interruption
from penstock.errors import Blocked, Diagnosis, PenstockError, PlanningError
from penstock.model.tables import Query, Relation, TableRef

if TYPE_CHECKING:
    from penstock.backends.postgresql.session.shared_round_trips import Question

# Seconds to wait for a lock that a session wants while it waits for the run's snapshot.
JOIN_SECONDS = 5.0
# Tables locked per statement.
AT_ONCE = 100
# Relations that are not tables; tables that can be read only in part; and, before PostgreSQL 13,
# child tables readable only through their parent.
UNLOCKABLE = (psycopg.errors.WrongObjectType, psycopg.errors.InsufficientPrivilege)


def has_room(connection: Connection, tables: Sequence[TableRef]) -> bool:
    """Whether the server has room for the locks of all these tables, and as much for others."""
    parameters = {"schemas": [ref.schema for ref in tables], "names": [ref.name for ref in tables]}
    with planning("source", "snapshot"), connection.own_path():
        locks, room = connection.first(statement("lock_room"), parameters)
    return bool(locks <= room // 2)


def too_many_locks(count: int, error: psycopg.errors.OutOfMemory) -> PlanningError:
    """Return the error for a server that has no room left for the locks of tables read together.

    Args:
        count: the number of relations to lock, each with the tables that it consists of.
        error: the server's error.
    """
    which = "the table and its partitions" if count == 1 else f"{count:,} tables and partitions"
    return PlanningError(
        f"source: the snapshot locks {which} while they are read, and the server has no room "
        f"left for more locks: {str(error).splitlines()[0]}; raise max_locks_per_transaction on "
        "the source, which requires a restart",
        Diagnosis(side="source", code=error.sqlstate or ""),
    )


def lock_against_rewrites(
    connection: Connection, relations: Sequence[Relation], seconds: float
) -> None:
    """Lock relations as a reader does, until the transaction ends.

    Args:
        connection: a session with an open transaction.
        relations: the relations to lock.
        seconds: the timeout for each statement; 0 for none.

    Raises:
        Blocked: a session waits to rewrite a table, and would wait for the snapshot's holder; or it
            holds the table locked for too long.
    """
    _wait_at_most(connection, seconds)
    tables = [read for read in relations if isinstance(read, TableRef)]
    _lock_tables(connection, tables, seconds)
    for read in relations:
        if isinstance(read, Query):
            lock_query(connection, read, seconds)


def _wait_at_most(connection: Connection, seconds: float) -> None:
    with planning("source", "snapshot"):
        connection.execute(f"SET LOCAL lock_timeout = {round(seconds * 1000)}")


def lock_each(
    connection: Connection, tables: Sequence[TableRef], seconds: float
) -> Mapping[TableRef, PenstockError]:
    """Lock tables as a reader does, and return the errors of those that fail alone.

    Args:
        connection: a session with an open transaction.
        tables: the tables to lock.
        seconds: the timeout for each statement; 0 for none.
    """

    def lock(some: Sequence[TableRef]) -> Mapping[TableRef, bool]:
        _lock_tables(connection, some, seconds)
        return {}

    _wait_at_most(connection, seconds)
    _, errors = halved(
        tables,
        lock,
        PenstockError,
        lambda error: is_no_interruption(error) and not connection.closed,
    )
    return errors


def lock_query(connection: Connection, read: Query, seconds: float) -> None:
    """Lock the tables that a query reads, by reading none of its rows."""
    query = sql.SQL("SELECT FROM {} LIMIT 0").format(relation(read))
    _lock(connection, query, [read], seconds)


def _lock_tables(connection: Connection, tables: Sequence[TableRef], seconds: float) -> None:
    """Lock the tables, except those that cannot be locked."""
    halved(tables, partial(_lock_together, connection, seconds=seconds), UNLOCKABLE)


def _lock_together(
    connection: Connection, tables: Sequence[TableRef], seconds: float
) -> dict[TableRef, bool]:
    names = sql.SQL(", ").join(map(quoted, tables))
    query = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names)
    _lock(connection, query, tables, seconds)
    return {}


def _lock(
    connection: Connection, query: sql.Composable, relations: Sequence[Relation], seconds: float
) -> None:
    subject = f"snapshot of {', '.join(map(str, relations[:3]))}"
    subject += ", ..." if len(relations) > 3 else ""
    try:
        with connection.transaction(), connection.users_path():
            connection.execute(query)
    except (*UNLOCKABLE, psycopg.errors.OutOfMemory):
        raise
    except psycopg.errors.LockNotAvailable as error:
        raise _blocked(connection, relations, seconds) from error
    except psycopg.Error as error:
        with planning("source", subject):
            raise error


def _blocked(connection: Connection, relations: Sequence[Relation], seconds: float) -> Blocked:
    blockers: list[OtherSession] = []
    what = ""
    for read in relations:
        is_table = isinstance(read, TableRef)
        sessions = rewriters(connection, name(read) if isinstance(read, TableRef) else None)
        blockers += [each for each in sessions if each not in blockers]
        what = what or (str(read) if sessions or not is_table or len(relations) == 1 else "")
    return Blocked(
        f"source: {what or 'a table'}: expected a reader's lock within {seconds:g} s, found it "
        f"blocked by {session_list(blockers)}. A session that waits to change a table (ALTER "
        "TABLE, DROP, TRUNCATE, VACUUM FULL) would also wait for this run's snapshot: let it "
        "finish, or cancel it, and try again",
        Diagnosis(side="source", code="55P03"),
    )


def locks_at_once(relations: Sequence[Relation]) -> str:
    """Return statements that lock tables at once or fail; empty if that is not possible."""
    refs = [quoted(read).as_string(None) for read in relations if isinstance(read, TableRef)]
    if not refs or len(refs) < len(relations) or len(refs) > AT_ONCE:
        return ""
    return f"LOCK TABLE {', '.join(refs)} IN ACCESS SHARE MODE NOWAIT"


def join_locks(
    connection: Connection,
    tables: Sequence[Relation],
    seconds: float,
    before: Sequence[Question] = (),
) -> None:
    """Take the snapshot holder's locks in another transaction.

    Args:
        connection: a session with an open transaction.
        tables: the relations to lock.
        seconds: the timeout for each lock that has to be waited for; 0 for none.
        before: other statements of that transaction, sent in the same round trip if possible.

    Raises:
        Blocked: a session waits to rewrite a table. It waits for the snapshot's holder, which waits
            for the workers: to queue behind it would be a deadlock that no server detects.
    """
    if not tables:
        return
    patience = lock_patience(seconds)
    with translated("source"):
        if not _lock_at_once(connection, tables, patience, before):
            for statement in before:
                connection.execute(*statement)
            lock_against_rewrites(connection, tables, JOIN_SECONDS)
            connection.execute(patience)


def lock_patience(seconds: float) -> str:
    """Return a statement that limits how long this transaction waits for a lock."""
    return f"SET LOCAL lock_timeout = {round(seconds * 1000)}"


def _lock_at_once(
    connection: Connection, tables: Sequence[Relation], then: str, before: Sequence[Question]
) -> bool:
    """Lock free tables in one round trip.

    Args:
        connection: a session with an open transaction.
        tables: the relations to lock.
        then: a statement that follows the locks.
        before: statements that precede the locks.

    Returns:
        False if that is not possible, in which case nothing is locked or executed.
    """
    locks = locks_at_once(tables)
    if not locks:
        return False
    try:
        with connection.together():
            connection.execute("SAVEPOINT unlocked")
            for statement in before:
                connection.execute(*statement)
            connection.execute(locks.encode())
            connection.execute("RELEASE unlocked")
            connection.execute(then.encode())
    except psycopg.Error:
        if connection.closed:
            raise
        connection.execute("ROLLBACK TO unlocked; RELEASE unlocked")
        return False
    return True
