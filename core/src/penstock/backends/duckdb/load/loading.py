"""How the rows of a stage, which is a file, get into a table."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.duckdb.connection import allow_values_of
from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import first_lines, translated
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.attempts.file_stage import FileStage
from penstock.backends.sql.loads.loaded_table import LoadRecords
from penstock.backends.sql.loads.loading import SqlLoading
from penstock.errors import Diagnosis, PermanentError
from penstock.model import values

ROWS = "penstock_rows"


class DuckLoading(SqlLoading[FileStage]):
    """The transaction that loads a staged file into a table."""

    def __init__(self, records: LoadRecords, attempt: Attempt) -> None:
        super().__init__(records, attempt)
        session = records.session
        assert isinstance(session, DuckSession)
        self._connection = session.connection
        self._subject = f"partition {attempt.partition.id}"

    def insert_staged(self, stage: FileStage, table: str) -> int:
        insert = f"INSERT INTO {table} ({self._listed}) SELECT * FROM {ROWS}"
        with translated("target", self._subject):
            allow_values_of(self._connection, stage.widest, stage.bytes, stage.rows)
            self._connection.register(ROWS, stage.batches())
            try:
                ((rows,),) = self._connection.execute(insert).fetchall()
            except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
                raise self._refused(stage, error) from error
        self._connection.unregister(ROWS)  # after an error it goes with the session
        return int(rows)

    def _refused(self, stage: FileStage, error: duckdb.Error) -> PermanentError:
        """Return the error for the value that could not be cast, found batch by batch."""
        # The transaction is aborted; another session sees the table as well.
        with self._connection.cursor() as session:
            columns = session.sql(f"SELECT * FROM {self._table}")
            types = dict(zip(columns.columns, map(str, columns.types), strict=True))
        with duckdb.connect() as scratch:
            scratch.execute("SET threads = 1")
            passed = 0
            for batch in stage.batches():
                scratch.register("b", pa.table(batch))
                for name in self._names:
                    column = ident(name)
                    refused = scratch.execute(
                        f"SELECT n, CAST({column} AS VARCHAR) FROM (SELECT {column},"
                        f" row_number() OVER () AS n FROM b) WHERE {column} IS NOT NULL"
                        f" AND TRY_CAST({column} AS {types[name]}) IS NULL ORDER BY n LIMIT 1"
                    ).fetchall()
                    for row, text in refused:
                        return PermanentError(
                            f"target: {self._subject}: column {name!r}, row {passed + row:,}: "
                            f"expected a value of {types[name]}, found {values.value(repr(text))}",
                            Diagnosis(side="target"),
                        )
                passed += batch.num_rows
        return PermanentError(
            f"target: {self._subject}: {values.server_message(first_lines(str(error)))}",
            Diagnosis(side="target"),
        )
