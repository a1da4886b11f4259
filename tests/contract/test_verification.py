"""What differs between the ends after a run is found, and its rows are named."""

from __future__ import annotations

import pytest

from penstock import verify
from penstock.spec.modes import UPSERT

from .copying import Pair
from .database import SqlDatabase

CUT = {"strategy": "ntile", "key": "id", "partitions": 2}


def test_rows_that_were_changed(inward: Pair) -> None:
    if not isinstance(inward.theirs, SqlDatabase):
        pytest.skip("rows of files are not changed: see test_parquet_copies")
    inward.make(key="id")
    finished = inward.copy(mode="truncate", **CUT)
    inward.verify(finished)
    table = inward.theirs.table
    inward.theirs.execute(f"UPDATE {table} SET amount = amount + 1 WHERE id = 7")
    inward.theirs.execute(f"DELETE FROM {table} WHERE id = 290")
    found = verify(finished.run_id, **inward.ends, checksum=True, show_rows=True)
    assert len(found.wrong) == 2
    rows = {(row.key, row.what) for check in found.wrong for row in check.rows}
    if UPSERT in inward.theirs.backend.target_capabilities.modes:
        assert rows == {("7", "different"), ("290", "missing in the target")}
    else:  # by no key: a row is named by all of it
        assert {key.partition(",")[0] for key, _ in rows} == {"(7", "(290"}
