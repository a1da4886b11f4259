"""DuckDB tables as targets, loaded as the engine and its workers load them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.backends.api.execution.control import NewRun
from penstock.backends.api.facts import LoadRequest
from penstock.backends.api.worker import ARROW, LoadResult, Writer
from penstock.backends.duckdb.target import DuckTarget
from penstock.backends.duckdb.writer import open_writer
from penstock.backends.shared.values.arrow import TRAIT
from penstock.model.extents import Bound, Extent, Key, KeyRange, Whole
from penstock.model.plans import GIVEN, Partition, PartitionPlan
from penstock.model.snapshots import SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, Located, TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter

from ...control_calls import check_target, prepare

TABLE = TableRef("main", "t")
STATE = SourceState("a", "b", "c", "d", "e")
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def numbered(ids: Sequence[int], name: str) -> pa.RecordBatch:
    return pa.record_batch([list(ids), [name] * len(ids)], schema=SCHEMA)


def between(first: int | None, last: int | None) -> KeyRange:
    """Return the extent of the ids from `first` up to, but not including, the last."""
    ends = [None if end is None else Bound("int8", str(end)) for end in (first, last)]
    return KeyRange(Key("id"), *ends)


def cut(*bounds: int) -> list[Partition]:
    """Return the partitions p0000, p0001, ... between these ids; both ends are open."""
    ends = [None, *bounds, None]
    return [
        Partition(f"p{n:04}", between(lower, upper))
        for n, (lower, upper) in enumerate(pairwise(ends))
    ]


def waiter() -> Waiter:
    return Waiter(Meter(), 30.0)


@dataclass(frozen=True)
class Database:
    """A database file, with a table t unless a run creates it."""

    path: Path

    @classmethod
    def make(cls, path: Path, key: str = "") -> Database:
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE t (id BIGINT {key}, name VARCHAR)")
        return cls(path)

    @property
    def url(self) -> str:
        return f"duckdb:///{self.path}"

    def target(self) -> DuckTarget:
        return DuckTarget(str(self.path), "penstock")

    def plan(
        self,
        target: DuckTarget,
        run_id: str,
        mode: str = "append",
        *,
        partitions: Sequence[Partition] = (),
        where: str | None = None,
        chooses_partitions: bool = False,
    ) -> tuple[CopySpec, PartitionPlan]:
        """Plan a run of a source with these columns, as the engine does."""
        spec = CopySpec(
            source="file:///nowhere/*.parquet", target=self.url, target_table="main.t",
            mode=MODES[mode].name, where=where, run_id=run_id,
        )  # fmt: skip
        columns = [Column(f.name, str(f.type), f.nullable, traits={TRAIT: f.type}) for f in SCHEMA]
        definition: TableDefinition | None = None
        created: tuple[Column, ...] = ()
        if target.creates_table(TABLE, MODES[mode]):
            definition = TableDefinition("parquet")
            created = target.defined_columns(TABLE, definition, columns, {})
        pairs = tuple(ColumnPair(column.name, column.name) for column in columns)
        parts = tuple(partitions) or tuple(Partition(f"p{n:04}", Whole()) for n in (0, 1))
        load = target.plan_load(
            LoadRequest(
                run_id=run_id, source=Located(), target=TABLE, mode=MODES[mode], pairs=pairs,
                conflict_columns=None, indexes="keep", unlogged=False, definition=definition,
                new_columns=created, where=where, writing={},
                has_given_partitions=chooses_partitions,
                extents=tuple((p.id, p.extent) for p in parts) if chooses_partitions else (),
            )
        )  # fmt: skip
        return spec, PartitionPlan(
            strategy=GIVEN if chooses_partitions else "range", reasons=(), partitions=parts,
            columns=tuple(columns), pairs=pairs, format=ARROW, load=load,
        )  # fmt: skip

    def plan_run(
        self,
        run_id: str,
        mode: str = "append",
        *,
        partitions: Sequence[Partition] = (),
        where: str | None = None,
        chooses_partitions: bool = False,
    ) -> Run:
        """Plan and store a run."""
        with closing(self.target()) as target:
            target.control.create()
            spec, plan = self.plan(
                target,
                run_id,
                mode,
                partitions=partitions,
                where=where,
                chooses_partitions=chooses_partitions,
            )
            assert target.control.runs.create([NewRun(run_id, spec.stored(), plan, STATE, None)])
        return Run(self, run_id, spec, plan)

    def create(
        self,
        run_id: str,
        mode: str = "append",
        *,
        partitions: Sequence[Partition] = (),
        where: str | None = None,
        chooses_partitions: bool = False,
    ) -> Run:
        """Plan, store and prepare a run."""
        run = self.plan_run(
            run_id, mode, partitions=partitions, where=where, chooses_partitions=chooses_partitions
        )
        run.prepare()
        return run

    def sql(self, *statements: str) -> None:
        """Execute a statement as a program other than Penstock."""
        with duckdb.connect(str(self.path)) as connection:
            for each in statements:
                connection.execute(each)

    def rows(self) -> list[tuple[int, str]]:
        with duckdb.connect(str(self.path), read_only=True) as connection:
            return connection.execute("SELECT id, name FROM main.t ORDER BY ALL").fetchall()

    def ids(self) -> Counter[int]:
        return Counter(id_ for id_, _ in self.rows())


@dataclass(frozen=True)
class Run:
    database: Database
    id: str
    spec: CopySpec
    plan: PartitionPlan

    def prepare(self) -> None:
        with closing(self.database.target()) as target:
            assert prepare(target.control, self.id, self.plan.load)

    def extent(self, partition_id: str) -> Extent:
        return self.plan.partition(partition_id).extent

    def worker_spec(self, generation: int = 1) -> WorkerSpec:
        return WorkerSpec(
            run_id=self.id, generation=generation, source="", target=self.database.url,
            source_backend="", target_backend="", relation=Located(),
            target_table=self.plan.load.table, pairs=self.plan.pairs, format=ARROW,
            where=self.spec.where, mode=self.spec.mode,
            conflict_columns=self.plan.load.conflict_columns, volatile=False, series="",
            snapshot=None, stall_timeout=30.0, grace=1.0, control_schema="penstock",
            schema=self.plan.load.schema, writing={},
        )  # fmt: skip

    @contextmanager
    def attempt(self, partition_id: str, number: int = 1, generation: int = 1) -> Iterator[Attempt]:
        """Return a worker's side of one attempt."""
        writer = open_writer(str(self.database.path), self.worker_spec(generation))
        try:
            yield Attempt(writer, self.plan.partition(partition_id), number)
        finally:
            writer.abandon()

    def copy(
        self, partition_id: str, ids: Sequence[int], *, number: int = 1, generation: int = 1
    ) -> bool:
        """Run one attempt; return False if the partition was already committed."""
        with self.attempt(partition_id, number, generation) as attempt:
            if not attempt.begin():
                return False
            attempt.write(numbered(ids, self.id))
            attempt.commit(attempt.end())
        return True

    def finish(self) -> None:
        with closing(self.database.target()) as target:
            for step in self.plan.load.after:
                target.control.steps.finish(self.id, step)
            check_target(target.control, self.id)
            target.control.runs.set_statuses({self.id: ("done", [])})

    def check(self) -> None:
        with closing(self.database.target()) as target:
            check_target(target.control, self.id)


@dataclass
class Attempt:
    writer: Writer
    partition: Partition
    number: int

    def begin(self) -> bool:
        return self.writer.begin(self.partition, self.number, waiter())

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write(batch, waiter())

    def end(self) -> LoadResult:
        return self.writer.end(waiter())

    def commit(self, loaded: LoadResult) -> None:
        self.writer.commit(loaded, 1000, waiter())
