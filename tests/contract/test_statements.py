"""The number of statements that a batch runs grows with its tables only as far as necessary."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import BatchSpec, copy_all
from penstock.events import BatchFinished
from penstock.spec.modes import RECREATE, TRUNCATE

from .copying import Pair
from .database import Database
from .rows import numbered

FILE, PREFIX = "PENSTOCK_COUNTING", "counted+"


def fill(pair: Pair, count: int) -> None:
    """Fill tables t0, t1, ... at both ends."""
    rows = numbered(3)
    for database in (pair.mine, pair.theirs):
        database.make_many(count, rows)
    for number in range(count):
        pair.mine.with_table(f"t{number}").insert(rows)


def counted(pair: Pair, count: int, file: Path) -> tuple[list[str], list[str]]:
    """Return the statements of a batch: those of the main process, and those of the workers."""
    file.unlink(missing_ok=True)
    modes = pair.theirs.backend.target_capabilities.modes
    mode = RECREATE if RECREATE in modes else TRUNCATE
    ends = {name: f"{PREFIX}{url}" for name, url in pair.ends.items()}
    options = {**pair.mine.source, **ends, "mode": str(mode), "degree": 2}
    del options["table"]
    options["target_schema"] = str(pair.theirs.table).rpartition(".")[0]
    options["tables"] = [pair.mine.with_table("t0" if count == 1 else "t*").table]
    spec = BatchSpec.from_mapping(options, "test")
    *_, end = copy_all(spec)
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    assert end.rows == 3 * count
    lines = [line.partition(" ") for line in file.read_text(encoding="utf-8").splitlines()]
    mine = str(os.getpid())
    return (
        [statement for process, _, statement in lines if process == mine],
        [statement for process, _, statement in lines if process != mine],
    )


def test_a_batch_needs_few_statements(
    name: str,
    open_database: Callable[[str], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The main process's number hardly grows with the tables; that of workers is proportional."""
    pair = Pair(open_database(name), open_database(name))
    if why := pair.theirs.statements_elsewhere:
        pytest.skip(why)
    many = pair.theirs.many
    fill(pair, many)
    file = tmp_path / "statements"
    monkeypatch.setenv(FILE, str(file))
    for count in (1, many):
        for side, found, (once, each) in zip(
            ("main process", "workers"),
            counted(pair, count, file),
            pair.theirs.statements,
            strict=True,
        ):
            assert len(found) <= once + each * count, f"{side}, {count} tables: " + "\n".join(found)
