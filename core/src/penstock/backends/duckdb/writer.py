"""A partition is staged beside the database, then loaded in one transaction with its record.

Many partitions are staged at once; loading takes turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.api.attempt import Attempt, Stage
from penstock.backends.api.worker import Wait
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.folder import staged, sweep
from penstock.backends.duckdb.load.loading import Loading
from penstock.backends.duckdb.load.stage import FileStage
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.records import DuckRecords
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.background import compute
from penstock.backends.shared.staged import StagedWriter
from penstock.spec.worker_spec import WorkerSpec

T = TypeVar("T")


def duck_writer(spec: WorkerSpec) -> StagedWriter:
    path = path_of(spec.target)
    assert path is not None
    pa.set_cpu_count(1)
    return StagedWriter(spec, DuckHooks(path, spec.stall_timeout))


class DuckHooks:
    """See `StagedHooks`."""

    def __init__(self, path: str, patience: float) -> None:
        self._path = path
        self._database = Database(path, patience, worker=True)

    def lock(self, attempt: Attempt) -> Mapping[str, int] | None:
        """A stage is locked as long as its attempt lives."""
        return {
            each.file: each.bytes
            for each in staged(self._path)
            if (each.run_id, each.partition_id) == (attempt.spec.run_id, attempt.partition.id)
            and each.is_alive()
        } or None

    def end_older(self, attempt: Attempt, older: str) -> None:
        """It finds that its stage is gone, when it goes on."""
        with suppress(FileNotFoundError):
            os.unlink(older)

    def sweep(self) -> None:
        sweep(self._path)

    def open_stage(self, attempt: Attempt, wait: Wait) -> Stage:
        return FileStage(self._path, attempt)

    @contextmanager
    def reading(self, attempt: Attempt) -> Iterator[Loading]:
        with translated("target"), self._database.reading() as connection:
            yield self._loading(connection, attempt)

    @contextmanager
    def writing(self, attempt: Attempt) -> Iterator[Loading]:
        """The database stays open to its end: nobody else has a turn."""
        subject = f"partition {attempt.partition.id}"
        with translated("target", subject), self._database.writing() as connection:
            yield self._loading(connection, attempt)

    def _loading(self, connection: DuckDBPyConnection, attempt: Attempt) -> Loading:
        session = DuckSession(connection, "target")
        schema = attempt.spec.control_schema
        return Loading(DuckRecords(self._database, schema, session), attempt)

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        return compute(call, "target", wait, self._database.interrupt)

    def interrupt(self) -> None:
        self._database.interrupt()
