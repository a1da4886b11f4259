"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from penstock.backends.shared.values.row_batches import RowBatches
from penstock.backends.sql.one_file.reader import FileReader
from penstock.backends.sql.rows.conditions import condition
from penstock.model.plans import Partition

from .dialect import ARROW_TYPES, SQLITE
from .session import SqliteSession, connect, translated
from .snapshot import VERSIONS

BATCH_ROWS = 1000
# SQLite stores dates as texts.
DATES = {pa.date32(): date.fromisoformat}


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
        batches = RowBatches(schema, f"source: {subject}", DATES)
        with translated("source", subject):
            cursor = session.connection.execute(f"SELECT {listed} FROM {rows} WHERE {chosen}")
            # While it reads, no process can write; before, one may have.
            if self.path is not None and self.spec.snapshot is not None:
                VERSIONS.check(self.path, self.spec.snapshot)
            yield batches.batch([])
            while found := cursor.fetchmany(BATCH_ROWS):
                yield batches.batch(found)


open_reader = SqliteReader
