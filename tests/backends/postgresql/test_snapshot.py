"""A shared snapshot for all partitions, or none: visibility, refusals and warnings."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock import UsageError, copy
from penstock.engine.snapshot import handle
from penstock.events import Committed, Finished, Planned, SnapshotChanged, Warned

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, name text)")
    pair.source.run("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) AS n", "ANALYZE t")
    return pair


class TestShared:
    def test_all_partitions_read_the_same_snapshot(self, filled: Pair) -> None:
        before = filled.source.contents("t", "true", "t.*")
        events = copy(filled.spec(strategy="range", key="id", partitions=5))
        for event in events:
            if isinstance(event, Planned):
                filled.source.run("UPDATE t SET name = 'changed'")
            if isinstance(event, Committed):
                filled.source.run(
                    "DELETE FROM t WHERE id % 7 = 0",
                    "UPDATE t SET name = name || 'x'",
                    "INSERT INTO t SELECT max(id) + 1, 'new' FROM t",
                    "INSERT INTO t SELECT min(id) - 1, 'new' FROM t",
                )
        assert filled.target.contents("t", "true", "t.*") == before

    def test_is_taken_once_and_released_at_the_end(self, filled: Pair) -> None:
        events = filled.events(partitions=3)
        states = [event.state for event in events if isinstance(event, SnapshotChanged)]
        assert states == ["taken"]
        report = events[-1]
        assert isinstance(report, Finished)
        assert report.snapshots == 1
        # The server keeps a closed session for a moment.
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL"
            " AND application_name LIKE 'penstock%'"
        )
        deadline = time.monotonic() + 60
        while filled.source.value(query):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def test_warns_when_it_holds_back_vacuum_for_long(
        self, filled: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(handle, "WARN_AFTER", 1.0)
        with psycopg.connect(filled.target.url) as other:
            warnings = []
            for event in copy(filled.spec()):
                if isinstance(event, Planned):
                    other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
                if isinstance(event, Warned):
                    warnings.append(event)
                    other.rollback()
        assert len(warnings) >= 1
        assert "snapshot" in warnings[0].message
        assert "vacuum" in warnings[0].message
        filled.assert_same()


class TestNone:
    def test_each_partition_has_its_own_snapshot(self, filled: Pair) -> None:
        changed = False
        for event in copy(filled.spec(strategy="range", key="id", partitions=4, snapshot="none")):
            assert not isinstance(event, SnapshotChanged)
            if isinstance(event, Committed) and not changed:
                changed = True
                filled.source.run("INSERT INTO t VALUES (5000, 'late')")
        assert filled.target.count(where="name = 'late'") == 1
        assert isinstance(event, Finished)
        assert event.snapshots == 0

    def test_ctid_is_refused(self, filled: Pair) -> None:
        with pytest.raises(UsageError, match="a strategy by a key"):
            filled.events(strategy="ctid", snapshot="none")
        assert not filled.has_control_schema()

    def test_a_new_value_is_copied_too(self, filled: Pair) -> None:
        # The list of values is as old as the plan.
        for event in copy(
            filled.spec(strategy="values", key="name", snapshot="none", where="id > 0")
        ):
            if isinstance(event, Planned):
                filled.source.run("INSERT INTO t VALUES (5000, 'new'), (5001, NULL)")
        filled.assert_same()
