"""What an attempt does in its transaction: the rows of a stage into the table, and the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Protocol

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.api.worker import Loaded
from penstock.backends.duckdb.connection import full_name
from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import first_lines
from penstock.backends.duckdb.load.loaded_table import LoadedTable
from penstock.backends.duckdb.rows import first
from penstock.errors import Diagnosis, PermanentError
from penstock.spec.worker_spec import WorkerSpec

STAGE = "penstock_stage"


class Stage(Protocol):
    rows: int

    def batches(self) -> pa.RecordBatchReader: ...


class Loading:
    """
    Parameters:
        schema: full name of the control schema.
        catalog: name of the database.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        spec: WorkerSpec,
        partition_id: str,
        schema: str,
        catalog: str,
    ) -> None:
        self._connection = connection
        self._spec = spec
        self._partition_id = partition_id
        self._schema = schema
        self._table = full_name(catalog, spec.target_table)
        self._loaded = LoadedTable(connection, schema, catalog, spec.target_table)
        self._names = [pair.target for pair in spec.pairs]

    def is_committed(self) -> bool:
        """
        Raises:
            PermanentError: the run was started over, or another run of the series has committed
                the partition.
        """
        run_id, partition_id = self._spec.run_id, self._partition_id
        found = first(
            self._connection.execute(
                f"SELECT generation FROM {self._schema}.run WHERE run_id = $1", [run_id]
            )
        )
        if found != (self._spec.generation,):
            raise PermanentError(
                f"target: another process has started run {run_id} over: expected generation "
                f"{self._spec.generation}, found {found[0] if found else 'no such run'}",
                Diagnosis(side="target"),
            )
        done = first(
            self._connection.execute(
                f"SELECT 1 FROM {self._schema}.commit_record"
                " WHERE run_id = $1 AND partition_id = $2",
                [run_id, partition_id],
            )
        )
        if done is None and self._spec.series:
            self._check_series()
        return done is not None

    def _check_series(self) -> None:
        found = first(
            self._connection.execute(
                f"SELECT run_id, CAST(committed_at AS VARCHAR) FROM {self._schema}.commit_record"
                " WHERE series = $1 AND partition_id = $2",
                [self._spec.series, self._partition_id],
            )
        )
        if found is not None:
            raise PermanentError(
                f"target: partition {self._partition_id} was loaded already, by run {found[0]} at "
                f"{found[1]}: expected that no run of series {self._spec.series} has; loading it "
                "again would double its rows",
                Diagnosis(side="target"),
            )

    def check_table(self) -> None:
        """
        Raises:
            TargetChanged: see `ControlStore.check_target`.
        """
        self._loaded.check(self._spec.run_id, self._spec.load_mode)

    def begin(self) -> None:
        """Before the first change of the table."""
        self.check_table()
        self._loaded.begin(self._spec.run_id)

    def replace(self, stage: Stage, tested: str) -> Loaded:
        """
        Parameters:
            tested: the partition's condition.

        Raises:
            PermanentError: rows that were loaded do not meet it, or others do.
        """
        self._loaded.replace(self._spec.run_id, tested)
        loaded = self.insert(stage)
        found = first(
            self._connection.execute(f"SELECT count(*) FROM {self._table} WHERE {tested}")
        )
        if found != (loaded.rows,):
            raise PermanentError(
                f"target: partition {self._partition_id}: expected that its condition selects the "
                f"{loaded.rows:,} rows that were loaded, found that it selects "
                f"{found[0] if found else 0:,}: source and target evaluate it otherwise, so "
                f"replacing them again would double rows: {tested}",
                Diagnosis(side="target"),
            )
        return loaded

    def insert(self, stage: Stage) -> Loaded:
        listed = ", ".join(map(ident, self._names))
        return Loaded(self._run(stage, f"INSERT INTO {self._table} ({listed}) SELECT * FROM"))

    def upsert(self, stage: Stage) -> Loaded:
        """
        Raises:
            PermanentError: a key is NULL, or there twice.
        """
        key = self._spec.conflict_columns
        rest = [name for name in self._names if name not in key]
        temporary = f"temp.{ident(STAGE)}"
        listed = ", ".join(map(ident, self._names))
        self._connection.execute(
            f"CREATE TEMP TABLE {ident(STAGE)} AS SELECT {listed} FROM {self._table} LIMIT 0"
        )
        rows = self._run(stage, f"INSERT INTO {temporary} SELECT * FROM")
        self._check_key(temporary, key)
        match = " AND ".join(f"t.{ident(name)} = s.{ident(name)}" for name in key)
        differ = " OR ".join(f"t.{ident(n)} IS DISTINCT FROM s.{ident(n)}" for n in rest) or "false"
        found = first(
            self._connection.execute(
                f"SELECT count(*), count(*) FILTER ({differ})"
                f" FROM {temporary} AS s JOIN {self._table} AS t ON {match}"
            )
        )
        assert found is not None
        there, updated = found
        action = "NOTHING"
        if rest:
            changed = ", ".join(f"{ident(name)} = excluded.{ident(name)}" for name in rest)
            action = f"UPDATE SET {changed}"
        # Rows that do not differ are left alone.
        self._connection.execute(
            f"INSERT INTO {self._table} ({listed}) SELECT {listed} FROM {temporary} AS s"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self._table} AS t WHERE {match}"
            f" AND NOT ({differ}))"
            f" ON CONFLICT ({', '.join(map(ident, key))}) DO {action}"
        )
        self._connection.execute(f"DROP TABLE {temporary}")
        return Loaded(rows, rows - there, updated)

    def _check_key(self, temporary: str, key: Sequence[str]) -> None:
        names = ", ".join(map(ident, key))
        null = " OR ".join(f"{ident(name)} IS NULL" for name in key)
        nulls = first(self._connection.execute(f"SELECT count(*) FROM {temporary} WHERE {null}"))
        if nulls and nulls[0]:
            raise PermanentError(
                f"--mode upsert: expected a value in {', '.join(key)} of every row, found "
                f"{nulls[0]:,} rows with a NULL",
                Diagnosis(side="target"),
            )
        twice = first(
            self._connection.execute(
                f"SELECT {names}, count(*) FROM {temporary}"
                " GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
            )
        )
        if twice is not None:
            raise PermanentError(
                f"--mode upsert: expected every key ({', '.join(key)}) once in the rows that are "
                f"copied; found ({', '.join(map(str, twice[:-1]))}) {twice[-1]:,} times",
                Diagnosis(side="target"),
            )

    def _run(self, stage: Stage, statement: str) -> int:
        """Run a statement that ends with the stage; the count of its rows."""
        try:
            with self._registered(stage) as name:
                found = first(self._connection.execute(f"{statement} {name}"))
        except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
            raise self._refused(stage, error) from error
        assert found is not None
        return int(found[0])

    @contextmanager
    def _registered(self, stage: Stage) -> Iterator[str]:
        name = "penstock_rows"
        self._connection.register(name, stage.batches())
        try:
            yield name
        finally:
            with suppress(duckdb.Error):  # after an error it goes with the session
                self._connection.unregister(name)

    def _refused(self, stage: Stage, error: duckdb.Error) -> PermanentError:
        """Which value could not be cast, looked for batch by batch."""
        said = PermanentError(
            f"target: partition {self._partition_id}: {first_lines(str(error))}",
            Diagnosis(side="target"),
        )
        # The transaction is spoilt; another session sees the table as well.
        with self._connection.cursor() as session:
            found = session.sql(f"SELECT * FROM {self._table}")
            types = dict(zip(found.columns, map(str, found.types), strict=True))
        with duckdb.connect() as scratch:
            scratch.execute("SET threads = 1")
            passed = 0
            for batch in stage.batches():
                scratch.register("b", pa.table(batch))
                for name in self._names:
                    column = ident(name)
                    row = first(
                        scratch.execute(
                            f"SELECT n, CAST({column} AS VARCHAR) FROM (SELECT {column},"
                            f" row_number() OVER () AS n FROM b) WHERE {column} IS NOT NULL"
                            f" AND TRY_CAST({column} AS {types[name]}) IS NULL ORDER BY n LIMIT 1"
                        )
                    )
                    if row is not None:
                        return PermanentError(
                            f"target: partition {self._partition_id}: column {name!r}, row "
                            f"{passed + row[0]:,}: expected a value of {types[name]}, found "
                            f"{row[1]!r}",
                            Diagnosis(side="target"),
                        )
                passed += batch.num_rows
        return said

    def record(self, attempt: int, started: datetime, loaded: Loaded, size: int) -> None:
        spec = self._spec
        self._loaded.end()
        self._connection.execute(
            f"INSERT INTO {self._schema}.commit_record (run_id, partition_id, attempt, rows, bytes,"
            " inserted, updated, series, started_at, read_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            [
                spec.run_id,
                self._partition_id,
                attempt,
                loaded.rows,
                size,
                loaded.inserted,
                loaded.updated,
                spec.series or None,
                started,
                spec.read_at,
            ],
        )
