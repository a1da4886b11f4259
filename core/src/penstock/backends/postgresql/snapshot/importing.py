"""Import another session's snapshot into a transaction.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import psycopg

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import from_driver, translated
from penstock.backends.postgresql.session.statements import literal, name
from penstock.backends.postgresql.snapshot.locks import lock_patience, locks_at_once
from penstock.errors import SnapshotLost
from penstock.model.tables import Relation, TableRef

# "invalid snapshot identifier", "snapshot does not exist", and, if the exporter disappears in
# between, "object not in prerequisite state".
SNAPSHOT_GONE = {"22023", "42704", "55000"}
# A standby's position in the log. Snapshots of a primary are distinguished by their transactions.
REACHED = (
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery()"
    " THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0') ELSE 0 END"
)
ONE_MOMENT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"


def import_locked(
    connection: Connection, token: str, tables: Sequence[Relation], seconds: float
) -> Mapping[TableRef, int] | None:
    """Import a snapshot and join its locks in one round trip.

    Args:
        connection: a session without an open transaction.
        token: the snapshot's token.
        tables: the relations to lock.
        seconds: the timeout for later locks; 0 for none.

    Returns:
        The tables' object ids; None if it is not possible, in which case no transaction is open.
    """
    locks = locks_at_once(tables)
    if not locks:
        return None
    refs = [read for read in tables if isinstance(read, TableRef)]
    oids = ", ".join(f"{literal(name(ref))}::pg_catalog.regclass::pg_catalog.int8" for ref in refs)
    try:
        cursor = connection.begin(
            ONE_MOMENT,
            f"{_importing(token)}{connection.leaving_path}; {locks}; {lock_patience(seconds)}; "
            f"SELECT ARRAY[{oids}]",
        )
        while cursor.nextset():
            pass
        ((ids,),) = cursor.fetchall()
    except psycopg.Error:
        if connection.closed:
            raise
        connection.execute("ROLLBACK")
        return None
    connection.note_pid()
    return dict(zip(refs, ids, strict=True))


def _importing(token: str) -> str:
    return f"SET TRANSACTION SNAPSHOT {literal(token)}"


def import_snapshot(connection: Connection, token: str) -> None:
    """Begin a transaction that sees what the snapshot sees.

    Raises:
        SnapshotLost: the snapshot's holder is gone.
    """
    try:
        connection.begin(ONE_MOMENT, f"{_importing(token)}{connection.leaving_path}")
    except psycopg.Error as error:
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        ours = from_driver(error, "source")
        if error.sqlstate not in SNAPSHOT_GONE:
            raise ours from error
        raise SnapshotLost(
            f"source: snapshot {token} can no longer be imported: its session has ended"
            + _elsewhere(connection),
            ours.diagnosis,
        ) from error
    with translated("source"):
        connection.note_pid()


def _elsewhere(connection: Connection) -> str:
    """Return what else may be the reason, if the URL leads to several servers."""
    hosts = connection.info.get_parameters().get("host", "")
    if "," not in hosts:
        return ""
    return (
        f", or it exists on another of the hosts {hosts}: this session has reached "
        f"{connection.info.host}"
    )
