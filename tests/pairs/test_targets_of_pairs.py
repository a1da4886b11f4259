"""What depends on the target: its modes, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest

from penstock import verify
from penstock.errors import PlanningError, RunFailed

from .checking import ROWS, STRATEGIES, check
from .ends import DuckEnd, PostgresEnd, Rows, every_kind

if TYPE_CHECKING:
    from .conftest import Pair


def test_appending_twice_adds(by_target: Pair) -> None:
    by_target.mine.fill(ROWS)
    by_target.theirs.make(ROWS)
    by_target.copy(mode="append")
    by_target.copy(mode="append")
    assert len(by_target.theirs.read()) == 2 * len(ROWS.rows)


@pytest.mark.parametrize("mode", ["truncate", "recreate", "swap"])
def test_a_fresh_load_takes_the_place_of_the_old_one(by_target: Pair, mode: str) -> None:
    by_target.mine.fill(ROWS)
    by_target.theirs.make(ROWS)
    by_target.copy()
    check(by_target, by_target.copy(mode=mode, degree=2, **STRATEGIES["range"]), ROWS)


def test_replacing_some_rows_leaves_the_others(by_target: Pair) -> None:
    """By key where the target deletes by condition; of the same selection where it swaps files."""
    by_target.mine.fill(ROWS)
    by_target.theirs.make(ROWS)
    first, second = "day < '2024-01-10'", "day >= '2024-01-10'"
    for where in (first, second, first):
        by_target.copy(mode="replace", where=where, key="id", strategy="range", partitions=3)
    assert by_target.theirs.read() == ROWS.plain


def test_upserting(by_target: Pair) -> None:
    """Twice: the second time nothing is new, and nothing differs."""
    by_target.mine.fill(ROWS)
    by_target.theirs.make(ROWS, key="id")
    if by_target.theirs.name in ("parquet", "s3"):
        with pytest.raises(PlanningError, match="upsert"):
            by_target.copy(mode="upsert")
        return
    first = by_target.copy(mode="upsert", **STRATEGIES["range"])
    again = by_target.copy(mode="upsert", **STRATEGIES["range"])
    assert (first.inserted, first.updated) == (len(ROWS.rows), 0)
    assert (again.inserted, again.updated) == (0, 0)
    check(by_target, again, ROWS)


def test_the_target_is_made_where_it_is_missing(by_target: Pair) -> None:
    by_target.mine.fill(every_kind())
    if by_target.theirs.name == "postgresql":
        with pytest.raises(PlanningError, match="does not exist"):
            by_target.copy()
        check(by_target, by_target.copy(mode="recreate"), every_kind())
    else:
        check(by_target, by_target.copy(), every_kind())


def test_a_missing_column_and_a_wrong_type_are_told_at_once(by_database: Pair) -> None:
    by_database.mine.fill(Rows({"id": "bigint", "a": "texts", "b": "text"}, [(1, ["x"], "y")]))
    by_database.theirs.make(Rows({"id": "bigint", "a": "bytes"}, []))
    with pytest.raises(PlanningError) as caught:
        by_database.copy()
    told = [line.split()[0] for line in caught.value.message.splitlines() if line.startswith("  ")]
    assert {"a", "b"} <= set(told)


def test_verification_finds_a_changed_row(by_database: Pair) -> None:
    by_database.mine.fill(ROWS)
    by_database.theirs.make(ROWS)
    finished = by_database.copy(**STRATEGIES["range"])
    _change_one(by_database)
    ends = {
        "source": by_database.mine.source["source"],
        "target": by_database.theirs.target["target"],
    }
    found = verify(finished.run_id, **ends, checksum=True, show_rows=True)
    assert not found.ok
    keys = {row.key for check in found.checks for row in check.rows}
    assert any("7" in key for key in keys), keys


def _change_one(pair: Pair) -> None:
    statement = "UPDATE t SET amount = amount + 1 WHERE id = 7"
    if isinstance(pair.theirs, PostgresEnd):
        with psycopg.connect(pair.theirs.url, autocommit=True) as connection:
            connection.execute(statement)
    else:
        assert isinstance(pair.theirs, DuckEnd)
        with duckdb.connect(str(pair.theirs.path)) as duck:
            duck.execute(statement)


def test_a_value_out_of_range_is_named(by_target: Pair) -> None:
    """The column and the row; nothing of the partition is there."""
    by_target.mine.fill(Rows({"id": "bigint"}, [(1,), (2**40,), (3,)]))
    if by_target.theirs.name in ("parquet", "s3"):
        options: dict[str, Any] = {"types": ("id=int32",)}
    else:
        by_target.theirs.make(Rows({"id": "integer"}, []))
        options = {}
    with pytest.raises(RunFailed) as caught:
        by_target.copy(strategy="whole", **options)
    told = "".join(caught.value.__notes__)
    assert "column 'id', row 2" in told
    assert by_target.theirs.read() == []
