"""Loads of all rows that set a watermark, so that the next night reads only changes."""

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
    copy_options,
    full,
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


def load_without_incremental(pair: Pair, mode: str, **options: Any) -> Any:
    return night(pair, mode=mode, incremental=None, **options)


def history(pair: Pair) -> tuple[Watermark, ...]:
    return penstock.watermark_history(NAME, target=pair.target.url)


def is_last_step(event: Event) -> bool:
    """Whether the step that sets the watermark is about to begin."""
    return isinstance(event, StepChanged) and event.step_id in ("watermark", "swap")


@pytest.mark.parametrize("mode", MODES)
def test_a_night_after_a_full_load_reads_only_changes(items: Pair, mode: str) -> None:
    found = load(items, mode, run_id="first").done()
    (mark,) = history(items)
    assert (mark.epoch, mark.run_id, mark.inserted, mark.rows) == (1, "first", 200, 200)
    assert mark.full == f"--mode {mode} reloads the table"
    (snapshot,) = penstock.status("first", target=items.target.url).run.snapshots
    assert mark.moment == mark.full_at == snapshot.taken_at
    assert found.rows == 200
    items.source.run("UPDATE items SET word = 'new' WHERE id < 6", "DELETE FROM items WHERE id = 9")
    after = night(items, deletes="hard")
    assert full(after) == ""
    assert after.done().rows == 5
    check_same(items)


