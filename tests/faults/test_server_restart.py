"""A server that restarts in mid-copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.events import Opened, SnapshotChanged
from penstock_testkit import PostgresServer

from .cli import Run
from .pair import PARTITIONS, Pair, execute

Servers = tuple[PostgresServer, PostgresServer]


@contextmanager
def in_mid_copy(pair: Pair, *words: str) -> Iterator[Run]:
    """Yield a copy with two partitions committed and two open, held until the end."""
    gates = pair.gates(3, 4)
    run = pair.copy(*words)
    for gate in gates:
        gate.reached()
    yield run
    for gate in gates:
        gate.open()


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_run_survives_a_restart_of_the_target(
    fragile: Pair, restartable: Servers, mode: str
) -> None:
    with in_mid_copy(fragile) as run:
        restart(restartable[1], mode)
    run.ended(0)
    assert len(run.of(Opened)) > PARTITIONS
    assert not run.of(SnapshotChanged, state="lost")
    fragile.check_resumes()


def test_a_fast_restart_of_the_source_loses_the_snapshot(
    fragile: Pair, restartable: Servers
) -> None:
    with in_mid_copy(fragile) as run:
        restart(restartable[0], "fast")
    run.ended(65)
    assert [event.state for event in run.of(SnapshotChanged)] == ["taken", "lost"]
    assert "--on-snapshot-lost accept" in run.errors
    assert "restart" in run.errors
    assert fragile.status().run.status == "failed"
    # A clean shutdown keeps the statistics, which show that there were no writes.
    resumed = fragile.check_resumes()
    assert resumed.finished.snapshots == 1, "all rows are as of the first one's moment"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize(("policy", "snapshots"), [("accept", 2), ("restart", 1)])
def test_the_run_continues_after_a_restart_of_the_source_if_requested(
    fragile: Pair, restartable: Servers, mode: str, policy: str, snapshots: int
) -> None:
    execute(fragile.target, "INSERT INTO item VALUES (-1, 'before', NULL, now(), NULL, '')")
    with in_mid_copy(fragile, "--mode", "truncate", "--on-snapshot-lost", policy) as run:
        restart(restartable[0], mode)
    run.ended(0)
    assert [event.state for event in run.of(SnapshotChanged)] == ["taken", "lost", "renewed"]
    assert run.finished.snapshots == snapshots
    assert len(fragile.status().run.snapshots) == snapshots
    fragile.check_resumes()


def test_the_run_is_resumed_after_a_crash_of_the_source_without_writes(
    fragile: Pair, restartable: Servers
) -> None:
    with in_mid_copy(fragile) as run:
        restart(restartable[0], "immediate")
    run.ended(65)
    fragile.check_resumes()


def test_writes_after_a_crash_of_the_source_need_a_decision(
    fragile: Pair, restartable: Servers
) -> None:
    with in_mid_copy(fragile) as run:
        restart(restartable[0], "immediate")
    run.ended(65)
    assert fragile.status().run.status == "failed"
    # A crash loses the statistics, so later writes cannot be located.
    execute(fragile.source, "CREATE TABLE other ()")
    resumed = fragile.resume()
    resumed.ended(65)
    assert "--on-snapshot-lost accept" in resumed.errors
    assert "cannot tell whether it was" in resumed.errors
    fragile.check_resumes("--on-snapshot-lost", "accept")


def test_writes_after_a_restart_of_the_source_need_a_decision(
    fragile: Pair, restartable: Servers
) -> None:
    with in_mid_copy(fragile) as run:
        restart(restartable[0], "fast")
    run.ended(65)
    execute(fragile.source, "UPDATE item SET note = note WHERE id = 1")
    resumed = fragile.resume()
    resumed.ended(65)
    assert "1 updated" in resumed.errors
    assert "--on-snapshot-lost accept" in resumed.errors


def restart(server: PostgresServer, mode: str) -> None:
    assert mode in ("fast", "immediate")
    server.restart("fast" if mode == "fast" else "immediate")
