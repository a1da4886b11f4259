"""Two runs that append to one dataset."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from penstock.events import Committed, Opened

from ...faults.cli import Run

# Large enough to stop a run long before its end.
ROWS = 1_000_000


@pytest.fixture
def append(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    source, lake = tmp_path / "source.parquet", tmp_path / "lake"
    duckdb.sql(
        f"COPY (SELECT range AS id, repeat('x', 200) AS pad FROM range({ROWS})) TO '{source}'"
    )
    runs: list[Run] = []

    def start(run_id: str) -> Run:
        words = ("--mode", "append", "--strategy", "hash", "--key", "id", "--partitions", "8")
        ends = ("--source", f"{source}", "--target", f"{lake}")
        runs.append(Run("copy", *ends, *words, "--degree", "1", "--run-id", run_id))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def count(tmp_path: Path) -> int:
    ((rows,),) = duckdb.execute(f"SELECT count(*) FROM '{tmp_path}/lake/*.parquet'").fetchall()
    return int(rows)


def test_both_runs_load_if_the_first_has_committed_nothing(
    append: Callable[[str], Run], tmp_path: Path
) -> None:
    first = append("first")
    first.wait_for(Opened)
    first.signal_all(signal.SIGSTOP)
    assert not first.of(Committed)
    append("second").ended(0)
    first.signal_all(signal.SIGCONT)
    first.ended(0)
    assert count(tmp_path) == 2 * ROWS


def test_the_second_run_is_rejected_until_the_first_ends(
    append: Callable[[str], Run], tmp_path: Path
) -> None:
    first = append("first")
    first.wait_for(Committed)
    first.signal_all(signal.SIGSTOP)
    second = append("second")
    second.ended(75)
    assert "holds files of run first, which is loading right now" in second.errors
    first.signal_all(signal.SIGCONT)
    first.ended(0)
    append("second").ended(0)
    assert count(tmp_path) == 2 * ROWS


def test_the_second_run_is_rejected_after_a_killed_one(append: Callable[[str], Run]) -> None:
    first = append("first")
    first.wait_for(Committed)
    first.signal_all(signal.SIGKILL)
    first.ended(-signal.SIGKILL)
    second = append("second")
    second.ended(65)
    assert "holds files of run first, which is not done" in second.errors
