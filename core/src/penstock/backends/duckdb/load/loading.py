"""What an attempt does in its transaction: the rows of a stage into the table, and the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.api.attempt import Attempt, Standing
from penstock.backends.api.worker import Loaded
from penstock.backends.duckdb.connection import full_name
from penstock.backends.duckdb.dialect import condition, ident
from penstock.backends.duckdb.errors import first_lines
from penstock.backends.duckdb.load.loaded_table import LoadedTable
from penstock.backends.duckdb.load.stage import FileStage
from penstock.backends.duckdb.rows import first
from penstock.backends.shared.refusals import key_twice, key_with_null
from penstock.errors import Diagnosis, PermanentError

STAGE = "penstock_stage"


class Loading:
    """See `StagedTransaction`.

    Parameters:
        schema: full name of the control schema.
        catalog: name of the database.
    """

    def __init__(
        self, connection: DuckDBPyConnection, attempt: Attempt, schema: str, catalog: str
    ) -> None:
        spec = attempt.spec
        self._connection = connection
        self._schema = schema
        self._subject = f"target: partition {attempt.partition.id}"
        self._table = full_name(catalog, spec.target_table)
        self._loaded = LoadedTable(connection, schema, catalog, spec.target_table)
        self._names = [pair.target for pair in spec.pairs]

    def standing(self, attempt: Attempt) -> Standing:
        run_id, partition_id = attempt.spec.run_id, attempt.partition.id
        run = first(
            self._connection.execute(
                f"SELECT generation FROM {self._schema}.run WHERE run_id = $1", [run_id]
            )
        )
        # Another run counts as one of the same series alone.
        records = self._connection.execute(
            f"SELECT run_id, CAST(committed_at AS VARCHAR) FROM {self._schema}.commit_record"
            " WHERE partition_id = $1 AND (run_id = $2 OR series = nullif($3, ''))",
            [partition_id, run_id, attempt.spec.series],
        ).fetchall()
        others = [(other, at) for other, at in records if other != run_id]
        return Standing(
            generation=None if run is None else run[0],
            committed=bool(records),
            loaded_by=others[0] if others else None,
        )

    def check_target(self, attempt: Attempt) -> None:
        self._loaded.check(attempt.spec.run_id, attempt.spec.load_mode)

    def begin_changes(self, attempt: Attempt) -> None:
        self._loaded.begin(attempt.spec.run_id)

    def delete(self, attempt: Attempt) -> None:
        tested = condition(attempt.spec.where, attempt.partition.extent)
        self._loaded.replace(attempt.spec.run_id, tested)

    def count_selected(self, attempt: Attempt) -> int:
        tested = condition(attempt.spec.where, attempt.partition.extent)
        found = first(
            self._connection.execute(f"SELECT count(*) FROM {self._table} WHERE {tested}")
        )
        assert found is not None
        return int(found[0])

    def insert(self, attempt: Attempt, stage: FileStage) -> int:
        listed = ", ".join(map(ident, self._names))
        return self._run(stage, f"INSERT INTO {self._table} ({listed}) SELECT * FROM")

    def merge(self, attempt: Attempt, stage: FileStage) -> Loaded:
        key = attempt.spec.conflict_columns
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
            raise key_with_null(key, nulls[0])
        twice = first(
            self._connection.execute(
                f"SELECT {names}, count(*) FROM {temporary}"
                " GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
            )
        )
        if twice is not None:
            raise key_twice(key, f"({', '.join(map(str, twice[:-1]))}) {twice[-1]:,} times")

    def _run(self, stage: FileStage, statement: str) -> int:
        """Run a statement that ends with the stage; the count of its rows."""
        try:
            with self._registered(stage) as name:
                found = first(self._connection.execute(f"{statement} {name}"))
        except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
            raise self._refused(stage, error) from error
        assert found is not None
        return int(found[0])

    @contextmanager
    def _registered(self, stage: FileStage) -> Iterator[str]:
        name = "penstock_rows"
        self._connection.register(name, stage.batches())
        try:
            yield name
        finally:
            with suppress(duckdb.Error):  # after an error it goes with the session
                self._connection.unregister(name)

    def _refused(self, stage: FileStage, error: duckdb.Error) -> PermanentError:
        """Which value could not be cast, looked for batch by batch."""
        said = PermanentError(
            f"{self._subject}: {first_lines(str(error))}",
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
                            f"{self._subject}: column {name!r}, row {passed + row[0]:,}: "
                            f"expected a value of {types[name]}, found {row[1]!r}",
                            Diagnosis(side="target"),
                        )
                passed += batch.num_rows
        return said

    def insert_record(self, attempt: Attempt, loaded: Loaded, bytes: int) -> None:
        spec = attempt.spec
        self._loaded.end()
        self._connection.execute(
            f"INSERT INTO {self._schema}.commit_record (run_id, partition_id, attempt, rows, bytes,"
            " inserted, updated, series, started_at, read_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            [
                spec.run_id,
                attempt.partition.id,
                attempt.number,
                loaded.rows,
                bytes,
                loaded.inserted,
                loaded.updated,
                spec.series or None,
                attempt.started_at,
                spec.read_at,
            ],
        )

    def commit(self) -> None:
        self._connection.execute("COMMIT")
