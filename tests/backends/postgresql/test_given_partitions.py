"""Partitions that the caller defines: part of a table, by windows, values or buckets."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock
from penstock import (
    Bound,
    CopySpec,
    Key,
    KeyIsNull,
    KeyRange,
    KeyValues,
    Partition,
    PermanentError,
    PlanningError,
    RunFailed,
    SpecMismatch,
    UsageError,
    Verification,
)
from penstock.events import Committed, Event, Failed, Finished, Verified

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

KEY = Key("day")


def window(name: str, lower: str | None, upper: str | None, key: str = "day") -> Partition:
    return Partition(
        name,
        KeyRange(
            Key(key),
            None if lower is None else Bound("", lower),
            None if upper is None else Bound("", upper),
        ),
    )


def values(name: str, *texts: str, key: str = "region") -> Partition:
    return Partition(name, KeyValues(Key(key), tuple(Bound("", text) for text in texts)))


DAYS = [
    window(f"2024-01-{day:02}", f"2024-01-{day:02}", f"2024-01-{day + 1:02}") for day in (1, 2, 3)
]


@pytest.fixture
def days(pair: Pair) -> Pair:
    """Ten days of a hundred rows each; the target has a day that the source lacks."""
    for side in (pair.source, pair.target):
        side.run("CREATE TABLE public.t (id int PRIMARY KEY, day date, region text)")
    pair.source.run(
        "INSERT INTO public.t SELECT n, '2024-01-01'::date + n / 100, 'r' || n % 3"
        " FROM generate_series(0, 999) AS n"
    )
    pair.target.run(
        "INSERT INTO public.t VALUES (-1, '2023-12-31', 'old'), (-2, '2024-01-02', 'old')"
    )
    return pair


def spec(pair: Pair, **options: Any) -> CopySpec:
    arguments = {"mode": "replace", "key": "day", "table": "public.t", "degree": 2, **options}
    return CopySpec(source=pair.source.url, target=pair.target.url, **arguments)


def load(
    pair: Pair, run: str, partitions: Sequence[Partition], series: str | None = None, **options: Any
) -> list[Event]:
    execution = {name: options.pop(name) for name in ("verify", "on_error") if name in options}
    penstock.create(spec(pair, run_id=run, **options), partitions=partitions, series=series)
    return list(penstock.resume(run, source=pair.source.url, target=pair.target.url, **execution))


def committed(events: list[Event]) -> dict[str, int]:
    return {event.partition_id: event.rows for event in events if isinstance(event, Committed)}


def test_only_the_given_partitions_are_replaced(days: Pair) -> None:
    events = load(days, "a", DAYS[:2], verify="checksums")
    assert committed(events) == {"2024-01-01": 100, "2024-01-02": 100}
    assert isinstance(events[-1], Finished)
    assert events[-1].status == "done"
    (verified,) = [event for event in events if isinstance(event, Verified)]
    assert verified.ok
    assert days.target.rows("SELECT day::text, count(*) FROM public.t GROUP BY 1 ORDER BY 1") == [
        ("2023-12-31", 1),
        ("2024-01-01", 100),
        ("2024-01-02", 100),
    ]


def test_another_run_replaces_them_again(days: Pair) -> None:
    load(days, "a", DAYS)
    days.source.run("DELETE FROM public.t WHERE id % 2 = 0 AND day = '2024-01-02'")
    assert committed(load(days, "b", DAYS[1:2])) == {"2024-01-02": 50}
    assert days.target.count(where="day = '2024-01-02'") == 50
    assert days.target.count() == 251


def test_verify_finds_differences_within_them_only(days: Pair) -> None:
    load(days, "a", DAYS[:2])
    days.target.run("UPDATE public.t SET region = 'x' WHERE id = -1")
    assert verify(days, "a").ok
    days.target.run("INSERT INTO public.t VALUES (5000, '2024-01-02', 'stray')")
    found = verify(days, "a", checksum=True)
    assert [check.partition_id for check in found.wrong] == ["2024-01-02"]


def verify(pair: Pair, run: str, **options: Any) -> Verification:
    return penstock.verify(run, source=pair.source.url, target=pair.target.url, **options)


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
def test_the_source_parses_the_bounds(pair: Pair, type_: str) -> None:
    for side in (pair.source, pair.target):
        side.run(f"CREATE TABLE public.t (id int PRIMARY KEY, day {type_})")
    pair.source.run(
        "INSERT INTO public.t SELECT n, '2024-01-01 00:00 UTC'::timestamptz + n * interval '1 hour'"
        " FROM generate_series(0, 47) AS n"
    )
    first = window("a", "2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00")
    assert committed(load(pair, "a", [first])) == {"a": 24}
    extent = penstock.status("a", target=pair.target.url).run.plan.partitions[0].extent
    assert isinstance(extent, KeyRange)
    assert extent.lower is not None
    assert extent.lower.type == type_


def test_partitions_by_value_and_null(days: Pair) -> None:
    days.source.run("UPDATE public.t SET region = NULL WHERE id < 10")
    partitions = [
        values("zero", "r0"),
        values("others", "r1", "r2"),
        Partition("null", KeyIsNull(Key("region"))),
    ]
    found = committed(load(days, "a", partitions, key="region", verify="counts"))
    assert found == {"zero": 330, "others": 660, "null": 10}
    assert days.target.count(where="id >= 0") == 1000


def test_both_sides_compare_text_the_same_way(days: Pair) -> None:
    two_windows = [
        window("low", None, "r1", key="region"),
        window("high", "r1", None, key="region"),
    ]
    assert sum(committed(load(days, "a", two_windows, key="region")).values()) == 1000
    plan = penstock.status("a", target=days.target.url).run.plan
    assert {p.extent.key.collation for p in plan.partitions if isinstance(p.extent, KeyRange)} == {
        "C"
    }


def test_an_empty_range_is_replaced(days: Pair) -> None:
    partitions = [window("none", "2024-01-01", "2024-01-01"), DAYS[0]]
    assert committed(load(days, "a", partitions)) == {"none": 0, "2024-01-01": 100}


def test_a_failed_partition_leaves_the_others_committed(days: Pair) -> None:
    days.target.run("ALTER TABLE public.t ADD CHECK (id <> 150)")
    with pytest.raises(RunFailed):
        load(days, "a", DAYS, on_error="continue")
    status = penstock.status("a", target=days.target.url)
    assert {record.partition_id for record in status.committed} == {"2024-01-01", "2024-01-03"}
    days.target.run("ALTER TABLE public.t DROP CONSTRAINT t_id_check")
    events = list(
        penstock.resume(
            "a", source=days.source.url, target=days.target.url, on_snapshot_lost="accept"
        )
    )
    assert committed(events) == {"2024-01-02": 100}


def test_a_series_loads_a_partition_once(days: Pair) -> None:
    load(days, "a", DAYS[:2], "orders", mode="append")
    with pytest.raises(RunFailed):
        load(days, "b", DAYS[1:], "orders", mode="append", on_error="continue")
    assert days.target.count(where="id >= 0") == 300
    assert {
        name: run
        for name, (run, _) in penstock.committed_in_series("orders", target=days.target.url).items()
    } == {
        "2024-01-01": "a",
        "2024-01-02": "a",
        "2024-01-03": "b",
    }
    assert penstock.committed_in_series("others", target=days.target.url) == {}
    # Another series is independent of it.
    load(days, "c", [DAYS[2]], "others", mode="replace")


def test_a_series_says_why_it_refuses(days: Pair) -> None:
    load(days, "a", DAYS[:1], "orders", mode="append")
    penstock.create(spec(days, run_id="b", mode="append"), partitions=DAYS[:1], series="orders")
    failures: list[str] = []

    def resume() -> None:
        for event in penstock.resume("b", source=days.source.url, target=days.target.url):
            if isinstance(event, Failed):
                failures.append(event.error["message"])

    with pytest.raises(PermanentError):
        resume()
    assert len(failures) == 1
    assert "partition 2024-01-01 has already been loaded by run a at " in failures[0]


@pytest.mark.parametrize(
    ("partitions", "options", "expected"),
    [
        ([window("a:b", "2024-01-01", None)], {}, "id: expected 1 to 10 letters"),
        ([DAYS[0], DAYS[0]], {}, "expected each id once, found '2024-01-01' twice"),
        (
            [Partition("a", penstock.Whole())],
            {},
            "an extent that selects by a key, found whole table",
        ),
        (DAYS, {"mode": "truncate", "key": None}, "expected --mode append, replace, upsert"),
        (DAYS, {"key": "id"}, "expected an extent by --key id, found one by day"),
    ],
)
def test_invalid_partitions_are_refused(
    days: Pair, partitions: list[Partition], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        penstock.create(spec(days, **options), partitions=partitions)


@pytest.mark.parametrize(
    ("partitions", "options", "expected"),
    [
        (
            [window("a", "2024-01-02", "2024-01-01")],
            {},
            "expected ascending bounds, found [2024-01-02, 2024-01-01)",
        ),
        (
            [window("a", "2024-01-01", "2024-01-03"), window("b", "2024-01-02", None)],
            {},
            "ranges that do not overlap, found [2024-01-02, ) and [2024-01-01, 2024-01-03)",
        ),
        (
            [window("a", None, "2024-01-03"), window("b", None, "2024-01-01")],
            {},
            "ranges that do not overlap",
        ),
        ([window("a", "2024-01-01T12:00", None)], {}, "which has a time of day"),
        ([window("a", "yesterday evening", None)], {}, "invalid input syntax for type date"),
        ([window("a", "1", "x", key="id")], {"key": "id"}, "invalid input syntax for type integer"),
        ([window("a", "1", "2", key="no")], {"key": "no"}, "no"),
        (
            [values("a", "1"), values("b", "01")],
            {"key": "id"},
            "expected each value once, found '1' and '01'",
        ),
    ],
)
def test_partitions_that_the_source_refuses(
    days: Pair, partitions: list[Partition], options: dict[str, Any], expected: str
) -> None:
    if "expected each value" in expected:
        partitions = [values("a", "1", key="id"), values("b", "01", key="id")]
    with pytest.raises(PlanningError, match=re.escape(expected)):
        penstock.create(spec(days, **options), partitions=partitions)


def test_a_run_keeps_its_partitions(days: Pair) -> None:
    penstock.create(spec(days, run_id="a"), partitions=DAYS[:2])
    penstock.create(spec(days, run_id="a"), partitions=DAYS[:2])
    for other in (DAYS, ()):
        with pytest.raises(SpecMismatch, match="exists with other partitions"):
            penstock.create(spec(days, run_id="a"), partitions=other)
    with pytest.raises(SpecMismatch, match="in another series"):
        penstock.create(spec(days, run_id="a"), partitions=DAYS[:2], series="x")


@pytest.mark.parametrize("verifying", ["counts", "checksums"])
def test_given_partitions_are_upserted(days: Pair, verifying: str) -> None:
    days.target.run("INSERT INTO public.t VALUES (100, '2024-01-02', 'stale')")
    events = load(days, "a", DAYS[:2], mode="upsert", verify=verifying)
    assert sum(committed(events).values()) == 200
    assert days.target.count(where="id >= 0") == 200
    days.target.run("UPDATE public.t SET region = 'x' WHERE id = 105")
    assert verify(days, "a", checksum=True).ok is False


def test_two_runs_of_a_series_at_once(days: Pair) -> None:
    """Both begin before either commits: the second waits for the first, and is refused."""
    for run in ("a", "b"):
        penstock.create(spec(days, run_id=run, mode="append"), partitions=DAYS[:1], series="orders")
    outcomes: list[str] = []

    def resume(run: str) -> None:
        try:
            list(penstock.resume(run, source=days.source.url, target=days.target.url))
            outcomes.append("done")
        except PermanentError:
            outcomes.append("refused")

    threads = [threading.Thread(target=resume, args=(run,)) for run in ("a", "b")]
    with psycopg.connect(days.target.url) as keeper:
        keeper.execute("LOCK TABLE public.t IN EXCLUSIVE MODE")
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        # One waits for the table, the other for the first one's commit record.
        while waiting(days) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["done", "refused"]
    assert days.target.count(where="day = '2024-01-01'") == 100


def waiting(pair: Pair) -> int:
    found: int = pair.target.value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'penstock:%' AND wait_event_type = 'Lock'"
    )
    return found


def test_two_runs_replace_the_same_partition_at_once(days: Pair) -> None:
    """The second deletes what the first loaded, although it was not visible when the second
    began."""
    days.target.run("ALTER TABLE public.t DROP CONSTRAINT t_pkey", "DELETE FROM public.t")
    for run in ("a", "b"):
        penstock.create(spec(days, run_id=run), partitions=DAYS[:1])

    def resume(run: str) -> dict[str, int]:
        return committed(list(penstock.resume(run, source=days.source.url, target=days.target.url)))

    with ThreadPoolExecutor(2) as pool:
        with psycopg.connect(days.target.url) as gate:
            # COPY waits for it; a DELETE would too, but the table is empty.
            gate.execute("LOCK TABLE public.t IN SHARE MODE")
            runs = [pool.submit(resume, run) for run in ("a", "b")]
            deadline = time.monotonic() + 60
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE 'penstock:%' AND wait_event_type = 'Lock'"
            )
            while days.target.value(waiting) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert [run.result(60) for run in runs] == [{"2024-01-01": 100}] * 2
    assert days.target.count() == 100
