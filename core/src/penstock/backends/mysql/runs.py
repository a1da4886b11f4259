"""The control store: what of it MySQL alone knows, of sessions and of the table that is loaded."""

from __future__ import annotations

from penstock.backends.api.control import RunningAttempt, RunRow
from penstock.backends.api.records import Kind, Row
from penstock.backends.mysql.catalog.indexes import read_indexes
from penstock.backends.mysql.catalog.tables import made_at
from penstock.backends.mysql.dialect import replaced
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.sql.definition import SCHEMA
from penstock.backends.sql.foreign_keys import RELINK, UNLINK, ForeignKeyChange
from penstock.backends.sql.index_changes import IndexChange
from penstock.backends.sql.load_plan import SWAP
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.backends.sql.server.runs import ServerRuns
from penstock.errors import Diagnosis, PermanentError, TargetChanged, TransientError
from penstock.model.codec import from_json
from penstock.model.plans import LoadPlan, PartitionPlan, Step
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES

# After the time at which a table was made, in the records of the runs that load it: one of them is
# altering it right now, which may change that time.
ALTERING = ", altering"


def check_loaded(records: MySqlRecords, run_id: str, table: TableRef, mode: str) -> None:
    """
    Raises:
        TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
        TransientError: it cannot tell at this moment.
    """
    LoadedTable(records, table).check(run_id, MODES[mode])
    (row,) = records.read(Kind.RUN, {"run_id": run_id}, ("made",))
    found, made = made_at(records.session, table), row["made"]
    if found == "" and made:
        raise TransientError(
            f"target: {table}: expected the server to say when the table was made, found that it "
            "does not (is somebody renaming, altering or dropping it right now?)",
            Diagnosis(side="target"),
        )
    if found is not None and made and made in (found, found + ALTERING):
        return
    if found is not None and made and made.endswith(ALTERING):
        ((rows,),) = records.session.fetch(
            f"SELECT EXISTS (SELECT 1 FROM {records.session.table(table)})", f"table {table}"
        )
        loaded = records.read(Kind.COMMIT, {"run_id": run_id}, ("rows",))
        if rows or not any(commit["rows"] for commit in loaded):
            return
    was = "no table of that name" if found is None else f"one made, or emptied, at {found}"
    raise TargetChanged(
        f"target: {table} was changed by somebody else since run {run_id} began to load it: "
        f"expected the table made at {(made or '').removesuffix(ALTERING)}, found {was}; start a "
        f"new run{_indexes_to_make(records, run_id, mode)}",
        Diagnosis(side="target"),
    )


def _indexes_to_make(records: MySqlRecords, run_id: str, mode: str) -> str:
    """What a run that cannot go on would leave undone, for people."""
    if MODES[mode].loads_new_table:
        return ""
    (row,) = records.read(Kind.RUN, {"run_id": run_id}, ("plan",))
    load = from_json(PartitionPlan, row["plan"]).load
    changes = ((step, IndexChange.of(step, load.table)) for step in load.after)
    due = [step.statement for step, change in changes if change is not None]
    return f", and make the indexes that this one has dropped: {due[0]}" if due else ""


class MySqlRuns(ServerRuns):
    def __init__(self, records: MySqlRecords) -> None:
        super().__init__(records)
        self._tables: MySqlRecords = records

    def made_at(self, table: TableRef) -> str | None:
        return made_at(self._tables.session, table)

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        check_loaded(self._tables, run_id, table, mode)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        with translated("target", f"run {run_id}"):
            found = self._tables.open_attempts(run_id)
        return tuple(RunningAttempt(partition_id, 0, "loading", "", None) for partition_id in found)

    # Steps

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        self._note_altered(load.table)
        return super().after_preparing(run, load)

    def perform(self, step: Step, table: TableRef) -> None:
        session = self._tables.session
        if (indexes := IndexChange.of(step, table)) is not None:
            left = indexes.left(read_indexes(session, table))
            self._alter(table, left.statement(session.dialect))
        elif (link := ForeignKeyChange.of(step)) is not None:
            self._alter(link.table, step.statement)
        else:
            session.run(step.statement)

    def _alter(self, table: TableRef, statement: str) -> None:
        self._note_altering(table)
        # It ends the transaction: what was noted stays, also where it fails.
        try:
            self._tables.session.run(statement)
        except PermanentError:
            self._note_altered(table)
            raise
        self._note_altered(table)

    def _note_altering(self, table: TableRef) -> None:
        made, loads = made_at(self._tables.session, table), LoadedTable(self._tables, table).id
        known = {"loads": loads, "made": made}
        self._tables.change(Kind.RUN, known, {"made": f"{made}{ALTERING}"})

    def _note_altered(self, table: TableRef) -> None:
        """The table is the one that runs were loading, though it says that it was made later."""
        made, loads = made_at(self._tables.session, table), LoadedTable(self._tables, table).id
        for row in self._tables.read(Kind.RUN, {"loads": loads}, ("run_id", "made")):
            if row["made"] and row["made"].endswith(ALTERING):
                self._tables.change(Kind.RUN, {"run_id": row["run_id"]}, {"made": made})

    def after_step(self, run: RunRow, step: Step) -> None:
        # Whoever has altered the table may not have come to note it.
        self._note_altered(run.plan.load.table)

    def is_done(self, run: RunRow, step: Step) -> bool:
        if step.id == SCHEMA:
            # To create one that is there would wait for all that is read in it.
            ref = run.plan.load.table
            return (ref.schema,) in self._tables.session.fetch(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s",
                f"database {ref.schema}",
                [ref.schema],
            )
        if (indexes := IndexChange.of(step, run.plan.load.table)) is not None:
            return indexes.is_done(read_indexes(self._tables.session, run.plan.load.table))
        if (link := ForeignKeyChange.of(step)) is not None:
            there = link.is_there(self._tables.session)
            if link.kind == RELINK:
                return there or self._is_made_again(run, link.table)
            return there != (link.kind == UNLINK)
        if step.id != SWAP or made_at(self._tables.session, run.plan.load.table) is not None:
            return False
        # It has taken its place; whoever did that may not have come to drop the old one.
        old = self._tables.session.table(replaced(run.plan.load.table))
        self._tables.session.run(f"DROP TABLE IF EXISTS {old}")
        return True

    def _is_made_again(self, run: RunRow, table: TableRef) -> bool:
        """Whether a run has made another table since this run was planned."""
        (mine,) = self._tables.read(Kind.RUN, {"run_id": run.run_id}, ("created_at",))
        return made_at(self._tables.session, table) is None or any(
            MODES[other["spec"]["mode"]].recreates
            and (other["prepared_at"] or "") > mine["created_at"]
            for other in self._tables.read(
                Kind.RUN, {"loads": LoadedTable(self._tables, table).id}, ("spec", "prepared_at")
            )
        )
