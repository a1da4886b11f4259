"""One run while it is executed: what it has done, and what its target has stored of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.backends.api.source import SourceCatalog
from penstock.engine.claims import check_not_overtaken
from penstock.engine.connections import Connections
from penstock.engine.control_link import ControlLink
from penstock.engine.report import Report
from penstock.engine.resume_checks import unless_complete
from penstock.engine.snapshot.source_view import SourceView
from penstock.errors import (
    LoadLost,
    Overtaken,
    PenstockError,
    PermanentError,
    SnapshotLost,
    TargetChanged,
)
from penstock.events import (
    Committed,
    Event,
    Finished,
    Merged,
    PartitionsChecked,
    Planned,
    Prepared,
    StepChanged,
    Verified,
    Warned,
)
from penstock.model import values
from penstock.model.awaited import during
from penstock.model.nights import Watermark
from penstock.model.plans import WATERMARK_STEP, Partition, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot
from penstock.model.tables import NotCopied, TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import Streams
from penstock.spec.masking_keys import session_values
from penstock.spec.modes import Ending, Entry
from penstock.spec.worker_spec import WorkerSpec
from penstock.verification.partitions import (
    Proof,
    difference,
    is_checked,
    is_compared,
    prove,
    remedy,
    unsure,
)
from penstock.workers.supervisor import Supervisor, Work

if TYPE_CHECKING:
    from penstock.verification.result import Verification

Counted = Callable[[str, Snapshot | None], int | None]
"""Returns the rows that a run's source had as of a snapshot; None if they were not counted."""
MOST_SHOWN = 10
# Bytes of a table whose indexes are built faster than separate requests for them are sent.
SMALL = 8 * 1024 * 1024
# Bytes of a partition that is copied faster than a transaction of its own begins and ends.
JOINED = 512 * 1024


