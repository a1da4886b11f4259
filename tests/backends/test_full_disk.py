"""A full file system: the message says so, nothing is left incomplete, and a resumed run completes.

The file system is a small tmpfs, and mounting it requires privileges (root in a sandbox).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

import penstock
from penstock import CopySpec, Finished
from penstock.errors import PenstockError, PermanentError

ROWS = 40_000
Resize = Callable[[int], None]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Resize]]:
    """A folder on its own file system, and a function that resizes it, in KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        why = mounted.stderr.strip()
    except FileNotFoundError:
        why = "there is no program mount (Debian's package mount brings it)"
    if why:
        pytest.skip(f"no file system can be mounted here: {why}")

    def resize(kib: int) -> None:
        options = ["mount", "-o", f"remount,size={kib}k", str(place)]
        subprocess.run(options, check=True, capture_output=True)

    yield place, resize
    subprocess.run(["umount", "--lazy", str(place)], check=True)


# Of the 2.7 MB needed: only folders, run records without rows, or part of the partitions.
@pytest.mark.parametrize("kib", [8, 120, 1_000])
@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_each_row_arrives_once_when_there_is_room_again(
    tmp_path: Path, disk: tuple[Path, Resize], kind: str, kib: int
) -> None:
    place, resize = disk
    source = tmp_path / "source.parquet"
    duckdb.sql(
        f"COPY (SELECT range AS id, md5(range::text) || md5((range * 3)::text) AS pad"
        f" FROM range({ROWS})) TO '{source}'"
    )
    target, table = f"file://{place}/lake", None
    if kind == "duckdb":
        target, table = f"duckdb:///{place}/x.duckdb", "main.t"
    spec = CopySpec(
        source=f"file://{source}", target=target, target_table=table, mode="recreate",
        strategy="range", key="id", partitions=4, degree=2, run_id="full", attempts=2,
        verify="checksums",
    )  # fmt: skip
    resize(kib)
    messages = []
    with pytest.raises(PermanentError) as refused:
        messages += [event.to_line() for event in penstock.copy(spec)]
    details = f"{refused.value.message} {messages}"
    assert "No space left" in details or "ailed" in details
    if kind == "parquet":
        # Readers find complete files.
        for path in (place / "lake").glob("*.parquet"):
            duckdb.execute(f"SELECT count(*) FROM '{path}'").fetchall()
    resize(64 << 10)
    with suppress(PenstockError):
        [*penstock.copy(spec)]
    last = [*penstock.copy(spec)][-1]
    assert isinstance(last, Finished)
    assert last.status == "done"
    if kind == "parquet":
        found = duckdb.execute(f"SELECT count(*), count(DISTINCT id) FROM '{place}/lake/*.parquet'")
        assert found.fetchall() == [(ROWS, ROWS)]
        assert not [*place.glob("lake/_penstock/uploads/*/*")]
    else:
        with duckdb.connect(f"{place}/x.duckdb", read_only=True) as database:
            query = "SELECT count(*), count(DISTINCT id) FROM t"
            assert database.execute(query).fetchall() == [(ROWS, ROWS)]
        assert not (place / "x.duckdb.penstock").exists()
