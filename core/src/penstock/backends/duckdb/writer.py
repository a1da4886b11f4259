"""A partition is staged next to the database, then loaded in one transaction with its record."""

from __future__ import annotations

import pyarrow as pa

from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.load.loading import DuckLoading
from penstock.backends.duckdb.load.stage import DuckStage
from penstock.backends.shared.attempts.staged import StagedWriter
from penstock.backends.sql.one_file.writer import FileHooks
from penstock.spec.worker_spec import WorkerSpec


def open_writer(path: str, spec: WorkerSpec) -> StagedWriter:
    """Open a worker's writer to a database file."""
    pa.set_cpu_count(1)
    database = Database(path, spec.stall_timeout, worker=True)
    return StagedWriter(spec, FileHooks(database, DuckStage, DuckLoading))
