"""The rows of complete runs, looked for again: with few statements for all of their tables."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.postgresql.compare.conditions import condition
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.load.loaded_table import LoadedTable, changed_runs
from penstock.backends.postgresql.session.statements import name, quoted, statement
from penstock.backends.shared.bisection import halved, is_no_interruption
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.errors import PenstockError
from penstock.model.extents import Whole

TABLES = ("r", "p")
# Tables per statement.
AT_ONCE = 100


def see_again(connection: Connection, schema: str, runs: Sequence[Lasting]) -> dict[str, Seen]:
    """Return what is there of complete runs; see `LoadHooks.see_again`.

    Args:
        connection: a session on the target.
        schema: the control schema.
        runs: the runs.
    """
    by_id = {run.run_id: run for run in runs}
    names = {"runs": list(by_id), "tables": [name(run.table) for run in runs]}
    with translated("target"):
        kinds = connection.execute(statement("lasting"), names).fetchall()
        doubtful = changed_runs(connection, schema, list(by_id), ())
    seen: dict[str, Seen] = {}
    readable: list[Lasting] = []
    for run_id, kind, hidden in kinds:
        if kind is None:
            seen[run_id] = Seen(0, "was dropped", emptied=True)
        elif kind not in TABLES:
            seen[run_id] = Seen(None, "is no longer a table")
        elif not hidden:
            readable.append(by_id[run_id])
    for first in range(0, len(readable), AT_ONCE):
        seen |= _rows(connection, readable[first : first + AT_ONCE])
    for run_id in doubtful:
        known = seen.get(run_id, Seen())
        if not known.change:
            seen[run_id] = _changed(LoadedTable(connection, schema, run_id), known)
    return seen


def _changed(loaded: LoadedTable, seen: Seen) -> Seen:
    """Return what is there of a run whose table has changed since it was loaded."""
    with translated("target"):
        change = loaded.find_change()
        if change is None:
            return seen
        what, _, is_same_table = change
        if not is_same_table:
            return Seen(seen.rows, what)
        # VACUUM FULL and ALTER TABLE rewrite a table, too, and lose no rows.
        emptied_by = loaded.last_emptying_run()
    if emptied_by is None:
        return seen
    return Seen(seen.rows, f"was emptied by run {emptied_by}", emptied=True)


def _rows(connection: Connection, runs: Sequence[Lasting]) -> dict[str, Seen]:
    """Return the rows of those tables that the user may read."""
    by_id = {run.run_id: run for run in runs}

    def ask(run_ids: Sequence[str]) -> dict[str, Seen]:
        query = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT {}, {}").format(sql.Literal(run_id), _count(by_id[run_id]))
            for run_id in run_ids
        )
        with translated("target"):
            return {run_id: Seen(int(n)) for run_id, n in connection.execute(query).fetchall()}

    return halved(list(by_id), ask, PenstockError, is_no_interruption)[0]


def _count(run: Lasting) -> sql.Composable:
    extents = run.extents or [Whole()]
    tested = sql.SQL(" OR ").join(
        sql.SQL("({})").format(condition(run.where, extent)) for extent in extents
    )
    rows = sql.SQL("FROM {} WHERE {}").format(quoted(run.table), tested)
    if run.counted:
        return sql.SQL("(SELECT pg_catalog.count(*) {})").format(rows)
    return sql.SQL("(EXISTS (SELECT {}))::int").format(rows)
