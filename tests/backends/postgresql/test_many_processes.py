"""One run in many processes: each step, from creation to release, in a different one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import CopySpec, NoHolder, SnapshotLost, SpecMismatch, UsageError
from penstock.backends.api.execution.control import NewRun
from penstock.backends.postgresql.control import PostgresRunRecords
from penstock.backends.postgresql.source import PostgresSource
from penstock.events import Committed, Event, Finished, SnapshotChanged, Verified, Warned
from penstock.model.extents import BlockRange
from penstock_testkit.statistics import settle_statistics

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

PATIENCE = 60.0
RUN = "many"


class HolderThread:
    """`hold` on a thread of its own, with the events it emitted."""

    def __init__(self, pair: Pair, **options: Any) -> None:
        self.states: list[str] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self._changed = threading.Condition()
        self._events = penstock.hold(
            RUN, source=pair.source.url, target=pair.target.url, stop=self.stop, **options
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                if isinstance(event, SnapshotChanged):
                    with self._changed:
                        self.states.append(event.state)
                        self._changed.notify_all()
        except BaseException as error:
            self.error = error

    def wait_for(self, *states: str) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: self.states == list(states), PATIENCE)
        assert came, (self.states, self.error)

    def check_ended(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for write statistics; the command line waits in full."""
    monkeypatch.setattr(PostgresSource, "settle_seconds", 0.5)


@pytest.fixture
def hold(pair: Pair) -> Iterator[Callable[..., HolderThread]]:
    created: list[HolderThread] = []

    def start(**options: Any) -> HolderThread:
        created.append(HolderThread(pair, **options))
        return created[-1]

    yield start
    for holding in created:
        holding.stop.set()
        holding.check_ended()