class RunState:
    """The state of a run in this execution.

    Args:
        spec: the options of the run.
        run_id: the id of the run.
        ends: the connections.
        link: the link to the target's control store.
        view: the run's view of the source.
        finish: whether to compare both sides and do the steps after the last partition.
        shares: whether other executions take partitions of the run, too.
    """

    def __init__(
        self,
        spec: CopySpec,
        run_id: str,
        *,
        ends: Connections,
        link: ControlLink,
        view: SourceView,
        finish: bool = True,
        shares: bool = False,
    ) -> None:
        self._shares = shares
        self.is_prepared_by_others = False
        """Whether another execution, with which it shares the run, has prepared the target."""
        self.ended_before: str | None = None
        """When an earlier execution of the run ended, as the target has it."""
        self.finished_elsewhere = False
        """Whether another execution has finished the run during this one."""
        self.spec = spec
        self.run_id = run_id
        self.view = view
        self.finishes = finish
        self._ends = ends
        self._link = link
        self._plan: PartitionPlan | None = None
        self._partitions: Sequence[Partition] = ()
        self._report = Report(run_id)
        self._mismatch: PenstockError | None = None
        self.was_done = False
        """Whether the run was done before this execution."""
        self.complete = False
        """Whether every partition was committed before this execution, so that nothing is read."""
        self.ended: Finished | None = None
        self.is_new = False
        """Whether this execution has created the run."""
        self._done: set[str] = set()
        self._watermark_stays = False
        """Whether all its rows are there, but the watermark cannot tell which those are."""
        self._deleted = 0
        self._records: Sequence[CommitRecord] = ()
        self._is_prepared = False
        self._worked = False
        """Whether this execution has opened a partition or begun a step."""
        self._unrestored: tuple[NotCopied, ...] = ()

    def begin(
        self,
        plan: PartitionPlan,
        partitions: Sequence[Partition] | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        """Begin to execute a plan.

        Args:
            plan: the plan of the run.
            partitions: the ones to copy unless they are committed; None for all.
            is_new: whether this execution has created the run.
        """
        self._plan = plan
        self._partitions = plan.partitions if partitions is None else partitions
        self.is_new = is_new
        self._report.begin()
        self.view.use_plan(plan)

    def note_stored(self, run: RunRow) -> None:
        """Note what others had done when the run was read."""
        self.is_prepared_by_others = self._shares and run.prepared_at is not None
        self.ended_before = run.finished_at

    def release(self) -> None:
        """Free the plan's memory once the execution is over."""
        load = replace(self.plan.load, steps=(), links=())
        self._plan = replace(self.plan, partitions=(), columns=(), pairs=(), reasons=(), load=load)
        self.view.use_plan(self._plan)
        self._partitions, self._records, self._done = (), (), set()
        if self.ended is not None:
            self.ended = replace(self.ended, timings=())
        self._report.release()

    @property
    def has_begun(self) -> bool:
        """Whether the run has a plan."""
        return self._plan is not None

    @property
    def plan(self) -> PartitionPlan:
        """The run's plan, once it has begun."""
        assert self._plan is not None
        return self._plan

    @property
    def error(self) -> PenstockError | None:
        """The error that ended the run or its planning, unless a failed partition did."""
        return self._report.error

    @property
    def is_small(self) -> bool:
        """Whether its steps are so short that they may be done together with those of others."""
        size = self.plan.bytes or 0
        if self.spec.load_mode.ending is Ending.MERGE:
            # How much of the table has changed shows when it is read.
            size = sum(record.bytes for record in self._records)
        return not self.plan.load.volatile and size <= SMALL

    @property
    def replaces_table(self) -> bool:
        """Whether it empties, drops or replaces its table, together with what others have loaded.

        A night loads a stage beside the table, and merges it.
        """
        return self.spec.load_mode.replaces_table

    def loads_table(self, table: TableRef) -> bool:
        """Whether it loads a table of its target, of which there is one if the target is files."""
        return self._ends.target_backend.located or table == self.spec.target_ref

    @property
    def did_nothing(self) -> bool:
        """Whether it was done before this execution, which has changed nothing."""
        return self.is_untouched and not self._worked

    @property
    def reads_snapshot(self) -> bool:
        """Whether the rest is read with a snapshot."""
        return self.spec.snapshot == "shared" and not self.complete

    @property
    def is_untouched(self) -> bool:
        """Whether it was done before this execution, which did not restart it."""
        return self.was_done and not self.view.started_over and self.error is None

    def planned_event(self, streams: Streams, seconds: float) -> Planned:
        """Return the event on the plan, once `load_standing` has read the run's status.

        Args:
            streams: the numbers of streams.
            seconds: the duration of planning.
        """
        plan = self.plan
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
            degree=streams.usual,
            seconds=round(seconds, 3),
            automatic=streams.automatic,
            done=self.is_untouched and all(each.id in self._done for each in self._partitions),
            table=self.spec.source_name,
            target_table=str(self.spec.target_ref),
        )

    def prepared_event(self, *, already: bool) -> Prepared:
        """Note that the target is prepared, and return the event."""
        self._is_prepared = True
        return Prepared(run_id=self.run_id, mode=self.spec.mode, already=already)

    def is_intact(self) -> bool:
        """Whether no crash of the target has emptied the table that is being loaded."""
        return not self.plan.load.volatile or self._link.call(
            lambda control: control.tables.is_intact(self.run_id)
        )

    def load_again(self, error: LoadLost) -> Iterator[Event]:
        """Start over after a crash has emptied the target's table."""
        yield self._link.call(lambda control: self.view.load_again(control, error.message))
        yield self.prepared_event(already=False)

    def replace_view(self) -> Iterator[Event]:
        """Find another view of the source, after the snapshot was lost during the run.

        Raises:
            SnapshotLost, PlanningError: the run does not allow it.
        """
        self._load_records()
        before, self.view.started_over = self.view.started_over, False
        yield from self._link.call(
            lambda control: tuple(
                self.view.replace_lost(control, anything_committed=bool(self._done))
            )
        )
        if self.view.started_over:
            yield self.prepared_event(already=False)
        self.view.started_over = self.view.started_over or before

    def adopt_generation(self) -> Generator[Event, None, bool]:
        """Read the generation that another process has begun, and what it has committed.

        Its snapshot is used if it is held; otherwise the run continues as if resumed.

        Returns: whether the run still exists.

        Raises:
            SnapshotLost, PlanningError: the run allows no view of the source.
        """
        self.view.close()
        run = self._link.call(lambda control: control.runs.find(self.run_id))
        if run is None:
            return False
        self.view.reload(run)
        self.note_stored(run)
        self.complete = False
        self._load_records()
        events: tuple[Event, ...] = ()
        with closing(self.view.open()) as source:

            def find(control: ControlStore) -> tuple[Event, ...]:
                return tuple(
                    self.view.recover(source, control, anything_committed=bool(self._done))
                )

            with unless_complete(run, self._link.catalog.control):
                events = self._link.call(find)
        yield from events
        return True

    def is_superseded(self) -> bool:
        """Whether another process has begun a new generation, so that our attempts fail."""
        outlook = self._link.call(lambda control: control.runs.outlook(self.run_id))
        return outlook is not None and outlook.generation != self.view.generation

    def works(self) -> list[Work]:
        """Return the partitions that are left, according to the records read so far."""
        spec = self._worker_spec()
        return [
            Work(spec, partition, self.spec.attempts, self.spec.on_error == "stop")
            for partition in self._partitions
            if partition.id not in self._done
        ]

    def joined(self, work: Work) -> Work:
        """Return a partition of the run with its batch, if others may be committed with it."""
        from penstock.spec.batch_spec import batch_of  # noqa: PLC0415 - batches only

        size = work.partition.bytes
        if size is None:  # how much of the table has changed shows when it is read
            size = self.plan.most_bytes
        joins = (
            self._ends.capabilities.target.joins_attempts
            and self.spec.load_mode.of_partitions.entry is Entry.INSERT
            and len(self.plan.partitions) == 1
            and size is not None
            and size <= JOINED
            and not self.plan.load.volatile
        )
        return replace(work, batch=batch_of(self.run_id, self.spec)) if joins else work

    def _worker_spec(self) -> WorkerSpec:
        spec, plan = self.spec, self.plan
        snapshot = self.view.readable
        return WorkerSpec(
            run_id=self.run_id,
            generation=self.view.generation,
            source=self._ends.source_url,
            target=self._ends.target_url,
            source_backend=self._ends.source_reference,
            target_backend=self._ends.target_reference,
            relation=spec.relation,
            schema=plan.load.schema,
            writing=spec.writing,
            target_table=plan.load.table,
            pairs=plan.pairs,
            format=plan.format,
            where=plan.where(spec.where),
            mode=spec.load_mode.of_partitions.name,
            conflict_columns=plan.load.conflict_columns,
            volatile=plan.load.volatile,
            series=plan.series,
            snapshot=snapshot.token if snapshot else None,
            read_at=snapshot.taken_at if snapshot else "",
            stall_timeout=spec.stall_timeout,
            leaves_taken=self._shares,
            grace=spec.grace,
            control_schema=spec.control_schema,
            show_values=values.chosen() or values.NEVER,
            session_values=session_values(plan.pairs),
        )

    def add(self, event: Event) -> None:
        """Note an event of this run."""
        self._report.add(event)
        self._worked = True
        if isinstance(event, Committed):
            self._done.add(event.partition_id)

    def take_failures(self, supervisor: Supervisor) -> None:
        """Take the failures of the run's partitions from the supervisor."""
        self._report.failures = tuple(
            failure for (run_id, _), failure in supervisor.failures.items() if run_id == self.run_id
        )

    def fail(self, error: PenstockError) -> None:
        """Note the error that ended the run, unless a failed partition did."""
        self._report.error = self.explain_error(error)

    def explain_error(self, error: PenstockError) -> PenstockError:
        """Return the cause of an error.

        A night that another one has overtaken no longer has a stage, whatever code notices
        that first.
        """
        if error.transient or not self.has_begun or self.plan.night is None:
            return error
        try:
            self._link.call(lambda control: check_not_overtaken(self.run_id, self.plan, control))
        except Overtaken as found:
            return found
        except PenstockError:
            pass  # the cause is unknown
        return error

    def verify(self, counted: Counted) -> Iterator[Event]:
        """Compare both sides if requested, and the partitions with one count of all rows.

        This comes before the steps after the last partition.

        A difference fails the run at its end. A run that was done before is not verified again:
        its source may have changed since.

        Args:
            counted: looks up the count of all rows.
        """
        complete = self._report.error is None and self.all_committed
        if not is_compared(self.spec, self.plan) or self.was_done or not complete:
            return
        if self.spec.verify == "none":
            if is_checked(self.plan):
                yield from self._check_partitions(counted)
            return
        from penstock.verification.checks import verify_run  # noqa: PLC0415 - rarely needed

        started = time.monotonic()
        run = self._link.call(lambda control: control.runs.find(self.run_id))
        assert run is not None
        moments = (record.read_at for record in self._records)
        with (
            during("verifying"),
            closing(self.view.open_to_compare(moments)) as source,
            closing(self._link.reconnect()) as target,
        ):
            verification = verify_run(
                self.spec,
                run,
                source,
                target,
                checksums=self.spec.verify == "checksums",
                at_the_end=True,
            )
        self._mismatch = None if verification.ok else PermanentError(_differences(verification))
        # The source is not read again.
        self._link.call(lambda control: control.runs.release_snapshot(self.run_id))
        yield from self.view.handle.pending_warnings()
        for warning in verification.warnings:
            yield Warned(run_id=self.run_id, message=warning)
        yield Verified(
            run_id=self.run_id,
            ok=verification.ok,
            partitions=len(self.plan.partitions),
            mismatches=len(verification.wrong),
            method=verification.method,
            seconds=round(time.monotonic() - started, 3),
            differences=verification.differences,
            compared=verification.compared,
        )

    @property
    def is_of_one_moment(self) -> bool:
        """Whether all its rows were read with its newest snapshot."""
        snapshot = self.view.snapshot
        return snapshot is not None and all(
            record.read_at == snapshot.taken_at for record in self._records
        )

    def record_deleted_keys(self, count: int) -> None:
        """Record how many rows this execution found missing from the source."""
        self._deleted = count

    def leave_watermark(self) -> Warned:
        """End a load of all rows whose source was changed while it was read.

        Its rows stay, and the watermark, which would claim that they are all, is left as it
        is.
        """
        assert self.plan.night is not None
        self._watermark_stays = True
        message = (
            f"watermark {self.plan.night.name} stays unchanged, and the next run reads all rows: "
            f"tables were attached to {self.spec.source_name}, or its columns or types were "
            f"altered, while run {self.run_id} read it"
        )
        return Warned(run_id=self.run_id, message=message)

    def release_if_read(self) -> None:
        """Release the snapshot, if the source is not read again."""
        if self.spec.verify == "none" and not is_checked(self.plan):
            self._link.call(lambda control: control.runs.release_snapshot(self.run_id))

    def merged_event(self, mark: Watermark | None) -> Merged:
        """Return the event on merging the run's rows, according to its records.

        Args:
            mark: the watermark that the run has set.
        """
        night, records = self.plan.night, self._records
        event = Merged(
            run_id=self.run_id,
            rows=sum(record.rows for record in records),
            inserted=mark.inserted if mark else sum(record.inserted or 0 for record in records),
            updated=sum(record.updated or 0 for record in records),
            deleted=mark.deleted if mark else self._deleted,
            watermark=mark.name if mark else "",
            epoch=mark.epoch if mark else 0,
            moment=mark.moment if mark else "",
            since=night.moment if night else "",
            full=night.full if night else "",
            unproven=night.cursor.unproven if night and night.cursor else "",
        )
        self._report.add(event)
        return event

    def step_changed(self, step: Step, state: str, started: float) -> StepChanged:
        """Return the event on a step.

        Args:
            step: the step.
            state: as in `StepChanged`.
            started: the time at which it began, by the monotonic clock.
        """
        self._worked = True
        return StepChanged(
            run_id=self.run_id,
            step_id=step.id,
            step=step.name,
            state=state,
            seconds=round(time.monotonic() - started, 3),
        )

    @property
    def awaits_count(self) -> bool:
        """Whether its partitions will be compared with one count of all rows that can be taken now.

        The count is taken in the snapshot with which all partitions are read.
        """
        return (
            self.finishes
            and self.spec.verify == "none"
            and is_checked(self.plan)
            and self.error is None
            and self.reads_snapshot
            and self.is_of_one_moment
        )

    def _check_partitions(self, counted: Counted) -> Iterator[Event]:
        """Compare the committed rows with one count of all rows."""
        started = time.monotonic()
        self._load_records()
        committed = sum(record.rows for record in self._records)
        snapshot = self.view.snapshot
        at_once = self.is_of_one_moment
        count = counted(self.run_id, snapshot) if at_once else None
        if count == committed:
            proof = Proof(committed, committed)
        else:
            with closing(self.view.open()) as source:
                adopted = snapshot is not None and self._adopts(source)
                proof = prove(
                    source,
                    self.spec,
                    self.plan,
                    committed,
                    same_moment=at_once and adopted,
                    counted=count if adopted else None,
                )
        # The source is not read again.
        self._link.call(lambda control: control.runs.release_snapshot(self.run_id))
        if proof.doubt:
            yield Warned(run_id=self.run_id, message=unsure(proof))
            return
        if proof.wrong:
            difference_text = difference(self.spec, self.plan, proof)
            self._mismatch = PermanentError(
                f"run {self.run_id}: {difference_text}; {remedy(self.plan)}"
            )
        yield PartitionsChecked(
            run_id=self.run_id,
            ok=proof.ok,
            rows=proof.rows,
            counted=proof.counted,
            seconds=round(time.monotonic() - started, 3),
        )

    def _adopts(self, source: SourceCatalog) -> bool:
        """Adopt the run's newest snapshot for reading, and return whether it is still held."""
        try:
            self.view.adopt(source)
        except SnapshotLost:
            return False
        return True

    def planned_steps(self) -> list[Step]:
        """Return the steps after the last partition, done or not; empty until all are committed."""
        if self._report.error is not None or not self.all_committed:
            return []
        if self._mismatch is not None and self.plan.load.loads_beside:
            return []  # the old table stays
        steps = self.plan.load.after
        if self._mismatch is not None or self._watermark_stays:
            return [
                replace(step, moves_watermark=False) for step in steps if step.id != WATERMARK_STEP
            ]
        return list(steps)

    def planned_links(self) -> list[Step]:
        """Return the steps that link the table to others of its batch, done or not."""
        if self._report.error is not None or not self.all_committed:
            return []
        return list(self.plan.load.links)

    def skip_steps(self, failed: Iterable[tuple[Step, PenstockError]]) -> Iterator[Event]:
        """Report failed steps that the run can do without."""
        for step, error in failed:
            if self._report.skip_step(step):
                assert step.instead is not None
                yield Warned(
                    run_id=self.run_id,
                    message=f"could not {step.name}: {error.message}; {step.instead.remedy}",
                )

    @property
    def not_copied(self) -> tuple[NotCopied, ...]:
        """Objects that the run leaves out, other than rows, as far as known."""
        if self._plan is None:
            return ()
        return (*self.plan.load.not_copied, *self._report.skipped, *self._unrestored)

    def with_positions(
        self, steps: list[Step], open_source: Callable[[], SourceCatalog]
    ) -> list[Step]:
        """Return steps with the current positions of the source's sequences.

        Args:
            steps: the steps.
            open_source: called once, if a step needs it; the code that opened it closes it.
        """
        if not any(step.sequence_of for step in steps):
            return steps
        positions = open_source().positions(self.spec.relation)
        return [replace(step, position=positions.get(step.sequence_of)) for step in steps]

    def _leaves_work(self, due: Sequence[Step]) -> bool:
        """Whether this execution leaves work after the last partition to another one."""
        compared = not is_compared(self.spec, self.plan) or self.was_done
        return not self.finishes and (not compared or bool(due))

    def judge(self, due: Sequence[Step], changed: PenstockError | None) -> str:
        """Return the status with which the run ends, and note why it failed, if it did.

        Args:
            due: the steps after the last partition that are not done.
            changed: a change by others to the table while it was loaded; None if there was none.
        """
        error = self.error or self._mismatch or self._seen_change() or changed
        if error is not None:
            self.fail(error)
            return "failed"
        if self.all_committed and not self._leaves_work(due):
            return "done"
        if all(partition.id in self._done for partition in self._partitions):
            return "partial"
        return "failed"

    def _seen_change(self) -> TargetChanged | None:
        """Return the change that an attempt has found."""
        for failure in self._report.failures:
            if failure.error["error"] == TargetChanged.__name__:
                return TargetChanged(str(failure.error["message"]))
        return None

    @property
    def awaits_last_look(self) -> bool:
        """Whether to check once more for changes of the table: a finished run stays done."""
        error = self.error or self._mismatch or self._seen_change()
        return error is None and not self.was_done and self.all_committed

    def end(self, status: str, degree: int) -> Finished:
        """Return the event that ends the run, from what is known of its state."""
        if self.spec.data_only and self._is_prepared and status != "done":
            self._unrestored = self.plan.load.unrestored_keys(())
        self.ended = self._report.finish(
            status,
            partitions=len(self.plan.partitions),
            committed=len(self._done),
            degree=degree,
            snapshots=self.view.snapshots,
            records=self._records,
            not_copied=self.not_copied if self.finishes else (),
        )
        return self.ended

    def stored_failures(self) -> Sequence[Mapping[str, Any]]:
        """Return the failures in the form that the control tables store."""
        return self._report.stored_failures()

    def raise_failure(self) -> None:
        """Raise the error that sums up the failures.

        Raises:
            RunFailed, RunFailedTransiently: always, with a summary in one line.
        """
        if self.ended is not None and self.ended.status == "failed":
            self._report.raise_failure()

    def take_records(self, records: Sequence[CommitRecord]) -> None:
        """Note the commit records of the run, as read from the target."""
        self._records = records
        self._done = {record.partition_id for record in records}

    def _load_records(self) -> None:
        records = self._link.call(lambda control: control.commits.of([self.run_id]))
        self.take_records(records[self.run_id])

    @property
    def is_mismatched(self) -> bool:
        """Whether both sides differ, or the run has committed another number of rows."""
        return self._mismatch is not None

    def end_elsewhere(self) -> None:
        """Note that another execution has finished the run."""
        self.finished_elsewhere = self.was_done = True
        if not self.all_committed:
            self._load_records()

    @property
    def all_committed(self) -> bool:
        """Whether every partition of the run is committed."""
        return all(partition.id in self._done for partition in self.plan.partitions)


def new_run_id() -> str:
    """Return a unique name that sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def _differences(verification: Verification) -> str:
    shown = [
        f"{check.partition_id or 'whole run'} ({check.label}): {check.note}"
        for check in verification.wrong[:MOST_SHOWN]
    ]
    more = len(verification.wrong) - len(shown)
    return (
        f"run {verification.run_id}: source and target differ in their {verification.method}:\n  "
        + "\n  ".join(shown)
        + (f"\n  and {more:,} more" if more else "")
    )
