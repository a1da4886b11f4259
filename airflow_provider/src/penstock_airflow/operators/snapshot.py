"""The operators that hold and release a run's snapshot; the second also ends the run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from threading import Event as Flag
from typing import Any

import penstock
from penstock import (
    PenstockError,
    RunStatus,
    SnapshotLost,
    TargetBusy,
    as_arguments,
)
from penstock_airflow.arguments.endpoint import ARGUMENTS, TARGET_ARGUMENTS
from penstock_airflow.arguments.options import overrides
from penstock_airflow.operators.base import (
    NEW_RUN,
    PenstockOperator,
    TargetOperator,
    airflow_exception,
)
from penstock_airflow.runs.missing_run import raise_missing_run, require_run_id
from penstock_airflow.runs.nearest_task import COPIES, nearest
from penstock_airflow.runs.nights import COVERED, covered_by, overtaken_message
from penstock_airflow.runs.run_ids import clearings
from penstock_airflow.runs.task_states import Tasks
from penstock_airflow.sdk import AirflowException, AirflowFailException
from penstock_airflow.triggers.snapshot import NO_READERS, READERS_INTERVAL, HoldSnapshotTrigger

PRIORITY = 1_000
LEAVE_SECONDS = 15.0
"""Seconds to wait for tasks that were killed to leave the run."""


class HoldSnapshotOperator(PenstockOperator):
    """Holds the snapshot with which all mapped tasks of a run read.

    A run of one partition with nothing to compare needs no holder: this task ends at once, and the
    partition's task takes a snapshot of its own. Otherwise it runs beside the mapped tasks until
    the last partition is committed, `ReleaseSnapshotOperator` has run, or no remaining task of the
    DAG run reads with the snapshot.

    If the snapshot is lost permanently, this task does not fail: the copies that need it fail, and
    once they are cleared and succeed, the DAG run has no failed task.

    Clearing this task makes it hold a snapshot again: the old one if another process still holds
    it, otherwise one of the source as it is now.

    Args:
        run_id: the output of `PrepareCopyOperator`.
        deferrable: whether to hold it in the triggerer, which needs no worker slot, instead of in
            this task.
        on_snapshot_lost: overrides the run's own option, until this task is cleared.
        kwargs: source, target, and the arguments of every operator.
    """

    template_fields: Sequence[str] = ("run_id", *ARGUMENTS)

    def __init__(
        self,
        *,
        run_id: Any,
        deferrable: bool = True,
        on_snapshot_lost: str | None = None,
        **kwargs: Any,
    ) -> None:
        # Queue it before the copies: they wait for it, and it needs a slot only for a moment.
        kwargs.setdefault("priority_weight", PRIORITY)
        super().__init__(**kwargs)
        self.run_id = run_id
        self.deferrable = deferrable
        self.on_snapshot_lost = on_snapshot_lost
        self._stop = Flag()

    def execute(self, context: Any) -> None:
        """Hold the snapshot here, or defer to the trigger that holds it."""
        require_run_id(self.run_id)
        urls = self._urls()
        on_snapshot_lost = self.on_snapshot_lost
        readers = Tasks.of(context, _reader_ids(self))
        if clearings(context["ti"]):
            on_snapshot_lost = "accept"
            # Only if cleared: a holder that starts late must not outlive a released run.
            try:
                penstock.require_snapshot(
                    self.run_id, target=urls["target"], control_schema=self.control_schema
                )
            except PenstockError as error:
                raise airflow_exception(error) from None
        elif self._is_released(urls["target"]):
            self.log.info("run %s needs no shared snapshot", self.run_id)
            return
        if self.deferrable:
            self.defer(
                trigger=HoldSnapshotTrigger(
                    run_id=self.run_id,
                    **{name: getattr(self, name) for name in ARGUMENTS},
                    control_schema=self.control_schema,
                    on_snapshot_lost=on_snapshot_lost,
                    readers=readers.as_json(),
                ),
                method_name="execute_complete",
            )
        finished = _ReadersFinished(readers, self._stop)
        events = penstock.hold(
            self.run_id,
            **urls,
            control_schema=self.control_schema,
            stop=finished,
            **overrides(on_snapshot_lost),
        )
        try:
            with closing(events):
                for _ in self._narrate(events):
                    pass
        except SnapshotLost as error:
            self._log_loss(as_arguments(error.message))
        except PenstockError as error:
            raise airflow_exception(error) from None
        self._check_not_killed()
        if finished.is_set():
            self.log.info(NO_READERS)
            with suppress(PenstockError):
                penstock.release(
                    self.run_id, target=urls["target"], control_schema=self.control_schema
                )

    def _is_released(self, target: str) -> bool:
        try:
            status = penstock.status(self.run_id, target=target, control_schema=self.control_schema)
        except PenstockError as error:
            raise airflow_exception(error) from None
        return status.run.released_at is not None

    def execute_complete(self, context: Any, event: dict[str, Any]) -> None:
        """End the task, or fail it, after the trigger has ended.

        Args:
            context: the context of the task.
            event: the trigger's last event.

        Raises:
            AirflowFailException, AirflowException: the snapshot could not be taken.
        """
        if event["status"] == "lost":
            self._log_loss(event["message"])
        elif event["status"] == "failed":
            kind = AirflowException if event["transient"] else AirflowFailException
            raise kind(event["message"])
        else:
            self.log.info("%s", event["message"])

    def _log_loss(self, message: str) -> None:
        self.log.error(
            "%s\nThe snapshot is no longer held: copies that need it will fail.", message
        )

    def on_kill(self) -> None:
        """Stop holding the snapshot."""
        super().on_kill()
        self._stop.set()


class _ReadersFinished(Flag):
    """A flag, set once no remaining task reads with the snapshot, or the task is killed."""

    def __init__(self, readers: Tasks, killed: Flag) -> None:
        super().__init__()
        self._readers = readers
        self._killed = killed
        self._checked_at = time.monotonic()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait between two checks of the snapshot, and check the readers from time to time.

        This runs in the task's main thread, which may call Airflow.

        Args:
            timeout: seconds.
        """
        if time.monotonic() - self._checked_at >= READERS_INTERVAL:
            self._checked_at = time.monotonic()
            if self._readers.are_finished():
                self.set()
        return self.is_set() or self._killed.wait(timeout)


