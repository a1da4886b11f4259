"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import Ahead, computing
from penstock.backends.sql.conditions import condition
from penstock.errors import PermanentError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

from .dialect import ARROW_TYPES, SQLITE
from .session import SqliteSession, connect, translated
from .source import check_version, rows_of

BATCH_ROWS = 1000
_PYTHON: dict[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int,),
    pa.float64(): (float, int),
    pa.string(): (str,),
    pa.binary(): (bytes,),
    pa.date32(): (str,),
}


class SqliteReader:
    rows = 0

    def __init__(self, path: str, spec: WorkerSpec) -> None:
        self._path = path
        self._spec = spec
        self._session: SqliteSession | None = None
        self._ahead: Ahead[pa.RecordBatch] | None = None

    def switch_run(self, spec: WorkerSpec) -> None:
        self.abandon()
        self._spec = spec

    def label(self, application_name: str) -> None:
        """Nobody watches a file."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        if self._session is None:
            self._session = connect(self._path, "source", "ro")
        if self._spec.snapshot is not None:
            check_version(self._path, self._spec.snapshot)
        session, self.rows = self._session, 0
        # In a thread, one batch ahead: SQLite looks at no signal while it computes.
        self._ahead = Ahead(lambda _: self._batches(session, partition))
        for batch in self._ahead.take(computing(wait)):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes

    def _batches(self, session: SqliteSession, partition: Partition) -> Iterator[pa.RecordBatch]:
        pairs, rows = self._spec.pairs, rows_of(self._spec.relation)
        subject = f"partition {partition.id}"
        types = dict(session.describe(f"SELECT * FROM {rows}", subject))
        schema = pa.schema([(pair.target, ARROW_TYPES[types[pair.source]]) for pair in pairs])
        listed = ", ".join(SQLITE.ident(pair.source) for pair in pairs)
        chosen = condition(SQLITE, self._spec.where, partition.extent)
        with translated("source", subject):
            cursor = session.connection.execute(f"SELECT {listed} FROM {rows} WHERE {chosen}")
            passed = 0
            while (found := cursor.fetchmany(BATCH_ROWS)) or not passed:
                columns = zip(*found, strict=True) if found else [()] * len(pairs)
                arrays = [
                    _array(values, field, f"source: {subject}", passed)
                    for values, field in zip(columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                passed += len(found) or 1

    def abandon(self) -> None:
        session, self._session = self._session, None
        ahead, self._ahead = self._ahead, None
        if session is not None:
            if ahead is not None:
                ahead.leave(session.connection.interrupt)
            session.close()


def _array(values: Sequence[Any], field: pa.Field, subject: str, passed: int) -> pa.Array:
    """
    Raises:
        PermanentError: a value is of another type than its column, which SQLite allows.
    """
    for row, value in enumerate(values, passed + 1):
        if value is not None and not isinstance(value, _PYTHON[field.type]):
            raise PermanentError(
                f"{subject}: column {field.name!r}, row {row:,}: expected a value of {field.type}, "
                f"found {value!r}"
            )
    if field.type == pa.date32():
        values = [None if value is None else date.fromisoformat(value) for value in values]
    return pa.array(values, field.type)
