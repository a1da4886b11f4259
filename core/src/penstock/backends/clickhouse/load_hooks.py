"""The tables that runs load on ClickHouse, where no transaction covers rows and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.clickhouse.load.appending_runs import check_not_shut_out, start_appending
from penstock.backends.clickhouse.load.documents import TableDocuments
from penstock.backends.clickhouse.load.loaded_tables import (
    changed,
    check_loaded,
    check_replaced,
    recorded_tables,
)
from penstock.backends.clickhouse.load.stages import Stages
from penstock.backends.clickhouse.load.steps import SWAP, ClickHouseSteps
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.run_store import DocumentStore
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.backends.sql.loads.lasting_rows import see_again
from penstock.errors import Diagnosis, TargetChanged, UsageError
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import mode_of


class ClickHouseLoadHooks(LoadHooks[DocumentStore]):
    """See `LoadHooks`.

    Args:
        ledger: the target's records.
        session: a session on the target.
        database: the control database.
        documents: the documents of the control database.
        stages: the stages of attempts.
        runs: the documents of runs.
    """

    shows_before_last_steps = False

    def __init__(
        self,
        ledger: Ledger[DocumentStore],
        session: ClickHouseSession,
        database: str,
        documents: TableDocuments,
        stages: Stages,
        runs: Runs,
    ) -> None:
        super().__init__(ledger)
        self._session = session
        self._database = database
        self._documents = documents
        self._stages = stages
        self._runs = runs

    def check_target(self, run_id: str) -> None:
        try:
            self._check_target(run_id)
        except TargetChanged:
            # Another execution may have finished the run during this check.
            if not self._is_in_place(run_id):
                raise

    def _is_in_place(self, run_id: str) -> bool:
        """Whether the run's table is or was in the target's place, or the run is done."""
        run, row = self._runs.find(run_id), self.ledger.runs.find(run_id)
        if run is None or row is None:
            return False
        if row.status == "done" or SWAP in run.steps:
            return True
        return any(self.is_done(row, step) for step in row.plan.load.after)

    def _check_target(self, run_id: str) -> None:
        run, row = self._runs.find(run_id), self.ledger.runs.find(run_id)
        if run is None or row is None or self._is_in_place(run_id):
            return
        check_not_shut_out(run_id, run)
        load = row.plan.load.table
        check_loaded(self._session, run_id, run, load)
        target = stored_target(row.spec)
        if load != target and not self._steps(row).is_swapping():
            check_replaced(self._session, run_id, run, target, mode_of(row.spec))

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        return see_again(self._session, runs)

    # Steps

    def check_emptying(self, run: RunRow) -> None:
        """Refuse to empty the table again.

        Raises:
            TargetChanged: always. Moved rows do not go with their records; and a process stopped
                during the run's steps must not find another table under its name.
        """
        raise _cannot_restart(run.run_id)

    def check_replanning(self, run_id: str) -> None:
        if self.store.count(Kind.COMMIT, {"run_id": run_id}):
            raise _cannot_restart(run_id)

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        document = self.store.find(run.run_id)
        if document is not None:
            self._runs.carry_out(run.run_id, document)

    def check_not_shut_out(self, run: RunRow) -> None:
        document = self.store.find(run.run_id)
        if document is not None:
            check_not_shut_out(run.run_id, document)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        target = stored_target(run.spec)
        if load.table == target:
            uuid = self._session.uuid(target)
            start_appending(self._documents, uuid, run.run_id)
            # Checked again: a process that renamed it in the meantime may not have found the
            # document.
            if not uuid or self._session.uuid(target) != uuid:
                raise changed(run.run_id, target, "dropped or replaced the table")
        return {"owner": recorded_tables(self._session, load.table, target)}

    def do(self, run: RunRow, step: Step) -> None:
        self._steps(run).do(step)

    def is_done(self, run: RunRow, step: Step) -> bool:
        return self._steps(run).is_done(step)

    def _steps(self, run: RunRow) -> ClickHouseSteps:
        return ClickHouseSteps(self._session, self._database, self._stages, self._runs, run)

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        raise UsageError(
            f"run {run_id}: ClickHouse cannot tell which rows a partition has loaded, so single "
            "partitions cannot be copied again; start a new run"
        )

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        raise AssertionError("rejected by check_recopy")


def _cannot_restart(run_id: str) -> TargetChanged:
    return TargetChanged(
        f"target: run {run_id} cannot be restarted: ClickHouse cannot take back the rows that it "
        "has loaded; start a new run",
        Diagnosis(side="target"),
    )
