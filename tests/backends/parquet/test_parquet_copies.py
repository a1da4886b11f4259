"""Complete copies into Parquet files, with real workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import CopySpec, PlanningError
from penstock.events import Committed, Event, Finished, Opened
from penstock.spec.modes import ModeName

from .parquet_datasets import numbered

if TYPE_CHECKING:
    from .parquet_datasets import Dataset

FILES, ROWS = 4, 1000


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Create a source: some files with numbered rows."""
    folder = tmp_path / "source"
    folder.mkdir()
    for index in range(FILES):
        table = pa.Table.from_batches([numbered(index * ROWS, ROWS)])
        pq.write_table(table, folder / f"{index}.parquet", row_group_size=300)
    return folder


def copied(
    dataset: Dataset, source: Path | str, mode: ModeName = "append", **options: Any
) -> Finished:
    spec = CopySpec(source=str(source), target=dataset.url, mode=mode, degree=2, **options)
    *_, finished = penstock.copy(spec)
    assert isinstance(finished, Finished)
    return finished


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "files", "partitions": 3},
        {"strategy": "values", "key": "day", "partition_by": ("day",)},
    ],
    ids=lambda options: options["strategy"],
)
def test_every_row_arrives(dataset: Dataset, files: Path, options: dict[str, Any]) -> None:
    finished = copied(dataset, f"{files}/*.parquet", verify="checksums", **options)
    assert finished.status == "done"
    assert dataset.ids() == list(range(FILES * ROWS))
    assert dataset.stray() == []


def test_a_copy_survives_a_killed_worker(dataset: Dataset, files: Path) -> None:
    spec = CopySpec(
        source=f"{files}/*.parquet",
        target=dataset.url,
        strategy="files",
        partitions=4,
        degree=2,
        run_id="killed",
    )
    killed: list[int] = []
    events: list[Event] = []
    for event in penstock.copy(spec):
        events.append(event)
        if isinstance(event, Opened) and len(killed) < 2:
            os.kill(event.pid, signal.SIGKILL)
            killed.append(event.pid)
    assert len(killed) == 2
    assert len([event for event in events if isinstance(event, Committed)]) == FILES
    assert dataset.ids() == list(range(FILES * ROWS))
    assert dataset.stray() == []


def test_a_run_continues(dataset: Dataset, files: Path) -> None:
    spec = CopySpec(
        source=f"{files}/*.parquet",
        target=dataset.url,
        strategy="files",
        partitions=4,
        degree=1,
        mode="replace",
        run_id="left",
    )
    for event in (events := penstock.copy(spec)):
        if isinstance(event, Committed):
            break
    events.close()
    *_, finished = penstock.copy(spec)
    assert isinstance(finished, Finished)
    assert (finished.status, finished.attempts) == ("done", FILES - 1)
    assert dataset.ids() == list(range(FILES * ROWS))
    assert dataset.stray() == []
    found = penstock.status("left", target=dataset.url)
    assert found.run.status == "done"
    assert sorted(path for record in found.committed for path in record.files) == dataset.data()


def test_a_partition_is_copied_again(dataset: Dataset, files: Path) -> None:
    copied(dataset, f"{files}/*.parquet", strategy="files", partitions=4, run_id="r")
    source, target = f"{files}/*.parquet", dataset.url
    before = dataset.data()
    for _ in range(2):
        *_, finished = penstock.resume(
            "r", only=["p0002"], recopy="again", source=source, target=target
        )
        assert isinstance(finished, Finished)
        assert finished.status == "done"
    assert len(set(before) - set(dataset.data())) == 1
    assert dataset.ids() == list(range(FILES * ROWS))
    assert dataset.stray() == []
    assert penstock.verify("r", checksum=True, source=source, target=target).ok


def test_differences_are_found(dataset: Dataset, files: Path) -> None:
    copied(dataset, f"{files}/*.parquet", "replace", strategy="files", partitions=4, run_id="r")
    source, target = f"{files}/*.parquet", dataset.url
    assert penstock.verify("r", checksum=True, source=source, target=target).ok
    name = dataset.data()[1]
    path = f"{dataset.path}/{name}"
    table = pq.read_table(path, filesystem=dataset.file_system, partitioning=None)
    first = table["id"][0].as_py()
    names = ["changed", *table["name"].to_pylist()[1:-1]]
    changed = table.slice(0, len(table) - 1).set_column(1, "name", pa.array(names))
    pq.write_table(changed, path, filesystem=dataset.file_system)
    found = penstock.verify("r", checksum=True, show_rows=True, source=source, target=target)
    (wrong,) = found.wrong
    assert wrong.note == f"the target has {ROWS - 1:,} rows, but {ROWS:,} were committed"
    assert len(wrong.rows) >= 2
    assert any(str(first) in row.key for row in wrong.rows)


def test_an_existing_dataset_keeps_its_columns(dataset: Dataset, files: Path) -> None:
    copied(
        dataset,
        f"{files}/*.parquet",
        strategy="files",
        types=("id=int32", "name=string", "day=string"),
    )
    schema = dataset.rows().schema
    assert [str(field.type) for field in schema] == ["int32", "string", "string"]
    copied(dataset, f"{files}/*.parquet", "append", strategy="files")
    assert dataset.rows().schema == schema
    assert dataset.ids() == sorted([*range(FILES * ROWS)] * 2)
    assert dataset.stray() == []
    copied(dataset, f"{files}/*.parquet", "append", strategy="files", columns=("id",))
    assert dataset.rows()["name"].null_count >= FILES * ROWS
    with pytest.raises(PlanningError, match="--types"):
        copied(dataset, f"{files}/*.parquet", types=("id=int64",))
    other = files.parent / "other"
    other.mkdir()
    pq.write_table(pa.table({"id": ["x"], "extra": [1]}), other / "1.parquet")
    with pytest.raises(PlanningError) as refused:
        copied(dataset, f"{other}/*.parquet")
    for line in ("extra", "the target has no such column", "the source has no such column"):
        assert line in refused.value.message


def test_a_value_that_does_not_fit_is_named(dataset: Dataset, files: Path) -> None:
    with pytest.raises(penstock.PenstockError):
        copied(dataset, f"{files}/*.parquet", strategy="files", types=("id=int8",), run_id="r")
    found = penstock.status("r", target=dataset.url)
    assert found.run.status == "failed"
    messages = [failure["error"]["message"] for failure in found.run.failures]
    assert any("column 'id', row 129: expected a value of int8" in words for words in messages)
    assert dataset.data() == []
    assert dataset.pending_uploads() == []


def test_the_source_folder_cannot_be_the_target(dataset: Dataset, files: Path) -> None:
    copied(dataset, f"{files}/*.parquet", strategy="files")
    with pytest.raises(PlanningError, match="source and target are in the same file or folder"):
        copied(dataset, dataset.url, "replace")


def test_written_files_can_be_read(dataset: Dataset, files: Path, tmp_path: Path) -> None:
    """Files that Penstock wrote are a source like any other."""
    copied(dataset, f"{files}/*.parquet", strategy="files", partition_by=("day",))
    target = f"file://{tmp_path}/again"
    spec = CopySpec(source=dataset.url, target=target, strategy="files", verify="checksums")
    *_, finished = penstock.copy(spec)
    assert isinstance(finished, Finished)
    assert finished.rows == FILES * ROWS
    assert sorted(pq.read_table(tmp_path / "again")["id"].to_pylist()) == list(range(FILES * ROWS))
