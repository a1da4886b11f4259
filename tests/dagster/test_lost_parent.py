"""A step whose parent has ended is interrupted until it ends, too."""

from __future__ import annotations

import multiprocessing
import signal

import pytest
from tests.faults.cli import eventually

from dagster_penstock import resource


class Ended:
    def is_alive(self) -> bool:
        return False


def test_an_interruption_that_something_swallows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the interpreter does in a finalizer."""
    monkeypatch.setattr(multiprocessing, "parent_process", Ended)
    monkeypatch.setattr(resource, "_POLL_INTERVAL", 0.01)
    monkeypatch.setattr(resource, "_AGAIN_SECONDS", 0.01)
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        with resource._interrupted_with_parent():
            eventually("it came again", lambda: len(received) > 2, 10)
    finally:
        signal.signal(signal.SIGINT, before)
