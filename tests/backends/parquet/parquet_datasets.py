"""Datasets as targets, loaded as the engine and its workers load them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from penstock.backends.api.execution.control import NewRun
from penstock.backends.api.facts import LoadRequest
from penstock.backends.api.worker import ARROW, LoadResult
from penstock.backends.parquet.load_hooks import FolderLoadHooks
from penstock.backends.parquet.target import ParquetTarget
from penstock.backends.parquet.writer import parquet_writer
from penstock.backends.roll_forward.writer import RollForwardWriter
from penstock.backends.shared.values.arrow import TRAIT
from penstock.model.extents import Whole
from penstock.model.plans import GIVEN, Partition, PartitionPlan
from penstock.model.snapshots import SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, Located, TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter
from penstock_testkit import S3Server

TABLE = TableRef("", "target")
STATE = SourceState("a", "b", "c", "d", "e")
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string()), ("day", pa.date32())])


def numbered(first: int, count: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Return rows whose ids count from `first` on."""
    ids = range(first, first + count)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([None if n % 7 == 0 else f"name {n}" for n in ids], pa.string()),
        "day": pa.array([19_000 + n % 3 for n in ids], pa.int32()).cast(pa.date32()),
    }
    return pa.RecordBatch.from_arrays([columns[f.name].cast(f.type) for f in schema], schema=schema)


def waiter() -> Waiter:
    return Waiter(Meter(), 30.0)


@dataclass(frozen=True)
class Dataset:
    url: str
    server: S3Server | None = None
    bucket: str = ""
    key: str = ""
    root: Path = Path()

    def target(self) -> ParquetTarget:
        return ParquetTarget(self.url, "penstock")

    def plan(
        self,
        target: ParquetTarget,
        run_id: str,
        mode: str = "append",
        *,
        schema: pa.Schema = SCHEMA,
        partitions: Sequence[Partition] = (),
        where: str | None = None,
        chooses_partitions: bool = False,
        types: Mapping[str, str] | None = None,
        series: str = "",
        **writing: Any,
    ) -> tuple[CopySpec, PartitionPlan]:
        """Plan a run of a source with these columns, as the engine does."""
        spec = CopySpec(
            source="file:///nowhere/*.parquet",
            target=self.url,
            mode=MODES[mode].name,
            where=where,
            run_id=run_id,
            **writing,
        )
        columns = [Column(f.name, str(f.type), f.nullable, traits={TRAIT: f.type}) for f in schema]
        definition: TableDefinition | None = None
        created: tuple[Column, ...] = ()
        if target.creates_table(TABLE, MODES[mode]):
            definition = TableDefinition("parquet")
            theirs = created = target.defined_columns(TABLE, definition, columns, types or {})
        else:
            theirs = target.columns(TABLE)
        by_name = {column.name: column for column in theirs}
        fits = target.fit(columns, [by_name[column.name] for column in columns])
        pairs = tuple(
            ColumnPair(column.name, column.name, canonical=found.canonical)
            for column, found in zip(columns, fits, strict=True)
        )
        parts = tuple(partitions) or tuple(Partition(f"p{n:04}", Whole()) for n in (1, 2))
        load = target.plan_load(
            LoadRequest(
                run_id=run_id,
                source=Located(),
                target=TABLE,
                mode=MODES[mode],
                pairs=pairs,
                conflict_columns=None,
                indexes="keep",
                unlogged=False,
                definition=definition,
                new_columns=created,
                where=where,
                has_given_partitions=chooses_partitions,
                extents=tuple((p.id, p.extent) for p in parts) if chooses_partitions else (),
                writing=spec.writing,
            )
        )
        return spec, PartitionPlan(
            strategy=GIVEN if chooses_partitions else "files",
            reasons=(),
            partitions=parts,
            columns=tuple(columns),
            pairs=pairs,
            format=ARROW,
            load=load,
            series=series,
        )

    def create(self, run_id: str, mode: str = "append", **options: Any) -> Run:
        """Plan, store and prepare a run."""
        with closing(self.target()) as target:
            spec, plan = self.plan(target, run_id, mode, **options)
            target.control.create()
            assert target.control.runs.create([NewRun(run_id, spec.stored(), plan, STATE, None)])
            assert target.control.generations.prepare({run_id: plan.load}) == {run_id: True}
        return Run(self, run_id, spec, plan)

    def load(self, run_id: str, mode: str = "append", *, rows: int = 10, **options: Any) -> Run:
        """Execute a whole run with `rows` rows in each partition, and ids from 0 on."""
        run = self.create(run_id, mode, **options)
        for index, partition in enumerate(run.plan.partitions):
            run.copy(partition.id, numbered(index * rows, rows))
        run.finish()
        return run

    # The contents

    @property
    def file_system(self) -> fs.FileSystem:
        if self.server is None:
            return fs.LocalFileSystem()
        return fs.S3FileSystem(
            access_key=self.server.access_key_id,
            secret_key=self.server.secret_access_key,
            endpoint_override=self.server.endpoint,
            region="us-east-1",
        )

    @property
    def path(self) -> str:
        return f"{self.bucket}/{self.key}" if self.server else str(self.root)

    def rows(self) -> pa.Table:
        """Return the rows that a reader of datasets sees."""
        found = ds.dataset(
            self.path, filesystem=self.file_system, format="parquet", partitioning="hive"
        )
        return found.to_table()

    def ids(self) -> list[int]:
        return sorted(self.rows()["id"].to_pylist()) if self.data() else []

    def names(self) -> list[str]:
        """Return the names of everything in the folder, hidden or not."""
        if self.server is None:
            return sorted(
                str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()
            )
        pages = self.server.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.key}/"
        )
        return sorted(
            item["Key"].removeprefix(f"{self.key}/")
            for page in pages
            for item in page.get("Contents", ())
        )

    def data(self) -> list[str]:
        return [name for name in self.names() if name.endswith(".parquet")]

    def stray(self) -> list[str]:
        """Return files that are neither data in the manifest nor documents."""
        with closing(self.target()) as target:
            listed = {entry.path for entry in target._manifest().files}
        stray = [
            name
            for name in self.names()
            if name not in listed and not name.endswith((".json", "/lock"))
        ]
        missing = [f"missing {name}" for name in listed - set(self.names())]
        return stray + missing + self.pending_uploads()

    def pending_uploads(self) -> list[str]:
        if self.server is None:
            folder = self.root / "_penstock" / "uploads"
            return sorted(path.name for path in folder.rglob("*") if path.is_file())
        found = self.server.client.list_multipart_uploads(Bucket=self.bucket)
        return sorted(item["Key"] for item in found.get("Uploads", ()))


