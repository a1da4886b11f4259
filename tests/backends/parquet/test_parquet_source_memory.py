"""A worker's memory is bounded, however large row groups, files and values are.

The memory of an idle process and the speed of either end differ between machines. So the tests
compare a large read with a small one, after the consumer of the rows has paused, when all readers
have read ahead as far as they can.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MB = 1 << 20
# Prints rows and the peak of the process's memory in bytes.
PROGRAM = """
import sys, time
from penstock.model.extents import Files, HashBucket, Key, KeyRange, Bound, Whole
from tests.backends.parquet.parquet_stores import Store, reader, waiter, all_files
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair
from pathlib import Path
store, what, *columns = Store(Path(sys.argv[1])), *sys.argv[2:]
files = all_files(store)
extent = {"files": files, "where": files, "hash": HashBucket(Key("id"), 2, 0),
          "range": KeyRange(Key("id"), Bound("int8", "10"), None)}[what]
reading = reader(store.url(), [ColumnPair(name, name) for name in columns],
                 where="id % 3 <> 0" if what == "where" else None)
rows = 0
for number, (_, count, _) in enumerate(reading.read(Partition("p", extent), waiter())):
    rows += count
    if number in (0, 4, 16):
        time.sleep(1)
# Not ru_maxrss, which begins with what the parent had.
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(rows, int(line.split()[1]) * 1024)
"""


def grown(folder: Path, what: str, columns: list[str]) -> tuple[int, int]:
    """Return the rows, and the additional memory in bytes compared with reading a few of them."""
    few = folder / "few"
    if not few.exists():
        few.mkdir()
        ids = next(pq.ParquetFile(folder / "many" / "a.parquet").iter_batches(1))["id"]
        texts = dict.fromkeys(columns[1:], pa.array(["a"]))
        pq.write_table(pa.table({"id": ids, **texts}), few / "a.parquet")
    _, least = peak(few, what, columns)
    rows, most = peak(folder / "many", what, columns)
    return rows, most - least


def peak(folder: Path, what: str, columns: list[str]) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), what, *columns],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    rows, size = map(int, done.stdout.split())
    return rows, size


@pytest.fixture(scope="module")
def one_row_group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 1.3 GB of values in one row group."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "many").mkdir()
    count = 4_000_000
    ids = pa.array(range(count), pa.int64())
    texts = pa.array([f"{n * 2654435761 % 2**32:032d}" for n in range(1000)]).take(
        pa.array([n % 1000 for n in range(count)])
    )
    names = [f"t{n}" for n in range(8)]
    table = pa.table({"id": ids, **dict.fromkeys(names, texts)})
    pq.write_table(table, folder / "many" / "a.parquet", row_group_size=count, use_dictionary=False)
    return folder


@pytest.mark.parametrize("what", ["files", "where", "hash", "range"])
def test_memory_for_a_large_row_group(one_row_group: Path, what: str) -> None:
    rows, size = grown(one_row_group, what, ["id", *(f"t{n}" for n in range(8))])
    assert rows > 1_000_000
    assert size < 1_300 * MB // 6


@pytest.mark.parametrize("what", ["files", "where"])
def test_memory_for_repeated_values(tmp_path: Path, what: str) -> None:
    """Dictionary-encoded values are small in the file, and large once decoded."""
    values = pa.array([chr(65 + n) * 10_000 for n in range(20)])
    count = 100_000
    indices = pa.array([n % 20 for n in range(count)], pa.int32())
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "text": pa.DictionaryArray.from_arrays(indices, values),
        }
    )
    (tmp_path / "many").mkdir()
    pq.write_table(table, tmp_path / "many" / "a.parquet", store_schema=False)
    rows, size = grown(tmp_path, what, ["id", "text"])
    assert rows > 60_000
    assert size < 1_000 * MB // 6


# If DuckDB evaluates a condition, it gathers large rows from many batches into one of up to 2048
# rows. So the bound applies only to conditions that the scan of the files evaluates.
@pytest.mark.parametrize("what", ["files", "range"])
def test_memory_for_large_values(tmp_path: Path, what: str) -> None:
    texts = [f"{n}" * (5_000_000 // len(f"{n}")) for n in range(60)]
    table = pa.table({"id": pa.array(range(60), pa.int64()), "text": texts})
    # A page is decompressed at once, so it must not contain all values.
    options = {"use_dictionary": False, "compression": "none", "write_batch_size": 1}
    (tmp_path / "many").mkdir()
    pq.write_table(table, tmp_path / "many" / "a.parquet", **options)
    rows, size = grown(tmp_path, what, ["id", "text"])
    assert rows >= 40
    assert size < 300 * MB // 2
