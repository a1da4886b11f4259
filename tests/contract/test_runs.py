"""Concurrent runs: two executions of one run, two runs on one table, and repeated requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Barrier, Thread

import pytest

from penstock import copy, create, status
from penstock.errors import PenstockError, TargetBusy, TargetChanged
from penstock.events import Opened

from ..control_calls import enter, prepare
from .copying import ROWS, Pair, finish
from .database import Database, SqlDatabase
from .rows import Row, Rows

CUT = {"strategy": "ntile", "key": "id", "partitions": 2}
# Otherwise Penstock would wait a long time to find out whether the source was written to.
LATER = {"on_snapshot_lost": "accept"}


def _corrected(row: Row) -> Row:
    return (*row[:2], 1000.0, row[3])


def test_two_executions_of_one_run_copy_each_row_once(pair: Pair) -> None:
    pair.make()
    first = copy(pair.spec(run_id="r", mode="truncate", degree=2, **CUT))
    for event in first:
        if isinstance(event, Opened):
            break
    assert pair.resume("r").status == "done"
    assert finish(first).status == "done"
    pair.check()
    records = status("r", target=pair.ends["target"]).committed
    assert sum(record.rows for record in records) == len(ROWS.rows)


def test_two_runs_may_append_at_once(
    pair: Pair, name: str, open_database: Callable[[str], Database]
) -> None:
    pair.make()
    first = copy(pair.spec(degree=2, **CUT))
    for event in first:
        if isinstance(event, Opened):
            break
    other = Pair(open_database(name), pair.theirs)
    other.mine.fill(ROWS)
    try:
        assert other.copy(**CUT).status == "done"
    except TargetBusy as error:
        # Files of an active run conflict once they exist.
        if "which is loading right now" not in error.message:
            raise
        assert finish(first).status == "done"
        assert other.copy(**CUT).status == "done"
    else:
        assert finish(first).status == "done"
    pair.check(times=2)


def test_a_run_that_would_empty_the_table_of_another_is_rejected(pair: Pair) -> None:
    if not pair.theirs.sees_executions:
        pytest.skip("nothing on the server ends with a process")
    pair.make()
    first = copy(pair.spec(degree=2, **CUT))
    for event in first:
        if isinstance(event, Opened):
            break
    with pytest.raises(TargetBusy):
        pair.copy(mode="truncate")
    assert finish(first).status == "done"
    pair.check()


def test_the_last_of_ten_executions_is_seen_by_other_runs(pair: Pair) -> None:
    if not pair.theirs.sees_executions:
        pytest.skip("nothing on the server ends with a process")
    pair.make()
    spec = pair.spec(run_id="r", mode="truncate", **CUT)
    create(spec)
    table = spec.target_ref
    with ExitStack() as last:
        with ExitStack() as first:
            for stack in [first] * 9 + [last]:
                catalog = stack.enter_context(pair.target())
                enter(catalog.control, "r", table, lambda others: None)
        with pair.target() as other:
            seen: list[str] = []
            enter(other.control, "s", table, seen.extend)
            assert seen == ["r"]
            assert other.control.presence.is_at_work("r", table)
    with pair.target() as other:
        seen = []
        enter(other.control, "t", table, seen.extend)
        assert seen == []


def test_a_run_whose_rows_another_has_removed_cannot_continue(pair: Pair) -> None:
    pair.make()
    create(pair.spec(run_id="r", mode="truncate", **CUT))
    (first, *_) = status("r", target=pair.ends["target"]).run.plan.partitions
    pair.resume("r", only=[first.id], **LATER)
    pair.copy(mode="truncate")
    with pytest.raises(TargetChanged):
        pair.resume("r", **LATER)
    pair.check()


def test_a_claimed_run_keeps_its_table_while_it_waits(pair: Pair) -> None:
    """Nothing is at work, but its owner is going to continue it."""
    pair.make()
    create(pair.spec(run_id="r", mode="append", claim="the nightly job", **CUT))
    (first, *_) = status("r", target=pair.ends["target"]).run.plan.partitions
    pair.resume("r", only=[first.id], **LATER)
    before = len(pair.theirs.read())
    with pytest.raises(TargetBusy, match=r"run r .* the nightly job is to continue it"):
        pair.copy(mode="truncate", run_id="second")
    assert len(pair.theirs.read()) == before
    pair.resume("r", **LATER)
    pair.check()
    pair.copy(mode="truncate", run_id="second")
    pair.check()


def test_a_partition_is_copied_again_after_a_correction(inward: Pair) -> None:
    if not isinstance(inward.mine, SqlDatabase):
        pytest.skip("rows of files are not mended")
    inward.make()
    inward.copy(run_id="r", mode="truncate", **CUT)
    inward.mine.execute(f"UPDATE {inward.mine.table} SET amount = 1000 WHERE id = 0")
    (first, *_) = status("r", target=inward.ends["target"]).committed
    if not inward.theirs.recopies:
        with inward.refused("copied again"):
            inward.resume("r", only=[first.partition_id], recopy="mended", as_of_now=True)
        return
    for _ in range(2):  # repeating the request changes nothing
        inward.resume("r", only=[first.partition_id], recopy="mended", as_of_now=True)
    mended = [_corrected(ROWS.rows[0]), *ROWS.rows[1:]]
    inward.check(Rows(ROWS.columns, mended))


def test_steps_are_done_once(pair: Pair) -> None:
    pair.make()
    modes = [mode.name for mode in pair.theirs.backend.target_capabilities.modes]
    spec = pair.spec(run_id="r", mode="swap" if "swap" in modes else "truncate", **CUT)
    create(spec)
    plan = status("r", target=pair.ends["target"]).run.plan
    outcomes: list[bool] = []

    def prepare_at_once(barrier: Barrier) -> None:
        with pair.target() as catalog:
            barrier.wait()
            outcomes.append(prepare(catalog.control, "r", plan.load))

    barrier = Barrier(3)
    threads = [Thread(target=prepare_at_once, args=[barrier]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, True]
    pair.resume("r", **LATER)
    with pair.target() as catalog:
        assert not prepare(catalog.control, "r", plan.load)
        for step in plan.load.after:
            assert not catalog.control.steps.finish("r", step)
    pair.check()


def test_a_run_starts_over(inward: Pair) -> None:
    """Its steps are repeated, and its commit records dropped."""
    if not isinstance(inward.mine, SqlDatabase):
        pytest.skip("rows of files are not mended")
    inward.make()
    options = {"mode": "truncate", **CUT, "on_snapshot_lost": "restart"}
    create(inward.spec(run_id="r", **options))
    (first, *_) = status("r", target=inward.ends["target"]).run.plan.partitions
    inward.resume("r", only=[first.id])
    inward.mine.execute(f"UPDATE {inward.mine.table} SET amount = 1000 WHERE id = 299")
    if not inward.theirs.starts_over:
        with pytest.raises(TargetChanged, match="cannot be restarted"):
            inward.resume("r")
        return
    inward.resume("r")
    assert status("r", target=inward.ends["target"]).run.generation == 2
    inward.check(Rows(ROWS.columns, [*ROWS.rows[:-1], _corrected(ROWS.rows[-1])]))


def test_partitions_of_a_series_are_committed_once(pair: Pair) -> None:
    from penstock import Bound, Key, KeyRange, Partition  # noqa: PLC0415

    pair.make()
    half = Partition("low", KeyRange(Key("id"), None, Bound("", "150")))
    for run_id in ("a", "b"):
        create(pair.spec(run_id=run_id, key="id"), partitions=[half], series="s")
    pair.resume("a", **LATER)
    with pytest.raises(PenstockError, match="partition"):
        pair.resume("b", attempts=1, **LATER)
    pair.check(Rows(ROWS.columns, ROWS.rows[:150]))