def _reader_ids(task: Any) -> list[str]:
    """Return the ids of tasks that read with the snapshot: the copies and the comparison."""
    prepare = nearest(task, "PrepareCopyOperator", "upstream_task_ids")
    if prepare is None:
        return []
    nearest_tasks = [
        nearest(prepare, kinds, "downstream_task_ids") for kinds in (COPIES, "VerifyCopyOperator")
    ]
    return [reader.task_id for reader in nearest_tasks if reader is not None]


class ReleaseSnapshotOperator(TargetOperator):
    """Ends a run, whether its copies succeeded or failed.

    It releases the run's snapshot, if there is one, and fails unless every partition is committed.

    Turn it into a teardown with `.as_teardown()`. When a DAG run is marked as failed, Airflow skips
    all tasks but teardowns, and treats skipped tasks as successful. So this is the only task that
    can report missing rows; if it fails, so does the DAG run.

    Args:
        run_id: the output of `PrepareCopyOperator`.
        kwargs: the target, and the arguments of every operator.
    """

    template_fields: Sequence[str] = ("run_id", *TARGET_ARGUMENTS)

    def __init__(self, *, run_id: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id

    def as_teardown(self, **options: Any) -> Any:
        """Turn the operator into a teardown whose failure, by default, fails the DAG run."""
        options.setdefault("on_failure_fail_dagrun", True)
        return super().as_teardown(**options)

    def execute(self, context: Any) -> None:
        """Release the snapshot, and check that the run is complete."""
        if not self.run_id:
            raise_missing_run(context, nearest(self, "PrepareCopyOperator", "upstream_task_ids"))
        target = self._target_url()
        try:
            penstock.release(self.run_id, target=target, control_schema=self.control_schema)
            status = penstock.status(self.run_id, target=target, control_schema=self.control_schema)
        except PenstockError as error:
            raise airflow_exception(error) from None
        try:
            self._check_done(status, context)
        except AirflowFailException:
            # No task will continue the run now; if one is cleared, it does.
            self._give_up(target)
            raise

    def _give_up(self, target: str) -> None:
        """Give the run up, once killed tasks have left it."""
        deadline = time.monotonic() + LEAVE_SECONDS
        while True:
            try:
                penstock.give_up(self.run_id, target=target, control_schema=self.control_schema)
            except TargetBusy:
                if time.monotonic() < deadline:
                    time.sleep(1.0)
                    continue
                self.log.warning("run %s is not given up, because a task executes it", self.run_id)
            except PenstockError as error:
                self.log.warning("run %s is not given up: %s", self.run_id, error.message)
            return

    def _advice(self, status: RunStatus, context: Any) -> str:
        """Return what to clear so that the run, or a new one, copies what is missing."""
        plan = nearest(self, "PlanCopyOperator", "upstream_task_ids")
        prepare = nearest(self, "PrepareCopyOperator", "upstream_task_ids")
        verify = nearest(self, "VerifyCopyOperator", "upstream_task_ids")
        if prepare is not None and self._has_lost_rows(status):
            return f"Others have changed its table since: {NEW_RUN.format(prepare.task_id)}"
        if plan is not None:
            states = Tasks.of(context, [plan.task_id])
            if states.have_failed() or states.are_skipped():
                # Nothing was copied, and the snapshot that copies wait for was released.
                first = plan if prepare is None else prepare
                return f"{plan.task_id} has not passed: {NEW_RUN.format(first.task_id)}"
        advice = "Clear the failed copies with their downstream tasks"
        if verify is not None:
            advice += (
                f"; if no copy has failed, clear {verify.task_id} with its downstream tasks: it "
                "copies the rest"
            )
        return advice

    def _has_lost_rows(self, status: RunStatus) -> bool:
        """Whether the target's table has lost rows that the run has committed, as far as shows."""
        try:
            loss = penstock.find_loss(
                status.run.run_id,
                target=self._target.connect(),
                control_schema=self.control_schema,
            )
        except PenstockError:
            return False
        return loss is not None and not loss.partial

    def _copies_have_failed(self, context: Any) -> bool:
        copies = nearest(self, COPIES, "upstream_task_ids")
        return copies is not None and Tasks.of(context, [copies.task_id]).have_failed()

    def _check_done(self, status: RunStatus, context: Any) -> None:
        """Check that the run is complete.

        Raises:
            AirflowFailException: the run is incomplete, or its verification has failed.
        """
        run = status.run
        if covered_by(status):
            self.log.info("%s", overtaken_message(COVERED, status))
            return
        partitions = len(run.plan.partitions)
        committed = len(status.committed)
        remaining = [step.name for step in run.plan.load.after if step.id not in status.steps_done]
        verify = nearest(self, "VerifyCopyOperator", "upstream_task_ids")
        if committed < partitions:
            raise AirflowFailException(
                f"run {run.run_id}: {committed} of {partitions} partitions are committed. "
                f"{self._advice(status, context)}"
            )
        if run.status != "done" and remaining:
            raise AirflowFailException(
                f"run {run.run_id}: every partition is committed, but these steps remain: "
                f"{', '.join(remaining)}. {self._advice(status, context)}"
            )
        verified = None if verify is None else Tasks.of(context, [verify.task_id])
        if verified is not None and verified.have_failed() and self._copies_have_failed(context):
            raise AirflowFailException(
                f"run {run.run_id}: every partition is committed, but a copy has failed, so "
                f"{verify.task_id} has not run. Clear the failed copies with their downstream "
                "tasks: they find nothing left to copy"
            )
        if verified is not None and verified.have_failed():
            raise AirflowFailException(
                f"run {run.run_id}: every partition is committed, but {verify.task_id} has failed. "
                "Read its log, and clear it with its downstream tasks"
            )
        if verified is not None and verified.are_skipped():
            raise AirflowFailException(
                f"run {run.run_id}: every partition is committed, but {verify.task_id} was "
                "skipped. Clear it with its downstream tasks"
            )
        if run.status != "done":
            self.log.warning(
                "run %s: every partition is committed, but no task has ended the run: %s was "
                "marked as a success",
                run.run_id,
                "VerifyCopyOperator" if verify is None else verify.task_id,
            )