def test_two_copies_create_the_run_at_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one continues the run, just as if it had come a moment later."""
    pair.source.run("CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 100)")
    pair.target.run("CREATE TABLE t (id int)")
    spec = CopySpec(source=pair.source.url, target=pair.target.url, table="public.t", run_id=RUN)
    others: list[Event] = []
    real = PostgresRunRecords.create

    def late(self: PostgresRunRecords, runs: Sequence[NewRun]) -> frozenset[str]:
        monkeypatch.undo()
        others.extend(penstock.copy(spec))
        return real(self, runs)

    monkeypatch.setattr(PostgresRunRecords, "create", late)
    mine = list(penstock.copy(spec))
    last = [events[-1] for events in (others, mine)]
    assert [(end.status, end.attempts) for end in last if isinstance(end, Finished)] == [
        ("done", 1),
        ("done", 0),
    ]
    assert pair.target.value("SELECT count(*) FROM t") == 100


def holders(pair: Pair) -> int:
    found: int = pair.source.value(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock:snapshot'"
        " AND datname = current_database()"
    )
    return found


def wait_until_released(pair: Pair) -> None:
    """Wait until the session that held the snapshot has ended."""
    deadline = time.monotonic() + PATIENCE
    while holders(pair):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def resume(pair: Pair, **options: Any) -> list[Event]:
    return list(penstock.resume(RUN, source=pair.source.url, target=pair.target.url, **options))


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def release(pair: Pair) -> None:
    penstock.release(RUN, target=pair.target.url)


def status(pair: Pair) -> penstock.RunStatus:
    return penstock.status(RUN, target=pair.target.url)


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, name text)")
    pair.source.run("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) AS n", "ANALYZE t")
    # The server's write statistics arrive late, and would look like later writes.
    settle_statistics(pair.source.connection)
    return pair


def create(pair: Pair, **options: Any) -> penstock.RunStatus:
    arguments: dict[str, Any] = {"strategy": "range", "key": "id", "partitions": 4, "run_id": RUN}
    return penstock.create(pair.spec(**{**arguments, **options}))


class TestCreate:
    def test_stores_a_plan_and_changes_nothing_else(self, filled: Pair) -> None:
        filled.target.run("INSERT INTO t VALUES (-1, 'old')")
        created = create(filled, mode="truncate")
        assert created.run.status == "created"
        assert created.as_json()["pending"] == ["p0001", "p0002", "p0003", "p0004"]
        assert created.run.snapshots == ()
        assert created.run.prepared_at is None
        assert filled.target.count() == 1
        wait_until_released(filled)

    def test_again_returns_the_existing_run(self, filled: Pair) -> None:
        create(filled)
        resume(filled, only=["p0002"])
        assert [r.partition_id for r in create(filled).committed] == ["p0002"]
        with pytest.raises(SpecMismatch, match="mode"):
            create(filled, mode="truncate")


class TestHeld:
    @pytest.mark.parametrize("strategy", ["range", "ctid", "hash"])
    def test_all_processes_read_in_one_snapshot(
        self, filled: Pair, hold: Callable[..., HolderThread], strategy: str
    ) -> None:
        options = {} if strategy == "ctid" else {"key": "id"}
        arguments: dict[str, Any] = {"strategy": strategy, "partitions": 4, "verify": "checksums"}
        created = penstock.create(filled.spec(run_id=RUN, **arguments, **options))
        filled.source.run("INSERT INTO t VALUES (5000, 'before the snapshot')")
        holding = hold()
        holding.wait_for("taken")
        before = filled.source.contents("t", "true", "t.*")
        for partition in created.run.plan.partitions:
            filled.source.run(
                "UPDATE t SET name = name || 'y'",
                "DELETE FROM t WHERE id % 7 = 0",
                "INSERT INTO t SELECT max(id) + 1, 'new' FROM t",
            )
            events = resume(filled, only=[partition.id], await_snapshot=PATIENCE, finish=False)
            states = [e.state for e in events if isinstance(e, SnapshotChanged)]
            assert states == ["adopted"]
            assert last(events).status == "partial"
        assert holding.states == ["taken"]
        events = resume(filled, await_snapshot=PATIENCE)
        assert last(events).status == "done"
        assert [e.ok for e in events if isinstance(e, Verified)] == [True]
        assert filled.target.contents("t", "true", "t.*") == before
        holding.check_ended()
        assert holding.error is None
        assert holding.states == ["taken", "released"]
        wait_until_released(filled)
        assert status(filled).run.released_at is not None

    def test_ends_with_the_last_partition(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled)
        holding = hold()
        holding.wait_for("taken")
        resume(filled, await_snapshot=PATIENCE)
        holding.check_ended()
        assert holding.states == ["taken", "released"]
        again = hold()
        again.check_ended()
        assert again.states == []

    def test_two_copy_at_once(self, filled: Pair, hold: Callable[..., HolderThread]) -> None:
        create(filled)
        hold().wait_for("taken")
        ended: list[Finished] = []

        def copy(*only: str) -> None:
            ended.append(last(resume(filled, only=only, await_snapshot=PATIENCE)))

        threads = [
            threading.Thread(target=copy, args=ids)
            for ids in (("p0001", "p0002"), ("p0003", "p0004"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(e.status for e in ended) in (["done", "partial"], ["done", "done"])
        filled.assert_same()

    def test_release_ends_the_holder_and_a_new_one_takes_over(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled)
        holding = hold()
        holding.wait_for("taken")
        release(filled)
        release(filled)
        holding.check_ended()
        assert holding.states == ["taken", "released"]
        late = hold()
        late.check_ended()
        assert late.states == []
        penstock.require_snapshot(RUN, target=filled.target.url)
        hold().wait_for("renewed")
        assert status(filled).run.released_at is None

    def test_a_second_holder_watches_the_first_and_takes_over(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled)
        first = hold()
        first.wait_for("taken")
        second = hold()
        second.wait_for("adopted")
        resume(filled, only=["p0001"], await_snapshot=PATIENCE)
        first.stop.set()
        first.check_ended()
        assert first.states == ["taken"]
        second.wait_for("adopted", "lost", "renewed")
        assert len(status(filled).run.snapshots) == 2

    def test_closing_the_generator_releases_the_snapshot(self, filled: Pair) -> None:
        create(filled)
        ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
        with closing(penstock.hold(RUN, **ends)) as events:
            assert isinstance(next(events), SnapshotChanged)
            assert holders(filled) == 1
        wait_until_released(filled)

    def test_a_run_without_snapshot_is_refused(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled, snapshot="none")
        holding = hold()
        holding.check_ended()
        assert (holding.states, holding.error) == ([], None)

    def test_unknown_runs_are_refused(self, filled: Pair) -> None:
        ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
        with pytest.raises(UsageError, match="'many' is not in the target"):
            release(filled)
        with pytest.raises(UsageError, match="'many' is not in the target"):
            penstock.require_snapshot(RUN, target=filled.target.url)
        with pytest.raises(UsageError, match="'many' is not in the target"):
            next(penstock.hold(RUN, **ends))
        create(filled)
        with pytest.raises(UsageError, match="hold: mode cannot change for an existing run"):
            next(penstock.hold(RUN, **ends, mode="append"))


class TestAwaiting:
    def test_says_that_a_holder_was_expected(self, filled: Pair) -> None:
        create(filled)
        with pytest.raises(NoHolder, match="found none; start a holder with `penstock hold many`"):
            resume(filled, only=["p0001"], await_snapshot=1.0)
        assert status(filled).run.snapshots == ()

    def test_fail_is_not_decided_while_a_holder_may_come(self, filled: Pair) -> None:
        create(filled)
        resume(filled, only=["p0001"])  # with its own snapshot, which has ended
        filled.source.run("UPDATE t SET name = 'z'")
        with pytest.raises(NoHolder, match="found a lost one"):
            resume(filled, only=["p0002"], await_snapshot=1.0)
        release(filled)
        with pytest.raises(SnapshotLost):
            resume(filled, only=["p0002"], await_snapshot=1.0)

    def test_a_run_without_pending_partitions_does_not_wait(self, filled: Pair) -> None:
        create(filled)
        resume(filled, only=["p0001"])
        assert last(resume(filled, only=["p0001"], await_snapshot=0.0)).status == "partial"

    def test_a_lost_snapshot_that_may_not_be_replaced_ends_the_holder(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled)
        resume(filled, only=["p0001"])
        filled.source.run("UPDATE t SET name = 'z'")
        holding = hold()
        holding.check_ended()
        assert isinstance(holding.error, SnapshotLost)
        assert status(filled).run.released_at is not None


class TestRecopy:
    def recopy(self, pair: Pair, request: str = "again", *only: str, **options: Any) -> list[str]:
        """Return the partitions that were copied."""
        # A new source has no statistics that prove it was not written to.
        options = {"on_snapshot_lost": "accept", **options}
        events = resume(pair, only=only or ["p0002"], recopy=request, **options)
        assert last(events).status == "done"
        return [e.partition_id for e in events if isinstance(e, Committed) and not e.already]

    @pytest.mark.parametrize("mode", ["append", "truncate", "replace", "upsert", "recreate"])
    @pytest.mark.parametrize("strategy", ["range", "ctid"])
    def test_copies_again_once_for_each_request(
        self, filled: Pair, mode: str, strategy: str
    ) -> None:
        if mode == "replace" and strategy == "ctid":
            pytest.skip("replace deletes by a key")
        if mode == "recreate":
            filled.target.run("DROP TABLE t")
        options: dict[str, Any] = {"mode": mode, "strategy": strategy, "partitions": 4}
        if strategy == "range":
            options["key"] = "id"
        if mode == "upsert":
            options["conflict_columns"] = ["id"]
        filled.copy(run_id=RUN, **options)
        assert self.recopy(filled) == ["p0002"]
        assert self.recopy(filled) == []
        assert self.recopy(filled, "once more", "p0002", "p0003") == ["p0002", "p0003"]
        filled.assert_same()
        assert status(filled).run.status == "done"

    def test_copies_the_current_rows_of_the_source(self, filled: Pair) -> None:
        filled.copy(run_id=RUN, strategy="range", key="id", partitions=4, snapshot="none")
        filled.source.run("UPDATE t SET name = 'now' WHERE id = 300")
        assert self.recopy(filled) == ["p0002"]
        filled.assert_same()

    def test_changed_rows_are_refused(self, filled: Pair) -> None:
        filled.copy(run_id=RUN, strategy="range", key="id", partitions=4)
        filled.target.run("UPDATE t SET name = 'mine' WHERE id = 300")
        before = filled.target.contents("t", "true", "t.*")
        with pytest.raises(penstock.PermanentError, match="p0002: expected 250 rows, found 249"):
            self.recopy(filled)
        assert filled.target.contents("t", "true", "t.*") == before
        assert status(filled).run.status == "done"
        assert len(status(filled).committed) == 4

    def test_into_a_partitioned_table(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (id int, name text)",
            "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) AS n",
        )
        pair.target.run(
            "CREATE TABLE t (id int, name text) PARTITION BY RANGE (id)",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (300)",
            "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (300) TO (MAXVALUE)",
        )
        pair.copy(run_id=RUN, strategy="ctid", partitions=2)
        assert self.recopy(pair) == ["p0002"]
        pair.assert_same()

    def test_with_indexes_that_were_built_after_the_load(self, filled: Pair) -> None:
        filled.copy(
            run_id=RUN,
            strategy="ctid",
            partitions=4,
            mode="truncate",
            indexes="defer",
        )
        assert self.recopy(filled) == ["p0002"]
        filled.assert_same()

    @pytest.mark.parametrize("options", [{"mode": "swap"}, {"mode": "truncate", "unlogged": True}])
    def test_a_renamed_or_rewritten_table_is_refused(
        self, filled: Pair, options: dict[str, Any]
    ) -> None:
        filled.copy(run_id=RUN, strategy="ctid", partitions=4, **options)
        with pytest.raises(UsageError, match="start a new run"):
            self.recopy(filled)
        filled.assert_same()
        assert status(filled).run.status == "done"

    def test_before_the_swap(self, filled: Pair) -> None:
        create(filled, mode="swap")
        for partition_id in ("p0001", "p0002"):
            resume(filled, only=[partition_id])
        last(resume(filled, only=["p0002"], recopy="again"))
        assert self.recopy(filled, "more", "p0003", "p0004") == ["p0003", "p0004"]
        filled.assert_same()

    def test_waits_for_an_open_attempt(self, filled: Pair) -> None:
        filled.copy(run_id=RUN, strategy="range", key="id", partitions=4)
        done: list[list[str]] = []
        with filled.target.connection.transaction():
            filled.target.run(
                "SELECT pg_advisory_xact_lock(hashtextextended('penstock:many:p0002', 0))"
            )
            thread = threading.Thread(target=lambda: done.append(self.recopy(filled)))
            thread.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
            for _ in range(600):
                if filled.target.value(waiting):
                    break
                thread.join(0.1)
            assert filled.target.value(waiting) == 1
        thread.join(PATIENCE)
        assert done == [["p0002"]]
        filled.assert_same()

    def test_requires_partitions(self, filled: Pair) -> None:
        create(filled)
        with pytest.raises(UsageError, match="without partitions"):
            resume(filled, recopy="again")


class TestCurrentState:
    """A row is corrected in the source, and the failed partition copied in its current state."""

    MODES = ("append", "truncate", "replace", "upsert", "recreate", "swap")

    def broken(self, pair: Pair, **options: Any) -> None:
        """p0002 has failed permanently, the others are committed, and the snapshot has ended."""
        mode = options.get("mode", "append")
        pair.source.run("UPDATE t SET name = 'bad' WHERE id = 300")
        if mode == "recreate":
            pair.target.run("DROP TABLE t")
        if mode == "upsert":
            options["conflict_columns"] = ["id"]
        create(pair, columns=["id", "name"], **options)
        resume(pair, only=["p0001", "p0003", "p0004"], finish=False)
        release(pair)
        wait_until_released(pair)
        pair.source.run("UPDATE t SET name = 'good' WHERE id = 300")
        with pytest.raises(SnapshotLost):
            resume(pair, only=["p0002"])

    @pytest.mark.parametrize("mode", MODES)
    def test_the_requested_partition_is_read_in_its_current_state(
        self, filled: Pair, mode: str
    ) -> None:
        self.broken(filled, mode=mode, verify="checksums")
        before = {r.partition_id: r for r in status(filled).committed}
        events = resume(filled, only=["p0002"], as_of_now=True)
        assert [e.ok for e in events if isinstance(e, Verified)] == [True]
        filled.assert_same()
        after = {r.partition_id: r for r in status(filled).committed}
        again = after.pop("p0002")
        assert after == before
        assert again.read_at > max(record.read_at for record in before.values())
        (later,) = last(events).later
        assert (later.taken_at, later.partition_ids) == (again.read_at, ("p0002",))
        assert last(events).snapshots == 2
        warnings = [event.message for event in events if isinstance(event, Warned)]
        assert any("p0002: read as of" in each and again.read_at in each for each in warnings)
        assert any("read later than the rest" in each for each in warnings)
        found = penstock.verify(
            RUN, source=filled.source.url, target=filled.target.url, checksum=True
        )
        assert found.ok
        assert any("read later than the rest" in note for note in found.notes)

    @pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "replace"])
    def test_a_row_that_moved_to_the_blocks_of_another_partition(
        self, filled: Pair, mode: str
    ) -> None:
        filled.target.run("INSERT INTO t VALUES (-1, 'of others')")
        others = mode in ("append", "upsert")
        self.broken(filled, mode=mode, strategy="ctid", key=None, verify="counts")
        # It is in the last block now, and p0004 was committed without it.
        filled.source.run(f"UPDATE t SET name = '{'good' * 1000}' WHERE id = 300")
        events = resume(filled, only=["p0002"], as_of_now=True, finish=False)
        assert any("started over" in e.message for e in events if isinstance(e, SnapshotChanged))
        assert [record.partition_id for record in status(filled).committed] == ["p0002"]
        assert last(resume(filled, as_of_now=True)).status == "done"
        filled.assert_same(where="id >= 0")
        assert filled.target.value("SELECT count(*) FROM t WHERE id < 0") == others

    def test_a_row_that_moved_while_others_read_the_old_snapshot(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled, strategy="ctid", key=None)
        holding = hold()
        holding.wait_for("taken")
        resume(filled, only=["p0004"], await_snapshot=PATIENCE)
        filled.source.run(f"UPDATE t SET name = '{'good' * 1000}' WHERE id = 300")
        with pytest.raises(penstock.TransientError, match="try again once those have ended"):
            resume(filled, only=["p0002"], as_of_now=True)
        release(filled)
        holding.check_ended()
        resume(filled, as_of_now=True)
        filled.assert_same()

    def test_blocks_without_writes_are_read_alone(self, filled: Pair) -> None:
        created = create(filled, strategy="ctid", key=None).run.plan.partition("p0002").extent
        assert isinstance(created, BlockRange)
        resume(filled, only=["p0001", "p0003", "p0004"])
        filled.source.run(
            f"DELETE FROM t WHERE ctid >= '({created.lower},0)' AND ctid < '({created.upper},0)'"
            " AND id % 2 = 0"
        )
        before = status(filled).committed
        events = resume(filled, only=["p0002"], as_of_now=True)
        assert [later.partition_ids for later in last(events).later] == [("p0002",)]
        assert [r for r in status(filled).committed if r.partition_id != "p0002"] == list(before)
        filled.assert_same()

    def test_others_keep_their_policy_and_committed_rows_stay(self, filled: Pair) -> None:
        self.broken(filled)
        filled.target.run("DELETE FROM penstock.commit_record WHERE partition_id = 'p0004'")
        events = resume(filled, only=["p0001", "p0002"], as_of_now=True)
        copied = [e.partition_id for e in events if isinstance(e, Committed) and not e.already]
        assert copied == ["p0002"]
        with pytest.raises(SnapshotLost):
            resume(filled)

    def test_while_the_snapshot_is_held_others_read_in_it(
        self, filled: Pair, hold: Callable[..., HolderThread]
    ) -> None:
        create(filled, verify="checksums")
        holding = hold()
        holding.wait_for("taken")
        resume(filled, only=["p0001"], await_snapshot=PATIENCE, finish=False)
        filled.source.run("UPDATE t SET name = 'later'")
        resume(filled, only=["p0002"], as_of_now=True, await_snapshot=PATIENCE, finish=False)
        events = resume(filled, await_snapshot=PATIENCE)
        assert [e.ok for e in events if isinstance(e, Verified)] == [True]
        holding.check_ended()
        assert holding.states == ["taken", "released"]
        assert [later.partition_ids for later in last(events).later] == [("p0002",)]
        names = "SELECT array_agg(DISTINCT name) FROM t WHERE id {}"
        assert filled.target.value(names.format("BETWEEN 250 AND 499")) == ["later"]
        assert filled.target.value(names.format("NOT BETWEEN 250 AND 499")) == ["x"]

    def test_later_writes_elsewhere_do_not_fail_the_run(self, filled: Pair) -> None:
        self.broken(filled, verify="checksums")
        filled.source.run("DELETE FROM t WHERE id IN (1, 2)", "UPDATE t SET name = '' WHERE id = 9")
        events = resume(filled, only=["p0002"], as_of_now=True)
        assert last(events).status == "done"
        warnings = [event.message for event in events if isinstance(event, Warned)]
        assert any(
            "p0001: the source has 247 rows, but 249 were committed" in each for each in warnings
        )
        # A comparison with the current source reports them.
        found = penstock.verify(RUN, source=filled.source.url, target=filled.target.url)
        assert [check.partition_id for check in found.wrong] == ["p0001"]

    def test_rows_lost_in_the_target_are_still_found(self, filled: Pair) -> None:
        self.broken(filled, verify="counts")
        filled.target.run("DELETE FROM t WHERE id = 10")
        with pytest.raises(penstock.PermanentError, match="the target has 248"):
            resume(filled, only=["p0002"], as_of_now=True)

    def test_all_remaining_partitions_if_none_is_committed(self, filled: Pair) -> None:
        create(filled, snapshot="shared")
        resume(filled, as_of_now=True)
        filled.assert_same()
        assert len(status(filled).run.snapshots) == 1

    def test_committed_partitions_too_with_recopy(self, filled: Pair) -> None:
        filled.copy(run_id=RUN, strategy="range", key="id", partitions=4)
        filled.source.run("UPDATE t SET name = 'now' WHERE id = 300")
        events = resume(filled, only=["p0002"], recopy="again", as_of_now=True)
        assert [e.partition_id for e in events if isinstance(e, Committed)] == ["p0002"]
        filled.assert_same()

    def test_on_the_command_line(self, filled: Pair) -> None:
        self.broken(filled)
        done = filled.cli("resume", RUN, *filled.ends, "--only", "p0002", "--as-of-now")
        assert done.returncode == 0, done.stderr
        assert "read later" in done.stdout
        filled.assert_same()
