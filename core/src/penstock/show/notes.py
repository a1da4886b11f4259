"""The lines about an event that are common to all displays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.events import (
    AUTOMATIC,
    CONNECTIONS,
    RESOURCES,
    BatchStarted,
    DegreeChanged,
    Event,
    Failed,
    Merged,
    OtherProcess,
    PartitionsChecked,
    Planned,
    Prepared,
    Retrying,
    SnapshotChanged,
    StepChanged,
    Verified,
    Waiting,
    Warned,
)
from penstock.model.plans import CHOSEN, GIVEN, id_list
from penstock.show.folding import FEW, fold_texts, pattern_of
from penstock.show.tally import Tally
from penstock.show.text import (
    duration,
    error_lines,
    kinds,
    number,
    one_line,
    quantity,
    shorten,
    size,
)

# Seconds. Only longer steps of a batch are shown, because it has many.
_SHOW_STEP_AFTER = 1.0
# How many notes that differ only in the table are shown.
_MOST_ALIKE = 3
# What is not about one table.
_ALWAYS = BatchStarted | DegreeChanged | SnapshotChanged | Waiting


@dataclass(frozen=True, slots=True)
class Note:
    """Lines that stay on the screen."""

    style: str
    """``plain``, ``good``, ``warning`` or ``error``."""
    lines: tuple[str, ...]
    of_many: str = ""
    """The name of the events that the lines sum up, if they tell of more than the last event."""


class Notes:
    """The notes of an execution.

    In a batch of many tables, repeated notes are folded: plans into one line per window, and of
    similar failures only the first ones are shown. The report at the end counts all of them.

    Args:
        tally: processes each event before its notes are requested.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._window: list[Planned] = []
        """Plans that no note has mentioned yet."""
        self._planned = 0
        self._shown: Counter[str] = Counter()
        """The number of notes of each pattern."""

    def of(self, event: Event) -> list[Note]:
        """Return the notes for an event."""
        if len(self._tally.tables.names) <= FEW:
            item = note(event, self._tally)
            return [] if item is None else [item]
        if isinstance(event, Planned):
            self._window.append(event)
            warnings = (f"warning: {one_line(warning)}" for warning in event.warnings)
            return [
                item
                for warning in warnings
                for item in self._first(event, Note("warning", (warning,)), 1)
            ]
        return [*self._plans(), *self._of_many(event)]

    def _of_many(self, event: Event) -> list[Note]:
        if isinstance(event, Verified | PartitionsChecked) and event.ok:
            return []
        event_note = note(event, self._tally)
        if event_note is None or isinstance(event, _ALWAYS):
            return [] if event_note is None else [event_note]
        return self._first(event, event_note, _MOST_ALIKE)

    def _plans(self) -> list[Note]:
        """Return a note about the plans since the last call."""
        plans, self._window = self._window, []
        if not plans:
            return []
        self._planned += len(plans)
        partitions = sum(plan.partitions for plan in plans)
        about = _about(_total(plan.rows for plan in plans), _total(plan.bytes for plan in plans))
        of = f"{self._planned:,} of {len(self._tally.tables.names):,}"
        text = f"{quantity(len(plans), 'table')}, {quantity(partitions, 'partition')}{about} ({of})"
        return [Note("plain", (f"planned: {text}",), Planned.name)]

    def _first(self, event: Event, note: Note, most: int) -> list[Note]:
        """Return a note, unless the limit of similar notes has been reached."""
        table = self._tally.table(event.run_id)
        pattern = pattern_of(table, " ".join(note.lines))
        self._shown[pattern] += 1
        if self._shown[pattern] > most:
            return []
        first, *rest = note.lines
        lines = [first if table in first else f"{one_line(table)}: {first}", *rest]
        if self._shown[pattern] == most:
            lines.append("    more of these are not shown here; the report at the end counts them")
        return [Note(note.style, tuple(lines))]


