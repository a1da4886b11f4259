"""Checksums of loads with steps before or after them; a swap waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from penstock import PermanentError, copy, verify
from penstock.events import Committed, Event, StepChanged, Verified
from penstock.verification.result import DIFFERENT

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TABLE = "CREATE TABLE t (id int PRIMARY KEY, note text, amount numeric(12, 2))"
ROWS = "INSERT INTO t SELECT n, 'note ' || n, n / 7.0 FROM generate_series(1, 3000) AS n"
LOADS: dict[str, dict[str, Any]] = {
    "swap": {"mode": "swap"},
    "recreate": {"mode": "recreate"},
    "swap with all": {"mode": "swap", "indexes": "defer", "unlogged": True},
    "truncate with all": {
        "mode": "truncate", "indexes": "defer", "unlogged": True,
    },
}  # fmt: skip


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both(TABLE, "CREATE INDEX ON t (note)")
    pair.source.run(ROWS, "ANALYZE t")
    pair.target.run("INSERT INTO t VALUES (1, 'old', 1)")
    return pair


@pytest.mark.parametrize("options", LOADS.values(), ids=LOADS)
def test_checksums_agree_and_find_damage(filled: Pair, options: dict[str, Any]) -> None:
    cut: dict[str, Any] = {"strategy": "range", "key": "id", "partitions": 3}
    events = filled.events(run_id="r1", verify="checksums", **cut, **options)
    assert [event.ok for event in events if isinstance(event, Verified)] == [True]
    source, target = filled.source.url, filled.target.url
    assert verify("r1", source=source, target=target, checksum=True).ok
    filled.target.run("UPDATE t SET note = 'x' WHERE id = 7")
    result = verify("r1", source=source, target=target, checksum=True, show_rows=True)
    rows = {c.partition_id: [(r.key, r.what) for r in c.rows] for c in result.checks if not c.ok}
    assert rows == {"p0001": [("7", DIFFERENT)], None: []}


def test_a_table_that_differs_is_not_swapped_in(filled: Pair) -> None:
    seen: list[Event] = []

    def damaged() -> Iterator[Event]:
        """Yield the run's events; a row is changed when the first partition commits."""
        for event in copy(filled.spec(mode="swap", verify="checksums")):
            yield event
            if isinstance(event, Committed):
                name = filled.target.value(
                    "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'"
                    " AND relname <> 't' AND relnamespace = 'public'::regnamespace"
                )
                filled.target.run(f"UPDATE {name} SET note = 'x' WHERE id = 7")

    with pytest.raises(PermanentError):
        seen.extend(damaged())
    assert [event.ok for event in seen if isinstance(event, Verified)] == [False]
    assert not any(isinstance(event, StepChanged) for event in seen)
    assert filled.target.rows("SELECT note FROM t") == [("old",)]
