"""Datasets that another program changes during a run: no finished run lacks rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from penstock.backends.parquet.storage.uploads import Uploads
from penstock.errors import TargetChanged

from ...control_calls import check_target
from ...covering import each_value
from .parquet_datasets import Dataset, Run, numbered


def first_half(dataset: Dataset, mode: str) -> tuple[Run, str]:
    """Run until one partition is committed, and return its file."""
    run = dataset.create("r1", mode)
    run.copy("p0001", numbered(0, 10))
    (path,) = dataset.data()
    return run, path


def check(dataset: Dataset, run_id: str) -> None:
    with closing(dataset.target()) as target:
        check_target(target.control, run_id)


CHANGES: dict[str, Callable[[Uploads, str], None]] = {
    "removed": lambda uploads, path: uploads.remove([path]),
    "replaced": lambda uploads, path: uploads.put(path, b"another file"),
}


@pytest.mark.parametrize(("mode", "change"), each_value(["append", "truncate", "replace"], CHANGES))
def test_a_changed_file_fails_the_run(dataset: Dataset, mode: str, change: str) -> None:
    run, path = first_half(dataset, mode)
    check(dataset, "r1")
    with closing(dataset.target()) as target:
        CHANGES[change](target._storage.uploads, path)
    with pytest.raises(TargetChanged, match=f"such as {path}.* by another program, since run r1"):
        check(dataset, "r1")
    run.copy("p0002", numbered(10, 10))
    with pytest.raises(TargetChanged, match="start a new run"):
        run.finish()


@pytest.mark.parametrize(
    ("mine", "theirs"),
    each_value(["append", "truncate", "recreate"], ["truncate", "recreate", "replace", "swap"]),
)
def test_another_run_replaces_the_dataset(dataset: Dataset, mine: str, theirs: str) -> None:
    """The failed run leaves no file in the folder, where readers would count its rows."""
    run, _ = first_half(dataset, mine)
    with run.attempt("p0002") as attempt:
        assert attempt.begin()
        attempt.write(numbered(10, 10))
        other = dataset.create("r2", theirs)
        for index, partition_id in enumerate(("p0001", "p0002")):
            other.copy(partition_id, numbered(100 + index * 10, 10))
        other.finish()
        with pytest.raises(Exception, match="was written by another process since"):
            attempt.commit(attempt.end())
    with pytest.raises(TargetChanged, match="by run r2, since run r1 began to load"):
        run.copy("p0002", numbered(10, 10), number=2)
    with pytest.raises(TargetChanged, match="by run r2"):
        check(dataset, "r1")
    with pytest.raises(TargetChanged, match="by run r2"):
        run.finish()
    assert dataset.ids() == list(range(100, 120))
    assert dataset.stray() == []


def test_a_finished_run_stays_done(dataset: Dataset) -> None:
    dataset.load("r1", "truncate")
    dataset.load("r2", "truncate", rows=1)
    check(dataset, "r1")
