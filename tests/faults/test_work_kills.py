"""Processes that work on one run are killed at random, and the target's server once."""

from __future__ import annotations

import random
import signal
import time

import pytest

from penstock.events import Committed, SnapshotChanged
from penstock_testkit import PostgresServer

from .cli import PATIENCE, Run
from .pair import Pair, execute

PROCESSES = 4
KILLS = 30
PARTITIONS = 200
# What an engine starts again: transient failures, and processes that were killed.
AGAIN = {75, -signal.SIGKILL}


@pytest.mark.parametrize("seed", range(5))
def test_random_kills(
    fragile: Pair, restartable: tuple[PostgresServer, PostgresServer], seed: int
) -> None:
    """Engines start again what has failed; the snapshot lasts as long as any process."""
    chance, pair = random.Random(seed), fragile
    words = (
        *("--table", "public.item", "--strategy", "range", "--key", "id"),
        *("--partitions", str(PARTITIONS), "--max-rate", "120KB", "--grace", "1s"),
    )
    started: list[Run] = []

    def start() -> Run:
        started.append(pair.work(*words))
        return started[-1]

    running = [start() for _ in range(PROCESSES)]
    running[0].wait_for(Committed)
    # The rows of the snapshot are those of the beginning.
    execute(pair.source, "CREATE TABLE kept AS TABLE item", "DELETE FROM item WHERE id % 7 = 0")
    restart_at = chance.randrange(KILLS)
    for n in range(KILLS):
        time.sleep(chance.uniform(0.1, 0.6))
        # On a busy machine the others may not have joined the snapshot yet: somebody must hold it.
        holders = [run for run in running if run.of(SnapshotChanged) and not run.has_ended()]
        victims = [run for run in running if len(holders) > 1 or run not in holders]
        if n == restart_at:
            server = restartable[1]
            server.stop("fast")
            server.start()
        else:
            chance.choice(victims).signal_all(signal.SIGKILL)
        for place, run in enumerate(running):
            if run.has_ended() and run.popen.returncode in AGAIN:
                running[place] = start()
    deadline = time.monotonic() + PATIENCE
    while any(not run.has_ended() or run.popen.returncode in AGAIN for run in running):
        assert time.monotonic() < deadline
        for place, run in enumerate(running):
            if run.has_ended() and run.popen.returncode in AGAIN:
                running[place] = start()
        time.sleep(0.1)
    for run in running:
        run.ended(0)
    found = pair.status()
    assert found.run.status == "done"
    assert len(found.committed) == len(found.run.plan.partitions)
    mine = [e.partition_id for run in started for e in run.of(Committed, already=False)]
    assert len(mine) == len(set(mine))
    execute(pair.source, "DROP TABLE item", "ALTER TABLE kept RENAME TO item")
    pair.check_content()
    pair.check_nothing_left()
