"""The table of modes in docs/modes.md, checked on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spec.modes import MODES, Entry

from ..conftest import Pair

PAGE = Path(__file__).resolve().parents[3] / "docs" / "modes.md"
AGAIN = {"adds them again": 2, "the target is as after the first": 1}


def claims() -> dict[str, tuple[str, str, str]]:
    """Return the claims by mode: before the first partition, for each partition, in a second
    run."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| ["]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].split("`")[1]: (row[1], row[2], row[3]) for row in cells}


def test_every_mode_is_listed() -> None:
    assert tuple(claims()) == tuple(MODES)


@pytest.mark.parametrize(
    "mode", [name for name, mode in MODES.items() if mode.entry is not Entry.ATTACH]
)
def test_a_mode_does_what_its_line_says(pair: Pair, mode: str) -> None:
    before, each, again = claims()[mode]
    key = "" if mode == "append" else " PRIMARY KEY"
    pair.both(f"CREATE TABLE t (id int{key}, v text)")
    pair.source.run("INSERT INTO t SELECT n, 'new' FROM generate_series(1, 100) AS n")
    # One row that the source has too, and one that it lacks, within a partition's bounds.
    pair.target.run("INSERT INTO t VALUES (1, 'old'), (1000, 'old')")
    was = pair.target.value("SELECT 't'::regclass::oid::bigint")
    options = {"strategy": "range", "key": "id"} if mode == "replace" else {}

    pair.copy(mode=mode, **options)

    old_rows = pair.target.count(where="id = 1000")
    emptied = before != "nothing" or "deletes" in each
    assert old_rows == (0 if emptied else 1)
    assert pair.target.count(where="id = 1 AND v = 'old'") == (1 if mode == "append" else 0)
    is_new = pair.target.value("SELECT 't'::regclass::oid::bigint") != was
    assert is_new == before.startswith(("creates a table", "builds an empty table"))

    pair.copy(mode=mode, **options)
    assert pair.target.count(where="id BETWEEN 2 AND 100") == 99 * AGAIN[again]
