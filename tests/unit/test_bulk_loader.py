"""A bulk load on a thread: the batches it takes, the errors it reports, and how it ends."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.backends.shared.attempts.bulk_loader import ROOM, BulkLoader
from penstock.errors import Interrupted, PermanentError

BATCH = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], ["a"])


class Ready:
    """A wait that ends when there are bytes to read."""

    def __call__(self, side: str, fd: int, writing: bool) -> None:
        assert side == "target"
        assert select.select([fd], [], [], 10)[0], "nothing came within 10 s"


def refused(error: BaseException) -> BaseException:
    return PermanentError(f"target: {error}")


def put(loader: BulkLoader, count: int) -> None:
    for _ in range(count):
        loader.await_room(Ready())  # type: ignore[arg-type]
        loader.put(BATCH)


def test_all_batches_are_taken() -> None:
    loader = BulkLoader(lambda batches: sum(batch.num_rows for batch in batches), refused)
    put(loader, 20)
    loader.end(Ready())  # type: ignore[arg-type]
    assert loader.row_count == 60
    loader.close()


def test_only_a_few_batches_are_buffered() -> None:
    is_taken, may_continue = threading.Event(), threading.Event()

    def load(batches: Iterator[pa.RecordBatch]) -> int:
        next(batches)
        is_taken.set()
        assert may_continue.wait(10)
        return 3 + int(sum(batch.num_rows for batch in batches))

    loader = BulkLoader(load, refused)
    put(loader, ROOM)
    assert is_taken.wait(10)

    class Full(Exception):
        pass

    def wait(side: str, fd: int, writing: bool) -> None:
        if not select.select([fd], [], [], 0.2)[0]:
            raise Full

    with pytest.raises(Full):
        loader.await_room(wait)  # type: ignore[arg-type]
    may_continue.set()
    put(loader, 1)
    loader.end(Ready())  # type: ignore[arg-type]
    assert loader.row_count == 3 * (ROOM + 1)
    loader.close()


def test_an_error_is_raised_by_the_next_call() -> None:
    def load(batches: Iterator[pa.RecordBatch]) -> int:
        next(batches)
        raise ValueError("full")

    loader = BulkLoader(load, refused)
    with pytest.raises(PermanentError, match="target: full"):
        put(loader, 20)
    with pytest.raises(PermanentError, match="target: full"):
        loader.end(Ready())  # type: ignore[arg-type]
    loader.abandon()
    loader.close()


def test_an_abandoned_load_does_not_end_normally() -> None:
    ended: list[BaseException] = []

    def load(batches: Iterator[pa.RecordBatch]) -> int:
        try:
            return sum(batch.num_rows for batch in batches)
        except BaseException as error:
            ended.append(error)
            raise

    loader = BulkLoader(load, refused)
    put(loader, 2)
    loader.abandon()
    assert len(ended) == 1
    loader.close()


def test_a_cancellation_is_let_through() -> None:
    loader = BulkLoader(lambda batches: sum(batch.num_rows for batch in batches), refused)

    def wait(side: str, fd: int, writing: bool) -> None:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        loader.await_room(wait)  # type: ignore[arg-type]
    loader.abandon()
    loader.close()
