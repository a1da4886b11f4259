"""The table that a run loads: whether it is still the one that the run was prepared for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Cursor, sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import name, statement
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.plans import GIVEN
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES, mode_names


def changed_runs(
    connection: Connection, schema: str, run_ids: Sequence[str], in_place: Sequence[str]
) -> set[str]:
    """The runs whose tables want to be looked at one by one: they are not as they were prepared, or
    others have loaded rows since.

    Parameters:
        schema: of the control tables.
        in_place: modes in which it matters that others have.
    """
    text = statement("changed_runs").format(schema=sql.Identifier(schema))
    asked = {
        "runs": list(run_ids),
        "in_place": list(in_place),
        "modes": list(mode_names(lambda mode: mode.reloads_partitions)),
    }
    return {run_id for (run_id,) in connection.execute(text, asked).fetchall()}


# What becomes of a run that is just prepared, too.
_PREPARED = "prepared_at = pg_catalog.clock_timestamp(), status = 'running',"


def note_tables(
    connection: Connection,
    schema: str,
    tables: Sequence[tuple[str, TableRef, bool | None]],
    *,
    prepared: bool = False,
) -> Cursor[tuple[Any, ...]]:
    """Store in the rows of runs what their tables are recognised by.

    Parameters:
        schema: of the control tables.
        tables: the run, its table, and whether it loads the children that are there, too, so that
            none of them may go; None: as its mode does.
        prepared: also that the runs are prepared, if they are not.

    Returns: whose row count is that of the runs.
    """
    text = statement("note_targets").format(
        schema=sql.Identifier(schema),
        prepared=sql.SQL(_PREPARED if prepared else ""),
        unprepared=sql.SQL("AND r.prepared_at IS NULL" if prepared else ""),
    )
    asked = {
        "runs": [run_id for run_id, *_ in tables],
        "tables": [name(table) for _, table, _ in tables],
        "children": [children for *_, children in tables],
        # It adds children, and notes each.
        "attaching": list(mode_names(lambda mode: mode.attaches)),
    }
    return connection.execute(text, asked)


class LoadedTable:
    """
    Parameters:
        schema: of the control tables.
    """

    def __init__(self, connection: Connection, schema: str, run_id: str) -> None:
        self._connection = connection
        self._name = schema
        self._schema = sql.Identifier(schema)
        self._run_id = run_id

    def _execute(self, query: str, **values: Any) -> Cursor[tuple[Any, ...]]:
        """A .sql file that is about a run."""
        text = statement(query).format(schema=self._schema)
        return self._connection.execute(text, {"run_id": self._run_id, **values})

    def note(self, table: TableRef, *, children: bool = True) -> None:
        """Store in the run's row what the table is recognised by.

        Parameters:
            children: the run loads those that are there, too, so none of them may go.
        """
        note_tables(self._connection, self._name, [(self._run_id, table, children)])

    def note_attached(self, child: TableRef | None, before: int | None) -> None:
        """Keep what the child is recognised by that this transaction has attached.

        Parameters:
            child: None: there is none.
            before: the object id of the one whose place it takes.
        """
        self._execute("note_attached", child=child and name(child), before=str(before or ""))

    def forget(self) -> None:
        """Clear that: from here on the table has another name."""
        self._execute("forget_target")

    def note_rewritten(self) -> None:
        """Keep where rows are stored that this transaction has written anew; those of other tables
        may be written anew at the same time, by steps of the run that have not committed yet."""
        for (oid,) in self._execute("rewritten").fetchall():
            self._execute("note_rewritten", part=str(oid), oid=oid)

    def look(self) -> Cursor[tuple[Any, ...]]:
        """Ask what has become of the table since the run was prepared; see `check_found`."""
        return self._execute("changed")

    def find_change(self) -> tuple[Any, ...] | None:
        """What has become of the table since the run was prepared, and whether it is the same table
        all the same, whose rows were written anew or removed; None where nothing has."""
        return self.look().fetchone()

    def has_taken_place(self, table: TableRef) -> bool:
        """Whether the table that the run has loaded has another one's name by now."""
        found = self._execute("has_taken_place", table=name(table)).fetchone()
        return bool(found and found[0])

    def check(self) -> None:
        """
        Raises:
            TargetChanged: the table is another one, or was emptied or written anew since.
        """
        self.check_found(self.look())

    def check_found(self, looked: Cursor[tuple[Any, ...]]) -> None:
        """
        Parameters:
            looked: what `look` has returned.

        Raises:
            TargetChanged: as `check`.
        """
        found = looked.fetchone()
        if found is not None:
            raise self.changed(found[0])

    def emptied_by(self) -> str | None:
        """The last run that has emptied or recreated the table since this one was prepared."""
        return self._changed_by(mode_names(lambda mode: mode.empties_before))[1]

    def _changed_by(self, modes: Sequence[str]) -> tuple[str, str | None]:
        ((table, other),) = self._execute("changed_by", modes=list(modes)).fetchall()
        return table, other

    def changed(self, what: str) -> TargetChanged:
        table, other = self._changed_by(mode_names(lambda mode: mode.starts_empty))
        return TargetChanged(
            f"target: {table} {what} since run {self._run_id} was prepared"
            + (f", by run {other}" if other else "")
            + ", so rows that it has committed may be gone; start a new run",
            Diagnosis(side="target"),
        )

    def check_loaded_since(self, emptied: TableRef) -> None:
        """For what takes all rows out of the target's table, late in a run, in its transaction.

        Parameters:
            emptied: that table. It is locked first: what others commit while this waits for the
                lock is found, and nobody commits any more.

        Raises:
            TargetChanged: another run has loaded rows since this one was prepared, which would go.
        """
        quoted = name(emptied)
        if self._connection.value("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", [quoted]):
            lock = f"LOCK TABLE ONLY {quoted} IN ACCESS EXCLUSIVE MODE"
            self._connection.execute(lock.encode())
        for table, other, _ in self._loaded_since(tuple(MODES), same_rows=False):
            raise TargetChanged(
                f"target: run {other} has loaded rows into {table} since run {self._run_id} was "
                "prepared, which would be lost now; start a new run if they may go",
                Diagnosis(side="target"),
            )

    def check_not_replaced(self) -> None:
        """For a run that adds its rows, and finds them there already if another one has replaced
        them.

        Raises:
            TargetChanged: another run has.
        """
        modes = mode_names(lambda mode: mode.reloads_partitions)
        for table, other, mode in self._loaded_since(modes, same_rows=True):
            raise TargetChanged(
                f"target: run {other} (--mode {mode}) has loaded the same rows into {table} since "
                f"run {self._run_id} was prepared, so what is left of this one would double them; "
                "start a new run if it is still wanted",
                Diagnosis(side="target"),
            )

    def _loaded_since(self, modes: Sequence[str], *, same_rows: bool) -> list[tuple[Any, ...]]:
        """The table, the run that has loaded it last, and its mode; nothing where none has."""
        asked = {"modes": list(modes), "same_rows": same_rows, "given": GIVEN}
        return self._execute("loaded_since", **asked).fetchall()