@dataclass(frozen=True)
class Run:
    dataset: Dataset
    id: str
    spec: CopySpec
    plan: PartitionPlan

    def worker_spec(self, generation: int = 1) -> WorkerSpec:
        return WorkerSpec(
            run_id=self.id,
            generation=generation,
            source="file:///nowhere",
            target=self.dataset.url,
            source_backend="",
            target_backend="penstock.backends.parquet:local",
            relation=Located(),
            target_table=TABLE,
            pairs=self.plan.pairs,
            format=ARROW,
            where=self.spec.where,
            mode=self.spec.mode,
            conflict_columns=(),
            volatile=False,
            series=self.plan.series,
            snapshot=None,
            stall_timeout=30.0,
            grace=10.0,
            control_schema="penstock",
            schema=self.plan.load.schema,
            writing=self.spec.writing,
        )

    @contextmanager
    def attempt(self, partition_id: str, number: int = 1, generation: int = 1) -> Iterator[Attempt]:
        """Return a worker's side of one attempt."""
        writer = parquet_writer(self.worker_spec(generation))
        try:
            yield Attempt(writer, self.plan.partition(partition_id), number)
        finally:
            writer.abandon()

    def copy(
        self, partition_id: str, *batches: pa.RecordBatch, number: int = 1, generation: int = 1
    ) -> bool:
        """Run one attempt; return False if the partition was already committed."""
        with self.attempt(partition_id, number, generation) as attempt:
            if not attempt.begin():
                return False
            attempt.write(*batches)
            attempt.commit(attempt.end())
        return True

    def finish(self) -> None:
        with closing(self.dataset.target()) as target:
            for step in sorted(self.plan.load.after, key=lambda step: step.rank):
                target.control.steps.finish(self.id, step)
            target.control.runs.set_statuses({self.id: ("done", [])})

    def committed(self) -> dict[str, int]:
        """Return the rows by partition."""
        with closing(self.dataset.target()) as target:
            return {r.partition_id: r.rows for r in target.control.commits.of([self.id])[self.id]}

    def killed(self, partition_id: str, first: int, count: int, at: str) -> None:
        """Run one attempt in a process that is killed at a given call.

        Args:
            at: ``module:Class.method`` for before the call, with a trailing ``!`` for after it.
        """
        script = Path(__file__).with_name("parquet_killed_attempt.py")
        ended = subprocess.run(
            [sys.executable, str(script), at, partition_id, str(first), str(count)],
            input=self.worker_spec().to_line().encode(),
            env={**os.environ, "PYTHONPATH": str(script.parent)},
            capture_output=True,
            check=False,
        )
        assert ended.returncode == -9, ended.stderr.decode()


@dataclass
class Attempt:
    writer: RollForwardWriter
    partition: Partition
    number: int

    def begin(self) -> bool:
        return self.writer.begin(self.partition, self.number, waiter())

    def write(self, *batches: pa.RecordBatch) -> None:
        for batch in batches:
            self.writer.write(batch, waiter())

    def end(self) -> LoadResult:
        return self.writer.end(waiter())

    def commit(self, loaded: LoadResult) -> None:
        self.writer.commit(loaded, 1000, waiter())


def hooks_of(target: ParquetTarget) -> FolderLoadHooks:
    hooks = target.control.hooks
    assert isinstance(hooks, FolderLoadHooks)
    return hooks
