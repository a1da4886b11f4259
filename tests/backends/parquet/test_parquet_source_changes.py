"""Parquet files that change during a copy: the planned rows arrive, or the copy fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import CopySpec, PermanentError, SnapshotLost, copy
from penstock.events import Committed, Failed

FILES, ROWS = 4, 1000
WAYS: dict[str, dict[str, Any]] = {
    "files": {"strategy": "files", "partitions": FILES},
    "hash": {"strategy": "hash", "key": "id", "partitions": FILES},
}


def write(folder: Path, number: int, first: int) -> None:
    ids = pa.array(range(first, first + ROWS), pa.int64())
    pq.write_table(pa.table({"id": ids}), folder / f"f{number}.parquet")


def rewrite(folder: Path) -> None:
    write(folder, FILES - 1, 90_000)


def append(folder: Path) -> None:
    write(folder, FILES, 90_000)


def remove(folder: Path) -> None:
    (folder / f"f{FILES - 1}.parquet").unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(FILES):
        write(folder, number, number * ROWS)
    return folder


def copied(folder: Path, change: Callable[[Path], None], **options: Any) -> list[Failed]:
    """Return the failures of a copy whose files change after the first partition."""
    failed = []
    spec = CopySpec(
        source=f"file://{folder}/", target=f"duckdb:///{folder.parent}/t.duckdb",
        target_table="main.t", mode="recreate", degree=1, **options,
    )  # fmt: skip
    with contextlib.closing(copy(spec)) as events:
        for event in events:
            if isinstance(event, Committed):
                change(folder)
                change = lambda _: None  # noqa: E731 - once
            elif isinstance(event, Failed):
                failed.append(event)
    return failed


def ids(folder: Path) -> list[int]:
    with duckdb.connect(f"{folder.parent}/t.duckdb", read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id").fetchall()]


@pytest.mark.parametrize("way", WAYS)
def test_a_new_file_is_not_in_the_snapshot(folder: Path, way: str) -> None:
    assert copied(folder, append, **WAYS[way]) == []
    assert ids(folder) == list(range(FILES * ROWS))


@pytest.mark.parametrize("change", [rewrite, remove])
@pytest.mark.parametrize("way", WAYS)
def test_a_changed_file_loses_the_snapshot(
    folder: Path, way: str, change: Callable[[Path], None]
) -> None:
    with pytest.raises(SnapshotLost):
        copied(folder, change, **WAYS[way])
    assert set(ids(folder)) < set(range(FILES * ROWS))


@pytest.mark.parametrize("change", [rewrite, remove])
def test_without_a_snapshot_planned_files_must_not_change(
    folder: Path, change: Callable[[Path], None]
) -> None:
    with pytest.raises(PermanentError, match="1 partition failed"):
        copied(folder, change, **WAYS["files"], snapshot="none")
    assert ids(folder) == list(range((FILES - 1) * ROWS))


@pytest.mark.parametrize("change", [rewrite, append, remove])
def test_without_a_snapshot_each_partition_reads_current_files(
    folder: Path, change: Callable[[Path], None]
) -> None:
    assert copied(folder, change, **WAYS["hash"], snapshot="none") == []
    assert len(set(ids(folder))) == len(ids(folder))
