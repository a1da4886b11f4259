"""A file of metrics for Prometheus' textfile collector, replaced as a whole."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from penstock.errors import UsageError
from penstock.events import Event
from penstock.watching.metrics import Metrics, Series, last_successes

EVERY = 10.0
"""Seconds from one file to the next: less than the usual minute or 15 s between two scrapes."""
_LOG = logging.getLogger("penstock.metrics")


def check_metrics_file(path: str) -> None:
    """Check that a file of metrics can be written.

    Raises:
        UsageError: its folder does not exist or cannot be written to, or the path is a folder.
    """
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"--metrics-file: cannot write {path!r}: expected a file in an existing folder that "
            "this user may write to"
        )


def write_metrics(
    events: Iterable[Event], path: str, target: str = "", every: float = EVERY
) -> Iterator[Event]:
    """Pass events on, and write a file of their sums regularly and at the end.

    A file that cannot be written is logged once, and does not end the run.

    Args:
        events: the events of an execution.
        path: the file, which is replaced; its last successes are kept.
        target: names the target in labels; without secrets.
        every: seconds between two files.

    Raises:
        UsageError: the file cannot be written at the start.
    """
    check_metrics_file(path)
    file = _MetricsFile(path, target)
    file.write()
    over = threading.Event()

    def write_regularly() -> None:
        while not over.wait(every):
            file.write()

    thread = threading.Thread(target=write_regularly, daemon=True, name="penstock: metrics")
    thread.start()
    try:
        for event in events:
            file.add(event)
            yield event
    finally:
        over.set()
        thread.join()
        file.end()
        close = getattr(events, "close", None)
        if close is not None:
            close()


class _MetricsFile:
    """The file, which the events' thread fills and another one writes."""

    def __init__(self, path: str, target: str) -> None:
        self._path = path
        self._metrics = Metrics(target)
        self._started = time.monotonic()
        self._kept = _read(path)
        self._lock = threading.Lock()
        self._failed = False

    def add(self, event: Event) -> None:
        with self._lock:
            self._metrics.add(event)

    def end(self) -> None:
        """Write the file of an execution that has ended, with or without its last event."""
        with self._lock:
            self._metrics.success = bool(self._metrics.success)
        self.write()

    def write(self) -> None:
        with self._lock:
            text = self._metrics.text(time.monotonic() - self._started, self._kept)
            try:
                _replace(self._path, text)
            except OSError as error:
                if not self._failed:
                    self._failed = True
                    _LOG.warning(
                        "--metrics-file: cannot write %r: %s; the run goes on",
                        self._path,
                        error.strerror,
                    )


def _read(path: str) -> Series:
    """Return the last successes in the file of an earlier execution; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return last_successes(file.read())
    except OSError:
        return {}


def _replace(path: str, text: str) -> None:
    # The collector reads *.prom only, so never this one.
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        # It runs as another user.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise
