"""Several executions take the partitions of one run, into every backend."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

from penstock import create, status, work
from penstock.errors import PenstockError
from penstock.events import Committed, Event, Finished, Opened, StepChanged, Verified

from ..faults.cli import PATIENCE, eventually
from .copying import ROWS, Pair, finish
from .rows import numbered

RUN = "shared"
CUT = {"strategy": "ntile", "key": "id", "partitions": 12}


def taken(pair: Pair) -> list[Event]:
    # Otherwise Penstock would wait a long time to find out whether the source was written to.
    source, target = pair.ends["source"], pair.ends["target"]
    return list(work(RUN, source=source, target=target, streams=2, on_snapshot_lost="accept"))


@pytest.mark.parametrize("mode", ["append", "upsert", "recreate"])
def test_executions_take_partitions_until_the_run_is_done(pair: Pair, mode: str) -> None:
    pair.make(key="id")
    try:
        create(pair.spec(run_id=RUN, mode=mode, **CUT))
    except PenstockError as error:
        pytest.skip(error.message)
    with ThreadPoolExecutor(3) as pool:
        executions = [future.result() for future in [pool.submit(taken, pair) for _ in range(3)]]
    ends = [events[-1] for events in executions]
    assert [end.status for end in ends if isinstance(end, Finished)] == ["done"] * 3
    mine = [
        event.partition_id
        for events in executions
        for event in events
        if isinstance(event, Committed) and not event.already
    ]
    found = status(RUN, target=pair.ends["target"])
    assert Counter(mine) == Counter(partition.id for partition in found.run.plan.partitions)
    assert sum(record.rows for record in found.committed) == len(ROWS.rows)
    pair.check()


def test_one_execution_compares_and_does_the_steps(pair: Pair) -> None:
    pair.make(key="id")
    create(pair.spec(run_id=RUN, mode="append", verify="counts", **CUT))
    barrier = Barrier(3)

    def at_once() -> list[Event]:
        barrier.wait()
        return taken(pair)

    with ThreadPoolExecutor(3) as pool:
        executions = [future.result() for future in [pool.submit(at_once) for _ in range(3)]]
    assert [events[-1].as_json()["status"] for events in executions] == ["done"] * 3
    finished = [[each for each in events if isinstance(each, Verified)] for events in executions]
    assert sorted(map(len, finished)) == [0, 0, 1]
    steps = [any(isinstance(each, StepChanged) for each in events) for events in executions]
    assert [done for done, each in zip(steps, finished, strict=True) if not each] == [False] * 2
    pair.check()


def test_a_turn_that_was_given_back_is_free(pair: Pair) -> None:
    with pair.target() as first:
        first.control.create()
        presence = first.control.presence
        assert presence.take_turns(["r", "r:count"]) == {"r", "r:count"}
        with pair.target() as second:
            theirs = second.control.presence
            assert theirs.take_turns(["r", "r:count", "r:links"]) == {"r:links"}
            assert presence.take_turns(["r", "r:links"]) == {"r"}
            presence.take_turns(["r"])  # a turn that is taken twice ends at once
            presence.end_turns(["r", "r:links"])
            assert theirs.take_turns(["r", "r:count"]) == {"r"}
            assert presence.take_turns(["r", "r:count"]) == {"r:count"}
            theirs.end_turns(["r"])
            assert presence.take_turns(["r"]) == {"r"}
        # A server ends a session soon after its client.
        eventually("it is free", lambda: bool(presence.take_turns(["r:links"])), PATIENCE)
    with pair.target() as third:
        names, theirs = ["r", "r:count", "r:links"], third.control.presence
        eventually("they are", lambda: theirs.take_turns(names) == set(names), PATIENCE)


def test_a_partition_of_an_execution_that_is_gone_is_taken(pair: Pair) -> None:
    """It is closed, which ends its workers: whatever it held becomes free."""
    pair.make(numbered(300))
    spec = pair.spec(run_id=RUN, **CUT)
    create(spec)
    first = work(RUN, source=pair.ends["source"], target=pair.ends["target"], streams=2, grace=1.0)
    with suppress(StopIteration):
        while not isinstance(next(first), Opened):
            pass
    first.close()
    assert finish(iter(taken(pair))).status == "done"
    pair.check(ROWS)
