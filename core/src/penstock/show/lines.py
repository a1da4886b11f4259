"""Displays that need no terminal: a run's events as plain lines or as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, Self, TextIO

from penstock.events import Committed, Event, Planned, Progress
from penstock.show.folding import FEW
from penstock.show.notes import Note, Notes, note, warning_lines
from penstock.show.tally import Tally
from penstock.show.text import duration, megabytes, number, one_line, percent, size

_PROGRESS_EVERY = 5.0


class Display(Protocol):
    """A context manager that shows the events of one execution."""

    tally: Tally

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, event: Event) -> None: ...


class _Lines:
    """A display without set-up or clean-up."""

    def __init__(self, tally: Tally, file: TextIO) -> None:
        self.tally = tally
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class JsonDisplay(_Lines):
    """A display for programs: one JSON object a line."""

    def show(self, event: Event) -> None:
        self.tally.add(event)
        self._file.write(event.to_line() + "\n")
        self._file.flush()


class Narrator:
    """Turns events into log lines: what happened, and from time to time the progress.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, tally: Tally, clock: Callable[[], float] = time.monotonic) -> None:
        self.tally = tally
        self._clock = clock
        self._last_progress = clock()
        self._notes = Notes(tally)

    def lines(self, event: Event) -> tuple[str, ...]:
        """Process an event, and return its lines."""
        return tuple(line for each in self.notes(event) for line in each.lines)

    def notes(self, event: Event) -> list[Note]:
        """Process an event, and return its lines with their styles."""
        self.tally.add(event)
        many = len(self.tally.tables.names) > FEW
        if isinstance(event, Committed) and not many:
            return [Note("plain", (self._committed(event),))]
        if notes := self._notes.of(event):
            return notes
        moves = isinstance(event, Progress) or (many and isinstance(event, Committed))
        if moves and self._clock() - self._last_progress >= _PROGRESS_EVERY:
            self._last_progress = self._clock()
            return [Note("plain", (f"progress: {progress_text(self.tally)}",), Progress.name)]
        return []

    def style(self, event: Event) -> str:
        """Return how an event is displayed, as in `Note.style`; empty if it is not."""
        shown = note(event, self.tally)
        return "" if shown is None else shown.style

    def _committed(self, event: Committed) -> str:
        tally = self.tally
        done, total = tally.commit_counts()
        count = f"({done:,} of {total:,})"
        shown = one_line(tally.partition_name(event))
        if event.already:
            return f"committed: {shown}, by another attempt {count}"
        return (
            f"committed: {shown}, {number(event.rows)} rows, {size(event.bytes)} in "
            f"{duration(event.seconds)} {count}"
        )


def progress_text(tally: Tally) -> str:
    """Return an execution's progress in one line: share, counts, rates, and the time left."""
    rows, size = tally.rate()
    seconds_left = tally.seconds_left()
    done, total = tally.commit_counts()
    what, failed = "partitions", len(tally.failed)
    if len(tally.tables.names) > FEW:
        done, total = tally.tables.loaded_or_failed, len(tally.tables.names)
        what, failed = "tables", len(tally.tables.failed)
    return (
        f"{percent(tally.overall())}, {done:,} of {total:,} {what}"
        + (f", {failed:,} failed" if failed else "")
        + f", {number(tally.rows)} rows, {number(rows)} rows/s, {megabytes(size)} MB/s"
        + (f", about {duration(seconds_left)} left" if seconds_left else "")
    )


class PlainDisplay(_Lines):
    """A display of lines that begin with the time of day.

    Args:
        clock: a monotonic clock, in seconds.
        only_warnings: whether to leave out what is neither a warning nor an error.
    """

    def __init__(
        self,
        tally: Tally,
        file: TextIO,
        clock: Callable[[], float] = time.monotonic,
        *,
        only_warnings: bool = False,
    ) -> None:
        super().__init__(tally, file)
        self._narrator = Narrator(tally, clock)
        self._only_warnings = only_warnings

    def show(self, event: Event) -> None:
        lines = self._narrator.lines(event)
        if self._only_warnings and isinstance(event, Planned):
            lines = tuple(line.strip() for line in lines if line in warning_lines(event.warnings))
        elif self._only_warnings and self._narrator.style(event) in ("", "plain"):
            return
        for line in lines:
            self._file.write(f"{event.at[11:19]}Z  {line}\n")
            self._file.flush()
