"""Several processes load one dataset in many interleavings; each row is there once in the end.

A seed determines which processes use the dataset, in which order, and where one is killed.
Afterwards every run is resumed, and the dataset is checked without Penstock.

By default a few seeds are tested. To test many more, or to repeat some (500 to 502)::

    PENSTOCK_SCHEDULES=5000 pytest --timeout=0 tests/backends/parquet/test_parquet_schedules.py
    PENSTOCK_SCHEDULES=500:503 pytest -k recopied tests/backends/parquet/test_parquet_schedules.py
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.backends.api.execution.control import NewRun
from penstock.errors import PermanentError, PlanningError, TargetChanged
from penstock.model.extents import Bound, Key, KeyRange
from penstock.model.plans import Partition

from ...control_calls import check_target, prepare
from .. import schedules
from ..schedules import Schedule, again_and_again, seeds
from .parquet_datasets import STATE, TABLE, Dataset, Run, numbered

SEEDS = seeds("50:90")


@dataclass
class Load:
    """A run, and the rows that it copies: the ids from `first` on, 10 in a partition."""

    run: Run
    mode: str
    first: int
    rows: int = 10

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def partitions(self) -> list[str]:
        return [partition.id for partition in self.run.plan.partitions]

    @property
    def ids(self) -> set[int]:
        return set(range(self.first, self.first + self.rows * len(self.partitions)))

    def copy(self, partition_id: str, generation: int) -> None:
        first = self.first + self.rows * self.partitions.index(partition_id)
        self.run.copy(partition_id, numbered(first, self.rows), generation=generation)

    def execute(
        self,
        only: Sequence[str] = (),
        *,
        request: str = "",
        restart: bool = False,
        finish: bool = True,
    ) -> str:
        """Perform one execution as the engine and its workers do.

        Args:
            only: the partitions to copy; empty for all.
            request: the request by which they are copied again.
            restart: whether the run starts over from another state of the source.
        """
        with closing(self.run.dataset.target()) as target:
            control, plan = target.control, self.run.plan
            row = control.runs.find(self.id)
            assert row is not None
            generation = row.generation
            if restart and len(control.commits.of([self.id])[self.id]) < len(self.partitions):
                generation = control.generations.start_over(
                    self.id, generation, plan.load, STATE, None
                )
            if request:
                control.recopies.forget(self.id, only, request, rows_of=TABLE, patience=0)
            if not prepare(control, self.id, plan.load):
                check_target(control, self.id)
            done = {record.partition_id for record in control.commits.of([self.id])[self.id]}
            for partition_id in only or self.partitions:
                if partition_id not in done:
                    again_and_again(partial(self.copy, partition_id, generation))
            if len(control.commits.of([self.id])[self.id]) < len(self.partitions):
                return "partial"
            if finish:
                for step in sorted(plan.load.after, key=lambda step: step.rank):
                    again_and_again(partial(control.steps.finish, self.id, step))
                if len(control.steps.done([self.id])[self.id]) < len(plan.load.after):
                    return "partial"
                check_target(control, self.id)
                control.runs.set_statuses({self.id: ("done", [])})
            return "done"


class Trial(schedules.Trial[Load]):
    def __init__(self, dataset: Dataset, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.dataset = dataset
        self.options: dict[str, Any] = {}
        if self.likely(0.4):
            self.options["partition_by"] = ("day",)
        if self.likely(0.3):
            self.options |= {"file_size": 1, "row_group_size": 4}

    def likely(self, chance: float) -> bool:
        return self.chance.random() < chance

    def some(self, *modes: str) -> str:
        return self.chance.choice(modes)

    def load(self, run_id: str, mode: str, first: int, *, rows: int = 10, **options: Any) -> Load:
        """Plan a run without executing it."""
        with closing(self.dataset.target()) as target:
            spec, plan = self.dataset.plan(target, run_id, mode, **self.options, **options)
            assert target.control.runs.create([NewRun(run_id, spec.stored(), plan, STATE, None)])
        load = Load(Run(self.dataset, run_id, spec, plan), mode, first, rows)
        self.loads.append(load)
        return load

    def older(self) -> None:
        """Add older rows, perhaps."""
        if self.likely(0.6):
            assert self.load("old", "append", 9000).execute() == "done"

    def executions(self, load: Load, most: int, restarts: float = 0.0) -> None:
        """Let a random number of processes execute a run, which may already have partitions. Some
        processes restart it.
        """
        if self.likely(0.4):
            load.execute(finish=False)
        for number in range(self.chance.randint(1, most)):
            restart = load.mode != "append" and self.likely(restarts)
            self.schedule.add(f"{load.id}{number}", partial(load.execute, restart=restart))

    def recopies(self, load: Load, most: int) -> None:
        """Request that random partitions be copied again, perhaps by equal requests."""
        for number in range(self.chance.randint(0, most)):
            only = self.chance.choice([["p0001"], ["p0002"], ["p0001", "p0002"]])
            request = self.some("q1", "q2", "q3")
            again = partial(load.execute, only, request=request, finish=self.likely(0.7))
            self.schedule.add(f"{load.id}-again{number}", again)

    def play(self, *, may_be_replaced: bool = False) -> Counter[int]:
        """Play the schedule, resume every run, and count the rows.

        Args:
            may_be_replaced: whether another run may have replaced a run's files.

        Returns:
            The count of each id in the dataset.
        """
        self.perform()
        self.resume_all()
        found = self.listed()
        for load in self.loads:
            ended = self.ended[load.id]
            if ended != "done":
                assert may_be_replaced
                assert isinstance(ended, TargetChanged), ended
            times = {found[each] for each in load.ids}
            assert times in ({0}, {1}, set()), f"run {load.id} is there in part, or twice"
            assert times != {1} or ended == "done", f"run {load.id} is there, and was not done"
        # Readers of the folder see only files of the manifest.
        assert self.dataset.data() == sorted(self.manifest())
        return found

    def manifest(self) -> dict[str, int]:
        """Return the rows in the manifest, by path."""
        text = (self.dataset.root / "_penstock" / "manifest.json").read_text()
        return {entry["path"]: entry["rows"] for entry in json.loads(text)["files"]}

    def listed(self) -> Counter[int]:
        """Return the count of each id in the files of the manifest."""
        found: Counter[int] = Counter()
        for path, rows in self.manifest().items():
            assert path in self.dataset.data(), f"{path} is listed, and gone"
            ids = ids_of(self.dataset.root / path)
            assert len(ids) == rows
            found.update(ids)
        return found


def ids_of(path: Path) -> list[int]:
    found: list[int] = pq.ParquetFile(path).read(columns=["id"])["id"].to_pylist()
    return found


def copied(trial: Trial) -> None:
    """Copy one run, executed by several processes."""
    trial.older()
    load = trial.load("m", trial.some("append", "truncate", "replace"), 0)
    trial.executions(load, 3, restarts=0.35)
    expected_loads = trial.loads if load.mode == "append" else [load]
    assert trial.play() == Counter(each for one in expected_loads for each in one.ids)


def empty(trial: Trial) -> None:
    """Copy a run without rows, and perhaps one with some."""
    trial.older()
    load = trial.load("m", trial.some("append", "truncate", "replace"), 0, rows=0)
    trial.executions(load, 2)
    if len(trial.loads) == 1 and load.mode == "append":
        trial.executions(trial.load("z", "append", 500), 1)
    expected_loads = trial.loads if load.mode == "append" else [load]
    assert trial.play() == Counter(each for one in expected_loads for each in one.ids)


def recopied(trial: Trial) -> None:
    """Copy one run whose partitions are copied again."""
    trial.older()
    load = trial.load("m", trial.some("append", "truncate", "replace"), 0)
    if trial.likely(0.8):
        load.execute(finish=trial.likely(0.4))
    trial.recopies(load, 3)
    trial.executions(load, 2)
    expected_loads = trial.loads if load.mode == "append" else [load]
    assert trial.play() == Counter(each for one in expected_loads for each in one.ids)


def usurped(trial: Trial) -> None:
    """Play two runs, one of which replaces everything."""
    trial.older()
    mine = trial.load("a", trial.some("append", "replace"), 0)
    theirs = trial.load("b", trial.some("truncate", "replace"), 100)
    for load in (mine, theirs):
        trial.executions(load, 2, restarts=0.2)
    trial.recopies(mine, 1)
    assert trial.play(may_be_replaced=True)


def paired(trial: Trial) -> None:
    """Play two runs in any two modes. A run that empties or replaces the dataset owns it in the
    end, except for rows added afterwards.
    """
    modes = ("append", "truncate", "recreate", "replace", "swap", "a day")
    pair = [trial.some(*modes), trial.some(*modes)]
    trial.older()
    loads = []
    for run_id, mode, first in zip("ab", pair, (0, 100), strict=True):
        where = "day = 1" if mode == "a day" else None
        try:
            loads.append(trial.load(run_id, "replace" if where else mode, first, where=where))
        except PlanningError:  # the dataset has rows of a run that selected everything
            assert where
            assert len(trial.loads) > len(loads)
    if not loads:
        return
    for load in loads:
        trial.executions(load, 2, restarts=0.2)
    found = trial.play(may_be_replaced=True)
    found_loads = [load for load in loads if found.keys() & load.ids]
    alone = [load for load in loads if load.mode != "append"]
    if len(alone) == 2:
        assert len(found_loads) == 1
    elif "a day" not in pair:
        assert set(map(id, alone or loads)) <= set(map(id, found_loads))
    if any(trial.ended[load.id] == "done" and load.run.spec.where is None for load in alone):
        assert not found[9000]


def followed(trial: Trial) -> None:
    """Play a run that replaces everything, and one that appends to it afterwards."""
    first = trial.load("a", trial.some("truncate", "replace"), 0)
    second = trial.load("b", "append", 100)
    trial.schedule.add("a0", first.execute)
    trial.schedule.add("both", lambda: (first.execute(), second.execute()))
    found = trial.play(may_be_replaced=True)
    if trial.schedule.actors[-1].result == ("done", "done"):
        assert found == Counter(first.ids | second.ids)


def selected(trial: Trial) -> None:
    """Play runs that replace rows of the same selection as their own."""
    runs = {"a": ("day = 1", 0), "b": ("day = 2", 100), "c": ("day = 1", 200)}
    for run_id, (where, first) in runs.items():
        trial.executions(trial.load(run_id, "replace", first, where=where), 2)
    trial.recopies(trial.loads[0], 1)
    found = trial.play(may_be_replaced=True)
    assert trial.ended["b"] == "done"
    assert found[100] == 1
    either = "done" in (trial.ended["a"], trial.ended["c"])
    assert found[0] + found[200] == either


def in_series(trial: Trial) -> None:
    """Play runs of a series that share two of four partitions."""

    def partitions_of(*numbers: int) -> list[Partition]:
        extents = {
            n: KeyRange(Key("id"), Bound("int8", str(n)), Bound("int8", str(n + 1)))
            for n in numbers
        }
        return [Partition(f"k{n}", extent) for n, extent in extents.items()]

    for run_id, first, numbers in (("a", 0, (1, 2, 3)), ("b", 10, (2, 3, 4))):
        load = trial.load(
            run_id,
            "append",
            first,
            partitions=partitions_of(*numbers),
            chooses_partitions=True,
            series="s",
        )
        for number in range(trial.chance.randint(1, 2)):
            only = [trial.some(*load.partitions)] if trial.likely(0.5) else []
            one = partial(load.execute, only, finish=False)
            trial.schedule.add(f"{run_id}{number}", one)
    trial.perform()
    for load in trial.loads:
        for partition_id in load.partitions:
            with suppress(PermanentError):  # the other run has loaded it
                load.execute([partition_id], finish=False)
    with closing(trial.dataset.target()) as target:
        assert sorted(target.control.commits.in_series("s")) == ["k1", "k2", "k3", "k4"]
    found = Counter(
        each for path in trial.dataset.data() for each in ids_of(trial.dataset.root / path)
    )
    assert found == Counter(range(40))


SCENARIOS = (copied, empty, recopied, usurped, paired, followed, selected, in_series)


def tried(scenario: Callable[[Trial], None], seed: int, root: Path) -> list[str]:
    def trial(monkeypatch: pytest.MonkeyPatch, schedule: Schedule) -> Trial:
        schedule.patch(monkeypatch)
        return Trial(Dataset(f"file://{root}", root=root), schedule)

    return schedules.tried(scenario, seed, root, trial)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_each_row_is_there_once(scenario: Callable[[Trial], None], tmp_path: Path) -> None:
    for seed in SEEDS:
        tried(scenario, seed, tmp_path / str(seed))


def test_a_seed_reproduces_its_schedule(tmp_path: Path) -> None:
    for scenario in SCENARIOS:
        assert tried(scenario, 1, tmp_path / "one") == tried(scenario, 1, tmp_path / "two")
