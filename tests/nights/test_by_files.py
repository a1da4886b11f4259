"""Nights that read new Parquet files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.backends.conftest import Side
from tests.nights.by_column import merged
from tests.one_copy import OneCopy

import penstock

ALL = "SELECT id, word FROM items ORDER BY id"


@pytest.fixture
def target(target_url: str, target: Any) -> Side:
    side = Side(target_url, target)
    side.run("CREATE TABLE items (id bigint PRIMARY KEY, word text)")
    return side


def write(folder: Path, name: str, rows: dict[int, str]) -> None:
    table = pa.table({"id": pa.array(rows, pa.int64()), "word": list(rows.values())})
    pq.write_table(table, folder / f"{name}.parquet")


def night(folder: Path, target: Side, **options: Any) -> OneCopy:
    usual: dict[str, Any] = {"mode": "upsert", "incremental": "files", "degree": 1}
    ends: dict[str, Any] = {"source": f"file://{folder}/*.parquet", "target": target.url}
    return OneCopy(**ends, target_table="public.items", **{**usual, **options})


def test_new_files_are_read(tmp_path: Path, target: Side) -> None:
    write(tmp_path, "a", {1: "a", 2: "b"})
    write(tmp_path, "b", {3: "c"})
    assert merged(night(tmp_path, target)).rows == 3
    write(tmp_path, "c", {2: "changed", 4: "d"})
    found = merged(night(tmp_path, target, deletes="hard"))
    assert (found.full, found.rows, found.updated, found.inserted) == ("", 2, 1, 1)
    expected = [(1, "a"), (2, "changed"), (3, "c"), (4, "d")]
    assert target.rows(ALL) == expected
    # No file is new: the smallest one is read again, and changes nothing.
    again = merged(night(tmp_path, target))
    assert (again.full, again.inserted, again.updated) == ("", 0, 0)
    # Each file is stored once.
    history = penstock.watermark_history(
        penstock.watermarks(target=target.url)[0].name, target=target.url
    )
    assert [len(mark.files.digests) // 16 for mark in history if mark.files] == [0, 1, 2]


def test_a_changed_or_removed_file_makes_a_night_read_all_rows(
    tmp_path: Path, target: Side
) -> None:
    write(tmp_path, "a", {1: "a", 2: "b"})
    write(tmp_path, "b", {3: "c"})
    merged(night(tmp_path, target))
    write(tmp_path, "a", {1: "other", 2: "rows"})
    os.utime(tmp_path / "a.parquet", (1, 1))
    changed = "1 file of earlier nights has been changed or removed"
    assert merged(night(tmp_path, target)).full == changed
    (tmp_path / "b.parquet").unlink()
    found = merged(night(tmp_path, target, deletes="hard,100%"))
    assert (found.full, found.deleted) == (changed, 1)
    assert target.rows(ALL) == [(1, "other"), (2, "rows")]


def test_a_night_continues_from_an_earlier_epoch(tmp_path: Path, target: Side) -> None:
    for number in range(3):
        write(tmp_path, f"f{number}", {number: "first"})
        merged(night(tmp_path, target))
    target.run("UPDATE items SET word = 'edited'")
    (mark,) = penstock.watermarks(target=target.url)
    penstock.set_watermark(mark.name, epoch=1, target=target.url)
    found = merged(night(tmp_path, target))
    assert (found.full, found.rows) == ("", 2)
    assert target.rows(ALL) == [(0, "edited"), (1, "first"), (2, "first")]
    penstock.reset_watermark(mark.name, target=target.url)
    assert merged(night(tmp_path, target)).full == "the watermark was reset"


def test_nights_by_a_column_of_files(tmp_path: Path, target: Side) -> None:
    write(tmp_path, "a", {1: "a", 2: "b"})
    write(tmp_path, "b", {3: "c"})
    copy_options = {"incremental": "id", "lookback": "0"}
    merged(night(tmp_path, target, **copy_options))
    write(tmp_path, "c", {4: "d"})
    found = merged(night(tmp_path, target, **copy_options))
    assert (found.full, found.rows) == ("", 2)
    # By files instead, all rows are read.
    assert "by id, not by files" in merged(night(tmp_path, target)).full


def test_wrong_options_are_rejected(tmp_path: Path, target: Side) -> None:
    write(tmp_path, "a", {1: "a"})
    for options, words in (
        ({"strategy": "whole"}, "expected --strategy auto or files"),
        ({"lookback": "1h"}, "--lookback: expected --incremental COLUMN"),
        ({"incremental": "xmin"}, "Parquet as a source does not support --incremental xmin"),
    ):
        assert words in night(tmp_path, target, **options).message
