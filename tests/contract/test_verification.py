"""Differences between the two ends after a run are found, and their rows named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock import plan_repair, repair_run, verify
from penstock.errors import PenstockError
from penstock.spec.modes import REPLACE, UPSERT
from penstock.verification import rows

from .copying import Pair, finish
from .database import Database, SqlDatabase

CUT = {"strategy": "ntile", "key": "id", "partitions": 2}


def test_changed_rows_are_found(inward: Pair) -> None:
    if not isinstance(inward.theirs, SqlDatabase):
        pytest.skip("rows of files are not changed: see test_parquet_copies")
    inward.compares_texts()
    inward.make(key="id")
    finished = inward.copy(mode="truncate", **CUT)
    inward.verify(finished)
    table = inward.theirs.table
    inward.theirs.execute(f"UPDATE {table} SET amount = amount + 1 WHERE id = 7")
    inward.theirs.execute(f"DELETE FROM {table} WHERE id = 290")
    found = verify(finished.run_id, **inward.ends, checksum=True, show_rows=True)
    assert len(found.wrong) == 2
    listed = {(row.key, row.what) for check in found.wrong for row in check.rows}
    if UPSERT in inward.theirs.backend.target_capabilities.modes:
        assert listed == {("7", "different"), ("290", "missing in the target")}
    else:  # without a key, the whole row identifies it
        assert {key.partition(",")[0] for key, _ in listed} == {"(7", "(290"}


def test_differences_in_many_rows_are_found(
    name: str, open_database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows of a partition have changed, and some belong to none.

    The comparison reads each side as a stream.
    """
    monkeypatch.setattr(rows, "BATCH", 5)
    monkeypatch.setattr(rows, "MOST_ROWS", 100)
    pair = Pair(open_database(name), open_database("postgresql"))
    pair.compares_texts()
    pair.make(key="id")
    finished = pair.copy(mode="truncate", **CUT)
    assert isinstance(pair.theirs, SqlDatabase)
    table = pair.theirs.table
    pair.theirs.execute(f"UPDATE {table} SET amount = amount + (id % 2) WHERE id BETWEEN 10 AND 49")
    pair.theirs.execute(f"INSERT INTO {table} (id) SELECT id + 1000 FROM {table} WHERE id < 20")
    found = verify(finished.run_id, **pair.ends, checksum=True, show_rows=True)
    listed = {(int(row.key), row.what) for check in found.checks for row in check.rows}
    assert listed == {
        *((number, "different") for number in range(11, 50, 2)),
        *((number, "only in the target") for number in range(1000, 1020)),
    }


def test_differences_are_repaired(inward: Pair) -> None:
    """The repair needs a key, and a target that can delete ranges; otherwise it is rejected."""
    if not isinstance(inward.theirs, SqlDatabase):
        pytest.skip("rows of files are not changed: see test_parquet_copies")
    inward.compares_texts()
    inward.make(key="id")
    finished = inward.copy(mode="truncate", **CUT)
    table = inward.theirs.table
    inward.theirs.execute(f"UPDATE {table} SET amount = amount + 1 WHERE id = 7")
    inward.theirs.execute(f"DELETE FROM {table} WHERE id = 290")
    if REPLACE not in inward.theirs.backend.target_capabilities.modes:
        with pytest.raises(PenstockError, match=r"--mode replace|primary or unique key"):
            plan_repair(finished.run_id, **inward.ends)
        return
    found = plan_repair(finished.run_id, **inward.ends, rows_per_range=50)
    assert 2 == len(found.ranges) < found.compared
    inward.verify(finish(repair_run(found)))
    inward.verify(finished)
