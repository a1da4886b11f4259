"""INSERT statements of many rows, for servers that take no LOAD DATA LOCAL."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import pyarrow as pa
import pymysql

from penstock.backends.api.worker import Block, Wait
from penstock.backends.mysql.load.columns import TargetColumn
from penstock.backends.mysql.load.encoding import VALUES, Encoder
from penstock.backends.mysql.load.taken import check_all_taken, check_warnings, counted_from
from penstock.backends.mysql.load.wire import SIDE, Wire
from penstock.errors import Diagnosis, PermanentError

_BYTES = 1 << 20
"""Of a statement; a longer row has one of its own."""


class InsertStream:
    """
    Parameters:
        most: bytes of a packet that the server takes.
    """

    def __init__(
        self,
        connection: pymysql.Connection,
        table: str,
        columns: Sequence[TargetColumn],
        most: int,
    ) -> None:
        self._connection = connection
        self._table = table
        self._encoder = Encoder(columns, VALUES, f"target: {table}")
        self._wire = Wire(connection)
        names = ", ".join(column.quoted for column in columns)
        self._insert = f"INSERT INTO {table} ({names}) VALUES ".encode()
        self._most = most - len(self._insert) - 1
        self._taken = 0
        self.fileno = self._wire.fileno
        self.check = self._wire.check

    def write(self, block: Block, wait: Wait) -> None:
        if not block.num_rows:
            return
        passed = self._encoder.passed
        rows = self._encoder.encode(block).cast(pa.large_string())
        _, offsets, content = rows.buffers()
        ends = memoryview(offsets).cast("q")[: len(rows) + 1]
        texts = memoryview(content)
        first = 0
        while first < len(rows):
            most = min(_BYTES, self._most)
            after = max(first + 1, bisect_right(ends, ends[first] + most, lo=first) - 1)
            if ends[after] - ends[first] > self._most:
                raise PermanentError(
                    f"{SIDE}: {self._table}: row {passed + first + 1:,}: expected at most "
                    f"{self._most:,} bytes (max_allowed_packet), found {ends[after] - ends[first]:,}",
                    Diagnosis(side=SIDE),
                )
            # Without the comma after the last row.
            self._run(texts[ends[first] : ends[after] - 1], passed + first, wait)
            first = after

    def _run(self, rows: memoryview, before: int, wait: Wait) -> None:
        with counted_from(before):
            done = self._wire.done(self._wire.query(self._insert + rows, wait))
        check_warnings(self._connection, self._table, done.warning_count, before, wait)
        self._taken += done.affected_rows

    def end(self, wait: Wait) -> int:
        check_all_taken(self._table, self._encoder.passed, self._taken)
        return self._taken
