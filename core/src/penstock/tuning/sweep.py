"""`tune`: copies of a sample into a scratch table, one setting after another."""

from __future__ import annotations

import resource
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from penstock.backends.api.optional.scratch import Scratch
from penstock.engine.api import create, plan, resume
from penstock.engine.connections import Connections, connect
from penstock.engine.reports import report
from penstock.engine.value_display import isolate_generator_display
from penstock.errors import (
    PenstockError,
    PlanningError,
    RunFailed,
    RunFailedTransiently,
    TransientError,
    UsageError,
)
from penstock.events import Event, Finished, now
from penstock.model import values
from penstock.model.codec import to_json
from penstock.model.plans import Partition, PartitionPlan
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Entry, Mode, Table, mode_names
from penstock.tuning.measurements import (
    SHORT,
    Measurement,
    Tuning,
    group_by_setting,
    recommend,
)
from penstock.tuning.settings import (
    DEGREES,
    SAMPLE,
    Setting,
    choose_sample,
    partition_size,
    sampled_bytes,
    settings,
    turns,
)

_PARTITION_OPTIONS = ("key", "values_query", "interval", "partitions")


@dataclass(frozen=True, slots=True)
class Sweep:
    """The measurements to take."""

    spec: CopySpec
    """The copy, with the schemas of its tables."""
    plan: PartitionPlan
    """The plan of the whole table."""
    sample: tuple[Partition, ...]
    settings: tuple[Setting, ...]
    turns: tuple[Setting, ...]

    @property
    def warm_up(self) -> Setting:
        """The setting copied first and not counted: it fills the source's caches."""
        return max(self.settings, key=lambda each: (not each.options, each.degree))

    @property
    def copies(self) -> int:
        """The number of copies, including the first one, which is not counted."""
        return len(self.turns) + 1

    @property
    def sampled_bytes(self) -> int:
        """The size of the sample in the source, in bytes; 0 if unknown."""
        return sampled_bytes(self.sample, self.plan)

    def as_json(self) -> dict[str, object]:
        """Return the output of ``penstock tune --plan --json``."""
        return {
            "partitions": [partition.id for partition in self.sample],
            "of_partitions": len(self.plan.partitions),
            "sampled_bytes": self.sampled_bytes,
            "of_bytes": self.plan.bytes,
            "copies": to_json((self.warm_up, *self.turns)),
        }


@dataclass(frozen=True, slots=True)
class SweepStarted:
    """The start of a copy of the sample."""

    number: int
    """The number of the copy, from 0; copy 0 is not counted."""
    of: int
    setting: Setting


@dataclass(frozen=True, slots=True)
class SweepNote:
    """A note for the user."""

    text: str


SweepItem = SweepNote | Sweep | SweepStarted | Measurement | Tuning
"""The items that `tune` yields."""


def plan_sweep(
    spec: CopySpec,
    *,
    degrees: Sequence[int] = DEGREES,
    options: Collection[str] = (),
    sample: int = SAMPLE,
    repeat: int = 1,
) -> Sweep:
    """Return what `tune` would copy; changes nothing.

    Args:
        spec: the copy to measure.
        degrees: numbers of streams.
        options: the options to try: ``unlogged``, ``deferred``.
        sample: bytes of the source.
        repeat: how often to try each setting.

    Raises:
        UsageError, PlanningError: as `tune` raises them.
    """
    ends, sweep = _plan_sweep(spec, degrees, options, sample, repeat)
    ends.open_scratch(_like(sweep.spec)).close()
    return sweep


