"""Named locks, which a session holds until it ends for any reason.

https://dev.mysql.com/doc/refman/8.4/en/locking-functions.html
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.backends.mysql.connection import Connection
from penstock.errors import Diagnosis, StallError
from penstock.spec.worker_spec import Patience

_LOOK_SECONDS = 1.0
# Per statement.
MOST_NAMES = 500


def try_lock(connection: Connection, name: str, seconds: float = 0) -> bool:
    """Try to take a lock; return whether it was free.

    Args:
        connection: the session that holds the lock until it ends.
        name: the lock's name, at most 64 characters.
        seconds: how long to wait for another session; 0 to not wait.
    """
    ((outcome,),) = connection.rows("SELECT get_lock(%s, %s)", [name, seconds])
    return bool(outcome == 1)


def release(connection: Connection, name: str) -> None:
    """Release a lock."""
    connection.rows("SELECT release_lock(%s)", [name])


def try_all(connection: Connection, names: Sequence[str]) -> set[str]:
    """Try to take locks without waiting; return those that were free."""
    return {name for name, outcome in _each(connection, "get_lock({}, 0)", names) if outcome == 1}


def release_all(connection: Connection, names: Sequence[str]) -> None:
    """Release locks; it is no error if the session does not hold one."""
    for _ in _each(connection, "release_lock({})", names):
        pass


def lock_holders(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """Return, for each lock in use, the number of the session that holds it."""
    holders = _each(connection, "is_used_lock({})", names)
    return {name: int(number) for name, number in holders if number is not None}


def _each(
    connection: Connection, call: str, names: Sequence[str]
) -> Iterator[tuple[str, int | None]]:
    for start in range(0, len(names), MOST_NAMES):
        batch = names[start : start + MOST_NAMES]
        calls = ", ".join([call.format("%s")] * len(batch))
        (answers,) = connection.rows(f"SELECT {calls}", batch)
        yield from zip(batch, answers, strict=True)


def holder(connection: Connection, name: str) -> int | None:
    """Return the number of the session that holds a lock."""
    ((number,),) = connection.rows("SELECT is_used_lock(%s)", [name])
    return None if number is None else int(number)


def idle_seconds(connection: Connection, number: int) -> int:
    """Return how long a session has been idle; 0 if it is working or gone."""
    rows = connection.rows(
        "SELECT time FROM information_schema.processlist WHERE id = %s AND command = 'Sleep'",
        [number],
    )
    return int(rows[0][0]) if rows else 0


@contextmanager
def locked(connection: Connection, name: str, patience: Patience, what: str) -> Iterator[None]:
    """Hold a lock that only sessions of the same run take.

    A holder that is idle for the grace time belongs to a process that was stopped or cut off: its
    session is ended.

    Args:
        connection: the session that holds the lock.
        name: the lock's name.
        patience: how long to wait: until a holder counts as stopped, and until the wait is a stall.
        what: what the lock protects, for the error message.

    Raises:
        StallError: the lock is held for longer than the stall timeout.
    """
    started = time.monotonic()
    while not try_lock(connection, name, _LOOK_SECONDS):
        number = holder(connection, name)
        if number is not None and idle_seconds(connection, number) >= patience.grace:
            connection.end_session(number)
        waited = time.monotonic() - started
        if patience.stall_timeout and waited > patience.stall_timeout:
            raise StallError(
                f"target: {what}: expected a lock within {patience.stall_timeout:g} s, found it "
                f"held by session {number}; end that session, or wait for it, and resume",
                Diagnosis(side="target"),
            )
    try:
        yield
    finally:
        release(connection, name)
