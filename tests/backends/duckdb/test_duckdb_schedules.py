"""Several processes load one DuckDB file in many interleavings; no finished run has wrong rows.

Like `test_parquet_schedules`, with the same variable to test more seeds::

    PENSTOCK_SCHEDULES=500 pytest --timeout=0 tests/backends/duckdb/test_duckdb_schedules.py
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from penstock.errors import TargetChanged
from penstock.model.extents import KeyRange
from penstock.spec.modes import mode_names

from ...control_calls import check_target, prepare
from .. import schedules
from ..schedules import Schedule, again_and_again, seeds
from .duckdb_tables import STATE, Database, Run, cut

SEEDS = seeds("20:26")
IDS = range(20)
"""The ids that every run selects."""
OLDER = range(1000, 1010)


@dataclass
class Load:
    """A run, and the actions of its executions."""

    run: Run
    mode: str

    @property
    def id(self) -> str:
        return self.run.id

    def copy(self, partition_id: str, generation: int) -> None:
        extent = self.run.extent(partition_id)
        assert isinstance(extent, KeyRange)
        lower = int(extent.lower.text) if extent.lower else IDS[0]
        upper = int(extent.upper.text) if extent.upper else IDS[-1] + 1
        self.run.copy(partition_id, range(lower, upper), generation=generation)

    def execute(self, *, restart: bool = False, finish: bool = True) -> str:
        """Execute a run as the engine and its workers do."""
        plan = self.run.plan
        with closing(self.run.database.target()) as target:
            control = target.control
            row = control.runs.find(self.id)
            assert row is not None
            if row.status == "done":
                return "done"
            generation = row.generation
            if restart and len(control.commits.of([self.id])[self.id]) < len(plan.partitions):
                generation = control.generations.start_over(
                    self.id, generation, plan.load, STATE, None
                )
            if not prepare(control, self.id, plan.load):
                check_target(control, self.id)
            done = {record.partition_id for record in control.commits.of([self.id])[self.id]}
            for partition in plan.partitions:
                if partition.id not in done:
                    again_and_again(partial(self.copy, partition.id, generation))
            if len(control.commits.of([self.id])[self.id]) < len(plan.partitions) or not finish:
                return "partial"
            for step in plan.load.after:
                again_and_again(partial(control.steps.finish, self.id, step))
            check_target(control, self.id)
            control.runs.set_statuses({self.id: ("done", [])})
            return "done"


class Trial(schedules.Trial[Load]):
    def __init__(self, database: Database, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.database = database

    def load(self, run_id: str, mode: str, *, executions: int, restarts: float) -> Load:
        """Plan a run with its own partitions, executed by several processes."""
        chance = self.chance
        bounds = sorted(chance.sample(IDS[1:], chance.randint(1, 2)))
        load = Load(self.database.plan_run(run_id, mode, partitions=cut(*bounds)), mode)
        self.loads.append(load)
        if chance.random() < 0.3:
            load.execute(finish=False)
        for number in range(chance.randint(1, executions)):
            restart = mode not in ("append", "upsert") and chance.random() < restarts
            self.schedule.add(f"{run_id}{number}", partial(load.execute, restart=restart))
        return load

    def play(self) -> dict[str, Counter[int]]:
        """Play the schedule, resume every run, and return the ids in the table by run."""
        self.perform()
        self.resume_all()
        found: dict[str, Counter[int]] = {load.id: Counter() for load in self.loads}
        for id_, name in self.database.rows():
            found.setdefault(name, Counter())[id_] += 1
        assert not os.path.exists(f"{self.database.path}.penstock")
        return found


FRESH = mode_names(lambda mode: mode.starts_empty)


def copied(trial: Trial) -> None:
    """Copy one run, executed by several processes."""
    mode = trial.schedule.random.choice(("append", "replace", *FRESH))
    load = trial.load("m", mode, executions=3, restarts=0.35)
    found = trial.play()
    assert trial.ended["m"] == "done"
    assert found["m"] == Counter(IDS)
    assert found.get("older", Counter()) == (Counter(OLDER) if load.mode == "append" else Counter())


def paired(trial: Trial) -> None:
    """Play two runs of the same rows in any two modes."""
    chance = trial.schedule.random
    modes = [chance.choice(("append", "replace", *FRESH)) for _ in range(2)]
    for run_id, mode in zip("ab", modes, strict=True):
        trial.load(run_id, mode, executions=2, restarts=0.2)
    found = trial.play()
    for ended in trial.ended.values():
        assert ended == "done" or isinstance(ended, TargetChanged), ended
    alone = [load for load in trial.loads if load.mode != "append"]
    assert "done" in trial.ended.values()
    if any(trial.ended[load.id] == "done" for load in alone):
        # Each row is there once, from either run, and older rows have been replaced.
        assert sum((found[load.id] for load in alone), Counter()) == Counter(IDS)
        assert "older" not in found
    for load in trial.loads:
        if load.mode == "append":
            assert not found[load.id] or max(found[load.id].values()) == 1
            if trial.ended[load.id] == "done" and "replace" not in modes:
                assert found[load.id] in (Counter(), Counter(IDS))
            if not any(trial.ended[other.id] == "done" for other in alone):
                assert found[load.id] == Counter(IDS)


def keyed(trial: Trial) -> None:
    """Play two runs of the same rows, one of which merges by a primary key."""
    other = trial.schedule.random.choice(("upsert", "replace", "truncate", "swap"))
    for run_id, mode in zip("ab", ("upsert", other), strict=True):
        trial.load(run_id, mode, executions=2, restarts=0.2)
    found = trial.play()
    for ended in trial.ended.values():
        # The run that empties the table may then find rows that the other run has merged.
        known = isinstance(ended, TargetChanged) or "Duplicate key" in str(ended)
        assert ended == "done" or known, ended
    assert "done" in trial.ended.values()
    assert found["a"] + found["b"] == Counter(IDS)


SCENARIOS = (copied, paired, keyed)


def tried(scenario: Callable[[Trial], None], seed: int, root: Path) -> list[str]:
    root.mkdir()
    database = Database.make(root / "t.duckdb", "PRIMARY KEY" if scenario is keyed else "")
    database.sql(
        f"INSERT INTO t SELECT i, 'older' FROM range({OLDER[0]}, {OLDER[-1] + 1}) AS r (i)"
    )

    def trial(monkeypatch: pytest.MonkeyPatch, schedule: Schedule) -> Trial:
        schedule.patch_database(monkeypatch)
        return Trial(database, schedule)

    return schedules.tried(scenario, seed, root, trial)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_each_row_is_there_once(scenario: Callable[[Trial], None], tmp_path: Path) -> None:
    for seed in SEEDS:
        tried(scenario, seed, tmp_path / str(seed))
