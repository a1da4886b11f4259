"""LOAD DATA LOCAL: the server requests a file, and receives the rows of a stream.

No file is opened, whatever the server requests. LOCAL turns errors into warnings: values that do
not fit are truncated, and rows are left out. The server reports them at the end of the stream.
"""

from __future__ import annotations

import pyarrow as pa
import pymysql
from pymysql.constants import CR

from penstock.backends.api.worker import Block, Wait
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.stream.encoding import INFILE, kind
from penstock.backends.mysql.stream.loading_stream import TableStream
from penstock.backends.mysql.stream.wire import SIDE

_PIECE = 1 << 18
# Computed by the server from a field's text: the stream is text in one character set.
_COMPUTED = {"bits": "CAST({} AS UNSIGNED)", "bytes": "UNHEX({})"}


class InfileStream(TableStream):
    """A stream of record batches into LOAD DATA LOCAL."""

    syntax = INFILE

    def start(self, wait: Wait) -> None:
        with translated(SIDE, self._table):
            packet = self._wire.query(self._statement().encode(), wait)
            if not packet.is_load_local_packet():
                raise pymysql.OperationalError(CR.CR_COMMANDS_OUT_OF_SYNC, "no request for rows")

    def _statement(self) -> str:
        fields, computed = [], []
        for place, column in enumerate(self._columns):
            field = name = MYSQL.ident(column.name)
            if by := _COMPUTED.get(kind(column)):
                field = f"@penstock_{place}"
                computed.append(f"{name} = {by.format(field)}")
            fields.append(field)
        return (
            f"LOAD DATA LOCAL INFILE 'penstock' INTO TABLE {self._table} CHARACTER SET utf8mb4 "
            r"FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' "
            f"({', '.join(fields)}){' SET ' if computed else ''}{', '.join(computed)}"
        )

    def _send(self, rows: pa.Array, before: int, wait: Wait) -> None:
        self._put(memoryview(rows.buffers()[2]), wait)

    def _put(self, text: memoryview, wait: Wait) -> None:
        piece = min(_PIECE, self._most // 2)
        for start in range(0, len(text), piece):
            self._wire.send(text[start : start + piece], wait)

    def _finish(self, wait: Wait) -> None:
        self._wire.send(memoryview(b""), wait)
        self._take(self._wire.answer(wait), 0, wait)


class LineStream(InfileStream):
    """A stream of lines that the source has written."""

    def write(self, block: Block, wait: Wait) -> None:
        with translated(SIDE, self._table):
            self._put(memoryview(block), wait)
