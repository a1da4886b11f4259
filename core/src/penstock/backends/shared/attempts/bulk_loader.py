"""A driver's bulk load in a thread, for drivers that take all batches of a stream in one call."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa

from penstock.backends.api.worker import Wait
from penstock.backends.shared.background import computing

# Batches waiting for the loader.
ROOM = 2
ABANDON_SECONDS = 2.0


class Abandoned(Exception):
    """Ends a bulk load."""


class BulkLoader:
    """A bulk load running in a thread.

    Args:
        load: takes the batches, in the thread; returns how many rows the server accepted.
        translate: translates its errors to Penstock's.
    """

    def __init__(
        self,
        load: Callable[[Iterator[pa.RecordBatch]], int],
        translate: Callable[[BaseException], BaseException],
    ) -> None:
        self._load = load
        self._translate = translate
        self._batches: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        # Contains a byte for each batch that may be handed over, and one for the end.
        self._room_reader, self._room_writer = os.pipe()
        os.write(self._room_writer, b"." * ROOM)
        self._error: BaseException | None = None
        self._abandoned = self._ended = False
        self.row_count = 0
        """Rows, after the end."""
        self._thread = threading.Thread(target=self._run, name="bulk", daemon=True)
        self._thread.start()

    # In the thread

    def _run(self) -> None:
        try:
            self.row_count = self._load(self._handed_batches())
        except BaseException as error:
            self._error = error
        finally:
            self._ended = True
            with suppress(OSError):
                os.write(self._room_writer, b"." * (ROOM + 1))

    def _handed_batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._batches.get()) is not None:
            yield batch
            os.write(self._room_writer, b".")
        if self._abandoned:
            raise Abandoned

    # Outside the thread

    def await_room(self, wait: Wait) -> None:
        """Wait before a batch is handed over. Raises the load's error."""
        wait("target", self._room_reader, False)
        os.read(self._room_reader, 1)
        self._check()

    def put(self, batch: pa.RecordBatch) -> None:
        self._batches.put(batch)

    def end(self, wait: Wait) -> None:
        """Wait until everything is loaded. Raises the load's error."""
        self._batches.put(None)
        while not self._ended:
            computing(wait)("target", self._room_reader, False)
            os.read(self._room_reader, 1)
        self._thread.join(ABANDON_SECONDS)
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._translate(self._error)

    def abandon(self) -> None:
        """End the load if it is running, before anything it uses is removed."""
        self._abandoned = True
        self._batches.put(None)
        self._thread.join(ABANDON_SECONDS)

    def close(self) -> None:
        for end in (self._room_reader, self._room_writer):
            with suppress(OSError):
                os.close(end)
