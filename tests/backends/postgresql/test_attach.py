"""attach: each partition becomes a child of the target's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import PlanningError, RunFailed, UsageError, resume, verify
from penstock.events import Finished

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

COLUMNS = "id int NOT NULL, day date NOT NULL, kind text, n int"
DAYS = {"mode": "attach", "strategy": "time", "key": "day", "interval": "1 day"}


@pytest.fixture
def days(pair: Pair) -> Pair:
    """Five days of ten rows each, and an empty table that is partitioned by them."""
    pair.source.run(
        f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id, day))",
        "INSERT INTO t SELECT i, date '2026-03-01' + i / 10, 'k' || i % 3, i"
        " FROM generate_series(0, 49) AS i",
        "CREATE INDEX ON t (day)",
        "ANALYZE t",
    )
    pair.target.run(
        f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id, day), CONSTRAINT small CHECK (n < 1000))"
        " PARTITION BY RANGE (day)",
        "CREATE INDEX by_kind ON t (kind, (n % 10)) WHERE n > 3",
        "CREATE UNIQUE INDEX ON t (day DESC, id)",
    )
    return pair


def children(pair: Pair) -> dict[str, str]:
    """The children of the target's table, with their bounds."""
    return dict(
        pair.target.rows(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i"
            " JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 't'::regclass"
            " ORDER BY 1"
        )
    )


def range_of(first: str, last: str) -> str:
    return f"FOR VALUES FROM ('2026-03-{first}') TO ('2026-03-{last}')"


ALL_DAYS = {f"t_p2026_03_{n:02}": range_of(f"{n:02}", f"{n + 1:02}") for n in range(1, 6)}
NOTHING_LEFT = (
    "SELECT count(*) FROM pg_class WHERE relname LIKE 'penstock\\_%' AND relkind IN ('r', 'i')"
    " AND relnamespace = 'public'::regnamespace"
)


def shape(pair: Pair, table: str) -> list[tuple[Any, ...]]:
    """What belongs to a child, but for its name and its bounds."""
    return pair.target.rows(
        "SELECT kind, replace(said, 'X', '') FROM ("
        "  SELECT 'index' AS kind, replace(pg_get_indexdef(indexrelid), "
        f"'{table}', 'X') AS said FROM pg_index WHERE indrelid = '{table}'::regclass"
        "  UNION ALL SELECT 'attached', (SELECT i.inhparent::regclass::text FROM pg_inherits AS i"
        "   WHERE i.inhrelid = x.indexrelid) FROM pg_index AS x"
        f"  WHERE indrelid = '{table}'::regclass"
        "  UNION ALL SELECT 'constraint', conname || pg_get_constraintdef(oid) || coninhcount"
        f"   || conislocal FROM pg_constraint WHERE conrelid = '{table}'::regclass"
        "    AND contype IN ('c', 'n', 'f')"
        "  UNION ALL SELECT 'column', row(attname, atttypid, attnotnull, attinhcount, attislocal,"
        f"   attgenerated)::text FROM pg_attribute WHERE attrelid = '{table}'::regclass"
        "    AND attnum > 0"
        "  UNION ALL SELECT 'table', row(relowner, relpersistence, reltablespace, relreplident,"
        f"   relacl)::text FROM pg_class WHERE oid = '{table}'::regclass"
        ") AS of ORDER BY 1, 2"
    )


def test_each_window_becomes_a_child(days: Pair) -> None:
    finished = days.copy(**DAYS, degree=3, verify="checksums")
    assert finished.rows == 50
    days.assert_same()
    assert children(days) == ALL_DAYS
    assert days.target.value(NOTHING_LEFT) == 0
    # As the server makes them.
    days.target.run(f"CREATE TABLE t_p2026_03_20 PARTITION OF t {range_of('20', '21')}")
    assert shape(days, "t_p2026_03_01") == shape(days, "t_p2026_03_20")
