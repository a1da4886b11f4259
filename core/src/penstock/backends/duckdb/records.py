"""Records of runs as tables of the database.

One process at a time has the database open, so none of this needs locks of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from duckdb import DuckDBPyConnection

from penstock.backends.api.records import Hold
from penstock.backends.duckdb.database import NAME, Database
from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.folder import POLL, staged
from penstock.backends.duckdb.rows import first
from penstock.backends.shared.sql_records import SqlRecords
from penstock.errors import Diagnosis, TransientError

T = TypeVar("T")

_TABLES = """
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE TABLE IF NOT EXISTS {schema}.run (
        run_id VARCHAR PRIMARY KEY, generation INTEGER NOT NULL DEFAULT 1,
        spec VARCHAR NOT NULL, plan VARCHAR NOT NULL, partitions INTEGER NOT NULL DEFAULT 0,
        fingerprint VARCHAR NOT NULL, source_state VARCHAR NOT NULL, snapshots VARCHAR NOT NULL,
        status VARCHAR NOT NULL DEFAULT 'created',
        created_at TIMESTAMPTZ NOT NULL DEFAULT now(), prepared_at TIMESTAMPTZ,
        finished_at TIMESTAMPTZ, snapshot_released_at TIMESTAMPTZ,
        failures VARCHAR NOT NULL DEFAULT '[]', loads VARCHAR, disturbed_by VARCHAR);
    CREATE TABLE IF NOT EXISTS {schema}.loaded_table (id VARCHAR PRIMARY KEY, rows BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS {schema}.commit_record (
        run_id VARCHAR, partition_id VARCHAR, attempt INTEGER NOT NULL, rows BIGINT NOT NULL,
        bytes BIGINT NOT NULL, inserted BIGINT, updated BIGINT, series VARCHAR,
        read_at VARCHAR NOT NULL DEFAULT '',
        started_at TIMESTAMPTZ NOT NULL, committed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (run_id, partition_id), UNIQUE (series, partition_id));
    CREATE TABLE IF NOT EXISTS {schema}.step_record (
        run_id VARCHAR, step_id VARCHAR, done_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        PRIMARY KEY (run_id, step_id));
    CREATE TABLE IF NOT EXISTS {schema}.recopy_record (
        run_id VARCHAR, partition_id VARCHAR, request VARCHAR,
        made_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (run_id, partition_id, request));
"""


class DuckRecords(SqlRecords):
    def __init__(self, database: Database, schema: str) -> None:
        self._database = database
        self._name = schema
        self._open: DuckDBPyConnection | None = None

    @property
    def schema(self) -> str:
        return f"{ident(NAME)}.{ident(self._name)}"

    @property
    def connection(self) -> DuckDBPyConnection:
        """The session that is open."""
        assert self._open is not None
        return self._open

    def place(self, number: int) -> str:
        return f"${number}"

    def create(self) -> None:
        with self.reading() as found:
            if found is not None:
                return
        with self._transaction() as connection:
            connection.execute(_TABLES.format(schema=self.schema))

    @contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection | None]:
        """The session of all that is read meanwhile; None where there are no control tables."""
        if self._open is not None:
            yield self._open
            return
        with self._database.reading() as connection, translated("target"):
            found = first(
                connection.execute(
                    "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1"
                    " AND schema_name = $2 AND table_name IN"
                    " ('run', 'loaded_table', 'commit_record', 'step_record', 'recopy_record')",
                    [NAME, self._name],
                )
            )
            if found != (5,):
                yield None
                return
            with self._opened(connection):
                yield connection

    @contextmanager
    def _transaction(self) -> Iterator[DuckDBPyConnection]:
        with (
            translated("target"),
            self._database.transaction() as connection,
            self._opened(connection),
        ):
            yield connection

    @contextmanager
    def _opened(self, connection: DuckDBPyConnection) -> Iterator[None]:
        self._open = connection
        try:
            yield
        finally:
            self._open = None

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        # Attempts of an old generation are refused when they come to commit.
        self._wait_for_attempts(run_id, frozenset(partition_ids), patience)
        with self._transaction():
            return body()

    def _wait_for_attempts(
        self, run_id: str, partition_ids: frozenset[str], patience: float
    ) -> None:
        deadline = time.monotonic() + patience if patience else None
        while partition_ids and any(
            each.run_id == run_id and each.partition_id in partition_ids and each.is_alive()
            for each in staged(self._database.path)
        ):
            if deadline is not None and time.monotonic() > deadline:
                raise TransientError(
                    f"target: run {run_id}: partitions that are to be copied again are being "
                    "copied; expected no attempt under way",
                    Diagnosis(side="target"),
                )
            time.sleep(POLL)

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        if self._open is not None:
            return self._open.execute(statement, values).fetchall()
        if reading:
            with self.reading() as found:
                return [] if found is None else found.execute(statement, values).fetchall()
        with self._transaction() as connection:
            return connection.execute(statement, values).fetchall()