def test_a_transaction_open_during_a_full_load_is_read_by_the_next_night(
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
def test_a_full_load_moves_an_existing_watermark_by_default(items: Pair, mode: str) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    found = load_without_incremental(items, mode)
    found.done()
    (planned,) = (event for event in found.events if is_planned(event))
    assert any(reason.startswith(f"watermark {NAME}: set at") for reason in planned.reasons)
    assert [mark.epoch for mark in history(items)] == [2, 1]
    after = night(items)
    assert full(after) == ""
    assert after.done().rows == 0
    check_same(items)


def test_a_full_load_without_a_watermark_sets_none(items: Pair) -> None:
    load_without_incremental(items, "truncate").done()
    assert penstock.watermarks(target=items.target.url) == ()


def test_an_append_sets_no_watermark(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET id = id + 1000")
    load_without_incremental(items, "append").done()
    assert len(history(items)) == 1
    assert "had 200 rows" in full(night(items, deletes="hard,100%"))
    check_same(items)


def test_a_volatile_condition_leaves_the_watermark_and_is_reported(items: Pair) -> None:
    night(items).done()
    found = load_without_incremental(items, "truncate", where="now() > '2020-01-01'")
    found.done()
    (planned,) = (event for event in found.events if is_planned(event))
    assert any(
        "not moved, so the next night reads all rows" in reason for reason in planned.reasons
    )
    assert len(history(items)) == 1
    assert full(night(items)) != ""
    assert load(items, "truncate", where="now() > '2020-01-01'").code == 65


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_full_load_is_overtaken_by_a_night(items: Pair, mode: str) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'old'")
    penstock.create(CopySpec(**copy_options(items, mode=mode, run_id="late")))
    items.source.run("UPDATE items SET word = 'new'")
    by = night(items).done().run_id
    before = items.target.rows(ALL)
    with pytest.raises(penstock.PenstockError, match=f"run {by} has moved it") as caught:
        list(penstock.resume("late", source=items.source.url, target=items.target.url))
    assert caught.value.exit_code == 75
    assert items.target.rows(ALL) == before
    night_status = penstock.status("late", target=items.target.url).night
    assert night_status is not None
    assert night_status.overtaken_by is not None
    assert night_status.overtaken_by.run_id == by


def move(pair: Pair) -> Callable[[], object]:
    return lambda: penstock.reset_watermark(NAME, target=pair.target.url)


def test_a_swap_whose_watermark_moves_during_the_copy_changes_nothing(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    before = items.target.rows(ALL)
    error = interrupted(items, is_committed, move(items), mode="swap")
    assert error.exit_code == 75
    assert items.target.rows(ALL) == before
    assert [mark.epoch for mark in history(items)] == [2, 1]
    night(items).done()
    check_same(items)
    night_status = items.target.rows("SELECT relname FROM pg_class WHERE relname LIKE 'items%~%'")
    assert night_status == []


@pytest.mark.parametrize("mode", ["truncate", "recreate"])
def test_a_load_in_place_whose_watermark_moves_sets_none(items: Pair, mode: str) -> None:
    night(items).done()
    error = interrupted(items, is_committed, move(items), mode=mode)
    assert error.exit_code == 75
    assert [mark.epoch for mark in history(items)] == [2, 1]
    assert full(night(items)) == "the watermark was reset"
    check_same(items)


@pytest.mark.parametrize("mode", MODES)
def test_a_full_load_stopped_before_its_last_step_sets_the_watermark_on_resume(
    items: Pair, mode: str
) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    events = penstock.copy(CopySpec(**copy_options(items, mode=mode, run_id="stopped")))
    for event in events:
        if is_last_step(event):
            break
    events.close()
    items.source.run("UPDATE items SET word = 'later' WHERE id < 4")
    list(penstock.resume("stopped", source=items.source.url, target=items.target.url))
    (snapshot,) = penstock.status("stopped", target=items.target.url).run.snapshots
    assert history(items)[0].moment == snapshot.taken_at
    assert len(history(items)) == 2
    after = night(items)
    assert full(after) == ""
    assert after.done().rows == 3
    check_same(items)


@pytest.mark.parametrize("on_snapshot_lost", ["accept", "restart"])
def test_a_replaced_snapshot_leaves_the_oldest_as_the_watermark(
    items: Pair, on_snapshot_lost: str
) -> None:
    """The watermark is the oldest snapshot with which any row was read."""
    options = {
        "mode": "truncate",
        "key": "id",
        "partitions": 4,
        "on_snapshot_lost": on_snapshot_lost,
    }
    run = penstock.create(CopySpec(**copy_options(items, run_id="lossy", **options))).run
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    list(penstock.resume("lossy", **ends, only=[run.plan.partitions[0].id], finish=False))
    items.source.run("UPDATE items SET word = 'between'")
    list(penstock.resume("lossy", **ends))
    snapshots = penstock.status("lossy", target=items.target.url).run.snapshots
    assert len(snapshots) == (2 if on_snapshot_lost == "accept" else 1)
    assert history(items)[0].moment == snapshots[0].taken_at
    after = night(items)
    assert full(after) == ""
    assert after.done().rows == (200 if on_snapshot_lost == "accept" else 0)
    check_same(items)


def test_a_partition_read_as_of_now_leaves_no_horizon(items: Pair) -> None:
    spec = CopySpec(**copy_options(items, mode="truncate", key="id", partitions=2, run_id="later"))
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
def test_a_partition_attached_during_a_full_load_leaves_the_watermark(
    parted: Pair, mode: str
) -> None:
    night(parted).done()
    spec = CopySpec(**copy_options(parted, mode=mode, key="id", incremental=None))
    message = []
    for event in penstock.copy(spec):
        message.append(event)
        if is_planned(event):
            parted.source.run(ATTACH)
    assert any("stays unchanged" in getattr(event, "message", "") for event in message)
    assert len(history(parted)) == 1
    assert full(night(parted)) != ""
    check_same(parted)


def test_the_condition_of_a_full_load_is_recorded(items: Pair) -> None:
    load(items, "recreate", where="id < 100").done()
    found = night(items, where="id < 100")
    assert full(found) == ""
    assert "--where" in full(night(items))
    check_same(items)


def test_a_full_load_of_a_batch_sets_the_watermarks(items: Pair) -> None:
    items.source.run("CREATE TABLE more AS TABLE items", "ALTER TABLE more ADD PRIMARY KEY (id)")
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    options = {"mode": "recreate", "incremental": "xmin"}
    list(penstock.copy_all(penstock.BatchSpec(**ends, tables=("public.*",), defaults=options)))
    marks = penstock.watermarks(target=items.target.url)
    assert [mark.rows for mark in marks] == [200, 200]
    assert full(night(items)) == ""
    assert full(night(items, table="public.more")) == ""


@pytest.mark.parametrize("mode", MODES)
def test_a_full_load_killed_as_it_sets_the_watermark_is_resumed(items: Pair, mode: str) -> None:
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
