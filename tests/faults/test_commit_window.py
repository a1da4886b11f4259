"""Faults around the COMMIT: rows arrive once, regardless of which process or connection is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from penstock.events import Committed, Opened, Retrying
from penstock_testkit.proxy import Direction

from .cli import Run
from .gate import cut_this_connection
from .pair import PARTITIONS, Pair, partition_id

# The writer's statement after the end of the COPY, in the stream to the target; COMMIT is sent with
# it.
RECORD_COMPLETED = b"SET rows ="
# A simple query ends in a zero byte, and so does the tag in the server's answer.
COMMIT = b"COMMIT\0"
# With one stream, partitions are committed in order.
STRUCK = 3


class AtCommit:
    """A copy with a fault in the third partition, after the end of its COPY.

    Args:
        needle: the bytes at which the fault happens.
    """

    def __init__(
        self, pair: Pair, needle: bytes, direction: Direction, strike: Callable[[Run], object]
    ) -> None:
        self._proxy = pair.proxy("target")
        self._moment = (needle, direction)
        self._strike = strike
        self._ended = 0
        self.struck = False
        self._proxy.on_bytes(RECORD_COMPLETED, "to_server", self._copy_has_ended, once=False)
        self.run = pair.copy(degree=1)

    def _copy_has_ended(self) -> None:
        self._ended += 1
        if self._ended == STRUCK:
            if self._moment[0] == RECORD_COMPLETED:
                self._now()
            else:
                self._proxy.on_bytes(*self._moment, self._now)

    def _now(self) -> None:
        self._strike(self.run)
        self.struck = True


def kill_worker(run: Run) -> None:
    os.kill(run.wait_for(Opened, partition_id=partition_id(STRUCK)).pid, signal.SIGKILL)


def kill_supervisor(run: Run) -> None:
    os.kill(run.pid, signal.SIGKILL)


def kill_both(run: Run) -> None:
    run.signal_all(signal.SIGKILL)


def cut_connection(_: Run) -> None:
    cut_this_connection()


WINDOWS = pytest.mark.parametrize(
    ("needle", "direction"),
    [
        pytest.param(RECORD_COMPLETED, "to_server", id="before the record is completed"),
        pytest.param(COMMIT, "to_client", id="before the answer comes"),
    ],
)


@WINDOWS
@pytest.mark.parametrize("strike", [kill_worker, cut_connection])
def test_the_run_completes_after_a_fault_at_commit(
    pair: Pair, needle: bytes, direction: Direction, strike: Callable[[Run], object]
) -> None:
    at_commit = AtCommit(pair, needle, direction, strike)
    at_commit.run.ended(0)
    assert at_commit.struck
    struck = partition_id(STRUCK)
    assert {event.partition_id for event in at_commit.run.of(Retrying)} <= {struck}
    attempts = pair.attempts()
    assert all(attempts[partition_id(n)] == 1 for n in range(1, PARTITIONS + 1) if n != STRUCK)
    pair.check_resumes()


@WINDOWS
@pytest.mark.parametrize("strike", [kill_supervisor, kill_both])
def test_the_run_is_resumed_after_a_fault_at_commit(
    pair: Pair, needle: bytes, direction: Direction, strike: Callable[[Run], object]
) -> None:
    at_commit = AtCommit(pair, needle, direction, strike)
    at_commit.run.ended(-signal.SIGKILL)
    resumed = pair.check_resumes()
    assert at_commit.struck
    assert {event.attempt for event in resumed.of(Opened)} == {1}


def test_a_commit_whose_answer_was_lost_is_not_repeated(pair: Pair) -> None:
    at_commit = AtCommit(pair, COMMIT, "to_client", kill_worker)
    at_commit.run.ended(0)
    assert at_commit.struck
    (committed,) = at_commit.run.of(Committed, partition_id=partition_id(STRUCK))
    assert committed.already
    assert not at_commit.run.of(Retrying)
    assert set(pair.attempts().values()) == {1}
    pair.check_resumes()
