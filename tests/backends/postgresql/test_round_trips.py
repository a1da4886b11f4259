"""How often a copy waits for an answer: between distant servers that is most of its price."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from penstock import CopySpec, copy
from penstock.events import Finished
from penstock_testkit import DistantServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

# So many that no session has more to say than the only worker's.
PARTITIONS = 64
# A COPY from the source waits once; one into the target twice: until it may send, and at its end.
SOURCE, TARGET = 1 + 1, 3 + 2


@pytest.fixture
def distant(pair: Pair) -> Iterator[tuple[DistantServer, DistantServer]]:
    """Source and target behind proxies that count; to delay would only take time."""
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
        # Makes a stage; merges it.
        ({"mode": "upsert"}, SOURCE, TARGET + 2),
    ],
    ids=str,
)
def test_of_each_partition(
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
    # To connect, and to begin, takes fewer than there are partitions.
    assert source.most // PARTITIONS == at_source
    assert target.most // PARTITIONS == at_target
