"""What a person sees while a run goes on: the tally of its events, and plain lines about them."""

from __future__ import annotations

import time
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from penstock.events import (
    AttemptEvent,
    BatchFinished,
    BatchStarted,
    Committed,
    DegreeLowered,
    Event,
    Failed,
    Finished,
    Opened,
    Planned,
    Prepared,
    Progress,
    Retrying,
    SnapshotChanged,
    StepChanged,
    Verified,
    Warned,
)
from penstock.model.tables import NotCopied

_RATE_WINDOW = 10.0
_PROGRESS_EVERY = 5.0
_IDLE_AFTER = 5.0
_TELL_LEFT_AFTER = 3.0
# Of a batch's many steps, those that take long are told.
_TELL_STEP_AFTER = 1.0
_MOST_OF_A_KIND = 20
_LONGEST_REMEDY = 12


def number(value: float | None) -> str:
    """A whole number with thousands separators; a question mark for None."""
    return "?" if value is None else f"{value:,.0f}"


def size(count: float | None) -> str:
    """Bytes for people, decimal units; a question mark for None."""
    if count is None:
        return "?"
    if count < 100_000:
        return f"{count:,.0f} B"
    if count < 100_000_000_000:
        return f"{count / 1e6:,.1f} MB"
    return f"{count / 1e9:,.1f} GB"


def megabytes(count: float) -> str:
    """Bytes as a number of 10^6."""
    return f"{count / 1e6:,.1f}"


def duration(seconds: float) -> str:
    """``12.3 s`` below a minute, then ``M:SS`` or ``H:MM:SS``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:,}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def percent(share: float) -> str:
    """Rounded down: 100% is the end, and nothing before it."""
    return f"{int(share * 100)}%"


def counted(count: int, noun: str) -> str:
    """``1 partition``, ``1,234 partitions``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def printable(text: str) -> str:
    """Text with control characters escaped, so that data cannot drive the terminal.

    Line breaks stay.
    """
    return "".join(
        letter
        if letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def one_line(text: str) -> str:
    """As `printable`, with line breaks as spaces."""
    return printable(" ".join(text.split("\n")))


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0
        if unicodedata.combining(letter)
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )


def shorten(text: str, width: int) -> str:
    """Leave out the middle, so that both bounds of a range keep their most telling ends."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    head, tail = text[: (width + 1) // 2], text[len(text) - width // 2 :]
    while cells(head) + 1 + cells(tail) > width:
        if cells(head) > cells(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def error_lines(error: Mapping[str, Any]) -> list[str]:
    """An error as it travels in events: what happened first, then detail, hint and context."""
    message = str(error.get("message") or error.get("error") or "unknown error")
    known = (str(error.get(name) or "") for name in ("side", "code"))
    # Most messages name their side themselves.
    where = " ".join(text for text in known if text and f"{text}:" not in message)
    lines = [(f"[{where}] " if where else "") + message]
    lines += [
        f"{name}: {error[name]}"
        for name in ("detail", "hint", "context", "constraint")
        if error.get(name)
    ]
    return [line for text in lines for line in printable(text).split("\n") if line.strip()]


def kinds(items: Iterable[NotCopied]) -> str:
    """How many there are of each kind: ``foreign keys (2), triggers (1)``."""
    return ", ".join(
        f"{kind} ({count:,})" for kind, count in Counter(i.kind for i in items).items()
    )


def not_copied_lines(items: Sequence[NotCopied]) -> list[str]:
    """What a copy leaves out, by kind, each with the statement or the option that makes it.

    The first lines of all, and of long statements, are there: people read them, and programs read
    events.
    """
    lines = []
    for dropped in (False, True):
        found = [item for item in items if item.dropped is dropped]
        by_kind: dict[str, list[NotCopied]] = {}
        for item in found:
            by_kind.setdefault(item.kind, []).append(item)
        if found:
            lines.append("dropped with the target's old table" if dropped else "not copied")
        for kind, listed in by_kind.items():
            lines.append(f"  {one_line(kind)} ({len(listed):,})")
            for item in listed[:_MOST_OF_A_KIND]:
                lines += (f"    {line}" for line in _remedy_lines(item))
            if len(listed) > _MOST_OF_A_KIND:
                lines.append(f"    and {len(listed) - _MOST_OF_A_KIND:,} more: --json lists all")
    return lines


def _remedy_lines(item: NotCopied) -> list[str]:
    # A name may hold anything; a statement's line breaks end its comments.
    name = one_line(f"{item.name} of {item.table}" if item.table else item.name)
    lines = [line for line in printable(item.remedy).split("\n") if line.strip()]
    if not lines:
        return [name]
    if len(lines) > _LONGEST_REMEDY:
        return [f"{name}: a statement of {len(lines):,} lines, which --json shows"]
    return lines


@dataclass(slots=True)
class Stream:
    """An attempt that is under way."""

    partition_id: str
    label: str
    attempt: int
    moved_at: float
    """When its bytes last grew, by the tally's clock."""
    rows: int = 0
    bytes: int = 0
    recent: deque[tuple[float, int, int]] = field(
        default_factory=lambda: deque([(0.0, 0, 0)], maxlen=6)
    )

    def rate(self) -> tuple[float, float]:
        """Rows and bytes a second, over the last few reports."""
        start, rows, size = self.recent[0]
        seconds = self.recent[-1][0] - start
        if seconds <= 0:
            return 0.0, 0.0
        return (self.recent[-1][1] - rows) / seconds, (self.recent[-1][2] - size) / seconds


