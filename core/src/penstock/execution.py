"""One execution of a run: prepare, supervise, replace a lost snapshot, report."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay

from penstock.backends.base import ControlStore, TargetCatalog
from penstock.errors import (
    Interrupted,
    PenstockError,
    RunFailed,
    RunFailedTransiently,
    SnapshotLost,
    TransientError,
)
from penstock.events import Committed, Event, Finished, PartitionFailure, Planned, Prepared
from penstock.model import Partition, PartitionPlan
from penstock.report import Report
from penstock.source_view import SourceView
from penstock.spec import CopySpec, WorkerSpec
from penstock.supervisor import BACKOFF, Supervisor
from penstock.worker_process import Nursery

T = TypeVar("T")

# A server that restarts is back by then; after it, the run's state can still be had by `status`.
RECONNECT_SECONDS = 60.0
# Seconds. Who cancels does not want to wait for a server that does not answer.
BRIEFLY = 2.0


class Execution:
    """Runs partitions of a stored plan.

    Parameters:
        reconnect: opens the target's catalog anew, after its connection was lost.
        view: the run's view of the source.
    """

    def __init__(
        self,
        *,
        spec: CopySpec,
        run_id: str,
        plan: PartitionPlan,
        degree: int,
        source_url: str,
        target_url: str,
        source_reference: str,
        target_reference: str,
        nursery: Nursery,
        target: TargetCatalog,
        reconnect: Callable[[], TargetCatalog],
        view: SourceView,
    ) -> None:
        self._spec = spec
        self._run_id = run_id
        self._plan = plan
        self._degree = degree
        self._urls = (source_url, target_url)
        self._references = (source_reference, target_reference)
        self._nursery = nursery
        self._target = target
        self._reconnect = reconnect
        self._reconnected: TargetCatalog | None = None
        self._view = view
        self._report = Report(run_id)
        self._failures: tuple[PartitionFailure, ...] = ()
        self._done: set[str] = set()
        view.planned_by(plan.strategy)

    def run(self, partitions: Sequence[Partition], *, seconds: float) -> Iterator[Event]:
        """Copy those of the partitions that are not committed.

        Parameters:
            seconds: what planning took.

        Raises:
            RunFailed, RunFailedTransiently: after the `Finished` event.
        """
        status = "interrupted"
        try:
            self._done = self._committed()
            yield self._planned(len(self._done), seconds)
            yield self._prepare()
            self._set_status("running")
            try:
                yield from self._copy(partitions)
            except Interrupted:
                yield self._finish(status)
                raise
            except PenstockError:
                # The snapshot is lost for good, or a server stays away.
                status = "failed"
                yield self._finish(status)
                raise
            status = self._status(partitions)
            self._set_status(status)
            yield self._finish(status)
        except BaseException as error:
            # Whatever ended this: the target should say so, if it can be told.
            cancelled = isinstance(error, Interrupted | GeneratorExit | KeyboardInterrupt)
            _briefly(lambda: self._tell_end(cancelled=cancelled))
            raise
        finally:
            if self._reconnected is not None:
                self._reconnected.close()
        if status == "failed":
            self._raise_failure()

    def _planned(self, committed: int, seconds: float) -> Planned:
        plan = self._plan
        return Planned(
            run_id=self._run_id,
            strategy=plan.strategy,
            reasons=(*plan.reasons, *(f"warning: {warning}" for warning in plan.warnings)),
            partitions=len(plan.partitions),
            committed=committed,
            rows=plan.rows,
            bytes=plan.bytes,
            fingerprint=plan.fingerprint,
            degree=self._degree,
            seconds=round(seconds, 3),
        )

    def _prepare(self) -> Prepared:
        mode = self._spec.mode
        done = self._control(lambda c: c.prepare(self._run_id, self._spec.target_ref, mode))
        already = not done and not self._view.started_over
        return Prepared(run_id=self._run_id, mode=mode, already=already)

    def _copy(self, partitions: Sequence[Partition]) -> Iterator[Event]:
        while True:
            self._done = self._committed()
            pending = [partition for partition in partitions if partition.id not in self._done]
            if not pending:
                return
            supervisor = self._supervisor(len(pending))
            try:
                for event in supervisor.run(pending):
                    self._report.add(event)
                    if isinstance(event, Committed):
                        self._done.add(event.partition_id)
                    yield event
                return
            except SnapshotLost as error:
                yield self._view.lost(error.message)
                anything, before = bool(self._committed()), self._view.generation
                yield from self._replace_view(anything_committed=anything)
                if self._view.generation != before:
                    yield Prepared(run_id=self._run_id, mode=self._spec.mode, already=False)
            finally:
                self._degree = supervisor.degree
                self._failures = tuple(supervisor.failures.values())

    def _replace_view(self, *, anything_committed: bool) -> Sequence[Event]:
        return self._control(
            lambda control: tuple(
                self._view.replace_lost(control, anything_committed=anything_committed)
            )
        )

    def _supervisor(self, pending: int) -> Supervisor:
        spec = self._spec
        snapshot = self._view.snapshot
        return Supervisor(
            WorkerSpec(
                run_id=self._run_id,
                generation=self._view.generation,
                source=self._urls[0],
                target=self._urls[1],
                source_backend=self._references[0],
                target_backend=self._references[1],
                table=spec.table_ref,
                target_table=spec.target_ref,
                columns=tuple(column.name for column in self._plan.columns),
                where=spec.where,
                mode=spec.mode,
                snapshot=snapshot.token if snapshot else None,
                stall_timeout=spec.stall_timeout,
                grace=spec.grace,
                control_schema=spec.control_schema,
            ),
            nursery=self._nursery,
            degree=max(1, min(self._degree, pending)),
            attempts=spec.attempts,
            stop_on_error=spec.on_error == "stop",
            is_committed=self._is_committed,
            watch=self._view.watch,
        )

    def _is_committed(self, partition_id: str) -> bool:
        """Ask once; a server that cannot say is asked again by the next attempt itself."""
        try:
            records = self._catalog().control.committed(self._run_id)
        except TransientError:
            self._drop()
            return False
        return any(record.partition_id == partition_id for record in records)

    def _committed(self) -> set[str]:
        records = self._control(lambda control: control.committed(self._run_id))
        return {record.partition_id for record in records}

    def _status(self, partitions: Sequence[Partition]) -> str:
        self._done = self._committed()
        if all(partition.id in self._done for partition in self._plan.partitions):
            return "done"
        if all(partition.id in self._done for partition in partitions):
            return "partial"
        return "failed"

    def _finish(self, status: str) -> Finished:
        return self._report.finish(
            status,
            partitions=len(self._plan.partitions),
            committed=len(self._done),
            degree=self._degree,
            snapshots=len(self._view.snapshots),
            failures=self._failures,
        )

    def _set_status(self, status: str) -> None:
        failures = [
            {
                "partition_id": failure.partition_id,
                "label": failure.label,
                "attempts": failure.attempts,
                "error": dict(failure.error),
            }
            for failure in self._failures
        ]
        self._control(lambda control: control.set_status(self._run_id, status, failures))

    def _tell_end(self, *, cancelled: bool) -> None:
        if cancelled:
            # A statement may still run on that connection, and hold the run's row: closing it
            # cancels that.
            self._catalog().close()
            self._drop()
        self._set_status("interrupted" if cancelled else "failed")

    def _raise_failure(self) -> None:
        count = len(self._failures)
        message = f"run {self._run_id}: {count} partition{'s' if count != 1 else ''} failed"
        if all(failure.error.get("transient") for failure in self._failures):
            raise RunFailedTransiently(message)
        raise RunFailed(message)

    # The control connection, which may be lost when the target restarts

    def _catalog(self) -> TargetCatalog:
        return self._reconnected or self._target

    def _drop(self) -> None:
        with contextlib.suppress(PenstockError):
            if self._reconnected is not None:
                self._reconnected.close()
            self._reconnected = self._reconnect()

    def _control(self, call: Callable[[ControlStore], T]) -> T:
        """Speak to the control store; reconnects for a while when the connection is lost."""
        for attempt in Retrying(
            retry=retry_if_exception_type(TransientError),
            wait=BACKOFF,
            stop=stop_after_delay(RECONNECT_SECONDS),
            reraise=True,
        ):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self._drop()
                return call(self._catalog().control)
        raise AssertionError("unreachable")


def _briefly(call: Callable[[], None]) -> None:
    """Try something for a moment, on a thread that may be left behind."""

    def attempt() -> None:
        with contextlib.suppress(PenstockError):
            call()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(BRIEFLY)
