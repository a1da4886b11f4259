"""The automatic degree on real servers: it tries more streams, says why, and loses no rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock import copy, stream_count
from penstock.events import DegreeChanged, Event, Finished, Opened, Planned

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TRIED = re.compile(r"trying (more|fewer).*; [\d.,]+ MB/s with \d+ streams?")


def test_more_streams_are_tried_and_the_reason_is_given(pair: Pair) -> None:
    pair.both("CREATE TABLE t (n int PRIMARY KEY, pad text)")
    pair.source.run(
        "INSERT INTO t SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 4000) AS n",
        "ANALYZE t",
    )
    streams = stream_count("auto")
    seen: list[Event] = []
    # Throttled, so that it lasts long enough.
    spec = pair.spec(
        strategy="range",
        partitions=40 * streams,
        degree="auto",
        where="pg_sleep(0.005) IS NOT NULL",
    )
    for event in copy(spec):
        seen.append(event)
    (planned,) = (event for event in seen if isinstance(event, Planned))
    assert (planned.degree, planned.automatic) == (streams, True)
    changes = [event for event in seen if isinstance(event, DegreeChanged)]
    assert {change.cause for change in changes} == {"auto"}
    tried = [change for change in changes if TRIED.fullmatch(change.message)]
    assert tried
    report = seen[-1]
    assert isinstance(report, Finished)
    assert report.degree == changes[-1].degree
    # A superfluous worker stays, and is used again.
    pids = {event.pid for event in seen if isinstance(event, Opened)}
    assert len(pids) <= max(streams, *(change.degree for change in changes))
    pair.assert_same()