class Tally:
    """Adds up the events of one execution, of a run or of a batch of runs.

    Parameters:
        only: how many partitions were asked for, where not all of the plan's were.
        clock: seconds, monotonic.
    """

    def __init__(self, only: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._only = only
        self._clock = clock
        self.started = clock()
        self.run_id = ""
        self.planned: Planned | None = None
        self.finished: Finished | None = None
        self.batch_finished: BatchFinished | None = None
        self.steps: dict[tuple[str, str], str] = {}
        """Steps after the last partition that are under way."""
        self._tables: dict[str, str] = {}
        """Of a batch: by run."""
        self.cancelling = False
        """A signal has come; the streams are being ended."""
        self._forget()

    def _forget(self) -> None:
        self.opened: float | None = None
        self.streams: dict[str, Stream] = {}
        self._labels: dict[str, str] = {}
        self._done: set[str] = set()
        # Covered: rows that are, or are about to be, in the target. Moved: those, and what
        # failed attempts moved in vain.
        self._covered_rows = self._covered_bytes = 0
        self._moved_rows = self._moved_bytes = 0
        self._samples: deque[tuple[float, int, int]] = deque()

    def add(self, event: Event) -> None:
        """Take an event into account."""
        if not self._tables:
            self.run_id = event.run_id
        match event:
            case BatchStarted():
                self._tables = {table.run_id: table.table for table in event.tables}
            case BatchFinished():
                self.batch_finished = event
            case Planned() if self._tables and self.planned is not None:
                self.planned = _together(self.planned, event)
            case Planned():
                self._forget()
                self.planned = event
            case StepChanged(state="started"):
                self.steps[event.run_id, event.step_id] = event.step
            case StepChanged(state="done" | "failed"):
                self.steps.pop((event.run_id, event.step_id), None)
            case Prepared(already=False) if self.planned is not None and not self._tables:
                # Once per run, unless the run starts over.
                self._forget()
                self.planned = replace(self.planned, committed=0)
            case SnapshotChanged(state="lost"):
                self.streams.clear()
            case Opened():
                self._open(event)
            case Progress():
                self._progress(event)
            case Committed():
                self._commit(event)
            case Failed():
                self.streams.pop(self.shown(event), None)
            case Finished():
                self.finished = event
                self.streams.clear()
                self.steps.clear()

    @property
    def is_batch(self) -> bool:
        return bool(self._tables)

    def table(self, run_id: str) -> str:
        """The table of a run, in a batch."""
        return self._tables.get(run_id, "")

    def shown(self, event: AttemptEvent | Retrying) -> str:
        """How a partition is called: by its id; in a batch by its table too."""
        table = self.table(event.run_id)
        return f"{table} {event.partition_id}" if table else event.partition_id

    def _open(self, event: Opened) -> None:
        moment = self._clock()
        if self.opened is None:
            self.opened = moment
            self._samples.append((moment, 0, 0))
        shown = self.shown(event)
        self._labels[shown] = event.label
        self.streams[shown] = Stream(shown, event.label, event.attempt, moment)

    def _progress(self, event: Progress | Committed) -> None:
        stream = self.streams.get(self.shown(event))
        if stream is None or stream.attempt != event.attempt:
            return
        moment = self._clock()
        if event.bytes > stream.bytes:
            stream.moved_at = moment
        self._moved_rows += max(0, event.rows - stream.rows)
        self._moved_bytes += max(0, event.bytes - stream.bytes)
        stream.rows, stream.bytes = event.rows, event.bytes
        stream.recent.append((event.seconds, event.rows, event.bytes))
        self._samples.append((moment, self._moved_rows, self._moved_bytes))
        while len(self._samples) > 2 and self._samples[1][0] < moment - _RATE_WINDOW:
            self._samples.popleft()

    def _commit(self, event: Committed) -> None:
        if not event.already:
            self._progress(event)
        shown = self.shown(event)
        self.streams.pop(shown, None)
        if shown not in self._done:
            self._done.add(shown)
            self._covered_rows += event.rows
            self._covered_bytes += event.bytes

    def label(self, shown: str) -> str:
        """What a partition selects, as far as an event has said so."""
        return self._labels.get(shown, "")

    @property
    def elapsed(self) -> float:
        return self._clock() - self.started

    @property
    def partitions(self) -> int:
        return self.planned.partitions if self.planned else 0

    @property
    def committed(self) -> int:
        before = self.planned.committed if self.planned else 0
        return min(before + len(self._done), self.partitions)

    def standing(self) -> tuple[int, int]:
        """Partitions that are committed, and of how many: of those that were asked for, where that
        is not the whole run, whose others somebody else may copy meanwhile."""
        return (len(self._done), self._only) if self._only else (self.committed, self.partitions)

    @property
    def rows(self) -> int:
        """Committed by this execution, or on their way."""
        return self._covered_rows + sum(stream.rows for stream in self.streams.values())

    @property
    def bytes(self) -> int:
        return self._covered_bytes + sum(stream.bytes for stream in self.streams.values())

    def rate(self) -> tuple[float, float]:
        """Rows and bytes a second, of all streams, over the last seconds."""
        if not self._samples:
            return 0.0, 0.0
        start, rows, size = self._samples[0]
        # Up to now rather than to the last report: a standstill shows.
        seconds = max(self._clock() - start, 0.001)
        return (self._moved_rows - rows) / seconds, (self._moved_bytes - size) / seconds

    def idle(self, stream: Stream) -> float:
        """Seconds since a stream's bytes last grew; 0 while that is recent."""
        seconds = self._clock() - stream.moved_at
        return seconds if seconds >= _IDLE_AFTER else 0.0

    def share(self) -> float:
        """How much of this execution's work is done, 0 to 1.

        In rows, or else bytes, where their number was estimated; else in partitions. The more
        partitions are committed, the more these tell of the number, and the less the estimate.
        """
        if self.planned is None:
            return 0.0
        asked = self._only or self.planned.partitions - self.planned.committed
        done = len(self._done) / asked if asked > 0 else 1.0
        if done >= 1:
            return 1.0
        estimate: float | None = self.planned.rows
        committed, covered = self._covered_rows, self.rows
        if not estimate:
            estimate = self.planned.bytes
            committed, covered = self._covered_bytes, self.bytes
        if not estimate:
            return done
        estimate *= asked / self.planned.partitions
        if covered >= estimate:
            return done
        # What is committed stands for as large a part of the whole as its partitions are.
        return covered / max((1 - done) * estimate + committed, covered)

    def left(self) -> float | None:
        """Estimated seconds to the end; None while there is too little to tell from."""
        share = self.share()
        if self.opened is None or share < 0.01:
            return None
        spent = self._clock() - self.opened
        return None if spent < _TELL_LEFT_AFTER else spent * (1 - share) / share


def _together(first: Planned, second: Planned) -> Planned:
    """The plans of two tables as one."""

    def total(mine: int | None, other: int | None) -> int | None:
        # Where nothing is known of one table, bytes or partitions must do.
        return None if mine is None or other is None else mine + other

    return replace(
        first,
        partitions=first.partitions + second.partitions,
        committed=first.committed + second.committed,
        rows=total(first.rows, second.rows),
        bytes=total(first.bytes, second.bytes),
    )


@dataclass(frozen=True, slots=True)
class Note:
    """Lines that stay on the screen."""

    style: str
    """``plain``, ``good``, ``warning`` or ``error``."""
    lines: tuple[str, ...]


def note(event: Event, tally: Tally) -> Note | None:
    """What an event is worth telling, whatever the display; None for nothing."""
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
            when = "had been prepared before" if event.already else "prepared"
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
            shown = one_line(tally.shown(event))
            label = one_line(tally.label(tally.shown(event)))
            what = f"{shown} ({shorten(label, 60)})" if label else shown
            return Note(
                style,
                (
                    f"failed: {what}, attempt {event.attempt}",
                    *(f"    {line}" for line in (first, *rest)),
                ),
            )
        case Retrying():
            shown = one_line(tally.shown(event))
            return Note("warning", (f"retrying: {shown}, in {duration(event.delay)}",))
        case DegreeLowered():
            return Note(
                "warning", (f"degree lowered to {event.degree}: {one_line(event.message)}",)
            )
        case Verified():
            differ = f", {counted(event.mismatches, 'partition')} differ" if not event.ok else ""
            table = tally.table(event.run_id)
            which = f" {one_line(table)}" if table else ""
            text = f"verified{which} by {event.method} in {duration(event.seconds)}{differ}"
            return Note("plain" if event.ok else "error", (text,))
        case Warned():
            return Note("warning", (f"warning: {one_line(event.message)}",))
    return None


def _step_note(event: StepChanged, tally: Tally) -> Note | None:
    table = tally.table(event.run_id)
    what = one_line(f"{table}: {event.step}" if table else event.step)
    match event.state:
        case "done" if tally.is_batch and event.seconds < _TELL_STEP_AFTER:
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
        f"{counted(event.degree, 'stream')}"
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
    before = f", {event.committed:,} of them committed before" if event.committed else ""
    yield (
        f"planned: {counted(event.partitions, 'partition')} by {event.strategy}{before}{about}; "
        f"{counted(event.degree, 'stream')}"
    )
    for reason in event.reasons:
        yield f"    {one_line(reason)}"
    yield from plan_warnings(event)


def plan_warnings(event: Planned) -> Iterable[str]:
    """What a plan warns of, and what it leaves out, in a line each."""
    for warning in event.warnings:
        yield f"    warning: {one_line(warning)}"
    for dropped, what in ((False, "not copied"), (True, "dropped with the target's old table")):
        if found := [item for item in event.not_copied if item.dropped is dropped]:
            yield f"    {what}: {one_line(kinds(found))}; the report at the end lists them"


class Display(Protocol):
    """Shows the events of one execution; a context manager around all of them."""

    tally: Tally

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def show(self, event: Event) -> None: ...


class _Lines:
    """A display that needs no set-up and no end."""

    def __init__(self, tally: Tally, file: TextIO) -> None:
        self.tally = tally
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class JsonDisplay(_Lines):
    """One JSON object a line, for programs."""

    def show(self, event: Event) -> None:
        self.tally.add(event)
        self._file.write(event.to_line() + "\n")
        self._file.flush()


class Narrator:
    """Tells what happened, and now and then how far it is, in lines for a log.

    Parameters:
        clock: seconds, monotonic.
    """

    def __init__(self, tally: Tally, clock: Callable[[], float] = time.monotonic) -> None:
        self.tally = tally
        self._clock = clock
        self._told = clock()

    def lines(self, event: Event) -> tuple[str, ...]:
        """Take an event into account; what is to be said of it."""
        self.tally.add(event)
        if isinstance(event, Committed):
            return (self._committed(event),)
        found = note(event, self.tally)
        if found is not None:
            return found.lines
        if isinstance(event, Progress) and self._clock() - self._told >= _PROGRESS_EVERY:
            self._told = self._clock()
            return (self._progress(),)
        return ()

    def _committed(self, event: Committed) -> str:
        tally = self.tally
        done, asked = tally.standing()
        count = f"({done:,} of {asked:,})"
        shown = one_line(tally.shown(event))
        if event.already:
            return f"committed: {shown}, by an earlier attempt {count}"
        return (
            f"committed: {shown}, {number(event.rows)} rows, {size(event.bytes)} in "
            f"{duration(event.seconds)} {count}"
        )

    def _progress(self) -> str:
        tally = self.tally
        rows, size = tally.rate()
        left = tally.left()
        done, asked = tally.standing()
        return (
            f"progress: {percent(tally.share())}, {done:,} of {asked:,} "
            f"partitions, {number(tally.rows)} rows, {number(rows)} rows/s, "
            f"{megabytes(size)} MB/s" + (f", about {duration(left)} left" if left else "")
        )


class PlainDisplay(_Lines):
    """Lines with the time of day.

    Parameters:
        clock: seconds, monotonic.
    """

    def __init__(
        self, tally: Tally, file: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(tally, file)
        self._narrator = Narrator(tally, clock)

    def show(self, event: Event) -> None:
        for line in self._narrator.lines(event):
            self._file.write(f"{event.at[11:19]}Z  {line}\n")
            self._file.flush()
