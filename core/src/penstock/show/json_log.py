"""Log lines as JSON objects, which log collectors index: one for each line of the plain log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TextIO

from penstock.events import BatchFinished, BatchStarted, Event, Finished, Planned, Progress, now
from penstock.show.lines import Narrator
from penstock.show.notes import Note, warning_lines
from penstock.show.tally import Tally
from penstock.show.text import duration, number, size

_LEVELS = {"warning": "warning", "error": "error"}
"""By the style of a note; any other is ``info``."""
# Texts of events that name one of a few states. All other texts are free, and are in the message.
_WORDS = frozenset({"cause", "method", "mode", "state", "status", "step_id", "strategy", "what"})


def log_line(
    level: str, lines: Sequence[str], at: str = "", facts: Mapping[str, Any] | None = None
) -> str:
    """Return a log line as a JSON object, without a line break.

    Args:
        level: ``info``, ``warning`` or ``error``.
        lines: the message.
        at: the time, as in events; by default the current one.
        facts: further fields; empty texts and None are left out.
    """
    message = "\n".join(line.strip() for line in lines)
    shown = {name: fact for name, fact in (facts or {}).items() if fact is not None and fact != ""}
    document = {"time": at or now(), "level": level, "message": message, **shown}
    return json.dumps(document, separators=(",", ":"))


def error_facts(error: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a log line about an error, as events have it."""
    return {name: (error or {}).get(name) for name in ("error", "code", "side", "transient")}


class JsonLog:
    """A display for log collectors: the lines of `PlainDisplay`, each as a JSON object.

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
        self.tally = tally
        self._file = file
        self._narrator = Narrator(tally, clock)
        self._only_warnings = only_warnings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, event: Event) -> None:
        for note in [*self._narrator.notes(event), *_ending(event, self.tally)]:
            facts = self._sums(note) if note.of_many else self._facts(event)
            for level, lines in _by_level(event, note):
                if level != "info" or not self._only_warnings:
                    self._file.write(log_line(level, lines, event.at, facts) + "\n")
                    self._file.flush()

    def _facts(self, event: Event) -> dict[str, Any]:
        tally = self.tally
        raw = event.as_json()
        return {
            "event": event.name,
            "run_id": event.run_id,
            "batch_id": tally.run_id if tally.is_batch and event.run_id != tally.run_id else "",
            "table": tally.table(event.run_id) or tally.copied.get(event.run_id),
            "partition": raw.get("partition_id"),
            **figures(event),
            **error_facts(raw.get("error")),
        }

    def _sums(self, note: Note) -> dict[str, Any]:
        tally = self.tally
        facts: dict[str, Any] = {
            "event": note.of_many,
            "run_id": tally.run_id,
            "table": tally.copied.get(tally.run_id),
        }
        if note.of_many == Progress.name:
            rows, moved = tally.rate()
            facts |= {
                "rows": tally.rows,
                "bytes": tally.bytes,
                "committed": tally.committed,
                "partitions": tally.partitions,
                "share": round(tally.overall(), 4),
                "rows_per_second": round(rows),
                "bytes_per_second": round(moved),
                "seconds": round(tally.elapsed, 3),
            }
        return facts


def figures(event: Event) -> dict[str, Any]:
    """Return the figures of an event, and its words for states; neither texts nor parts."""
    return {
        name: value
        for name, value in event.as_json().items()
        if name != "version"
        and (isinstance(value, int | float) or (name in _WORDS and isinstance(value, str)))
    }


def _ending(event: Event, tally: Tally) -> Iterator[Note]:
    """Return a line about an end, which the plain log leaves to the report."""
    if not isinstance(event, Finished | BatchFinished):
        return
    style = {"failed": "error", "interrupted": "warning"}.get(event.status, "plain")
    moved = f"{number(event.rows)} rows, {size(event.bytes)} in {duration(event.seconds)}"
    if isinstance(event, BatchFinished):
        done = sum(table.status == "done" for table in event.tables)
        counts = f"{done:,} of {len(event.tables):,} tables"
        yield Note(style, (f"batch {event.run_id} is {event.status}: {counts}, {moved}",))
        return
    counts = f"{event.committed:,} of {event.partitions:,} partitions"
    yield Note(style, (f"run {event.run_id} is {event.status}: {counts}, {moved}",))


def _by_level(event: Event, note: Note) -> Iterator[tuple[str, Sequence[str]]]:
    """Return the lines of a note with their levels, together if they have the same."""
    level, lines = _LEVELS.get(note.style, "info"), note.lines
    apart: list[tuple[str, Sequence[str]]] = []
    if isinstance(event, BatchStarted) and len(lines) > 1:
        # Below the first line are the tables that cannot be copied.
        apart, lines = [("error", lines[1:])], lines[:1]
    elif isinstance(event, Planned):
        warned = {*warning_lines(event.warnings)}
        apart = [("warning", (line,)) for line in lines if line in warned]
        lines = tuple(line for line in lines if line not in warned)
    yield from [(level, lines), *apart] if lines else apart
