"""Taking back what is committed of some partitions, so that they are copied again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from penstock.backends.postgresql.catalog.sequences import ADVANCE
from penstock.backends.postgresql.compare.checksums import OLDEST
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.load.indexes import SET_LOGGED
from penstock.backends.postgresql.load.swap import SWAP
from penstock.backends.postgresql.statements import quoted, rows_of, statement
from penstock.errors import Diagnosis, PermanentError, UsageError
from penstock.model.tables import TableRef


def forget(
    connection: Connection,
    schema: str,
    run_id: str,
    partition_ids: Sequence[str],
    request: str,
    *,
    rows_of: TableRef | None,
    patience: float,
) -> frozenset[str]:
    """See `ControlStore.forget`; in a transaction of the caller's.

    Parameters:
        partition_ids: in one order for all who call this.
    """
    control = {
        name: sql.Identifier(schema, name) for name in ("run", "commit_record", "step_record")
    }
    _wait_for_attempts(connection, run_id, partition_ids, patience)
    # As an attempt does it: nobody starts the run over meanwhile.
    connection.execute(
        sql.SQL("SELECT FROM {run} WHERE run_id = %s FOR KEY SHARE").format(**control), [run_id]
    )
    rows = connection.execute(
        statement("request_recopy").format(schema=sql.Identifier(schema)),
        {"run_id": run_id, "partition_ids": list(partition_ids), "request": request},
    ).fetchall()
    # Steps after the last partition hold a lock on these until they are done.
    records = connection.execute(
        sql.SQL(
            "SELECT partition_id, rows, transaction FROM {commit_record}"
            " WHERE run_id = %s AND partition_id = ANY (%s) ORDER BY partition_id FOR UPDATE"
        ).format(**control),
        [run_id, [partition_id for (partition_id,) in rows]],
    ).fetchall()
    if not records:
        return frozenset()
    check_in_place(connection, control["step_record"], run_id)
    if rows_of is not None:
        _delete_rows(connection, rows_of, {record[0]: record[1:] for record in records})
    forgotten = [record[0] for record in records]
    connection.execute(
        sql.SQL("DELETE FROM {commit_record} WHERE run_id = %s AND partition_id = ANY (%s)").format(
            **control
        ),
        [run_id, forgotten],
    )
    # Rows that are read later may have newer values.
    connection.execute(
        sql.SQL(
            "DELETE FROM {step_record} WHERE run_id = %s AND pg_catalog.starts_with(step_id, %s)"
        ).format(**control),
        [run_id, ADVANCE],
    )
    connection.execute(
        sql.SQL("UPDATE {run} SET status = 'running', finished_at = NULL WHERE run_id = %s").format(
            **control
        ),
        [run_id],
    )
    return frozenset(forgotten)


def check_in_place(connection: Connection, step_record: sql.Identifier, run_id: str) -> None:
    """
    Raises:
        UsageError: the table was renamed, or written anew, since the partitions were loaded.
    """
    found = connection.execute(
        sql.SQL(
            "SELECT step_id FROM {} WHERE run_id = %s"
            " AND (step_id = %s OR pg_catalog.starts_with(step_id, %s)) LIMIT 1"
        ).format(step_record),
        [run_id, SWAP, SET_LOGGED],
    ).fetchone()
    if found is None:
        return
    what = "has taken the old one's place" if found[0] == SWAP else "was set logged"
    raise UsageError(
        f"run {run_id}: its table {what} since, so single partitions cannot be copied into it "
        "again; expected a run whose last steps are not done; start a new run"
    )


def _wait_for_attempts(
    connection: Connection, run_id: str, partition_ids: Sequence[str], patience: float
) -> None:
    connection.execute(f"SET LOCAL lock_timeout = {round(patience * 1000)}")
    for partition_id in partition_ids:
        connection.execute(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%s, 0))",
            [f"penstock:{run_id}:{partition_id}"],
        )
    connection.execute("SET LOCAL lock_timeout = 0")


def _delete_rows(
    connection: Connection, table: TableRef, records: Mapping[str, tuple[int, int]]
) -> None:
    """
    Parameters:
        records: rows and transaction of each partition.

    Raises:
        PermanentError: the table does not hold exactly those rows.
    """
    name = quoted(table).as_string(connection)
    found = connection.execute(statement("keeps_xmin"), {"table": name}).fetchone()
    assert found is not None
    kept, newest = found
    if not kept or any(newest - number >= OLDEST for _, number in records.values()):
        raise PermanentError(
            f"target: {table} does not tell which rows a partition has loaded, so they cannot be "
            "taken back; expected a plain table, loaded not too long ago; start a new run",
            Diagnosis(side="target"),
        )
    by_loader = {str(number % (1 << 32)): name for name, (_, number) in records.items()}
    delete = statement("delete_loaded").format(
        table=rows_of(table), transactions=sql.Literal("{" + ",".join(by_loader) + "}")
    )
    deleted = {by_loader[loader]: count for loader, count in connection.execute(delete).fetchall()}
    wrong = [
        f"{partition_id}: expected {rows:,} rows, found {deleted.get(partition_id, 0):,}"
        for partition_id, (rows, _) in records.items()
        if deleted.get(partition_id, 0) != rows
    ]
    if wrong:
        raise PermanentError(
            f"target: rows of {table} were changed since they were loaded, so the partitions "
            "cannot be copied again (nothing was changed); put them right by hand, or start a new "
            "run:\n  " + "\n  ".join(wrong),
            Diagnosis(side="target"),
        )
