"""INSERT statements of many rows, for servers that do not accept LOAD DATA LOCAL."""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa
import pymysql

from penstock.backends.api.worker import Wait
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.stream.encoding import VALUES, refusal
from penstock.backends.mysql.stream.loading_stream import TableStream, in_stream

_BYTES = 1 << 20
"""The bytes per statement; a longer row gets its own statement."""


class InsertStream(TableStream):
    """A stream of record batches into INSERT statements."""

    syntax = VALUES

    def start(self, wait: Wait) -> None:
        names = ", ".join(MYSQL.ident(column.name) for column in self._columns)
        self._insert = f"INSERT INTO {self._table} ({names}) VALUES ".encode()

    def _send(self, rows: pa.Array, before: int, wait: Wait) -> None:
        _, offsets, text = rows.cast(pa.large_string()).buffers()
        ends, text = memoryview(offsets).cast("q"), memoryview(text)
        first = 0
        while first < len(rows):
            after = bisect_right(ends, ends[first] + min(_BYTES, self._most // 2), lo=first) - 1
            after = min(max(after, first + 1), len(rows))
            # Without the comma after the last row.
            self._run(text[ends[first] : ends[after] - 1], before + first, wait)
            first = after

    def _run(self, rows: memoryview, before: int, wait: Wait) -> None:
        statement = self._insert + rows
        if len(statement) >= self._most:
            raise refusal(
                self._table,
                f"a statement of at most {self._most:,} bytes (max_allowed_packet)",
                f"{len(statement):,}",
                f"row {before + 1:,}: ",
            )
        try:
            answer = self._wire.query(statement, wait)
        except pymysql.MySQLError as error:
            error.args = (error.args[0], in_stream(error.args[-1], before))
            raise
        self._take(answer, before, wait)
