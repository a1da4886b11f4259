"""The control store: what of it DuckDB alone knows, of the table that a run loads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from duckdb import DuckDBPyConnection

from penstock.backends.api.control import RunningAttempt, RunRow
from penstock.backends.api.records import Row
from penstock.backends.duckdb.connection import full_name
from penstock.backends.duckdb.database import NAME, Database
from penstock.backends.duckdb.dialect import condition
from penstock.backends.duckdb.load.folder import folder_of, staged, sweep, tidy
from penstock.backends.duckdb.load.loaded_table import STORAGE, LoadedTable
from penstock.backends.duckdb.records import DuckRecords
from penstock.backends.shared.control_store import RecordedRuns
from penstock.backends.shared.presence import Presence
from penstock.errors import Diagnosis, PermanentError, UsageError
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES

SWAP = "swap"
"""The id of the step that renames."""


class ControlTables(RecordedRuns):
    def __init__(self, database: Database, schema: str) -> None:
        self._tables = DuckRecords(database, schema)
        super().__init__(self._tables)
        self._path = database.path
        self._database = database
        self._presence = Presence(os.path.join(folder_of(database.path), "entered"))

    def leave(self) -> None:
        """End what was entered."""
        self._presence.leave()
        tidy(self._path)

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        self._presence.enter(run_id, str(table), check)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(each.partition_id, each.attempt, "active", _since(each.file), each.bytes)
            for each in staged(self._path)
            if each.run_id == run_id and each.is_alive()
        )

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        super().set_status(run_id, status, failures)
        if status not in ("running", "created"):
            sweep(self._path)
            # Whoever has the lock last removes the folder.
            with self._database.reading():
                pass

    def _loaded(self, connection: DuckDBPyConnection, table: TableRef) -> LoadedTable:
        return LoadedTable(connection, self._tables.schema, NAME, table)

    def check_target(self, run_id: str) -> None:
        with self._tables.reading() as connection:
            run = self.load_run(run_id) if connection is not None else None
            # What becomes of the rows of a run that is done is not its matter.
            if connection is None or run is None or run.prepared_at is None or run.status == "done":
                return
            if SWAP not in self.steps_done(run_id):
                table = self._loaded(connection, run.plan.load.table)
                table.check(run_id, MODES[run.spec["mode"]], thoroughly=True)

    # Steps

    def check_emptying(self, run: RunRow) -> None:
        if MODES[run.spec["mode"]].starts_empty:
            table = self._loaded(self._tables.connection, run.plan.load.table)
            table.check_loaded_since(run.run_id)

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        self._loaded(self._tables.connection, load.table).begin(run.run_id)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        table = self._loaded(self._tables.connection, load.table)
        if MODES[run.spec["mode"]].starts_empty:
            table.emptied(run.run_id)
        table.end()
        return {"loads": table.id, "disturbed_by": None}

    def do(self, run: RunRow, step: Step) -> None:
        connection = self._tables.connection
        if step.after:
            spec = CopySpec.from_stored(run.spec, "", "")
            self._loaded(connection, run.plan.load.table).check(run.run_id, spec.load_mode)
            self._loaded(connection, spec.target_ref).check_loaded_since(run.run_id)
        connection.execute(step.statement)

    def after_step(self, run: RunRow, step: Step) -> None:
        connection = self._tables.connection
        swapped = self._loaded(connection, CopySpec.from_stored(run.spec, "", "").target_ref)
        swapped.emptied(run.run_id)
        swapped.end()
        self._loaded(connection, run.plan.load.table).end()

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        if SWAP in self.steps_done(run_id):
            raise UsageError(
                f"run {run_id}: its table has taken the old one's place since, so single "
                "partitions cannot be copied into it again; expected a run whose last steps are "
                "not done; start a new run"
            )

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        connection = self._tables.connection
        table = self._loaded(connection, run.plan.load.table)
        if run.status == "done":
            table.begin(run.run_id)  # whatever has become of it since
        if rows_of is not None:
            _delete_rows(connection, run, rows_of, records)
        table.end()


def _since(file: str) -> str:
    try:
        begun = os.stat(file).st_ctime
    except FileNotFoundError:
        begun = time.time()
    return datetime.fromtimestamp(begun, UTC).isoformat(sep=" ")


def _delete_rows(
    connection: DuckDBPyConnection, run: RunRow, table: TableRef, records: Sequence[CommitRecord]
) -> None:
    """Delete what the partitions' conditions select, where all rows of the table are the run's.

    Raises:
        PermanentError: the table does not tell which rows those are, or holds others.
    """
    plan = run.plan
    extents = {
        record.partition_id: plan.partition(record.partition_id).extent for record in records
    }
    by_name = all(pair.source == pair.target for pair in plan.pairs)
    by_key = not any(isinstance(extent, STORAGE) for extent in extents.values())
    if not MODES[run.spec["mode"]].starts_empty or not by_key or not by_name:
        raise PermanentError(
            f"target: {table} does not tell which rows a partition has loaded, so they cannot be "
            "taken back; expected --mode replace, or truncate, recreate or swap with a key "
            "strategy and the same column names on both sides; start a new run",
            Diagnosis(side="target"),
        )
    name = full_name(NAME, table)
    for record in records:
        # Of a run with a condition all rows meet it.
        tested = condition(None, extents[record.partition_id])
        deleted = connection.execute(f"DELETE FROM {name} WHERE {tested}").fetchall()[0][0]
        if deleted != record.rows:
            raise PermanentError(
                f"target: rows of {table} were changed since they were loaded, so the partitions "
                "cannot be copied again (nothing was changed); put them right by hand, or start a "
                f"new run: {record.partition_id}: expected {record.rows:,} rows, found "
                f"{deleted:,}",
                Diagnosis(side="target"),
            )
