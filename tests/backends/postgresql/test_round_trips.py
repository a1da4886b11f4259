"""How often a copy waits for an answer: between distant servers that is most of its price."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from penstock import CopySpec, copy
from penstock_testkit import DistantServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

FEW, MANY = 4, 24
# A COPY from the source waits once; one into the target twice: until it may send, and at its end.
SOURCE, TARGET = 1 + 1, 3 + 2
# Besides the attempts, some sessions look at the servers now and then.
LOOKS = 0.5


@pytest.fixture
def distant(pair: Pair) -> Iterator[tuple[DistantServer, DistantServer]]:
    """Source and target behind proxies that count; to delay would only take time."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY, word text)")
    pair.source.run("INSERT INTO t SELECT n, 'word' FROM generate_series(1, 2400) AS n")
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
        # Makes a stage; merges it.
        ({"mode": "upsert"}, SOURCE, TARGET + 2),
    ],
    ids=str,
)
def test_of_a_further_partition(
    pair: Pair,
    distant: tuple[DistantServer, DistantServer],
    options: dict[str, Any],
    at_source: int,
    at_target: int,
) -> None:
    few = _trips(pair, distant, FEW, options)
    many = _trips(pair, distant, MANY, options)
    further = [(more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)]
    assert at_source - LOOKS < further[0] < at_source + LOOKS
    assert at_target - LOOKS < further[1] < at_target + LOOKS


def _trips(
    pair: Pair,
    distant: tuple[DistantServer, DistantServer],
    partitions: int,
    options: dict[str, Any],
) -> tuple[int, int]:
    pair.target.run("TRUNCATE t")
    source, target = distant
    for end in distant:
        end.reset()
    cut: dict[str, Any] = {"strategy": "range", "key": "id", "partitions": partitions, "degree": 1}
    list(copy(CopySpec(source=source.url, target=target.url, table="t", **cut, **options)))
    pair.assert_same()
    return source.round_trips, target.round_trips
