"""Two processes use one dataset: one stops in the middle of a step, and the other continues."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from penstock import TransientError
from penstock.backends.api.execution.control import NewRun, RunRow
from penstock.backends.parquet.storage.storage import Storage
from penstock.errors import TargetChanged
from penstock.model.plans import Step

from ...control_calls import prepare
from .parquet_datasets import STATE, TABLE, hooks_of, numbered

if TYPE_CHECKING:
    from .parquet_datasets import Dataset, Run

RECORDS = "penstock.backends.roll_forward.records:Records"


def before_write(storage: Storage, name: str, call: Callable[[], object]) -> None:
    """Run a function, as another process, just before a document is first written."""
    documents: Any = storage.documents
    pending = [call]

    def after(real: Callable[..., bool]) -> Callable[..., bool]:
        def writing(path: str, *arguments: Any) -> bool:
            if path.endswith(name) and pending:
                pending.pop()()
            return real(path, *arguments)

        return writing

    documents.create, documents.replace = after(documents.create), after(documents.replace)


def both_copied(dataset: Dataset, run_id: str, mode: str = "append", first: int = 0) -> Run:
    run = dataset.create(run_id, mode)
    run.copy("p0001", numbered(first, 10))
    run.copy("p0002", numbered(first + 10, 10))
    return run


def forget(dataset: Dataset, run_id: str) -> None:
    with closing(dataset.target()) as target:
        target.control.recopies.forget(run_id, ["p0001"], "again", rows_of=TABLE, patience=0)


def test_a_run_ends_before_its_files_are_removed(dataset: Dataset) -> None:
    """The run that replaces everything was killed before it removed the replaced files."""
    late = both_copied(dataset, "late")
    run = both_copied(dataset, "r2", "replace", 100)
    with closing(dataset.target()) as target:
        target.control.steps.finish("r2", run.plan.load.after[0])
    with pytest.raises(TargetChanged, match="by run r2, since run late began to load"):
        late.finish()
    run.finish()
    assert dataset.ids() == list(range(100, 120))
    assert dataset.stray() == []


def test_a_run_ends_after_another_failed_to_replace_its_files(dataset: Dataset) -> None:
    """Two processes end the other run: one saw the files and was killed, the second had listed the
    folder before they existed.
    """
    late = dataset.create("late")
    run = both_copied(dataset, "r2", "replace", 100)
    manifest, clean = run.plan.load.after

    def overtaken() -> None:
        late.copy("p0001", numbered(0, 10))
        late.copy("p0002", numbered(10, 10))
        with closing(dataset.target()) as killed:
            before_write(killed._storage, "manifest.json", _die)
            with pytest.raises(KeyboardInterrupt):
                killed.control.steps.finish("r2", manifest)

    with closing(dataset.target()) as target:
        before_write(target._storage, "manifest.json", overtaken)
        target.control.steps.finish("r2", manifest)
        uploads: Any = target._storage.uploads
        real = uploads.remove

        def remove(paths: list[str]) -> None:
            late.finish()
            real(paths)

        uploads.remove = remove
        target.control.steps.finish("r2", clean)
    assert dataset.ids() == [*range(20), *range(100, 120)]
    assert dataset.stray() == []


def test_a_run_ends_while_the_dataset_is_emptied(dataset: Dataset) -> None:
    late = both_copied(dataset, "late")
    with closing(dataset.target()) as target:
        spec, plan = dataset.plan(target, "r2", "truncate")
        target.control.runs.create([NewRun("r2", spec.stored(), plan, STATE, None)])
        uploads: Any = target._storage.uploads
        real = uploads.remove

        def remove(paths: list[str]) -> None:
            with pytest.raises(TargetChanged, match="by run r2, since run late began to load"):
                late.finish()
            real(paths)

        uploads.remove = remove
        prepare(target.control, "r2", plan.load)
    assert dataset.data() == []
    assert dataset.stray() == []


def test_the_dataset_is_emptied_while_a_run_ends(dataset: Dataset) -> None:
    """The manifest then equals its state before the run's files were removed."""
    late = both_copied(dataset, "late")
    with closing(dataset.target()) as stopped:
        before_write(stopped._storage, "manifest.json", lambda: dataset.create("r2", "truncate"))
        with pytest.raises(TargetChanged, match="by run r2, since run late began to load"):
            stopped.control.steps.finish("late", late.plan.load.after[0])
    assert dataset.data() == []
    assert dataset.stray() == []


def test_a_late_process_does_not_empty_the_dataset(dataset: Dataset) -> None:
    """A process that stopped before it emptied the dataset wakes up after the run is done."""
    dataset.load("r1")
    with closing(dataset.target()) as stopped:
        spec, plan = dataset.plan(stopped, "r2", "truncate")
        stopped.control.runs.create([NewRun("r2", spec.stored(), plan, STATE, None)])
        hooks = hooks_of(stopped)
        real = hooks.do

        def do(run: RunRow, step: Step) -> None:
            with closing(dataset.target()) as target:
                assert prepare(target.control, "r2", plan.load)
            dataset.load("r3", rows=2)
            real(run, step)

        hooks.do = do  # type: ignore[method-assign]
        assert not prepare(stopped.control, "r2", plan.load)
    assert dataset.ids() == list(range(4))
    assert dataset.stray() == []


