"""Undo committed partitions, so that they are copied again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import sql

from penstock.backends.api.execution.control import RunRow
from penstock.backends.postgresql.compare.checksums import OLDEST
from penstock.backends.postgresql.connection import FIRE_DEFERRED, Connection
from penstock.backends.postgresql.ddl.steps import SWAP, logged_by
from penstock.backends.postgresql.session.statements import keeps_xmin, rows_of, statement
from penstock.errors import Diagnosis, PermanentError, UsageError
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef


def check_in_place(run: RunRow, steps_done: Collection[str]) -> None:
    """Check that the table still holds the rows where they were loaded.

    Args:
        run: the record of the run.
        steps_done: the ids of its recorded steps.

    Raises:
        UsageError: the table has been renamed or rewritten since the partitions were loaded.
    """
    if SWAP in steps_done:
        what = "replaced the old one"
    elif not set(logged_by(run.plan.load)).isdisjoint(steps_done):
        what = "was set logged"
    else:
        return
    raise UsageError(
        f"run {run.run_id}: its table {what} after the last partition, so single partitions cannot "
        "be copied again; start a new run"
    )


def delete_rows(connection: Connection, table: TableRef, records: Sequence[CommitRecord]) -> None:
    """Delete the rows that some partitions have loaded.

    Args:
        connection: a session in the transaction that takes back the partitions.
        table: the table that the run loaded.
        records: the commit records of the partitions.

    Raises:
        PermanentError: the table does not hold exactly these rows.
    """
    has_xmin, newest = connection.first(keeps_xmin(table))
    loaders = [int(record.transaction) for record in records]
    if not has_xmin or any(newest - number >= OLDEST for number in loaders):
        raise PermanentError(
            f"target: {table} does not record which rows a partition loaded, so they cannot be "
            "deleted; expected an ordinary table that was loaded recently; start a new run",
            Diagnosis(side="target"),
        )
    by_loader = {
        str(number % (1 << 32)): record.partition_id
        for number, record in zip(loaders, records, strict=True)
    }
    delete = statement("delete_loaded").format(
        table=rows_of(table), transactions=sql.Literal("{" + ",".join(by_loader) + "}")
    )
    with connection.users_path():
        rows = connection.execute(delete).fetchall()
        connection.execute(FIRE_DEFERRED)
    deleted = {by_loader[loader]: count for loader, count in rows}
    differences = [
        f"{record.partition_id}: expected {record.rows:,} rows, found "
        f"{deleted.get(record.partition_id, 0):,}"
        for record in records
        if deleted.get(record.partition_id, 0) != record.rows
    ]
    if differences:
        raise PermanentError(
            f"target: rows of {table} have changed since they were loaded, so the partitions "
            "cannot be copied again (nothing was deleted); correct the rows by hand, or start a "
            "new run:\n  " + "\n  ".join(differences),
            Diagnosis(side="target"),
        )
