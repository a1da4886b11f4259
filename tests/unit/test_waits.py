"""The parts of an attempt's time: waiting for either side, and everything else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from penstock.workers.pace import Pace
from penstock.workers.stream import Meter, Waiter, _relay_pumped


def test_answers_count_as_waiting_for_that_side() -> None:
    meter = Meter()
    with Waiter(meter, 60).answering("target"):
        time.sleep(0.02)
    assert meter.waited["target"] >= 0.02
    assert meter.waited["source"] == 0


def test_a_wait_within_an_answer_counts_once() -> None:
    meter = Meter()
    waiter = Waiter(meter, 60)
    reading, writing = os.pipe()
    try:
        with waiter.answering("target"):
            os.write(writing, b"x")
            waiter("target", reading, False)
            meter.waited["target"] += 1000  # as if the answer had taken that long
    finally:
        os.close(reading)
        os.close(writing)
    assert meter.waited["target"] < 1000


def test_a_wait_in_progress_counts() -> None:
    meter = Meter(waited={"source": 1.0, "target": 100.0})
    waiter = Waiter(meter, 60)
    reading, writing = os.pipe()
    try:
        with waiter.answering("target"):
            time.sleep(0.02)
            os.write(writing, b"x")
            waiter("target", reading, False)
            waits = meter.waits()
            assert meter.waits()["target"] >= waits["target"] >= 100.02
        assert meter.waits() == meter.waited
        assert meter.waited["target"] >= waits["target"]
        assert waits["source"] == 1
    finally:
        os.close(reading)
        os.close(writing)


def test_failed_answers_count_too() -> None:
    meter = Meter()

    def fail() -> None:
        with Waiter(meter, 60).answering("source"):
            time.sleep(0.02)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert meter.waited["source"] >= 0.02


def test_times_are_stored_with_the_commit_record() -> None:
    meter = Meter(waited={"source": 1.23456, "target": 2.0})
    spent = meter.spent(0.5)
    assert (spent.source, spent.target, spent.paced) == (1.235, 2.0, 0.5)
    assert spent.seconds >= 0


class Turns:
    """A pump of three turns, which notes the limit of each."""

    max_turn_bytes: int | None = None

    rows = bytes = 0
    wait_seconds = (0.0, 0.0)
    idle_seconds = 0.0
    side = "source"

    def __init__(self) -> None:
        self.limits: list[int | None] = []

    def run(self, seconds: float, target_socket: int, check: Callable[[], None]) -> bool:
        self.limits.append(self.max_turn_bytes)
        return len(self.limits) < 3


def test_a_stream_with_a_rate_moves_small_amounts() -> None:
    for rate, most in ((None, None), (1_000_000, 50_000)):
        pump, meter, pace = Turns(), Meter(), Pace()
        pace.set(rate)
        _relay_pumped(pump, Waiter(meter, 60), meter, pace)
        assert pump.limits == [most] * 3
