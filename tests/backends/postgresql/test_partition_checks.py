"""A run proves its partitions complete: their rows are compared with one count in the same
snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import BatchSpec, PermanentError, copy, copy_all, resume, verify
from penstock.backends.postgresql.source import PostgresSource
from penstock.errors import EXIT_PERMANENT, PenstockError, SnapshotLost
from penstock.events import BatchFinished, Committed, Event, PartitionsChecked, Warned
from penstock.model.extents import KeyRange
from penstock.planning import partition_extents
from penstock.planning.asking import catalogs
from penstock.planning.partition_extents import Partitioning

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

CUT: dict[str, Any] = {"strategy": "ntile", "key": "k", "partitions": 4}
BY_NUMBER = {**CUT, "key": "id"}
RUN = "r1"


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int, k text)")
    pair.source.run("INSERT INTO t SELECT n, md5(n::text) FROM generate_series(1, 1000) AS n")
    return pair


def _shifted(change: Callable[[KeyRange, KeyRange], KeyRange]) -> Callable[..., Partitioning]:
    """Return planning that moves a bound of the third range."""
    real = partition_extents.by_range

    def cut(*args: Any) -> Partitioning:
        created = real(*args)
        (second, _), (third, share) = created.extents[1:3]
        assert isinstance(second, KeyRange)
        assert isinstance(third, KeyRange)
        wrong = (change(second, third), share)
        return replace(created, extents=(*created.extents[:2], wrong, *created.extents[3:]))

    return cut


def _unproven(patch: pytest.MonkeyPatch) -> None:
    """Skip the check in planning that bounds ascend, which would refuse these."""
    patch.setattr(catalogs, "disorder", lambda *_: "")


def overlapping(patch: pytest.MonkeyPatch) -> None:
    _unproven(patch)
    patch.setattr(
        partition_extents, "by_range", _shifted(lambda one, two: replace(two, lower=one.lower))
    )


def missing(patch: pytest.MonkeyPatch) -> None:
    _unproven(patch)
    patch.setattr(
        partition_extents, "by_range", _shifted(lambda one, two: replace(two, upper=two.lower))
    )


def failing(events: Iterator[Event]) -> tuple[list[Event], PenstockError]:
    seen = []
    try:
        for event in events:
            seen.append(event)
    except PenstockError as error:
        return seen, error
    raise AssertionError("it went well")


def checks(events: list[Event]) -> list[PartitionsChecked]:
    return [event for event in events if isinstance(event, PartitionsChecked)]


@pytest.mark.parametrize(
    ("wrong", "rows", "what"),
    [
        (overlapping, 1250, "some rows are in several partitions, so they were copied more than"),
        (missing, 750, "some rows are in no partition, so they are missing"),
    ],
)
def test_a_wrong_plan_fails_the_run(
    filled: Pair,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[pytest.MonkeyPatch], None],
    rows: int,
    what: str,
) -> None:
    wrong(monkeypatch)
    events, error = failing(copy(filled.spec(run_id=RUN, degree=2, **CUT)))
    assert error.exit_code == EXIT_PERMANENT
    for part in (RUN, "public.t", "ntile by k", f"{rows:,}", "1,000", what, "--strategy hash"):
        assert part in error.message
    assert [(c.ok, c.rows, c.counted) for c in checks(events)] == [(False, rows, 1000)]
    assert filled.target.value("SELECT status FROM penstock.run") == "failed"
    # Neither resuming nor verifying reports otherwise, whatever was written since.
    filled.source.run("INSERT INTO t VALUES (0, 'ffff')")
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    _, again = failing(resume(RUN, **ends))
    assert what in again.message
    assert filled.target.value("SELECT status FROM penstock.run") == "failed"
    found = verify(RUN, **ends)
    (whole,) = [check for check in found.checks if check.partition_id is None]
    assert not found.ok
    assert what in whole.note


@pytest.mark.parametrize("wrong", [overlapping, missing])
def test_verification_does_not_agree_with_a_wrong_plan(
    filled: Pair,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """By a key that is not checked by default; in the current state, and in the run's snapshot."""
    wrong(monkeypatch)
    filled.copy(run_id=RUN, **BY_NUMBER)
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    for checksum in (False, True):
        found = verify(RUN, **ends, checksum=checksum)
        assert [check.partition_id for check in found.wrong] == [None]
        assert "do not hold each row exactly once" in found.wrong[0].note
    filled.target.run("TRUNCATE t")
    for method in ("counts", "checksums"):
        _, error = failing(copy(filled.spec(mode="truncate", verify=method, **BY_NUMBER)))
        assert "do not hold each row exactly once" in error.message


