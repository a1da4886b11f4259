"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from penstock.backends.sql.conditions import condition
from penstock.backends.sql.one_file.reader import FileReader
from penstock.errors import PermanentError
from penstock.model.plans import Partition

from .dialect import ARROW_TYPES, SQLITE
from .session import SqliteSession, connect, translated
from .snapshot import check_version

BATCH_ROWS = 1000
_PYTHON: dict[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int,),
    pa.float64(): (float, int),
    pa.string(): (str,),
    pa.binary(): (bytes,),
    pa.date32(): (str,),
}


class SqliteReader(FileReader[SqliteSession]):
    def connect(self) -> SqliteSession:
        assert self.path is not None
        return connect(self.path, "source", "ro")

    def batches(self, session: SqliteSession, partition: Partition) -> Iterator[pa.RecordBatch]:
        pairs, rows = self.spec.pairs, session.rows_of(self.spec.relation)
        subject = f"partition {partition.id}"
        types = dict(session.describe(f"SELECT * FROM {rows}", subject))
        schema = pa.schema([(pair.target, ARROW_TYPES[types[pair.source]]) for pair in pairs])
        listed = ", ".join(SQLITE.ident(pair.source) for pair in pairs)
        chosen = condition(SQLITE, self.spec.where, partition.extent)
        with translated("source", subject):
            cursor = session.connection.execute(f"SELECT {listed} FROM {rows} WHERE {chosen}")
            # Now that it reads, nobody writes until it is through; before, somebody may have.
            if self.path is not None and self.spec.snapshot is not None:
                check_version(self.path, self.spec.snapshot)
            passed = 0
            while (found := cursor.fetchmany(BATCH_ROWS)) or not passed:
                columns = zip(*found, strict=True) if found else [()] * len(pairs)
                arrays = [
                    _array(values, field, f"source: {subject}", passed)
                    for values, field in zip(columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                passed += len(found) or 1


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


open_reader = SqliteReader
