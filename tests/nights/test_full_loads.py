"""Loads of all rows that set a watermark, after which a night reads only changes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.backends.conftest import Pair
from tests.faults.cli import PATIENCE, Run
from tests.faults.gate import Gate
from tests.nights.test_rules import (
    ALL,
    ATTACH,
    NAME,
    check_same,
    full,
    given,
    interrupted,
    is_committed,
    is_planned,
    items,
    night,
    pair,
    parted,
)

import penstock
from penstock import CopySpec
from penstock.events import Event, StepChanged
from penstock.model.nights import Watermark
from penstock_testkit import TcpProxy

__all__ = ["items", "pair", "parted"]
MODES = ("truncate", "recreate", "swap")


def load(pair: Pair, mode: str, **options: Any) -> Any:
    return night(pair, mode=mode, **options)


def unasked(pair: Pair, mode: str, **options: Any) -> Any:
    return night(pair, mode=mode, incremental=None, **options)


def history(pair: Pair) -> tuple[Watermark, ...]:
    return penstock.watermark_history(NAME, target=pair.target.url)


def is_last_step(event: Event) -> bool:
    """Whether the step that sets the watermark is about to begin."""
    return isinstance(event, StepChanged) and event.step_id in ("watermark", "swap")


@pytest.mark.parametrize("mode", MODES)
def test_a_night_after_a_full_load_reads_what_has_changed(items: Pair, mode: str) -> None:
    found = load(items, mode, run_id="first").done()
    (mark,) = history(items)
    assert (mark.epoch, mark.run_id, mark.inserted, mark.rows) == (1, "first", 200, 200)
    assert mark.full == f"--mode {mode} reloads the table"
    (taken,) = penstock.status("first", target=items.target.url).run.snapshots
    assert mark.moment == mark.full_at == taken.taken_at
    assert found.rows == 200
    items.source.run("UPDATE items SET word = 'new' WHERE id < 6", "DELETE FROM items WHERE id = 9")
    after = night(items, deletes="hard")
    assert full(after) == ""
    assert after.done().rows == 5
    check_same(items)


def test_a_transaction_that_a_full_load_has_not_seen_is_read_by_the_next_night(
    items: Pair,
) -> None:
    with psycopg.connect(items.source.url) as late:
        late.execute("UPDATE items SET word = 'late' WHERE id = 7")
        items.source.run("UPDATE items SET word = 'early' WHERE id = 8")
        load(items, "recreate").done()
        late.commit()
    assert full(night(items)) == ""
    check_same(items)


@pytest.mark.parametrize("mode", MODES)
def test_a_full_load_sets_a_watermark_that_is_there_though_it_is_not_asked_to(
    items: Pair, mode: str
) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    found = unasked(items, mode)
    found.done()
    (planned,) = (event for event in found.events if is_planned(event))
    assert any(reason.startswith(f"watermark {NAME}: set at") for reason in planned.reasons)
    assert [mark.epoch for mark in history(items)] == [2, 1]
    after = night(items)
    assert full(after) == ""
    assert after.done().rows == 0
    check_same(items)


def test_a_full_load_without_a_watermark_sets_none(items: Pair) -> None:
    unasked(items, "truncate").done()
    assert penstock.watermarks(target=items.target.url) == ()


def test_appended_rows_set_none(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET id = id + 1000")
    unasked(items, "append").done()
    assert len(history(items)) == 1
    assert "had 200 rows" in full(night(items, deletes="hard", max_deletes="100%"))
    check_same(items)


def test_a_moving_condition_leaves_the_watermark_and_says_so(items: Pair) -> None:
    night(items).done()
    found = unasked(items, "truncate", where="now() > '2020-01-01'")
    found.done()
    (planned,) = (event for event in found.events if is_planned(event))
    assert any("stays as it is" in reason for reason in planned.reasons)
    assert len(history(items)) == 1
    assert full(night(items)) != ""
    assert load(items, "truncate", where="now() > '2020-01-01'").code == 65


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_full_load_is_overtaken_by_a_night(items: Pair, mode: str) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'old'")
    penstock.create(CopySpec(**given(items, mode=mode, run_id="late")))
    items.source.run("UPDATE items SET word = 'new'")
    by = night(items).done().run_id
    before = items.target.rows(ALL)
    with pytest.raises(penstock.PenstockError, match=f"run {by} has moved it") as caught:
        list(penstock.resume("late", source=items.source.url, target=items.target.url))
    assert caught.value.exit_code == 75
    assert items.target.rows(ALL) == before
    left = penstock.status("late", target=items.target.url).night
    assert left is not None
    assert left.overtaken_by is not None
    assert left.overtaken_by.run_id == by


def move(pair: Pair) -> Callable[[], object]:
    return lambda: penstock.reset_watermark(NAME, target=pair.target.url)


def test_a_swap_whose_watermark_moves_while_it_copies_swaps_nothing(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    before = items.target.rows(ALL)
    error = interrupted(items, is_committed, move(items), mode="swap")
    assert error.exit_code == 75
    assert items.target.rows(ALL) == before
    assert [mark.epoch for mark in history(items)] == [2, 1]
    night(items).done()
    check_same(items)
    left = items.target.rows("SELECT relname FROM pg_class WHERE relname LIKE 'items%~%'")
    assert left == []


@pytest.mark.parametrize("mode", ["truncate", "recreate"])
def test_a_load_in_place_whose_watermark_moves_sets_none(items: Pair, mode: str) -> None:
    night(items).done()
    error = interrupted(items, is_committed, move(items), mode=mode)
    assert error.exit_code == 75
    assert [mark.epoch for mark in history(items)] == [2, 1]
    assert full(night(items)) == "the watermark was reset"
    check_same(items)


@pytest.mark.parametrize("mode", MODES)
def test_a_full_load_that_is_stopped_before_its_last_step_sets_it_when_it_is_resumed(
    items: Pair, mode: str
) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    events = penstock.copy(CopySpec(**given(items, mode=mode, run_id="stopped")))
    for event in events:
        if is_last_step(event):
            break
    events.close()
    items.source.run("UPDATE items SET word = 'later' WHERE id < 4")
    list(penstock.resume("stopped", source=items.source.url, target=items.target.url))
    (taken,) = penstock.status("stopped", target=items.target.url).run.snapshots
    assert history(items)[0].moment == taken.taken_at
    assert len(history(items)) == 2
    after = night(items)
    assert full(after) == ""
    assert after.done().rows == 3
    check_same(items)


@pytest.mark.parametrize("lost", ["accept", "restart"])
def test_a_snapshot_that_is_replaced(items: Pair, lost: str) -> None:
    """The watermark is the oldest snapshot with which any row was read."""
    options = {"mode": "truncate", "key": "id", "partitions": 4, "on_snapshot_lost": lost}
    run = penstock.create(CopySpec(**given(items, run_id="lossy", **options))).run
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    list(penstock.resume("lossy", **ends, only=[run.plan.partitions[0].id], finish=False))
    items.source.run("UPDATE items SET word = 'between'")
    list(penstock.resume("lossy", **ends))
    snapshots = penstock.status("lossy", target=items.target.url).run.snapshots
    assert len(snapshots) == (2 if lost == "accept" else 1)
    assert history(items)[0].moment == snapshots[0].taken_at
    after = night(items)
    assert full(after) == ""
    assert after.done().rows == (200 if lost == "accept" else 0)
    check_same(items)


def test_a_partition_that_is_read_as_of_now(items: Pair) -> None:
    spec = CopySpec(**given(items, mode="truncate", key="id", partitions=2, run_id="later"))
    first = penstock.create(spec).run.plan.partitions[0].id
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    list(penstock.resume("later", **ends, only=[first], finish=False))
    items.source.run("UPDATE items SET word = 'between'")
    list(penstock.resume("later", **ends, as_of_now=True))
    (mark,) = history(items)
    assert mark.horizon is None
    assert full(night(items)) == "the watermark was reset"
    check_same(items)


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_leaf_that_is_attached_while_all_rows_are_loaded(parted: Pair, mode: str) -> None:
    night(parted).done()
    spec = CopySpec(**given(parted, mode=mode, key="id", incremental=None))
    said = []
    for event in penstock.copy(spec):
        said.append(event)
        if is_planned(event):
            parted.source.run(ATTACH)
    assert any("stays as it is" in getattr(event, "message", "") for event in said)
    assert len(history(parted)) == 1
    assert full(night(parted)) != ""
    check_same(parted)


def test_another_condition_is_recorded(items: Pair) -> None:
    load(items, "recreate", where="id < 100").done()
    found = night(items, where="id < 100")
    assert full(found) == ""
    assert "--where" in full(night(items))
    check_same(items)


def test_a_full_load_of_a_batch(items: Pair) -> None:
    items.source.run("CREATE TABLE more AS TABLE items", "ALTER TABLE more ADD PRIMARY KEY (id)")
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    options = {"mode": "recreate", "incremental": "xmin"}
    list(penstock.copy_all(penstock.BatchSpec(**ends, tables=("public.*",), defaults=options)))
    marks = penstock.watermarks(target=items.target.url)
    assert [mark.rows for mark in marks] == [200, 200]
    assert full(night(items)) == ""
    assert full(night(items, table="public.more")) == ""


@pytest.mark.parametrize("mode", MODES)
def test_a_full_load_that_is_killed_as_it_sets_the_watermark(items: Pair, mode: str) -> None:
    items.source.run("UPDATE items SET word = 'new'")
    with TcpProxy.of(items.target.url) as proxy:
        gate = Gate(proxy, b'INTO "penstock"."watermark"', "to_server")
        run = Run(
            *("copy", "--source", items.source.url, "--target", proxy.url(items.target.url)),
            *("--table", "public.items", "--mode", mode, "--incremental", "xmin"),
            *("--run-id", "killed", "--degree", "1"),
        )
        try:
            while not gate.wait(0.02):
                assert not run.has_ended(), run.errors
            run.signal_all(signal.SIGKILL)
            run.popen.wait(PATIENCE)
        finally:
            gate.open()
            run.close()
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    assert penstock.watermarks(target=items.target.url) == ()
    if mode == "swap":
        assert items.target.count("items") == 0
    list(penstock.resume("killed", **ends))
    (mark,) = history(items)
    assert mark.run_id == "killed"
    after = night(items, deletes="hard")
    assert full(after) == ""
    assert after.done().rows == 0
    check_same(items)
