"""Steps around a load: creating the table, and putting it in place.

A run that starts with an empty table loads one of its own next to the target's, which it replaces
at the end. Each statement of a step takes effect at most once, whichever process sends it and
however late: a table is created if it does not exist, or renamed to a name that is never free
again.
"""

from __future__ import annotations

from penstock.backends.api.execution.control import RunRow
from penstock.backends.clickhouse.dialect import CLICKHOUSE, OWN
from penstock.backends.clickhouse.load.appending_runs import CLEAN, shut_out, stop_appending
from penstock.backends.clickhouse.load.documents import TableDocuments, short_hash
from penstock.backends.clickhouse.load.loaded_tables import (
    check_loaded,
    check_replaced,
    loaded_uuid,
)
from penstock.backends.clickhouse.load.stages import Stages
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.states import State
from penstock.backends.shared.attempts.refusals import not_committed
from penstock.errors import PermanentError
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import mode_of

CREATE, SWAP = "create", "swap"


class ClickHouseSteps:
    """The steps of one run.

    Args:
        database: the control database.
    """

    def __init__(
        self, session: ClickHouseSession, database: str, stages: Stages, runs: Runs, run: RunRow
    ) -> None:
        self._documents = TableDocuments(session.connection, database)
        self._session = session
        self._database = database
        self._stages = stages
        self._runs = runs
        self._run = run
        self._table = run.plan.load.table
        self._target = stored_target(run.spec)

    def do(self, step: Step) -> None:
        if step.after:
            self._committed()
        if step.id == SWAP:
            self._swap()
        elif step.id == CLEAN:
            self._clean()
        else:
            self._session.run(step.statement)

    def is_done(self, step: Step) -> bool:
        """Whether the run's table is in the target's place."""
        run = self._runs.find(self._run.run_id)
        owner = "" if run is None else loaded_uuid(run)
        return step.id == SWAP and bool(owner) and self._session.uuid(self._target) == owner

    def is_swapping(self) -> bool:
        """Whether the old table has been moved away for the run's, or there was none."""
        return self._is_there(self._out)

    @property
    def _out(self) -> TableRef:
        """The name to which the old table is moved. Once a table has that name, one always will."""
        return TableRef(self._database, f"{OWN}out_{short_hash(self._run.run_id)}")

    def _is_there(self, table: TableRef) -> bool:
        return bool(self._session.uuid(table))

    def _rename(self, table: TableRef, name: TableRef) -> None:
        self._session.run(f"RENAME TABLE {CLICKHOUSE.table(table)} TO {CLICKHOUSE.table(name)}")

    def _committed(self) -> None:
        """Publish all commits.

        Raises:
            TransientError: some partitions are no longer committed.
        """
        run = self._runs.find(self._run.run_id)
        records = self._runs.records(self._run.run_id).publish_all(self._run.generation)
        is_same_generation = run is not None and run.generation == self._run.generation
        if not is_same_generation or len(records) < len(self._run.plan.partitions):
            raise not_committed(self._run.run_id)

    def _swap(self) -> None:
        run = self._runs.find(self._run.run_id)
        assert run is not None
        check_loaded(self._session, self._run.run_id, run, self._table)
        out = self._out
        if not self.is_swapping():  # otherwise this step was interrupted between the two
            mode = mode_of(self._run.spec)
            check_replaced(self._session, self._run.run_id, run, self._target, mode)
            try:
                self._put_out(out)
            except PermanentError:
                if not self._is_there(out):  # by another execution in the meantime
                    raise
        # The old table can no longer be found.
        shut_out(self._documents, self._runs, self._session.uuid(out), self._run.run_id)
        self._rename(self._table, self._target)

    def _put_out(self, out: TableRef) -> None:
        if self._is_there(self._target):
            self._rename(self._target, out)
        else:
            # Without IF NOT EXISTS, so that only one of two processes continues.
            self._session.run(f"CREATE TABLE {CLICKHOUSE.table(out)} (n UInt8) ENGINE = Memory")

    def _clean(self) -> None:
        """Release what the run has moved away, and drop useless stages."""
        if self._table != self._target and self._is_there(self._out):
            self._session.run(f"TRUNCATE TABLE {CLICKHOUSE.table(self._out)}")
        sweep(self._stages, self._runs)
        if self._table == self._target:
            stop_appending(self._documents, self._session.uuid(self._table), self._run.run_id)


def sweep(stages: Stages, runs: Runs) -> None:
    """Drop the stages of published partitions, and of generations that have ended.

    No record will ever name them again.
    """
    over: dict[tuple[str, int], set[str]] = {}
    for name, facts in stages.all():
        key = facts["run"], facts["generation"]
        if key not in over:
            records = runs.records(key[0]).read_all(key[1])
            over[key] = {
                partition_id
                for partition_id, (record, _) in records.items()
                if record.state in (State.PUBLISHED, State.CLOSED)
            }
        if facts["partition"] in over[key]:
            stages.drop(name)
