"""A rate limit is respected over all streams, and is not mistaken for a stall."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock import CopySpec, copy, create, resume, status, stream_count
from penstock.events import Event, Failed, Finished, Planned, Progress

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

RATE = 200_000


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (n int PRIMARY KEY, pad text)")
    pair.source.run(
        "INSERT INTO t SELECT n, repeat(md5(n::text), 10) FROM generate_series(1, 2000) AS n",
        "ANALYZE t",
    )
    return pair


@pytest.mark.parametrize("degree", [1, 3, "auto"])
def test_the_rate_is_respected(filled: Pair, degree: int | str) -> None:
    seen: list[Event] = list(
        copy(filled.spec(strategy="range", partitions=6, degree=degree, max_rate=RATE))
    )
    report = seen[-1]
    assert isinstance(report, Finished)
    # The intended duration of an attempt's first block is unknown.
    assert report.bytes / report.seconds < 1.3 * RATE
    # The report attributes the time to the limit, and not to a server.
    assert report.paced > report.wait_source + report.wait_target
    assert report.paced <= report.busy
    filled.assert_same()


def test_a_pause_is_not_a_stall(filled: Pair) -> None:
    # A block takes longer than the timeout.
    options: dict[str, Any] = {"partitions": 1, "degree": 1, "max_rate": RATE // 2}
    seen = list(copy(filled.spec(stall_timeout="1s", **options)))
    assert not [event for event in seen if isinstance(event, Failed)]
    assert isinstance(seen[-1], Finished)
    assert seen[-1].paced > 2
    filled.assert_same()


def test_cancelling_during_a_pause_ends_the_copy_at_once(filled: Pair) -> None:
    with closing(copy(filled.spec(partitions=1, degree=1, max_rate=1, run_id="slow"))) as events:
        for event in events:
            if isinstance(event, Progress) and event.bytes:
                break
    # The generator returned, although the pause would have taken a day.
    remaining = filled.target.value(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'penstock:slow:%%'"
    )
    assert remaining == 0
    # Resumed without the limit.
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    *_, report = resume("slow", **ends, max_rate=None)
    assert isinstance(report, Finished)
    assert (report.status, report.paced) == ("done", 0)
    filled.assert_same()


def test_the_requested_rate_is_stored_with_the_run(filled: Pair) -> None:
    request = filled.spec(degree="auto", max_rate="50MB", max_lag="30s", run_id="r", partitions=4)
    create(request)
    stored = status("r", target=filled.target.url).run.spec
    assert (stored["degree"], stored["max_rate"], stored["max_lag"]) == ("auto", 50_000_000, 30.0)
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    assert CopySpec.from_stored(stored, **ends).degree == "auto"
    *events, report = resume("r", **ends, degree=3)
    (planned,) = (event for event in events if isinstance(event, Planned))
    assert (planned.degree, planned.automatic) == (3, False)
    assert isinstance(report, Finished)
    assert (report.status, report.degree) == ("done", 3)
    filled.assert_same()


@pytest.mark.parametrize("degree", [0, "auto"])
def test_a_run_continues_with_its_stored_degree(filled: Pair, degree: int | str) -> None:
    create(filled.spec(run_id="r", partitions=4, degree=degree))
    ends: dict[str, Any] = {"source": filled.source.url, "target": filled.target.url}
    (planned,) = (event for event in resume("r", **ends) if isinstance(event, Planned))
    assert (planned.degree, planned.automatic) == (stream_count(0), degree == "auto")
