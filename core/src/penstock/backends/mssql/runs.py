"""The control store: what of it SQL Server alone knows, of sessions and of the table that is
loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from penstock.backends.api.control import RunningAttempt, RunRow
from penstock.backends.api.records import Kind, Row
from penstock.backends.mssql.alike import set_identity
from penstock.backends.mssql.catalog import enabled_indexes, made_at
from penstock.backends.mssql.errors import DriverError, translated
from penstock.backends.mssql.locks import SESSION, is_free, try_lock, wait_for
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.stage import sweep
from penstock.backends.mssql.swap import LOCK_MS
from penstock.backends.sql.index_changes import IndexChange
from penstock.backends.sql.load_plan import SWAP
from penstock.backends.sql.loaded_runs import LoadedRuns
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.errors import Diagnosis, PenstockError, TargetChanged
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES

# Of one run, at the same time: of more, some are not seen by other runs.
EXECUTIONS = 8


def check_loaded(records: MssqlRecords, run_id: str, table: TableRef, mode: str) -> None:
    """
    Raises:
        TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
    """
    LoadedTable(records, table).check(run_id, MODES[mode])
    rows = records.read(Kind.RUN, {"run_id": run_id}, ("made",))
    expected = rows[0]["made"] if rows else None
    found = made_at(records.session, table)
    if expected and found != expected:
        raise TargetChanged(
            f"target: {table} was changed by somebody else since run {run_id} began to load it: "
            f"expected the table made at {expected.partition(':')[2]}, found "
            f"{'one made at ' + found.partition(':')[2] if found else 'no table of that name'}; "
            "start a new run",
            Diagnosis(side="target"),
        )


class MssqlRuns(LoadedRuns):
    def __init__(self, records: MssqlRecords) -> None:
        super().__init__(records)
        self._tables: MssqlRecords = records

    def check_target(self, run_id: str) -> None:
        run = self.load_run(run_id)
        if run is None or run.prepared_at is None or run.status == "done":
            return
        if SWAP not in self.steps_done(run_id):
            check_loaded(self._tables, run_id, run.plan.load.table, run.spec["mode"])

    # Who is at work

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        records, connection = self._tables, self._tables.connection
        with translated("target", f"table {table}"), records.transaction():
            name = records.lock(f"penstock:table:{table}")
            wait_for(connection, name, self.patience.stall_timeout, f"table {table}")
            others = [
                row["run_id"]
                for row in records.read(
                    Kind.RUN, {"loads": LoadedTable(records, table).id}, ("run_id",)
                )
                if row["run_id"] != run_id and self.is_executed(row["run_id"], table)
            ]
            if others:
                check(others)
            for name in self._presences(run_id):
                if try_lock(connection, name, owner=SESSION):
                    break

    def _presences(self, run_id: str) -> list[str]:
        """Locks of which each execution of a run takes one: they are not shared."""
        return [
            self._tables.lock(f"penstock:run:{run_id}:{number}") for number in range(EXECUTIONS)
        ]

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        names = self._presences(run_id)
        return not all(is_free(self._tables.connection, name) for name in names)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        records = self._tables
        with translated("target", f"run {run_id}"):
            found = records.connection.rows(
                f"SELECT partition_id, attempt, token FROM {records.named('stage')}"
                " WHERE run_id = ? AND owner = 1 ORDER BY partition_id",
                [run_id],
            )
            return tuple(
                RunningAttempt(partition_id, int(number), "loading", "", None)
                for partition_id, number, token in found
                if records.is_alive(token)
            )

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        super().set_status(run_id, status, failures)
        if status not in ("running", "created"):
            with suppress(PenstockError):
                sweep(self._tables)

    # Steps

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        """Nothing is counted: that would read the whole table."""

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        table = LoadedTable(self._tables, load.table)
        if MODES[run.spec["mode"]].starts_empty:
            table.emptied(run.run_id)
        made = made_at(self._tables.session, load.table)
        return {"loads": table.id, "disturbed_by": None, "made": made}

    def do(self, run: RunRow, step: Step) -> None:
        if step.after:
            spec = CopySpec.from_stored(run.spec, "", "")
            check_loaded(self._tables, run.run_id, run.plan.load.table, spec.mode)
            if step.id == SWAP:
                LoadedTable(self._tables, spec.target_ref).check_loaded_since(run.run_id)
        session, table = self._tables.session, run.plan.load.table
        if (indexes := IndexChange.of(step, table)) is not None:
            if (left := indexes.left(enabled_indexes(session, table))).indexes:
                session.run(left.statement(session.dialect))
        elif step.sequence_of:
            set_identity(session, table, step.position)
        elif step.urgent:
            with self._hurried():
                session.run(step.statement)
        else:
            session.run(step.statement)

    def is_done(self, run: RunRow, step: Step) -> bool:
        session, table = self._tables.session, run.plan.load.table
        indexes = IndexChange.of(step, table)
        return indexes is not None and indexes.is_done(enabled_indexes(session, table))

    @contextmanager
    def _hurried(self) -> Iterator[None]:
        """Who waits for a lock has others wait: so not for long."""
        connection = self._tables.connection
        connection.change(f"SET LOCK_TIMEOUT {LOCK_MS}")
        try:
            yield
        finally:
            with suppress(DriverError):  # of a session that has ended
                connection.change("SET LOCK_TIMEOUT -1")

    def after_step(self, run: RunRow, step: Step) -> None:
        """Nothing is noted."""

    # Partitions that are copied again

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        if rows_of is not None:
            loaded = LoadedTable(self._tables, rows_of)
            loaded.delete_partitions(run.run_id, MODES[run.spec["mode"]], records)