@isolate_generator_display
def tune(
    spec: CopySpec,
    *,
    degrees: Sequence[int] = DEGREES,
    options: Collection[str] = (),
    sample: int = SAMPLE,
    repeat: int = 1,
) -> Generator[SweepItem, None, None]:
    """Measure copies of a sample into a scratch table; yield each step, and `Tuning` last.

    Neither the target's table nor its control tables are touched. However it ends, the scratch
    table and the records of its runs are dropped; after ``kill -9`` the next `tune` drops them.
    Closing the iterator cancels the measurement.

    Args:
        spec: the copy to measure.
        degrees: numbers of streams.
        options: the options to try, each alone and together: ``unlogged``, ``deferred``.
        sample: bytes of the source.
        repeat: how often to try each setting.

    Raises:
        UsageError, PlanningError: before anything is changed.
        PermanentError, TransientError: a copy failed.
    """
    values.choose(spec.show_values)
    ends, sweep = _plan_sweep(spec, degrees, options, sample, repeat)
    with closing(ends.open_scratch(_like(sweep.spec))) as scratch:
        try:
            for name in scratch.sweep():
                yield SweepNote(f"dropped {name}, which a killed tune had left in the target")
        except TransientError as error:
            yield SweepNote(f"the scratch table of a killed tune is still in use ({error.message})")
        yield sweep
        yield SweepNote(
            f"the scratch table is in {scratch.place} until the end; after kill -9, the next "
            f"penstock tune drops it, or drop it with: {scratch.removal}"
        )
        try:
            scratch.begin()
            measured = yield from _measure_all(sweep, scratch)
        except BaseException as error:
            leftover = _drop(scratch)
            if leftover and isinstance(error, PenstockError):
                error.message += f"; {leftover}"
            raise
        if leftover := _drop(scratch):
            yield SweepNote(leftover)
        yield _result(sweep, scratch, measured)


def _plan_sweep(
    spec: CopySpec,
    degrees: Sequence[int],
    options: Collection[str],
    sample: int,
    repeat: int,
) -> tuple[Connections, Sweep]:
    chosen = settings(degrees, options)
    order = turns(chosen, repeat)
    if sample < 1:
        raise UsageError(f"--sample: expected a size such as 1GB, found {sample}")
    if not _measurable(spec.load_mode):
        modes = ", ".join(mode_names(_measurable))
        raise UsageError(
            f"penstock tune: expected --mode {modes}, found {spec.mode}, whose cost depends on "
            "rows that a scratch table does not have"
        )
    if spec.partition_strategy.hashes:
        raise UsageError(
            f"penstock tune: --strategy {spec.strategy} reads the whole table for each "
            "partition, so a sample would cost as much as a copy; use another strategy"
        )
    ends = connect(spec.source, spec.target)
    ends.check_table_names(spec)
    for setting in chosen:
        ends.check_supported(setting.of(spec))
    # Reject a bad target before reading the source, which may take a while.
    ends.open_scratch(None).close()
    with closing(ends.open_source()) as source, closing(ends.open_target("penstock")) as target:
        spec, _ = ends.with_schemas(spec, source, target)
    most = max(degrees)
    full_plan = _plan_whole(replace(spec, degree=most), sample, most)
    if len(full_plan.partitions) == 1 and most > 1:
        raise PlanningError(
            f"penstock tune: {spec.source_name} is a single partition, which only one stream can "
            f"copy, so there is nothing to compare ({'; '.join(full_plan.reasons)})"
        )
    chosen_partitions = choose_sample(full_plan, sample, most)
    return ends, Sweep(spec, full_plan, chosen_partitions, chosen, order)


def _plan_whole(spec: CopySpec, sample: int, most: int) -> PartitionPlan:
    """Plan the whole table, in partitions small enough for a sample unless the user sizes them."""
    if spec.interval is not None or spec.partitions is not None:
        return plan(spec)
    coarse = plan(replace(spec, partitions=partition_size(sample, most)))
    if coarse.bytes is None or coarse.bytes >= sample:
        return coarse
    return plan(replace(spec, partitions=partition_size(coarse.bytes, most)))


def _measurable(mode: Mode) -> bool:
    return not (mode.reloads_partitions or mode.entry is Entry.REPLACE)


def _like(spec: CopySpec) -> TableRef | None:
    return None if spec.load_mode.table is Table.RECREATED else spec.target_ref


def _measure_all(sweep: Sweep, scratch: Scratch) -> Generator[SweepItem, None, list[Measurement]]:
    measurements = []
    for number, setting in enumerate((sweep.warm_up, *sweep.turns)):
        yield SweepStarted(number, len(sweep.turns), setting)
        measured = _measure(sweep, scratch, setting, f"tune-{number}")
        if number:
            yield measured
            measurements.append(measured)
    return measurements


