"""Named locks, which a session or its transaction holds until it ends for any reason.

https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.mssql.connection import Connection
from penstock.backends.mssql.errors import translated
from penstock.errors import Diagnosis, StallError

SESSION, TRANSACTION = "Session", "Transaction"
EXCLUSIVE, SHARED = "Exclusive", "Shared"


def try_lock(
    connection: Connection,
    name: str,
    seconds: float = 0,
    *,
    mode: str = EXCLUSIVE,
    owner: str = TRANSACTION,
) -> bool:
    """Try to take a lock.

    Args:
        connection: the session that takes the lock.
        name: the name of the lock, at most 255 characters.
        seconds: how long to wait for other holders.
        mode: `EXCLUSIVE` or `SHARED`.
        owner: the session or the transaction, which must be open.

    Returns:
        Whether the lock was taken.
    """
    ((result,),) = connection.rows(
        "DECLARE @found int; EXEC @found = sp_getapplock @Resource = ?, @LockMode = ?,"
        " @LockOwner = ?, @LockTimeout = ?; SELECT @found",
        [name, mode, owner, round(seconds * 1000)],
    )
    return int(result) >= 0


def release(connection: Connection, name: str) -> None:
    """Release a lock of the session."""
    connection.change("EXEC sp_releaseapplock @Resource = ?, @LockOwner = 'Session'", [name])


def are_free(connection: Connection, names: Sequence[str]) -> bool:
    """Whether no other session holds one of the locks."""
    tested = ", ".join(["APPLOCK_TEST('public', ?, 'Exclusive', 'Session')"] * len(names))
    (row,) = connection.rows(f"SELECT {tested}", names)
    return all(int(free) == 1 for free in row)


def wait_for(
    connection: Connection, name: str, seconds: float, what: str, *, mode: str = EXCLUSIVE
) -> None:
    """Take a lock for the transaction.

    Args:
        connection: the session that takes the lock.
        name: the name of the lock.
        seconds: the timeout; 0 for none.
        what: the locked object, for the message.
        mode: `EXCLUSIVE` or `SHARED`.

    Raises:
        StallError: the lock is held for longer.
    """
    with translated("target", what):
        locked = try_lock(connection, name, seconds or 1 << 20, mode=mode)
    if not locked:
        raise StallError(
            f"target: {what}: expected a lock within {seconds:g} s, found it held by another "
            "session; wait for it, or end it, and resume",
            Diagnosis(side="target"),
        )
