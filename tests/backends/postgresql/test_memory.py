"""A worker's memory does not grow with the table, and only a little with the size of a row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import copy
from penstock.events import Committed

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

MIB = 1 << 20
pytestmark = [
    pytest.mark.usefixtures("both_paths"),
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
    ),
]


def peak(pid: int) -> int:
    """Return the peak memory of a process so far, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def peaks(pair: Pair, **options: Any) -> list[int]:
    """Return the peak memory of each worker of a copy."""
    spec = pair.spec(strategy="ctid", partitions=4, degree=2, mode="truncate", **options)
    # A worker waits for its next partition while its event is handled.
    return [peak(event.pid) for event in copy(spec) if isinstance(event, Committed)]


def test_memory_is_bounded_regardless_of_the_size_of_the_table(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int, a text, b text, c timestamptz)")
    fill = "INSERT INTO t SELECT n, repeat('a', 100), repeat('b', 100), now() FROM "
    pair.source.run(fill + "generate_series(1, 2000) AS n")
    small = max(peaks(pair))
    pair.source.run(fill + "generate_series(1, 300000) AS n")
    assert pair.source.value("SELECT pg_table_size('t')") > 64 * MIB
    large = max(peaks(pair))
    assert large <= 100 * MIB
    assert large <= small + 16 * MIB
    assert pair.target.count() == 302_000


def test_memory_is_a_few_times_a_large_value(pair: Pair) -> None:
    size = 50 * MIB
    pair.both(
        "CREATE TABLE t (id int, data bytea)", "ALTER TABLE t ALTER data SET STORAGE EXTERNAL"
    )
    pair.source.run(
        f"INSERT INTO t SELECT n, convert_to(repeat('x', {size}), 'UTF8')"
        " FROM generate_series(1, 3) AS n"
    )
    assert max(peaks(pair)) <= 100 * MIB + 6 * size
    assert pair.target.rows("SELECT count(*), sum(length(data)) FROM t") == [(3, 3 * size)]