def note(event: Event, tally: Tally) -> Note | None:
    """Return the lines for a single event; None if it needs no note."""
    match event:
        case BatchStarted():
            return Note("plain", tuple(_batch_lines(event)))
        case Planned() if tally.is_batch:
            head = next(iter(_plan_lines(event))).removeprefix("planned: ")
            table = one_line(tally.table(event.run_id))
            return Note("plain", (f"planned: {table}, {head}", *plan_warnings(event)))
        case Planned(done=True):
            return Note("good", (f"run {event.run_id} was done before: nothing is left to do",))
        case Prepared() if tally.was_done:
            return None
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
            label = one_line(tally.label(event))
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
            verb = " lowered to" if event.cause in (CONNECTIONS, RESOURCES) else ""
            style = "plain" if event.cause == AUTOMATIC else "warning"
            return Note(style, (f"degree{verb} {event.degree}: {one_line(event.message)}",))
        case Verified():
            verb = "differs" if event.mismatches == 1 else "differ"
            differences = f", {quantity(event.mismatches, 'partition')} {verb}"
            differ = "" if event.ok else differences
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
        case Waiting():
            return Note("plain", (waiting_text(event), f"    {_advice(event, tally)}"))
        case Merged():
            return Note("plain", (_merged_line(event, tally),))
        case Warned(error=Mapping()):  # a table of a batch
            return Note("error", (one_line(event.message),))
        case Warned():
            return Note("warning", (f"warning: {one_line(event.message)}",))
    return None


def waiting_text(event: Waiting) -> str:
    """Return whom a process waits for, in one line."""
    whom = "; ".join(map(_process_text, event.others)) or "another process"
    return f"waiting for {whom}"


def _advice(event: Waiting, tally: Tally) -> str:
    if not event.others:
        return f"see penstock status {tally.run_id} --target URL"
    which = "one of them" if len(event.others) > 1 else "it"
    return f"if {which} hangs, kill it there (kill -9 PID): another process takes over"


def _process_text(process: OtherProcess) -> str:
    what = process.what
    if process.partition_ids:
        what += f" {one_line(id_list(process.partition_ids))}"
    since = process.since[11:19]
    return f"PID {process.pid} on {one_line(process.host)} ({what}, since {since}Z)"


def _merged_line(event: Merged, tally: Tally) -> str:
    table = tally.table(event.run_id)
    text = f"merged{f' {one_line(table)}' if table else ''}: {number(event.inserted)} inserted, "
    text += f"{number(event.updated)} updated, {number(event.deleted)} deleted"
    if event.moment:
        text += f"; the target is as of {event.moment} (watermark epoch {event.epoch})"
    if event.unproven:
        text += f"; not proven: {one_line(event.unproven)}"
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
        f"batch {event.run_id}: {quantity(len(event.tables), 'table')}, "
        + _streams(event)
        + (f"; {len(failed):,} cannot be copied:" if failed else "")
    )
    texts = ((table.table, "\n      ".join(error_lines(table.error or {}))) for table in failed)
    if len(failed) > FEW:
        yield from (f"    {each}" for each in fold_texts(texts))
        return
    for table, text in texts:
        yield from f"    {one_line(table)}: {text}".split("\n")


def _plan_lines(event: Planned) -> Iterable[str]:
    if not event.partitions:
        yield "planned: the table, without rows"
        yield from plan_warnings(event)
        return
    about = _about(event.rows, event.bytes)
    before = f", {event.committed:,} of them already committed" if event.committed else ""
    yield (
        f"planned: {quantity(event.partitions, 'partition')}{_by_strategy(event)}{before}{about}; "
        + _streams(event)
    )
    for reason in event.reasons:
        yield f"    {one_line(reason)}"
    yield from plan_warnings(event)


def _about(rows: int | None, bytes: int | None) -> str:
    estimates = [
        text
        for text, value in (
            (f"{number(rows)} rows", rows),
            (f"{size(bytes)} in the source", bytes),
        )
        if value is not None
    ]
    return f", about {' and '.join(estimates)}" if estimates else ""


def _total(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _by_strategy(event: Planned) -> str:
    return f", {CHOSEN}" if event.strategy == GIVEN else f" by {event.strategy}"


def _streams(event: Planned | BatchStarted) -> str:
    streams = quantity(event.degree, "stream")
    return f"starting with {streams}" if event.automatic else streams


def plan_warnings(event: Planned) -> Iterable[str]:
    """Return a plan's warnings and what it leaves out, one line each."""
    yield from warning_lines(event.warnings)
    for dropped, what in ((False, "not copied"), (True, "dropped with the target's old table")):
        if items := [item for item in event.not_copied if item.dropped is dropped]:
            yield f"    {what}: {one_line(kinds(items))}; the report at the end lists them"


def created_lines(tally: Tally) -> Iterable[str]:
    """Return what a run has created because it was missing, for the end of its report.

    The report of a batch has the warnings of its tables anyway.
    """
    for created in () if tally.is_batch else tally.created.values():
        yield ""
        yield f"missing before, and created in the target: {one_line(created)}"


def warning_lines(warnings: Iterable[str]) -> Iterable[str]:
    """Return a plan's warnings, one line each."""
    return (f"    warning: {one_line(warning)}" for warning in warnings)
