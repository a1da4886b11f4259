"""The lines that every display shows for an event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.events import (
    AUTOMATIC,
    CONNECTIONS,
    BatchStarted,
    DegreeChanged,
    Event,
    Failed,
    Merged,
    PartitionsChecked,
    Planned,
    Prepared,
    Retrying,
    SnapshotChanged,
    StepChanged,
    Verified,
    Warned,
)
from penstock.model.plans import CHOSEN, GIVEN
from penstock.show.tally import Tally
from penstock.show.text import (
    counted,
    duration,
    error_lines,
    kinds,
    number,
    one_line,
    shorten,
    size,
)

# Of a batch's many steps, only those that take longer are shown, in seconds.
_SHOW_STEP_AFTER = 1.0


@dataclass(frozen=True, slots=True)
class Note:
    """Lines that stay on the screen."""

    style: str
    """``plain``, ``good``, ``warning`` or ``error``."""
    lines: tuple[str, ...]


def note(event: Event, tally: Tally) -> Note | None:
    """The lines for an event, whatever the display; None if it needs none."""
    match event:
        case BatchStarted():
            return Note("plain", tuple(_batch_lines(event)))
        case Planned() if tally.is_batch:
            head = next(iter(_plan_lines(event))).removeprefix("planned: ")
            table = one_line(tally.table(event.run_id))
            return Note("plain", (f"planned: {table}, {head}", *plan_warnings(event)))
        case Planned():
            return Note("plain", tuple(_plan_lines(event)))
        case Prepared() | SnapshotChanged(state="taken") if tally.is_batch:
            return None
        case StepChanged():
            return _step_note(event, tally)
        case Prepared():
            when = "was prepared before" if event.already else "prepared"
            return Note("plain", (f"target {when} ({event.mode})",))
        case SnapshotChanged():
            style = "plain" if event.state in ("taken", "adopted", "released") else "warning"
            text = f"snapshot {event.state}"
            text += f", of {event.taken_at}" if event.taken_at else ""
            text += f": {one_line(event.message)}" if event.message else ""
            return Note(style, (text,))
        case Failed():
            style = "warning" if event.error.get("transient") else "error"
            first, *rest = error_lines(event.error)
            shown = one_line(tally.partition_name(event))
            label = one_line(tally.label(tally.partition_name(event)))
            what = f"{shown} ({shorten(label, 60)})" if label else shown
            return Note(
                style,
                (
                    f"failed: {what}, attempt {event.attempt}",
                    *(f"    {line}" for line in (first, *rest)),
                ),
            )
        case Retrying():
            shown = one_line(tally.partition_name(event))
            return Note("warning", (f"retrying: {shown}, in {duration(event.delay)}",))
        case DegreeChanged():
            verb = " lowered to" if event.cause == CONNECTIONS else ""
            style = "plain" if event.cause == AUTOMATIC else "warning"
            return Note(style, (f"degree{verb} {event.degree}: {one_line(event.message)}",))
        case Verified():
            verb = "differs" if event.mismatches == 1 else "differ"
            found = f", {counted(event.mismatches, 'partition')} {verb}"
            differ = "" if event.ok else found
            table = tally.table(event.run_id)
            which = f" {one_line(table)}" if table else ""
            text = f"verified{which} by {event.method} in {duration(event.seconds)}{differ}"
            return Note("plain" if event.ok else "error", (text,))
        case PartitionsChecked():
            table = tally.table(event.run_id)
            of = f" of {one_line(table)}" if table else ""
            text = f"partitions{of} checked: {number(event.rows)} rows together, "
            text += "as counted" if event.ok else f"but {number(event.counted)} counted"
            return Note("plain" if event.ok else "error", (text,))
        case Merged():
            return Note("plain", (_merged_line(event, tally),))
        case Warned():
            return Note("warning", (f"warning: {one_line(event.message)}",))
    return None


def _merged_line(event: Merged, tally: Tally) -> str:
    table = tally.table(event.run_id)
    text = f"merged{f' {one_line(table)}' if table else ''}: {number(event.inserted)} inserted, "
    text += f"{number(event.updated)} updated, {number(event.deleted)} deleted"
    if event.moment:
        text += f"; the target is as of {event.moment} (watermark epoch {event.epoch})"
    return text


def _step_note(event: StepChanged, tally: Tally) -> Note | None:
    table = tally.table(event.run_id)
    what = one_line(f"{table}: {event.step}" if table else event.step)
    match event.state:
        case "done" if tally.is_batch and event.seconds < _SHOW_STEP_AFTER:
            return None
        case "done":
            return Note("plain", (f"done: {what}, in {duration(event.seconds)}",))
        case "retrying":
            return Note("warning", (f"retrying: {what}: {one_line(event.message)}",))
        case "failed":
            return Note("error", (f"failed: {what}: {one_line(event.message)}",))
    return None


def _batch_lines(event: BatchStarted) -> Iterable[str]:
    failed = [table for table in event.tables if table.error]
    yield (
        f"batch {event.run_id}: {counted(len(event.tables), 'table')}, "
        + _streams(event)
        + (f"; {len(failed):,} cannot be copied:" if failed else "")
    )
    for table in failed:
        first, *rest = error_lines(table.error or {})
        yield f"    {one_line(table.table)}: {first}"
        for line in rest:
            yield f"      {line}"


def _plan_lines(event: Planned) -> Iterable[str]:
    known = [
        text
        for text, value in (
            (f"{number(event.rows)} rows", event.rows),
            (f"{size(event.bytes)} in the source", event.bytes),
        )
        if value is not None
    ]
    about = f", about {' and '.join(known)}" if known else ""
    before = f", {event.committed:,} of them already committed" if event.committed else ""
    yield (
        f"planned: {counted(event.partitions, 'partition')}{_cut_by(event)}{before}{about}; "
        + _streams(event)
    )
    for reason in event.reasons:
        yield f"    {one_line(reason)}"
    yield from plan_warnings(event)


def _cut_by(event: Planned) -> str:
    return f", {CHOSEN}" if event.strategy == GIVEN else f" by {event.strategy}"


def _streams(event: Planned | BatchStarted) -> str:
    streams = counted(event.degree, "stream")
    return f"{streams} to begin with" if event.automatic else streams


def plan_warnings(event: Planned) -> Iterable[str]:
    """A plan's warnings, and what it leaves out, one line each."""
    for warning in event.warnings:
        yield f"    warning: {one_line(warning)}"
    for dropped, what in ((False, "not copied"), (True, "dropped with the target's old table")):
        if found := [item for item in event.not_copied if item.dropped is dropped]:
            yield f"    {what}: {one_line(kinds(found))}; the report at the end lists them"
