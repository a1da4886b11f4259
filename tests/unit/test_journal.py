"""Journals: series with a bounded length and exact sums, collected from an execution's events."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.journals import Keeper
from penstock.events import (
    BatchFinished,
    BatchStarted,
    BatchTable,
    Committed,
    DegreeChanged,
    Event,
    Failed,
    Opened,
    Planned,
    Progress,
    Sampled,
    StepChanged,
    TurnTaken,
    Verified,
    Waiting,
)
from penstock.figures.timeline import execution_seconds, merge_timelines
from penstock.model.codec import from_json, to_json
from penstock.model.journal import MOST_POINTS, DegreeChange, Journal, Point, Series


def close(first: float, second: float) -> bool:
    # Each point is rounded to a millisecond.
    return abs(first - second) < 0.001 * MOST_POINTS


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(0, 10**9), st.floats(0, 100)),
        min_size=1,
        max_size=300,
    )
)
def test_a_series_of_any_length_is_bounded_and_keeps_its_sums(
    added: list[tuple[float, int, float]],
) -> None:
    series = Series()
    for at, rows, busy in added:
        series.add(at, Point(rows=rows, bytes=2 * rows, busy=busy))
    assert len(series.points) <= MOST_POINTS
    assert len(series.points) * series.width >= max(at for at, _, _ in added)
    assert sum(point.rows for point in series.points) == sum(rows for _, rows, _ in added)
    assert sum(point.bytes for point in series.points) == 2 * sum(rows for _, rows, _ in added)
    assert close(sum(p.busy for p in series.points), sum(busy for _, _, busy in added))


def test_short_durations_add_up() -> None:
    series = Series()
    for _ in range(4000):
        series.add(0, Point(busy=0.0002))
    assert [point.busy for point in series.points] == [0.8]


def test_neighbours_are_merged() -> None:
    series = Series(most=4)
    for at in range(4):
        series.add(at, Point(rows=at))
    assert [point.rows for point in series.points] == [0, 1, 2, 3]
    series.add(4, Point(rows=100))
    assert (series.width, [point.rows for point in series.points]) == (2, [1, 5, 100])
    series.add(16, Point(rows=7))
    assert (series.width, [point.rows for point in series.points]) == (8, [106, 0, 7])


@given(st.floats(0, 1e5), st.floats(0, 1e5), st.integers(0, 10**12))
def test_a_long_duration_is_spread_and_keeps_its_sum(
    start: float, length: float, rows: int
) -> None:
    series = Series()
    series.spread(start, start + length, Point(rows=rows, busy=length))
    assert sum(point.rows for point in series.points) == rows
    assert close(sum(point.busy for point in series.points), length)
    # No stream can be busy for longer than a point lasts.
    assert all(point.busy <= series.width + 0.01 for point in series.points)


def test_values_are_spread_evenly() -> None:
    series = Series()
    series.spread(0.5, 2.5, Point(rows=200, bytes=400, busy=2.0))
    assert [(p.rows, p.bytes, p.busy) for p in series.points] == [
        (50, 100, 0.5),
        (100, 200, 1.0),
        (50, 100, 0.5),
    ]


class Clocked:
    """A journal of events with explicit times."""

    def __init__(self, degree: int = 2) -> None:
        self.at = 0.0
        self.keeper = Keeper("x", degree, lambda side, wait: f"{side} {wait}", lambda: self.at)

    def add(self, at: float, event: Event) -> None:
        self.at = at
        self.keeper.add(event)

    def journal(self, at: float) -> Journal:
        self.at = at
        found = self.keeper.journal("running")
        assert from_json(Journal, to_json(found)) == found
        return found


def ids(name: str, attempt: int = 1) -> dict[str, Any]:
    return {"run_id": "r", "partition_id": name, "attempt": attempt, "pid": 1}


def opened(name: str, attempt: int = 1) -> Opened:
    return Opened(**ids(name, attempt), label="")


def progress(kind: type[Any], name: str, rows: int, seconds: float, attempt: int = 1) -> Any:
    times = {"seconds": seconds, "wait_source": seconds / 2, "wait_target": seconds / 4}
    return kind(**ids(name, attempt), rows=rows, bytes=10 * rows, **times)


def test_the_work_of_streams_is_recorded() -> None:
    clocked = Clocked()
    clocked.add(1, opened("a"))
    clocked.add(1, opened("b"))
    clocked.add(2, progress(Progress, "a", 100, 1))
    clocked.add(3, progress(Committed, "a", 300, 2))
    clocked.add(3, progress(Committed, "b", 1000, 2))
    found = clocked.journal(5)
    assert [point.rows for point in found.points] == [0, 600, 700]
    assert [point.busy for point in found.points] == [0, 2, 2]
    assert [point.source for point in found.points] == [0, 1, 1]
    assert [point.allowed for point in found.points] == [0, 2, 2]
    assert (found.copied_from, found.copying, found.seconds) == (1, 2, 5)
    assert (found.attempts, found.failed) == (2, 0)
    assert (found.tail, found.idle) == (0, 0)


def test_the_tail_with_idle_streams_is_measured() -> None:
    clocked = Clocked(degree=3)
    for name in "abc":
        clocked.add(0, opened(name))
    clocked.add(4, progress(Committed, "a", 1, 4))
    clocked.add(4, opened("d"))
    clocked.add(6, progress(Committed, "b", 1, 6))
    clocked.add(7, progress(Committed, "c", 1, 7))
    clocked.add(10, progress(Committed, "d", 1, 6))
    found = clocked.journal(12)
    # The third stream was idle from 6 on, the second from 7 on.
    assert (found.copying, found.tail, found.idle) == (10, 4, 4 + 3)


def test_allowed_streams_follow_the_degree() -> None:
    clocked = Clocked(degree=1)
    clocked.add(0, opened("a"))
    clocked.add(2, DegreeChanged(run_id="r", degree=3, message=""))
    clocked.add(2, opened("b"))
    clocked.add(2, opened("c"))
    clocked.add(4, progress(Committed, "a", 1, 4))
    clocked.add(5, progress(Committed, "b", 1, 3))
    clocked.add(5, DegreeChanged(run_id="r", degree=1, message=""))
    clocked.add(6, progress(Committed, "c", 1, 4))
    found = clocked.journal(7)
    assert [point.allowed for point in found.points] == [1, 1, 3, 3, 3, 1]
    assert [point.busy for point in found.points] == [1, 1, 3, 3, 2, 1]
    assert (found.degree, found.tail, found.idle) == (3, 0, 0)


def test_a_shortage_of_partitions_is_no_tail() -> None:
    """One of many tasks copies one partition, whatever its degree."""
    clocked = Clocked(degree=8)
    clocked.add(0, opened("a"))
    clocked.add(4, progress(Committed, "a", 1, 4))
    found = clocked.journal(5)
    assert (found.tail, found.idle) == (0, 0)


def test_failed_attempts_are_recorded_without_values() -> None:
    clocked = Clocked()
    clocked.add(0, opened("a"))
    clocked.add(3, progress(Progress, "a", 100, 3))
    fields = {"error": "TransientError", "message": "secret row", "detail": "secret row"}
    clocked.add(4, Failed(**ids("a"), error={**fields, "transient": True, "code": "40001"}))
    for number in range(2, 100):
        clocked.add(4, opened("a", number))
        clocked.add(4, Failed(**ids("a", number), error=fields))
    found = clocked.journal(5)
    assert (found.attempts, found.failed, found.lost) == (99, 99, 4)
    assert len(found.failures) == 50
    first = found.failures[0]
    assert (first.error, first.code, first.transient) == ("TransientError", "40001", True)
    assert "secret" not in str(to_json(found))


def test_other_events_are_recorded() -> None:
    clocked = Clocked(degree=4)
    plan = {"strategy": "whole", "reasons": (), "partitions": 1, "committed": 0}
    more = {"rows": None, "bytes": None, "fingerprint": "", "degree": 4, "seconds": 0.5}
    clocked.add(0, Planned(run_id="r", **plan, **more))  # type: ignore[arg-type]
    clocked.add(1, Sampled(run_id="r", side="target", waits={"CPU": 2, "IO:WALSync": 1}))
    clocked.add(2, Sampled(run_id="r", side="target", waits={"CPU": 1}))
    clocked.add(2, DegreeChanged(run_id="r", degree=3, message="too many clients"))
    for at, step, state in (
        (3, "i", "started"),
        (4, "k", "started"),
        (6, "i", "done"),
        (8, "k", "done"),
        (10, "l", "started"),
        (11, "l", "failed"),
    ):
        fields = {"step_id": step, "step": f"build {step}", "state": state, "seconds": 2.5}
        clocked.add(at, StepChanged(run_id="r", **fields))  # type: ignore[arg-type]
    known = {"ok": True, "partitions": 1, "mismatches": 0, "method": "counts", "seconds": 1.5}
    clocked.add(12, Verified(run_id="r", **known))  # type: ignore[arg-type]
    found = clocked.journal(13)
    waits = found.waits["target"]
    assert {name: (waited.sessions, waited.kind) for name, waited in waits.items()} == {
        "CPU": (3, "target CPU"),
        "IO:WALSync": (1, "target IO:WALSync"),
    }
    assert [(change.at, change.degree) for change in found.degrees] == [(2, 3)]
    assert found.degree == 4
    assert (found.planning, found.comparing, found.steps) == (
        *(0.5, 1.5),
        {"build i": 2.5, "build k": 2.5},
    )
    assert found.finishing == 5 + 1


def test_the_journal_of_a_batch_has_its_runs_and_its_status() -> None:
    clocked = Clocked()
    tables = tuple(BatchTable(table=n, target_table=n, run_id=f"b-{n}", status="") for n in "xy")
    clocked.add(0, BatchStarted(run_id="b", tables=tables, degree=2))
    ended = {"status": "failed", "tables": tables, "rows": 0, "bytes": 0, "seconds": 1.0}
    clocked.add(1, BatchFinished(run_id="b", **ended))  # type: ignore[arg-type]
    assert clocked.journal(1).runs == ("b-x", "b-y")
    assert clocked.keeper.status == "failed"


def test_failures_in_a_batch_name_their_table() -> None:
    clocked = Clocked()
    tables = (BatchTable(table="public.x", target_table="y", run_id="r", status="found"),)
    clocked.add(0, BatchStarted(run_id="b", tables=tables, degree=2))
    clocked.add(0, opened("p1"))
    clocked.add(1, Failed(**ids("p1"), error={"error": "PermanentError"}))
    (failed,) = clocked.journal(1).failures
    assert failed.partition_id == "public.x p1"


def journal(start: str, seconds: float, *rows: int) -> Journal:
    points = tuple(Point(rows=count) for count in rows)
    return Journal(start, f"2026-01-01T{start}+00:00", "", "done", 1, seconds, points=points)


def test_sequential_and_concurrent_executions_are_combined() -> None:
    found = merge_timelines(
        [
            journal("10:00:00", 3, 1, 1, 1),
            journal("10:00:01", 3, 10, 10, 10),
            journal("12:00:00", 2, 100, 100),
        ]
    )
    assert found is not None
    assert [point.rows for point in found.points] == [1, 11, 11, 10, 100, 100]
    assert list(found.pauses) == [4]
    assert (
        execution_seconds([journal("10:00:00", 3), journal("10:00:01", 3), journal("12:00:00", 2)])
        == 6
    )
    assert merge_timelines([]) is None


def test_changes_of_the_degree_share_one_clock() -> None:
    changes = (DegreeChange(0.5, 4, "up"),)
    late = replace(journal("12:00:00", 2, 100, 100), degrees=changes)
    silent = replace(journal("10:00:02", 2), degrees=changes)  # has moved no rows
    found = merge_timelines([late, journal("10:00:00", 3, 1, 1, 1), silent])
    assert found is not None
    assert [(change.at, change.degree) for change in found.changes] == [(2.5, 4), (4.5, 4)]


def test_a_turn_is_told_until_the_execution_does_something_else() -> None:
    clocked = Clocked()
    clocked.add(1, opened("b"))
    clocked.add(2, opened("a"))
    found = clocked.journal(3)
    assert (found.open, found.opened, found.turn) == (("a", "b"), (2, 1), "")
    clocked.add(3, progress(Committed, "a", 1, 1))
    clocked.add(3, progress(Committed, "b", 1, 2))
    clocked.add(4.5, TurnTaken(run_id="r", what="finishing", run_ids=("r",)))
    found = clocked.journal(9)
    assert (found.open, found.turn, found.turn_from) == ((), "finishing", 4.5)
    started = datetime.fromisoformat(found.started_at)
    moment = datetime.fromisoformat(found.moment(found.turn_from))
    assert abs(moment - started - timedelta(seconds=4.5)) <= timedelta(seconds=1)
    clocked.add(10, Waiting(run_id="r", others=()))
    assert not clocked.journal(11).turn
