"""Small tables at both ends."""

from __future__ import annotations

from ..conftest import Pair


def make_small_tables(pair: Pair, count: int) -> Pair:
    """Create tables t0, t1, ... at both ends, the source's with five rows each."""
    for number in range(count):
        pair.both(f"CREATE TABLE t{number} (id int PRIMARY KEY, word text)")
        pair.source.run(f"INSERT INTO t{number} SELECT n, 'new' FROM generate_series(1, 5) AS n")
    return pair
