"""One run while it is executed: what it has done, what its target has been told."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from penstock.backends.api.source import SourceCatalog
from penstock.errors import (
    LoadLost,
    PenstockError,
    PermanentError,
    RunFailed,
    RunFailedTransiently,
    TargetChanged,
)
from penstock.events import (
    Committed,
    Event,
    Finished,
    PartitionFailure,
    Planned,
    Prepared,
    ReadLater,
    Verified,
    Warned,
)
from penstock.model.codec import to_json
from penstock.model.plans import Partition, PartitionPlan, Step
from penstock.model.records import CommitRecord, read_later
from penstock.model.tables import NotCopied
from penstock.run.claims import collisions
from penstock.run.control_link import ControlLink
from penstock.run.report import Report
from penstock.run.source_view import SourceView
from penstock.spec.copy_spec import CopySpec
from penstock.spec.worker_spec import WorkerSpec
from penstock.verification.checks import Verification, verify_run
from penstock.workers.supervisor import Supervisor, Work

MOST_SHOWN = 10


class RunState:
    """
    Parameters:
        partitions: those that are to be copied, where they are not committed.
        references: of the backends of source and target.
        urls: of source and target; with secrets.
        view: the run's view of the source.
        finish: compare both sides and do the steps after the last partition.
    """

    def __init__(
        self,
        *,
        spec: CopySpec,
        run_id: str,
        plan: PartitionPlan,
        partitions: Sequence[Partition],
        urls: tuple[str, str],
        references: tuple[str, str],
        link: ControlLink,
        view: SourceView,
        finish: bool = True,
    ) -> None:
        self.spec = spec
        self.run_id = run_id
        self.plan = plan
        self.partitions = partitions
        self.view = view
        self._urls = urls
        self._references = references
        self._link = link
        self._report = Report(run_id)
        self._failures: tuple[PartitionFailure, ...] = ()
        self._error: PenstockError | None = None
        self._mismatch: PenstockError | None = None
        self._left: list[NotCopied] = []
        self._finish = finish
        self._was_done = False
        self._done: set[str] = set()
        self._records: Sequence[CommitRecord] = ()
        view.planned_by(plan)

    def planned(self, degree: int, seconds: float) -> Planned:
        """
        Parameters:
            seconds: what planning took.
        """
        plan = self.plan
        self._look()
        run = self._link.call(lambda control: control.load_run(self.run_id))
        self._was_done = run is not None and run.status == "done"
        return Planned(
            run_id=self.run_id,
            strategy=plan.strategy,
            reasons=plan.reasons,
            warnings=plan.warnings,
            not_copied=plan.load.not_copied,
            partitions=len(plan.partitions),
            committed=len(self._done),
            rows=plan.rows,
            bytes=plan.bytes,
            fingerprint=plan.fingerprint,
            degree=degree,
            seconds=round(seconds, 3),
        )

    def prepare(self) -> Iterator[Event]:
        """Do the steps before the first partition, where nobody has.

        Raises:
            TargetBusy: another run is changing the same rows at this moment.
            TargetChanged: the table is not the one that was prepared.
        """
        self._look()
        left = not self._all_committed() or bool(self.steps())
        if left:
            self._link.enter(
                self.run_id,
                self.spec.target_ref,
                collisions(self.spec, self.plan, self._link.catalog.control),
            )
        done = self._link.call(lambda control: control.prepare(self.run_id, self.plan.load))
        yield self._prepared(already=not done and not self.view.started_over)
        if not self.is_intact():
            yield from self.load_again(LoadLost("the target's server crashed while it was loaded"))
        elif left and not done:
            self._link.call(lambda control: control.check_target(self.run_id))
        self._look()
        # One that is done stays so, even if this execution is killed.
        if not self._all_committed() or self.steps():
            self.set_status("running")

    def _prepared(self, *, already: bool) -> Prepared:
        return Prepared(run_id=self.run_id, mode=self.spec.mode, already=already)

    def is_intact(self) -> bool:
        """False where a crash of the target has emptied the table that is being loaded."""
        return not self.plan.load.volatile or self._link.call(
            lambda control: control.intact(self.run_id)
        )

    def load_again(self, error: LoadLost) -> Iterator[Event]:
        """Start over after a crash has emptied the target's table."""
        yield self._link.call(lambda control: self.view.load_again(control, error.message))
        yield self._prepared(already=False)

    def replace_view(self) -> Iterator[Event]:
        """Find another view of the source, after the snapshot was lost in mid-run.

        Raises:
            SnapshotLost, PlanningError: the run does not allow it.
        """
        self._look()
        before, self.view.started_over = self.view.started_over, False
        yield from self._link.call(
            lambda control: tuple(
                self.view.replace_lost(control, anything_committed=bool(self._done))
            )
        )
        if self.view.started_over:
            yield self._prepared(already=False)
        self.view.started_over = self.view.started_over or before

    def is_superseded(self) -> bool:
        """Whether the snapshot's holder has begun a new generation, which fails our attempts."""
        if not self.view.awaits:
            return False
        outlook = self._link.call(lambda control: control.outlook(self.run_id))
        return outlook is not None and outlook.generation != self.view.generation

    def works(self) -> list[Work]:
        """What is left to do of the partitions."""
        self._look()
        spec = self._worker_spec()
        return [
            Work(spec, partition, self.spec.attempts, self.spec.on_error == "stop")
            for partition in self.partitions
            if partition.id not in self._done
        ]

    def _worker_spec(self) -> WorkerSpec:
        spec, plan = self.spec, self.plan
        snapshot = self.view.snapshot
        return WorkerSpec(
            run_id=self.run_id,
            generation=self.view.generation,
            source=self._urls[0],
            target=self._urls[1],
            source_backend=self._references[0],
            target_backend=self._references[1],
            relation=spec.relation,
            schema=plan.load.schema,
            writing=spec.writing,
            target_table=plan.load.table,
            pairs=plan.pairs,
            format=plan.format,
            where=spec.where,
            mode=spec.mode,
            conflict_columns=plan.load.conflict_columns,
            volatile=plan.load.volatile,
            series=plan.series,
            snapshot=snapshot.token if snapshot else None,
            read_at=snapshot.taken_at if snapshot else "",
            stall_timeout=spec.stall_timeout,
            grace=spec.grace,
            control_schema=spec.control_schema,
        )

    def add(self, event: Event) -> None:
        """Take note of an event of this run."""
        self._report.add(event)
        if isinstance(event, Committed):
            self._done.add(event.partition_id)

    def take_failures(self, supervisor: Supervisor) -> None:
        self._failures = tuple(
            failure for (run_id, _), failure in supervisor.failures.items() if run_id == self.run_id
        )

    def failed(self, error: PenstockError) -> None:
        """What ended the run, where it was no partition."""
        self._error = error

    def verify(self) -> Iterator[Event]:
        """Compare both sides where that is asked for, before the steps after the last partition.

        A difference fails the run at its end. A run that was done before is not verified again:
        its source may have changed since.
        """
        complete = self._error is None and self._all_committed()
        if self.spec.verify == "none" or self._was_done or not complete:
            return
        begun = time.monotonic()
        run = self._link.call(lambda control: control.load_run(self.run_id))
        assert run is not None
        with closing(self.view.open()) as source, closing(self._link.reconnect()) as target:
            found = verify_run(
                self.spec,
                run,
                source,
                target,
                checksums=self.spec.verify == "checksums",
                at_the_end=True,
            )
        self._mismatch = None if found.ok else PermanentError(_differences(found))
        self._link.call(lambda control: control.release(self.run_id))  # read for the last time
        for warning in found.warnings:
            yield Warned(run_id=self.run_id, message=warning)
        yield Verified(
            run_id=self.run_id,
            ok=found.ok,
            partitions=len(self.plan.partitions),
            mismatches=len(found.wrong),
            method=found.method,
            seconds=round(time.monotonic() - begun, 3),
            differences=found.differences,
        )

    def steps(self) -> list[Step]:
        """The steps after the last partition that are to be done now."""
        after = self.plan.load.after
        if not after or self._error is not None or not self._all_committed():
            return []
        if self._mismatch is not None and self.spec.load_mode.builds_beside:
            return []  # the old table stays
        done = self._link.call(lambda control: control.steps_done(self.run_id))
        return [step for step in after if step.id not in done]

    def links(self) -> list[Step]:
        """The steps that link the table to others of its batch and that are to be done now."""
        links = self.plan.load.links
        if not links or self._error is not None or not self._all_committed() or self.steps():
            return []
        done = self._link.call(lambda control: control.steps_done(self.run_id))
        return [step for step in links if step.id not in done]

    def leave(self, failed: Iterable[tuple[Step, PenstockError]]) -> Iterator[Event]:
        """Tell of steps that failed, but without which the run is done all the same."""
        for step, error in failed:
            assert step.instead is not None
            what = (step.instead.kind, step.instead.name, step.instead.table)
            if what in ((item.kind, item.name, item.table) for item in self._left):
                continue  # one that could not be made cannot be checked either
            self._left.append(step.instead)
            yield Warned(
                run_id=self.run_id,
                message=f"could not {step.name}: {error.message}; {step.instead.remedy}",
            )

    @property
    def not_copied(self) -> tuple[NotCopied, ...]:
        """What the run leaves out besides rows, as far as is known."""
        return (*self.plan.load.not_copied, *self._left)

    def due(self, open_source: Callable[[], SourceCatalog]) -> list[Step]:
        """The same, with what they take from the source as it is now.

        Parameters:
            open_source: asked once where a step needs it; its opener closes it.
        """
        steps = self.steps()
        if not any(step.sequence_of for step in steps):
            return steps
        found = open_source().positions(self.spec.relation)
        return [replace(step, position=found.get(step.sequence_of)) for step in steps]

    def _left_to_others(self) -> bool:
        """Whether something is to be done after the last partition that is not ours to do."""
        compared = self.spec.verify == "none" or self._was_done
        return not self._finish and (not compared or bool(self.steps()))

    def conclude(self, degree: int) -> Finished:
        """Store how the run stands, and tell it."""
        self._look()
        self._error = self._error or self._mismatch or self._target_change()
        if self._error is not None:
            status = "failed"
        elif self._all_committed() and not self._left_to_others():
            status = "done"
        elif all(partition.id in self._done for partition in self.partitions):
            status = "partial"
        else:
            status = "failed"
        self.set_status(status)
        return self.finished(status, degree)

    def _target_change(self) -> TargetChanged | None:
        """What somebody did to the table while it was loaded; a run that was done stays done."""
        for failure in self._failures:
            if failure.error["error"] == TargetChanged.__name__:
                return TargetChanged(str(failure.error["message"]))
        if not self._was_done and self._all_committed():
            try:
                self._link.call(lambda control: control.check_target(self.run_id))
            except TargetChanged as error:
                return error
        return None

    @property
    def finishes(self) -> bool:
        """Whether both sides are compared, and the last steps done, by this execution."""
        return self._finish

    def finished(self, status: str, degree: int) -> Finished:
        moments = {record.read_at for record in self._records if record.read_at}
        moments.update(snapshot.taken_at for snapshot in self.view.snapshots)
        return self._report.finish(
            status,
            partitions=len(self.plan.partitions),
            committed=len(self._done),
            degree=degree,
            snapshots=len(moments),
            later=tuple(
                ReadLater(taken_at=moment, partition_ids=names)
                for moment, names in read_later(self._records).items()
            ),
            failures=self._failures,
            error=self._error.as_json() if self._error else None,
            not_copied=self.not_copied if self._finish else (),
        )

    def set_status(self, status: str) -> None:
        failures = to_json(self._failures)
        if self._error is not None:
            failures.append({"label": "the run", "error": self._error.as_json()})
        self._link.call(lambda control: control.set_status(self.run_id, status, failures))

    def raise_failure(self) -> None:
        """
        Raises:
            RunFailed, RunFailedTransiently: with what the report says in one line.
        """
        if self._error is not None:
            raise self._error
        count = len(self._failures)
        message = f"run {self.run_id}: {count} partition{'s' if count != 1 else ''} failed"
        if all(failure.error.get("transient") for failure in self._failures):
            raise RunFailedTransiently(message)
        raise RunFailed(message)

    def _look(self) -> None:
        self._records = self._link.call(lambda control: control.committed(self.run_id))
        self._done = {record.partition_id for record in self._records}

    def _all_committed(self) -> bool:
        return all(partition.id in self._done for partition in self.plan.partitions)


def new_run_id() -> str:
    """A name that sorts by time and does not repeat."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def _differences(found: Verification) -> str:
    shown = [
        f"{check.partition_id or 'the whole'} ({check.label}): {check.note}"
        for check in found.wrong[:MOST_SHOWN]
    ]
    more = len(found.wrong) - len(shown)
    return (
        f"run {found.run_id}: source and target differ in their {found.method}:\n  "
        + "\n  ".join(shown)
        + (f"\n  and {more:,} more" if more else "")
    )
