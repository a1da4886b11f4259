"""The table that a run loads, and whether it is still the one that the run was prepared for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Cursor, sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import name, statement
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.plans import GIVEN
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES, Entry, mode_names


def changed_runs(
    connection: Connection,
    schema: str,
    run_ids: Sequence[str],
    in_place: Sequence[str] = (),
    replacing: Sequence[str] = (),
) -> set[str]:
    """Return the runs whose tables must be examined one by one.

    Their tables have changed since they were prepared, or others have loaded rows since.

    Args:
        connection: a session on the target.
        schema: the control schema.
        run_ids: the runs to examine.
        in_place: modes for which rows that others have replaced matter.
        replacing: modes for which all rows that others have loaded matter.
    """
    question = question_about_runs(schema, run_ids, in_place, replacing)
    return {run_id for (run_id,) in connection.execute(*question).fetchall()}


def question_about_runs(
    schema: str,
    run_ids: Sequence[str],
    in_place: Sequence[str] = (),
    replacing: Sequence[str] = (),
) -> tuple[sql.Composed, dict[str, Any]]:
    """Return the query and the parameters of `changed_runs`; a row for each of those runs."""
    text = statement("changed_runs").format(schema=sql.Identifier(schema))
    parameters = {
        "runs": list(run_ids),
        "in_place": list(in_place),
        "replacing": list(replacing),
        "modes": list(mode_names(lambda mode: mode.reloads_partitions)),
    }
    return text, parameters


# Set in addition when a run is marked as prepared.
_PREPARED = "prepared_at = pg_catalog.clock_timestamp(), status = 'running',"


def note_tables(
    connection: Connection,
    schema: str,
    tables: Sequence[tuple[str, TableRef, bool | None]],
    *,
    prepared: bool = False,
) -> Cursor[tuple[Any, ...]]:
    """Store in the rows of runs what identifies their tables.

    Args:
        connection: a session on the target.
        schema: the control schema.
        tables: the run, its table, and whether it also loads existing children, none of which may
            then disappear; None if its mode decides.
        prepared: also mark runs as prepared, if they are not yet.

    Returns:
        A cursor whose row count is the number of runs.
    """
    text = statement("note_targets").format(
        schema=sql.Identifier(schema),
        prepared=sql.SQL(_PREPARED if prepared else ""),
        unprepared=sql.SQL("AND r.prepared_at IS NULL" if prepared else ""),
    )
    parameters = {
        "runs": [run_id for run_id, *_ in tables],
        "tables": [name(table) for _, table, _ in tables],
        "children": [children for *_, children in tables],
        # Such a mode adds children, and records each.
        "attaching": list(mode_names(lambda mode: mode.entry is Entry.ATTACH)),
    }
    return connection.execute(text, parameters)


class LoadedTable:
    """The table of one run.

    Args:
        connection: a session on the target.
        schema: the control schema.
        run_id: the run.
    """

    def __init__(self, connection: Connection, schema: str, run_id: str) -> None:
        self._connection = connection
        self._name = schema
        self._schema = sql.Identifier(schema)
        self._run_id = run_id

    def _execute(self, query: str, **values: Any) -> Cursor[tuple[Any, ...]]:
        """Execute a .sql file about a run."""
        text = statement(query).format(schema=self._schema)
        with self._connection.own_path():
            return self._connection.execute(text, {"run_id": self._run_id, **values})

    def note(self, table: TableRef, *, children: bool = True) -> None:
        """Store in the run's row what identifies the table.

        Args:
            table: the table that the run loads.
            children: whether the run also loads existing children, none of which may then
                disappear.
        """
        note_tables(self._connection, self._name, [(self._run_id, table, children)])

    def note_attached(self, child: TableRef | None, before: int | None) -> None:
        """Record what identifies the child that this transaction attached.

        Args:
            child: the child; None without one.
            before: the object id of the child it replaces.
        """
        self._execute("note_attached", child=child and name(child), before=str(before or ""))

    def note_rewritten(self) -> None:
        """Record the new storage of the rows that this transaction has rewritten.

        Steps of the run that have not committed yet may rewrite other tables at the same time.
        """
        for (oid,) in self._execute("rewritten").fetchall():
            self._execute("note_rewritten", part=str(oid), oid=oid)

    def look(self) -> Cursor[tuple[Any, ...]]:
        """Ask what has changed about the table since the run was prepared; see `check_answer`."""
        return self._execute("changed")

    def find_change(self) -> tuple[Any, ...] | None:
        """Return what has changed about the table since the run was prepared; None if nothing has.

        Also says whether it is still the same table, with its rows rewritten or removed.
        """
        return self.look().fetchone()

    def has_replaced(self, table: TableRef) -> bool:
        """Whether the loaded table now has another table's name."""
        row = self._execute("has_taken_place", table=name(table)).fetchone()
        return bool(row and row[0])

    def check(self) -> None:
        """Check that the table is still the one the run was prepared for.

        Raises:
            TargetChanged: the table is a different one, or was emptied or rewritten since.
        """
        self.check_answer(self.look())

    def check_answer(self, answer: Cursor[tuple[Any, ...]]) -> None:
        """Check the result of `look`.

        Args:
            answer: the result of `look`.

        Raises:
            TargetChanged: as for `check`.
        """
        change = answer.fetchone()
        if change is not None:
            raise self.change_error(change[0])

    def last_emptying_run(self) -> str | None:
        """Return the last run that emptied or recreated the table since this one was prepared."""
        return self._last_changing_run(mode_names(lambda mode: mode.empties_before))[1]

    def _last_changing_run(self, modes: Sequence[str]) -> tuple[str, str | None]:
        ((table, run_id),) = self._execute("changed_by", modes=list(modes)).fetchall()
        return table, run_id

    def change_error(self, what: str) -> TargetChanged:
        table, run_id = self._last_changing_run(mode_names(lambda mode: mode.starts_empty))
        return TargetChanged(
            f"target: {table} {what} after run {self._run_id} was prepared"
            + (f", by run {run_id}" if run_id else "")
            + ", so rows that the run committed may be lost; start a new run",
            Diagnosis(side="target"),
        )

    def check_loaded_since(self, emptied: TableRef) -> None:
        """Check for rows loaded by others, before all rows are removed late in a run.

        Args:
            emptied: the table about to be emptied. It is locked first: rows committed by others
                during the wait for the lock are found, and no more can be committed.

        Raises:
            TargetChanged: another run has loaded rows since this one was prepared, which would be
                lost.
        """
        quoted = name(emptied)
        if self._connection.value("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", [quoted]):
            lock = f"LOCK TABLE ONLY {quoted} IN ACCESS EXCLUSIVE MODE"
            self._connection.execute(lock.encode())
        self.check_none_loaded()

    def check_none_loaded(self) -> None:
        """Check that no other run has loaded rows, which replacing the table would lose.

        Raises:
            TargetChanged: as for `check_loaded_since`.
        """
        for table, run_id, _ in self._loaded_since(tuple(MODES), same_rows=False):
            raise TargetChanged(
                f"target: run {run_id} loaded rows into {table} after run {self._run_id} was "
                "prepared, and these rows would be lost; start a new run if nothing needs them",
                Diagnosis(side="target"),
            )

    def check_not_replaced(self) -> None:
        """Check that no other run has replaced rows that this run adds, and would duplicate.

        Raises:
            TargetChanged: another run has replaced rows.
        """
        modes = mode_names(lambda mode: mode.reloads_partitions)
        for table, run_id, mode in self._loaded_since(modes, same_rows=True):
            raise TargetChanged(
                f"target: run {run_id} (--mode {mode}) loaded the same rows into {table} after run "
                f"{self._run_id} was prepared, so continuing would duplicate them; start a new run "
                "if its rows are still needed",
                Diagnosis(side="target"),
            )

    def _loaded_since(self, modes: Sequence[str], *, same_rows: bool) -> list[tuple[Any, ...]]:
        """Return the table, the run that loaded it last, and its mode; empty if no run has."""
        parameters = {"modes": list(modes), "same_rows": same_rows, "given": GIVEN}
        return self._execute("loaded_since", **parameters).fetchall()
