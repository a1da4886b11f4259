"""Several processes load one table in many interleavings; each row is there once in the end.

A seed determines which processes use the table, in which order, and before which statement one is
killed. Afterwards every run is resumed, and the table is checked. The engine is a real one. A
statement that moves several of ClickHouse's partitions is sent in parts, so that a kill between two
of them is tested, too. Simultaneous moves are not tested: chdb's front runs one after the other, as
a server does by its check of query ids.

By default a few seeds are tested. To test many more, or to repeat some (500 to 502)::

    PENSTOCK_SCHEDULES=1000 pytest --timeout=0 -k row_is_there_once tests/backends/clickhouse
    PENSTOCK_SCHEDULES=500:503 pytest -k paired tests/backends/clickhouse
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.backends.api.execution.control import NewRun
from penstock.backends.api.facts import LoadRequest
from penstock.backends.api.worker import ARROW, LoadResult
from penstock.backends.clickhouse import target, writer
from penstock.backends.clickhouse.connection import SETTINGS, Connection
from penstock.backends.clickhouse.load import stages
from penstock.backends.clickhouse.target import ClickHouseTarget
from penstock.backends.clickhouse.writer import ClickHouseWriter, Hooks
from penstock.backends.roll_forward import records
from penstock.backends.roll_forward import writer as roll_forward_writer
from penstock.backends.shared.values.arrow import TRAIT
from penstock.errors import TargetChanged
from penstock.model.extents import Whole
from penstock.model.plans import Partition, PartitionPlan
from penstock.model.snapshots import SourceState
from penstock.model.table_model import TableDefinition, TableModel
from penstock.model.tables import Column, ColumnPair, TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter
from penstock_testkit import connect_clickhouse

from ...control_calls import check_target, prepare
from .. import schedules
from ..schedules import Schedule, again_and_again, seeds

SEEDS = seeds("6")
STATE = SourceState("a", "b", "c", "d", "e")
SCHEMA = pa.schema([pa.field("id", pa.int64(), False)])
# The rows of a partition, and the number of ClickHouse's partitions that contain them.
ROWS, PARTS = 6, 3
# No merges, so that a duplicate row remains.
UNMERGED = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
)
_MOVE = re.compile(r"MOVE PARTITION ID '[^']*' TO TABLE [^,]*")


@dataclass
class Load:
    """A run, and the rows that it copies: the ids from `first` on."""

    trial: Trial
    id: str
    mode: str
    first: int
    plan: PartitionPlan

    @property
    def ids(self) -> set[int]:
        return set(range(self.first, self.first + ROWS * len(self.plan.partitions)))

    def _copy(self, partition: Partition, generation: int) -> None:
        plan, trial = self.plan, self.trial
        spec = WorkerSpec(
            run_id=self.id,
            generation=generation,
            source="",
            target=trial.url,
            source_backend="",
            target_backend="penstock.backends.clickhouse:backend",
            relation=TableRef("x", "y"),
            target_table=plan.load.table,
            pairs=plan.pairs,
            format=ARROW,
            where=None,
            mode=self.mode,
            conflict_columns=(),
            volatile=False,
            series="",
            snapshot=None,
            stall_timeout=30.0,
            grace=1.0,
            control_schema=trial.control,
            schema=plan.load.schema,
            writing={},
            read_at="",
        )
        first = self.first + ROWS * plan.partitions.index(partition)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(range(first, first + ROWS), pa.int64())], schema=SCHEMA
        )
        wait = Waiter(Meter(), 30.0)
        writing = ClickHouseWriter(spec, Hooks())
        try:
            if writing.begin(partition, 1, wait):
                writing.write(batch, wait)
                loaded = writing.end(wait)
                assert loaded == LoadResult(ROWS)
                writing.commit(loaded, 0, wait)
        except BaseException:
            writing.abandon()
            raise

    def execute(self, *, finish: bool = True) -> str:
        """Execute a run as the engine and its workers do."""
        with closing(self.trial.target()) as catalog:
            control, plan = catalog.control, self.plan
            row = control.runs.find(self.id)
            assert row is not None
            generation = row.generation
            if not prepare(control, self.id, plan.load):
                check_target(control, self.id)
            done = {record.partition_id for record in control.commits.of([self.id])[self.id]}
            for partition in plan.partitions:
                if partition.id not in done:
                    again_and_again(partial(self._copy, partition, generation))
            if len(control.commits.of([self.id])[self.id]) < len(plan.partitions):
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
    def __init__(self, schedule: Schedule, client: Any, url: str, seed: int) -> None:
        super().__init__(schedule)
        self.client = client
        self.url = url
        self.database = f"data_{seed}"
        self.control = f"control_{seed}"
        self.table = TableRef(self.database, "t")
        for database in (self.database, self.control):
            client.command(f"CREATE DATABASE {database}")
        engine = ("MergeTree", "ReplacingMergeTree")[seed % 2]
        client.command(
            f"CREATE TABLE {self.database}.t (id Int64) ENGINE = {engine}"
            f" PARTITION BY id % {PARTS} ORDER BY id SETTINGS {UNMERGED}"
        )

    def remove(self) -> None:
        for database in (self.database, self.control):
            self.client.command(f"DROP DATABASE {database}")

    def target(self) -> ClickHouseTarget:
        return ClickHouseTarget(self.url, self.control)

    def likely(self, chance: float) -> bool:
        return self.chance.random() < chance

    def drop(self) -> None:
        """Drop the table, so that the runs create it."""
        self.client.command(f"DROP TABLE {self.table}")

    def load(self, run_id: str, mode: str, first: int) -> Load:
        """Plan a run without executing it."""
        spec = CopySpec(
            source="clickhouse://nowhere/x",
            target=self.url,
            table="x.y",
            target_table=f"{self.table}",
            mode=MODES[mode].name,
            snapshot="none",
            run_id=run_id,
        )
        columns = (Column("id", "Int64", False, traits={TRAIT: pa.int64()}),)
        pairs = (ColumnPair("id", "id", canonical="integer"),)
        with closing(self.target()) as catalog:
            definition: TableDefinition | None = None
            created: tuple[Column, ...] = ()
            if catalog.creates_table(self.table, MODES[mode]):
                definition = TableDefinition(
                    "clickhouse", TableModel(partitioning=f"PARTITION BY id % {PARTS}")
                )
                created = catalog.defined_columns(self.table, definition, columns, {})
            request = LoadRequest(
                run_id=run_id,
                source=TableRef("x", "y"),
                target=self.table,
                mode=MODES[mode],
                pairs=pairs,
                conflict_columns=None,
                indexes="keep",
                unlogged=False,
                definition=definition,
                new_columns=created,
            )
            plan = PartitionPlan(
                strategy="whole",
                reasons=(),
                partitions=tuple(Partition(f"p{n:04}", Whole()) for n in (1, 2)),
                columns=columns,
                pairs=pairs,
                format=ARROW,
                load=catalog.plan_load(request),
                series="",
            )
            assert catalog.control.runs.create([NewRun(run_id, spec.stored(), plan, STATE, None)])
        load = Load(self, run_id, mode, first, plan)
        self.loads.append(load)
        return load

    def older(self) -> None:
        """Add older rows to the table, perhaps."""
        if self.likely(0.5):
            assert self.load("old", "append", 9000).execute() == "done"

    def executions(self, load: Load, most: int) -> None:
        """Let a random number of processes execute a run."""
        if self.likely(0.4):
            load.execute(finish=False)
        for number in range(self.chance.randint(1, most)):
            self.schedule.add(f"{load.id}{number}", load.execute)

    def play(self) -> Counter[int]:
        """Play the schedule, resume every run, and return the count of each id in the table."""
        self.perform()
        self.resume_all()
        found = Counter(
            id_ for (id_,) in self.client.query(f"SELECT id FROM {self.table}").result_rows
        )
        for load in self.loads:
            ended = self.ended[load.id]
            if ended != "done":
                assert isinstance(ended, TargetChanged), ended
            times = {found[each] for each in load.ids}
            assert times in ({0}, {1}), f"run {load.id} is there in part, or twice"
            assert times != {1} or ended == "done", f"run {load.id} is there, and was not done"
        stages_left = self.client.query(
            "SELECT name FROM system.tables WHERE database = {d:String} AND"
            " startsWith(name, 'penstock_stage')",
            parameters={"d": self.control},
        ).result_rows
        if all(ended == "done" for ended in self.ended.values()):
            assert stages_left == [], stages_left
        return found


def copied(trial: Trial) -> None:
    """Copy one run, executed by several processes; perhaps it creates the table."""
    if trial.likely(0.3):
        trial.drop()
    else:
        trial.older()
    load = trial.load("m", trial.chance.choice(["append", "truncate", "recreate"]), 0)
    trial.executions(load, 3)
    expected_loads = trial.loads if load.mode == "append" else [load]
    assert trial.play() == Counter(each for one in expected_loads for each in one.ids)


def paired(trial: Trial) -> None:
    """Play two runs in any two modes."""
    trial.older()
    modes = ["append", "append", "truncate", "recreate", "swap"]
    loads = [trial.load(run_id, trial.chance.choice(modes), first) for run_id, first in
             (("a", 0), ("b", 100))]  # fmt: skip
    for load in loads:
        trial.executions(load, 2)
    found = trial.play()
    alone = [load for load in loads if load.mode != "append"]
    found_loads = [load for load in loads if found.keys() & load.ids]
    if not alone:
        assert len(found_loads) == 2
    if any(trial.ended[load.id] == "done" for load in alone):
        assert not found[9000]
    if len(alone) == 2:
        assert len(found_loads) == 1


@pytest.fixture
def client(clickhouse_server: str) -> Iterator[Any]:
    with closing(connect_clickhouse(clickhouse_server)) as found:
        for name, value in SETTINGS.items():
            found.set_client_setting(name, value)
        yield found


@pytest.mark.parametrize("scenario", [copied, paired], ids=lambda scenario: scenario.__name__)
def test_each_row_is_there_once(
    scenario: Callable[[Trial], None], client: Any, clickhouse_server: str, tmp_path: Path
) -> None:
    for seed in SEEDS:
        root = tmp_path / f"{seed}"
        root.mkdir()
        _try(scenario, seed, root, client, clickhouse_server)


def _try(scenario: Callable[[Trial], None], seed: int, root: Path, client: Any, url: str) -> None:
    trials: list[Trial] = []

    def trial(monkeypatch: pytest.MonkeyPatch, schedule: Schedule) -> Trial:
        _patch(monkeypatch, schedule, client)
        trials.append(Trial(schedule, client, url, seed))
        return trials[0]

    schedules.tried(scenario, seed, root, trial)
    trials[0].remove()


def _patch(monkeypatch: pytest.MonkeyPatch, schedule: Schedule, client: Any) -> None:
    """Stop actors before each statement; they share a client and draw no random numbers."""

    def connect(url: str, side: str) -> Connection:
        return Connection(client, side)

    real = Connection.change

    def change(self: Connection, statement: str, *args: Any, **kwargs: Any) -> int:
        moves = _MOVE.findall(statement)
        head = statement.partition(" MOVE ")[0]
        for each in [f"{head} {move}" for move in moves] or [statement]:
            schedule._stop(each[:150])
            real(self, each, *args, **kwargs)
        return 0

    rows, insert = Connection.rows, Connection.insert

    def reading(self: Connection, query: str, *args: Any) -> list[tuple[Any, ...]]:
        schedule._stop(f"{query[:60]} {args}")
        return rows(self, query, *args)

    monkeypatch.setattr(Connection, "change", change)
    monkeypatch.setattr(Connection, "rows", reading)
    monkeypatch.setattr(Connection, "insert", insert)
    monkeypatch.setattr(Connection, "close", lambda _: None)
    for module in (target, writer):
        monkeypatch.setattr(module, "connect", connect)
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: schedule._stop("sleep"))
    monkeypatch.setattr(stages, "time", clock)
    # About as many statements as one execution of a run with two partitions sends.
    monkeypatch.setattr(schedules, "LAST_MOMENT", 220)
    monkeypatch.setattr(secrets, "token_bytes", schedule.random.randbytes)
    monkeypatch.setattr(Waiter, "answering", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(records, "ThreadPoolExecutor", schedules._OneByOne)
    monkeypatch.setattr(roll_forward_writer, "threading", SimpleNamespace(Thread=schedules._AtOnce))
