"""The runs that are active on a table, according to sessions in the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import statement
from penstock.model.tables import TableRef

LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%(table)s, 0))"


def enter(
    connection: Connection,
    schema: str,
    run_id: str,
    table: TableRef,
    check: Callable[[Sequence[str]], None],
) -> None:
    """Register a run as active on a table; see `Presence.enter`.

    A run is marked as active by an advisory lock of the session, which the server releases when the
    session ends for any reason. Behind a pooler there is no session to hold the lock: this run sees
    others, but they do not see it.

    Args:
        connection: the session that holds the lock.
        schema: the control schema.
        run_id: the run.
        table: the table that the run loads.
        check: called with the other active runs; its exception keeps the run from entering.
    """
    key = {"table": f"penstock:table:{table}", "run_id": run_id}
    if not connection.pooled and _enter_alone(connection, key):
        return
    with connection.transaction():
        connection.execute(LOCK, key)
        other_runs = connection.execute(statement("other_runs"), key).fetchall()
        if other_runs:
            check(_names(connection, schema, dict(other_runs)))
        if not connection.pooled:
            connection.execute(statement("enter"), key)


def _enter_alone(connection: Connection, key: Mapping[str, str]) -> bool:
    """Enter in one round trip if no other run is active on the table; else return False."""
    other_runs = statement("other_runs")
    alone = sql.SQL("{} WHERE NOT EXISTS ({})").format(statement("enter"), other_runs)
    with connection.whole_transaction():
        connection.execute(LOCK, key)
        entered = connection.execute(alone, key)
    return entered.rowcount == 1


def enter_all(connection: Connection, tables: Mapping[str, TableRef]) -> list[str]:
    """Register many runs at once, as `enter` does.

    Returns:
        The runs on whose tables others are active; these are not entered.
    """
    runs = {
        "runs": list(tables),
        "tables": [f"penstock:table:{table}" for table in tables.values()],
    }
    pooled, contested = connection.pooled, statement("contested")
    with connection.whole_transaction():
        # Lock in a fixed order, so that two batches cannot deadlock.
        connection.execute(
            "SELECT pg_catalog.pg_advisory_xact_lock(hash) FROM ("
            "SELECT DISTINCT pg_catalog.hashtextextended(name, 0) AS hash"
            " FROM unnest(%(tables)s::text[]) AS t (name) ORDER BY 1) AS sorted",
            runs,
        )
        # No other run can enter one of the tables while these locks are held.
        contested_runs = connection.execute(contested, runs)
        if not pooled:
            connection.execute(statement("enter_all").format(contested=contested), runs)
    return [run_id for (run_id,) in contested_runs.fetchall()]


def leave_all(connection: Connection, tables: Mapping[str, TableRef]) -> None:
    """Release the locks of runs, as far as this session holds them."""
    if tables and not connection.pooled:
        runs = {
            "runs": list(tables),
            "tables": [f"penstock:table:{table}" for table in tables.values()],
        }
        connection.execute(statement("leave_all"), runs)


def active_runs(connection: Connection, schema: str, table: TableRef) -> list[str]:
    """Return the runs whose sessions are active on a table.

    Args:
        connection: a session on the target.
        schema: the control schema.
        table: the table that the runs load.
    """
    key = {"table": f"penstock:table:{table}", "run_id": ""}
    rows = connection.execute(statement("other_runs"), key).fetchall()
    return _names(connection, schema, dict(rows)) if rows else []


def _names(connection: Connection, schema: str, pids: dict[int, int]) -> list[str]:
    """Return the names of runs.

    Args:
        connection: a session on the target.
        schema: the control schema.
        pids: one session of each run, by the hash of the run id.
    """
    names = dict(
        connection.execute(
            sql.SQL(
                "SELECT pg_catalog.hashtextextended(run_id, 0) & 2147483647 AS hash, run_id"
                " FROM {} WHERE pg_catalog.hashtextextended(run_id, 0) & 2147483647 = ANY (%s)"
            ).format(sql.Identifier(schema, "run")),
            [list(pids)],
        ).fetchall()
    )
    return [
        names.get(hash_, f"of other control tables (session {pid})") for hash_, pid in pids.items()
    ]
