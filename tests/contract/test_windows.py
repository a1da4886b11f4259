"""A batch of three windows and more: copied, verified, stopped in its third window and continued.

What one window takes from a server, sessions and locks, must not add up over the windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import BatchSpec, copy_all, verify
from penstock.engine import windows
from penstock.events import BatchFinished, Prepared
from penstock.spec.modes import RECREATE, TRUNCATE

from .copying import Pair
from .database import Database
from .rows import numbered

TABLES, WINDOW, ROWS = 5, 2, numbered(3)


@pytest.fixture
def many(
    name: str, open_database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
) -> Pair:
    """Tables t0, t1, ... at both ends."""
    monkeypatch.setattr(windows, "WINDOW", WINDOW)
    pair = Pair(open_database(name), open_database(name))
    if pair.mine.backend.located or pair.theirs.backend.located:
        pytest.skip("files are one table")
    for database in (pair.mine, pair.theirs):
        database.make_many(TABLES, ROWS)
    for number in range(TABLES):
        pair.mine.with_table(f"t{number}").insert(ROWS)
    return pair


def batch(pair: Pair, **options: Any) -> BatchSpec:
    ends = {**pair.mine.source, **pair.ends}
    del ends["table"]
    ends["source"] += pair.mine.scarcely
    modes = pair.theirs.backend.target_capabilities.modes
    fixed = {
        "tables": [pair.mine.with_table("t*").table],
        "target_schema": str(pair.theirs.table).rpartition(".")[0],
        "mode": str(RECREATE if RECREATE in modes else TRUNCATE),
        "verify": "checksums" if pair.hashes_texts else "counts",
        "degree": 2,
    }
    return BatchSpec.from_mapping({**ends, **fixed, **options}, "test")


def finish(spec: BatchSpec) -> BatchFinished:
    *_, end = copy_all(spec)
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    return end


def check(pair: Pair) -> None:
    for number in range(TABLES):
        name = f"t{number}"
        Pair(pair.mine.with_table(name), pair.theirs.with_table(name)).check(ROWS)


def test_each_window_is_verified(many: Pair) -> None:
    end = finish(batch(many))
    assert end.rows == TABLES * len(ROWS.rows)
    check(many)


def test_a_batch_that_stopped_in_its_third_window_continues(many: Pair) -> None:
    spec = batch(many, run_id="windows", on_snapshot_lost="accept")
    events = copy_all(spec)
    prepared = 0
    for event in events:
        prepared += isinstance(event, Prepared)
        if prepared > 2 * WINDOW:
            break
    events.close()
    end = finish(spec)
    check(many)
    for table in end.tables:
        assert verify(table.run_id, **many.ends).ok