def test_another_process_publishes_a_commit_whose_answer_was_lost(dataset: Dataset) -> None:
    """The client repeats the request, and finds its own record, which has changed since."""
    run = dataset.create("r1")
    with run.attempt("p0001") as attempt:
        assert attempt.begin()
        attempt.write(numbered(0, 10))
        loaded = attempt.end()
        documents: Any = attempt.writer._records._documents
        real = documents.create

        def create(name: str, content: bytes) -> bool:
            assert real(name, content)
            assert run.committed() == {"p0001": 10}
            return bool(real(name, content))

        documents.create = create
        attempt.commit(loaded)
    assert dataset.ids() == list(range(10))


def test_another_process_continues_a_new_run_whose_answer_was_lost(dataset: Dataset) -> None:
    with closing(dataset.target()) as target, closing(dataset.target()) as other:
        spec, plan = dataset.plan(target, "r1")
        documents: Any = target._storage.documents
        real = documents.create

        def create(name: str, content: bytes) -> bool:
            created = real(name, content)
            if name.endswith("run.json"):
                assert prepare(other.control, "r1", plan.load)
                return bool(real(name, content))
            return bool(created)

        documents.create = create
        assert target.control.runs.create([NewRun("r1", spec.stored(), plan, STATE, None)])
        assert target.control.runs.find("r1") is not None


@pytest.mark.parametrize("stopped_before", ["manifest.json", "run.json"])
@pytest.mark.parametrize("done", [False, True], ids=["asked for", "done"])
def test_a_partition_is_copied_again_while_another_process_ends_the_run(
    dataset: Dataset, stopped_before: str, done: bool
) -> None:
    run = both_copied(dataset, "r1")

    def copied_again() -> None:
        forget(dataset, "r1")
        if done:
            run.copy("p0001", numbered(50, 10), number=2)
            run.finish()

    with closing(dataset.target()) as stopped:
        before_write(stopped._storage, stopped_before, copied_again)
        with suppress(TransientError):
            stopped.control.steps.finish("r1", run.plan.load.after[0])
    run.copy("p0001", numbered(50, 10), number=2)
    run.finish()
    assert dataset.ids() == [*range(10, 20), *range(50, 60)]
    assert dataset.stray() == []


def test_a_kill_during_a_request_to_copy_again(dataset: Dataset) -> None:
    """The run has recorded the request, and the partition's record is not withdrawn yet; another
    process ends the run.
    """
    run = both_copied(dataset, "r1")
    with closing(dataset.target()) as killed:
        before_write(killed._storage, "p0001.json", _die)
        with pytest.raises(KeyboardInterrupt):
            killed.control.recopies.forget("r1", ["p0001"], "again", rows_of=TABLE, patience=0)
    with pytest.raises(TransientError, match="some that are not"):
        run.finish()
    forget(dataset, "r1")
    run.copy("p0001", numbered(50, 10), number=2)
    run.finish()
    assert dataset.ids() == [*range(10, 20), *range(50, 60)]
    assert dataset.stray() == []


def _die() -> None:
    raise KeyboardInterrupt


def test_a_run_starts_over_while_another_process_ends_it(dataset: Dataset) -> None:
    run = both_copied(dataset, "r1", "truncate")

    def started_over() -> None:
        with closing(dataset.target()) as target:
            target.control.generations.start_over("r1", 1, run.plan.load, STATE, None)
        for index, partition_id in enumerate(("p0001", "p0002")):
            run.copy(partition_id, numbered(50 + index * 10, 10), generation=2)
        run.finish()

    with closing(dataset.target()) as stopped:
        before_write(stopped._storage, "manifest.json", started_over)
        with pytest.raises(TransientError, match="has restarted run"):
            stopped.control.steps.finish("r1", run.plan.load.after[0])
    assert dataset.ids() == list(range(50, 70))
    assert dataset.stray() == []


def test_a_commit_while_another_process_removes_leftovers(dataset: Dataset) -> None:
    """The files of a commit record are not leftovers, even before they are published."""
    run = both_copied(dataset, "r1")
    with closing(dataset.target()) as stopped:
        manifest, clean = run.plan.load.after
        stopped.control.steps.finish("r1", manifest)
        uploads: Any = stopped._storage.uploads
        real = uploads.pending

        def pending(run_id: str) -> Any:
            forget(dataset, "r1")
            run.killed("p0001", 50, 10, f"{RECORDS}.publish")
            return real(run_id)

        uploads.pending = pending
        with pytest.raises(TransientError, match="copying partitions of it again"):
            stopped.control.steps.finish("r1", clean)
    assert run.committed() == {"p0001": 10, "p0002": 10}
    run.finish()
    assert dataset.ids() == [*range(10, 20), *range(50, 60)]
    assert dataset.stray() == []


@pytest.mark.parametrize("dataset", ["local"], indirect=True)
@pytest.mark.parametrize("call", ["open", "makedirs", "rename"])
def test_another_process_removes_an_empty_folder_in_use(
    dataset: Dataset, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run's last step removes empty folders of uploads and of partition values."""
    run = dataset.create("r1", partition_by=("day",))
    pending = [call, call]
    module: Any = __import__("builtins") if call == "open" else os
    real = getattr(module, call)

    def removed(*arguments: Any, **kwargs: Any) -> Any:
        path = str(arguments[-1] if call == "rename" else arguments[0])
        mine = "day=" in path or ("/uploads/" in path and call != "rename")
        if mine and pending and (call != "open" or arguments[1:] == ("xb",)):
            pending.pop()
            raise FileNotFoundError(2, "No such file or directory")
        return real(*arguments, **kwargs)

    monkeypatch.setattr(module, call, removed)
    run.copy("p0001", numbered(0, 10))
    run.copy("p0002", numbered(10, 10))
    assert not pending
    run.finish()
    assert dataset.ids() == list(range(20))
    assert dataset.stray() == []