def _measure(sweep: Sweep, scratch: Scratch, setting: Setting, run_id: str) -> Measurement:
    """Copy the sample once.

    Raises:
        PermanentError, TransientError: the sample cannot be copied.
    """
    spec = sweep.spec
    if spec.load_mode.table is not Table.RECREATED:
        scratch.make_table()
    # Plan once rather than for each copy: the partitions stay the same even if the table changes.
    unpartitioned: dict[str, Any] = dict.fromkeys(_PARTITION_OPTIONS)
    target = scratch.target or spec.target
    spec_of_copy = replace(
        setting.of(spec),
        **unpartitioned,
        strategy="whole",
        target=target,
        target_table=str(scratch.table) if scratch.table else spec.target_table,
        control_schema=scratch.name,
        run_id=run_id,
        sequences="keep",
        verify="none",
    )

    def part(partition_plan: PartitionPlan) -> PartitionPlan:
        outside = [
            step.name for step in partition_plan.load.before if scratch.name not in step.name
        ]
        if outside and scratch.target is None:
            raise PlanningError(
                "penstock tune: the copy would create more than the table in the target, which "
                f"would be left behind: {'; '.join(outside)}; create it first"
            )
        return replace(
            partition_plan,
            strategy=sweep.plan.strategy,
            is_sample=True,
            partitions=sweep.sample,
            rows=None,
            bytes=sweep.sampled_bytes or None,
        )

    create(spec_of_copy, part=part)
    before = _cpu()
    _finish(resume(run_id, source=spec.source, target=target, control_schema=scratch.name), setting)
    cpu = _cpu() - before
    figures = report(run_id, target=target, control_schema=scratch.name)
    if not figures.rows or figures.spent is None:
        raise PlanningError("penstock tune: the sample has no rows, so there is nothing to measure")
    return Measurement(
        setting,
        seconds=round((figures.copying or 0.0) + figures.finishing, 3),
        steps=figures.finishing,
        cpu=round(cpu, 3),
        rows=figures.rows,
        bytes=figures.bytes,
        spent=figures.spent,
        waits=figures.waits,
    )


def _finish(copied: Generator[Event, None, None], setting: Setting) -> None:
    """Run a copy to its end.

    Raises:
        PermanentError, TransientError: the copy failed; the run is dropped, so the message has
            the cause.
    """
    why = ""
    try:
        with closing(copied) as events:
            for event in events:
                if isinstance(event, Finished) and event.failures:
                    why = f": {event.failures[0].error.get('message')}"
    except (RunFailed, RunFailedTransiently) as error:
        raise type(error)(f"penstock tune, {setting}: {error.message}{why}") from error


def _cpu() -> float:
    """Return the seconds of CPU used so far by this process and its ended children.

    The children are the nursery, and the workers that it has reaped.
    """
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in usages)


def _drop(scratch: Scratch) -> str:
    """Drop the scratch table; return what the user has to do if that fails, or an empty text."""
    try:
        scratch.drop()
    except PenstockError as error:
        return (
            f"{scratch.place} was not dropped ({error.message}): the next penstock tune drops "
            f"it, or drop it with: {scratch.removal}"
        )
    return ""


def _result(sweep: Sweep, scratch: Scratch, measured: Sequence[Measurement]) -> Tuning:
    spec, figures = sweep.spec, group_by_setting(measured)
    tried = {option for setting in sweep.settings for option in setting.options}
    remarks = [f"the scratch table: {remark}" for remark in scratch.remarks]
    if spec.load_mode.only_adds and tried:
        remarks.append(
            f"mode {spec.mode}: {' and '.join(sorted(tried))} cost more if the table already has "
            "rows, whose indexes are also rebuilt"
        )
    shortest = min(each.seconds for each in measured)
    if shortest < SHORT:
        remarks.append(
            f"copies of {shortest:.1f} s say little about copies that take hours; use a larger "
            "--sample if the table allows"
        )
    if len(sweep.turns) == len(sweep.settings):
        remarks.append("each setting was measured once; --repeat 3 shows how much times vary")
    return Tuning(
        source=spec.source_name,
        table=spec.table,
        query=spec.query,
        target=spec.target_name,
        target_table=str(spec.target_ref),
        at=now(),
        mode=spec.mode,
        partitions=len(sweep.sample),
        of_partitions=len(sweep.plan.partitions),
        sampled_bytes=sweep.sampled_bytes,
        of_bytes=sweep.plan.bytes,
        figures=figures,
        recommendation=recommend(figures),
        remarks=tuple(remarks),
    )