def test_nothing_is_swapped_in(filled: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    overlapping(monkeypatch)
    filled.target.run("INSERT INTO t VALUES (-1, 'old')")
    failing(copy(filled.spec(mode="swap", **CUT)))
    assert filled.target.rows("SELECT * FROM t") == [(-1, "old")]


def test_which_runs_are_checked(filled: Pair) -> None:
    def checked(**options: Any) -> list[tuple[int, int]]:
        events = filled.events(mode="truncate", **options)
        assert all(check.ok for check in checks(events))
        return [(check.rows, check.counted) for check in checks(events)]

    once = [(1000, 1000)]
    assert checked(**CUT) == once
    assert checked(**CUT, where="id <= 500") == [(500, 500)]
    assert checked(**BY_NUMBER) == []
    assert checked(strategy="hash", key="k", partitions=3) == []
    assert checked(strategy="hash", key="lower(k)", partitions=3) == once
    assert checked(strategy="values", key="id % 7") == once
    assert checked(strategy="blocks", partitions=3) == []
    assert checked(strategy="whole") == []


def test_a_count_in_another_snapshot_is_no_proof(
    filled: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition has its own snapshot, while others write."""

    def copy_with_writes(**options: Any) -> list[Event]:
        seen = []
        for event in copy(filled.spec(mode="truncate", snapshot="none", **CUT, **options)):
            seen.append(event)
            if isinstance(event, Committed):
                filled.source.run("INSERT INTO t VALUES (0, '0'), (0, 'f')")
        return seen

    assert [check.ok for check in checks(copy_with_writes())] == [True]
    overlapping(monkeypatch)
    with pytest.raises(PermanentError, match="exactly once"):
        copy_with_writes()


def test_concurrent_writes_leave_the_result_unknown(
    filled: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PostgresSource.checksum

    def counted(self: PostgresSource, *args: Any) -> Any:
        filled.source.run("INSERT INTO t SELECT 0, md5(random()::text) FROM generate_series(1, 9)")
        return real(self, *args)

    monkeypatch.setattr(PostgresSource, "checksum", counted)
    events = filled.events(snapshot="none", **CUT)
    assert checks(events) == []
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "the source is being written to" in warning


def test_the_remaining_partitions_are_read_in_another_snapshot(filled: Pair) -> None:
    """No false alarm for rows written between the two, and no missing row goes unnoticed."""
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    for event in copy(filled.spec(run_id=RUN, **CUT)):
        if isinstance(event, Committed):
            break
    filled.source.run("INSERT INTO t SELECT 0, md5(n::text) FROM generate_series(1, 50) AS n")
    with pytest.raises(SnapshotLost):
        list(resume(RUN, **ends))
    events = list(resume(RUN, **ends, on_snapshot_lost="accept"))
    assert [(check.ok, check.counted) for check in checks(events)] == [(True, 1050)]
    assert filled.target.value("SELECT status FROM penstock.run") == "done"


def test_a_run_by_many_processes_is_checked(filled: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder keeps the snapshot until the process that ends the run has counted in it."""
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    for number, (wrong, expected) in enumerate([(False, "done"), (True, "failed")]):
        run_id = f"many-{number}"
        with monkeypatch.context() as patch:
            if wrong:
                overlapping(patch)
            created = penstock.create(filled.spec(run_id=run_id, mode="truncate", **CUT))
        stop = threading.Event()
        events = penstock.hold(run_id, **ends, stop=stop)
        next(iter(events))
        gated: list[Event] = []
        holder = threading.Thread(target=lambda e=events, h=gated: h.extend(e))
        holder.start()
        try:
            for partition in created.run.plan.partitions:
                list(resume(run_id, **ends, only=[partition.id], await_snapshot=60, finish=False))
                filled.source.run("INSERT INTO t VALUES (0, '0')")
            assert penstock.status(run_id, target=ends["target"]).run.released_at is None
            last = resume(run_id, **ends, await_snapshot=60)
            seen = failing(last)[0] if wrong else list(last)
            assert [check.ok for check in checks(seen)] == [not wrong]
            assert penstock.status(run_id, target=ends["target"]).run.status == expected
            holder.join(60)
            assert not holder.is_alive()
        finally:
            stop.set()
            holder.join(60)


def test_the_tables_of_a_batch_are_checked(filled: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.both("CREATE TABLE other (k text, id int)")
    for table in ("t", "other"):
        filled.source.run(f"ALTER TABLE {table} ADD PRIMARY KEY (k)")
    filled.source.run("INSERT INTO other SELECT md5(n::text), n FROM generate_series(1, 99) AS n")
    filled.source.run("ANALYZE")
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    defaults = {"strategy": "range", "partitions": 4, "mode": "truncate"}
    batch = BatchSpec(**ends, tables=("public.*",), defaults=defaults)
    found = checks(list(copy_all(batch)))
    assert sorted((check.ok, check.counted) for check in found) == [(True, 99), (True, 1000)]
    overlapping(monkeypatch)
    seen, error = failing(copy_all(batch))
    assert error.exit_code == EXIT_PERMANENT
    assert [check.ok for check in checks(seen)] == [False, False]
    end = seen[-1]
    assert isinstance(end, BatchFinished)
    assert [table.status for table in end.tables] == ["failed", "failed"]
