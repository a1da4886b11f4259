"""How often a copy waits for an answer, which dominates its cost between distant servers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all, resume
from penstock.engine import journals, pulses
from penstock.engine.connections import Connections
from penstock.engine.snapshot import handle
from penstock.engine.survey import survey
from penstock.events import BatchFinished, Finished
from penstock_testkit import DistantServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

# Enough that no session sends more than the single worker's does.
PARTITIONS = 64
# A COPY from the source waits once; one into the target twice: before it may send, and at its end.
SOURCE, TARGET = 1 + 1, 2 + 2


@pytest.fixture
def distant(pair: Pair) -> Iterator[tuple[DistantServer, DistantServer]]:
    """Source and target behind proxies that count; delaying would only take time."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY, word text)")
    pair.source.run("INSERT INTO t SELECT n, 'word' FROM generate_series(1, 6400) AS n")
    pair.source.run("VACUUM ANALYZE t")
    with DistantServer(pair.source.url, 0) as source, DistantServer(pair.target.url, 0) as target:
        yield source, target


@pytest.mark.parametrize(
    ("options", "at_source", "at_target"),
    [
        ({"mode": "append"}, SOURCE, TARGET),
        ({"mode": "truncate"}, SOURCE, TARGET),
        ({"mode": "recreate"}, SOURCE, TARGET),
        ({"mode": "append", "snapshot": "none"}, SOURCE, TARGET),
        # Deletes; locks the table for its turn, then counts what others have committed.
        ({"mode": "replace"}, SOURCE, TARGET + 3),
        # Creates a stage; merges it.
        ({"mode": "upsert"}, SOURCE, TARGET + 2),
    ],
    ids=str,
)
def test_round_trips_of_each_partition(
    pair: Pair,
    distant: tuple[DistantServer, DistantServer],
    options: dict[str, Any],
    at_source: int,
    at_target: int,
) -> None:
    source, target = distant
    cut: dict[str, Any] = {"strategy": "range", "key": "id", "partitions": PARTITIONS}
    ends: dict[str, Any] = {"source": source.url, "target": target.url, "table": "t", "degree": 1}
    *_, report = copy(CopySpec(**ends, **cut, **options))
    assert isinstance(report, Finished)
    pair.assert_same()
    # Connecting and starting takes fewer than there are partitions.
    assert source.most // PARTITIONS == at_source
    assert target.most // PARTITIONS == at_target


