"""The control store: what of it MySQL alone knows, of sessions and of the table that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.control import RunningAttempt, RunRow
from penstock.backends.api.records import Kind, Row
from penstock.backends.mysql.catalog.tables import made_at
from penstock.backends.mysql.dialect import replaced
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.locks import locked, try_lock
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.sql.definition import SCHEMA
from penstock.backends.sql.load_plan import SWAP
from penstock.backends.sql.loaded_runs import LoadedRuns
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES

# Of one run, at the same time: of more, some are not seen by other runs.
EXECUTIONS = 8


def check_loaded(records: MySqlRecords, run_id: str, table: TableRef, mode: str) -> None:
    """
    Raises:
        TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
    """
    LoadedTable(records, table).check(run_id, MODES[mode])
    (row,) = records.read(Kind.RUN, {"run_id": run_id}, ("made",))
    found = made_at(records.session, table)
    if found != row["made"]:
        was = "no table of that name" if found is None else f"one made, or emptied, at {found}"
        raise TargetChanged(
            f"target: {table} was changed by somebody else since run {run_id} began to load it: "
            f"expected the table made at {row['made']}, found {was}; start a new run",
            Diagnosis(side="target"),
        )


class MySqlRuns(LoadedRuns):
    def __init__(self, records: MySqlRecords) -> None:
        super().__init__(records)
        self._tables: MySqlRecords = records

    def check_target(self, run_id: str) -> None:
        run = self.load_run(run_id)
        if run is None or run.prepared_at is None or run.status == "done":
            return
        if SWAP not in self.steps_done(run_id):
            check_loaded(self._tables, run_id, run.plan.load.table, run.spec["mode"])

    # Who is at work

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        records, connection = self._tables, self._tables.connection
        gate = records.lock(f"penstock:table:{table}")
        with (
            translated("target"),
            locked(connection, gate, self.patience, f"table {table}"),
        ):
            others = [
                row["run_id"]
                for row in records.read(
                    Kind.RUN, {"loads": LoadedTable(records, table).id}, ("run_id",)
                )
                if row["run_id"] != run_id and self._is_executed(row["run_id"])
            ]
            if others:
                check(others)
            for name in self._presences(run_id):
                if try_lock(connection, name):
                    break

    def _presences(self, run_id: str) -> list[str]:
        """Locks of which each execution of a run takes one: they are not shared."""
        return [
            self._tables.lock(f"penstock:run:{run_id}:{number}") for number in range(EXECUTIONS)
        ]

    def _is_executed(self, run_id: str) -> bool:
        names = self._presences(run_id)
        asked = ", ".join(["is_used_lock(%s)"] * len(names))
        ((number,),) = self._tables.connection.rows(f"SELECT coalesce({asked})", names)
        return number is not None

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        with translated("target", f"run {run_id}"):
            found = self._tables.open_attempts(run_id)
        return tuple(RunningAttempt(partition_id, 0, "loading", "", None) for partition_id in found)

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
            LoadedTable(self._tables, spec.target_ref).check_loaded_since(run.run_id)
        self._tables.session.run(step.statement)

    def is_done(self, run: RunRow, step: Step) -> bool:
        if step.id == SCHEMA:
            # To create one that is there would wait for all that is read in it.
            ref = run.plan.load.table
            return (ref.schema,) in self._tables.session.fetch(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s",
                f"database {ref.schema}",
                [ref.schema],
            )
        if step.id != SWAP or made_at(self._tables.session, run.plan.load.table) is not None:
            return False
        # It has taken its place; whoever did that may not have come to drop the old one.
        old = self._tables.session.table(replaced(run.plan.load.table))
        self._tables.session.run(f"DROP TABLE IF EXISTS {old}")
        return True

    # Partitions that are copied again

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        if rows_of is not None:
            loaded = LoadedTable(self._tables, rows_of)
            loaded.delete_partitions(run.run_id, MODES[run.spec["mode"]], records)
