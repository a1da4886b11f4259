"""Signals at moments when an exception would get lost, or would leave a generator behind."""

from __future__ import annotations

import _thread
import gc
import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.faults.cli import eventually

from penstock.backends.parquet.storage import local_uploads
from penstock.backends.parquet.storage.local_uploads import LocalUploads
from penstock.backends.shared import private_files
from penstock.cli.output import signals
from penstock.errors import Interrupted, PlanningError
from penstock.workers.interruptions import (
    cause_of,
    expect_dropped_calls,
    forget,
    interrupt,
    is_deferred,
    raise_again,
)

ENDLESS = "SELECT sum(i * i % 7) FROM range(100_000_000_000) AS t(i)"


@pytest.fixture
def resent(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Return a semaphore that is released whenever the signal is sent again."""
    times = threading.Semaphore(0)
    expected = (os.getpid(), signal.SIGUSR1)
    monkeypatch.setattr(os, "kill", lambda *args: times.release() if args == expected else None)
    return times


def test_a_search_for_entry_points_is_not_interrupted(
    resent: threading.Semaphore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The search takes any exception for a folder that cannot be read, and skips the folder."""
    answers = []
    listdir = os.listdir

    def interrupted(path: Any = ".") -> Any:
        answers.append(is_deferred(signal.SIGUSR1, sys._getframe()))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", interrupted)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.metadata.entry_points(group="penstock.backends")
    assert answers
    assert all(answers)
    for _ in answers:
        assert resent.acquire(timeout=10)


def test_a_signal_elsewhere_is_not_deferred() -> None:
    assert not is_deferred(signal.SIGUSR1, sys._getframe())


def test_a_signal_in_a_finalizer_is_deferred(resent: threading.Semaphore) -> None:
    """The interpreter drops exceptions there."""
    answers = []

    class Dropped:
        def __del__(self) -> None:
            answers.append(is_deferred(signal.SIGUSR1, sys._getframe()))

    Dropped()
    assert answers == [True]
    assert resent.acquire(timeout=10)


class TestSwallowed:
    @pytest.fixture(autouse=True)
    def none_left(self) -> Iterator[None]:
        yield
        forget()

    def test_an_interruption_is_raised_until_it_has_ended_everything(self) -> None:
        raise_again()
        with suppress(Interrupted):
            interrupt("interrupted by SIGINT")
        for _ in range(2):
            with pytest.raises(Interrupted, match="by SIGINT"):
                raise_again()
        forget()
        raise_again()

    def test_what_an_interruption_has_become(self) -> None:
        """A driver's callback, for instance, may turn it into another error."""
        error = SystemError("returned a result with an exception set")
        assert cause_of(error) is error
        with suppress(Interrupted):
            interrupt("interrupted by SIGTERM")
        assert isinstance(cause_of(error), Interrupted)
        for other in (KeyboardInterrupt(), PlanningError("known")):
            assert cause_of(other) is other

    def test_a_query_of_duckdb(self) -> None:
        """DuckDB runs the handlers of signals during a query."""
        with signals(), duckdb.connect() as connection:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
            timer.start()
            with pytest.raises(RuntimeError, match="interrupted") as found:
                connection.execute(ENDLESS).fetchall()
            assert str(cause_of(found.value)) == "interrupted by SIGTERM"
        assert cause_of(found.value) is found.value


def test_dropped_waits_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda unraisable: reported.append(str(unraisable.exc_value))
    )

    def waiting() -> Iterator[None]:
        try:
            yield
        finally:
            yield

    def broken() -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("something else")

    def drop() -> None:
        for make in (waiting, broken):
            generator = make()
            next(generator)
            del generator
            gc.collect()

    gc.collect()  # garbage of other tests
    reported.clear()
    drop()
    expect_dropped_calls()
    drop()
    assert reported == ["generator ignored GeneratorExit", "something else", "something else"]


def test_a_thread_interrupted_at_its_start_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`Thread.start` takes the thread off its list, and the thread then misses itself there."""
    reported: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda unraisable: reported.append(str(unraisable.exc_value))
    )

    def run(key: object) -> None:
        ended = threading.Event()

        def look() -> None:
            try:
                raise KeyError(key)
            finally:
                ended.set()

        _thread.start_new_thread(look, ())
        assert ended.wait(10)

    thread = threading.Thread()
    run(thread)
    eventually("it is reported", lambda: bool(reported), 10)
    expect_dropped_calls()
    for key in (thread, "another"):
        run(key)
    eventually("the other is reported", lambda: len(reported) > 1, 10)
    assert reported == [repr(thread), "'another'"]


def test_an_interrupted_file_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its attempt can remove it, however early the interruption comes."""
    uploads = LocalUploads(str(tmp_path), str(tmp_path / "_penstock"))
    transfer: Any = None
    wait: Any = None
    sink = uploads.begin("a.parquet", "run", transfer, 1)
    sink.write(b"rows")
    make_own_folder = private_files.make_own_folder

    def interrupted(folder: str, within: str) -> None:
        make_own_folder(folder, within)
        (tmp_path / "_penstock/uploads/run/a.parquet.part").touch()
        raise Interrupted("cancelled")

    monkeypatch.setattr(local_uploads, "make_own_folder", interrupted)
    with pytest.raises(Interrupted):
        sink.drain(wait, crowded=True)
    assert list(tmp_path.rglob("*.part"))
    uploads._end(sink.upload())
    assert not list(tmp_path.rglob("*.part"))