# For one copy in one partition into an existing table, and for its busiest session.
ONE_SOURCE, ONE_TARGET = 20, 21
MOST_SOURCE, MOST_TARGET = 8, 12
# For ten tables created with keys, indexes and foreign keys, by one worker.
TEN_SOURCE, TEN_TARGET = 43, 79


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable queries that are sent periodically."""
    monkeypatch.setattr(handle, "CHECK_INTERVAL", math.inf)
    monkeypatch.setattr(pulses, "EVERY", 3600.0)
    monkeypatch.setattr(journals, "FIRST", math.inf)


def _used(pair: Pair) -> None:
    """Copy once, which creates the control tables."""
    pair.both("CREATE TABLE first (id int)")
    pair.copy(table="public.first")


@pytest.mark.usefixtures("unwatched")
def test_round_trips_of_one_copy(pair: Pair) -> None:
    _used(pair)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, word text)")
    pair.source.run("INSERT INTO t SELECT n, 'word' FROM generate_series(1, 10) AS n")
    with DistantServer(pair.source.url, 0) as source, DistantServer(pair.target.url, 0) as target:
        ends: dict[str, Any] = {"source": source.url, "target": target.url, "table": "public.t"}
        *_, report = copy(CopySpec(**ends, strategy="whole", degree=1))
        found = (source.round_trips, target.round_trips, source.most, target.most)
        # Planning, the snapshot and the worker; the run and the worker.
        assert (source.connections, target.connections) == (3, 2)
    assert isinstance(report, Finished)
    pair.assert_same()
    most = (ONE_SOURCE, ONE_TARGET, MOST_SOURCE, MOST_TARGET)
    assert all(one <= other for one, other in zip(found, most, strict=True)), found


@pytest.mark.usefixtures("unwatched")
def test_a_run_with_nothing_left_does_not_ask_the_source(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    options: dict[str, Any] = {"table": "public.t", "run_id": "r", "verify": "counts"}
    with DistantServer(pair.source.url, 0) as source, DistantServer(pair.target.url, 0) as target:
        ends: dict[str, Any] = {"source": source.url, "target": target.url}
        list(copy(CopySpec(**ends, **options)))
        used = source.connections, target.connections
        monkeypatch.setattr(Connections, "nursery", None)
        *_, again = copy(CopySpec(**ends, **options))
        *_, resumed = resume("r", **ends)
        assert (source.connections, target.connections) == (used[0], used[1] + 2)
    assert isinstance(again, Finished)
    assert isinstance(resumed, Finished)
    assert (again.status, resumed.status) == ("done", "done")


def _trips_of_ten(pair: Pair) -> tuple[int, ...]:
    with DistantServer(pair.source.url, 0) as source, DistantServer(pair.target.url, 0) as target:
        ends = {"source": source.url, "target": target.url, "tables": ["public.t*"], "degree": 1}
        *_, report = copy_all(BatchSpec.from_mapping({**ends, "mode": "recreate"}, "test"))
        found = (source.round_trips, target.round_trips)
    assert isinstance(report, BatchFinished)
    assert report.status == "done"
    # Another copy must start with the same state.
    pair.target.run("DROP TABLE t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 CASCADE")
    return found


@pytest.mark.usefixtures("unwatched")
def test_round_trips_of_ten_tables(pair: Pair) -> None:
    _used(pair)
    for number in range(10):
        pair.source.run(
            f"CREATE TABLE t{number} (id int PRIMARY KEY, parent int, word text NOT NULL)",
            f"INSERT INTO t{number} SELECT n, n, 'word' FROM generate_series(1, 10) AS n",
            f"CREATE INDEX ON t{number} (word)",
        )
        if number % 3 == 2:
            pair.source.run(
                f"ALTER TABLE t{number} ADD FOREIGN KEY (parent) REFERENCES t{number - 1} (id)"
            )
    found = _trips_of_ten(pair)
    if found[0] > TEN_SOURCE or found[1] > TEN_TARGET:
        # On a busy machine an answer may arrive in two pieces, which counts as an additional trip.
        found = tuple(map(min, found, _trips_of_ten(pair)))
    assert found[0] <= TEN_SOURCE, found
    assert found[1] <= TEN_TARGET, found


# For each further table of a night: at the source only the worker's queries; at the target the
# worker's, and the merge, both in transactions that many tables share.
NIGHT_SOURCE, MOST_OF_A_NIGHT = SOURCE, 8


def _trips_of_a_night(pair: Pair, tables: int) -> tuple[int, ...]:
    pair.source.run(*(f"UPDATE n{n} SET word = word || '!' WHERE id < 3" for n in range(tables)))
    with DistantServer(pair.source.url, 0) as source, DistantServer(pair.target.url, 0) as target:
        ends = {"source": source.url, "target": target.url, "degree": 1}
        *_, report = copy_all(BatchSpec.from_mapping({**ends, **_nights(tables)}, "test"))
        found = (source.round_trips, target.round_trips)
    assert isinstance(report, BatchFinished)
    assert (report.status, report.rows) == ("done", 2 * tables)
    return found


def _nights(tables: int) -> dict[str, Any]:
    names = [f"public.n{number}" for number in range(tables)]
    return {"tables": names, "mode": "upsert", "incremental": "xmin"}


@pytest.mark.usefixtures("unwatched")
def test_round_trips_of_a_night(pair: Pair) -> None:
    few, many = 2, 12
    for number in range(many):
        pair.source.run(
            f"CREATE TABLE n{number} (id int PRIMARY KEY, word text)",
            f"INSERT INTO n{number} SELECT n, 'word' FROM generate_series(1, 10) AS n",
        )
    ends = {"source": pair.source.url, "target": pair.target.url}
    *_, report = copy_all(BatchSpec.from_mapping({**ends, **_nights(many)}, "test"))
    assert isinstance(report, BatchFinished)
    first, other = _trips_of_a_night(pair, few), _trips_of_a_night(pair, many)
    # Either batch may send a query in an additional piece.
    each = [round((more - less) / (many - few)) for less, more in zip(first, other, strict=True)]
    assert each[0] == NIGHT_SOURCE, (first, other)
    # Groups may be smaller than they could be.
    assert each[1] <= MOST_OF_A_NIGHT, (first, other)
    for number in range(many):
        pair.assert_same(f"public.n{number}")


def test_a_survey_queries_all_tables_at_once(pair: Pair) -> None:
    trips = []
    for count in (1, 20):
        pair.source.run(
            *(
                f"CREATE TABLE IF NOT EXISTS t{n} (id int PRIMARY KEY, at timestamptz, v text)"
                for n in range(count)
            )
        )
        with DistantServer(pair.source.url, 0) as source:
            found = survey(source.url, tables=["public.*"])
            trips.append(source.round_trips)
        assert len(found.tables) == count
    # A larger answer may arrive in additional pieces.
    assert trips[1] - trips[0] < 3
