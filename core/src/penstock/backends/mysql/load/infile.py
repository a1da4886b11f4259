"""LOAD DATA LOCAL: the server asks for a file, and is sent the rows of a stream.

No file is opened, whatever the server asks for. LOCAL makes warnings of errors: what does not fit
is cut, rows are left out. So there is no warning that is none, a note neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import pymysql

from penstock.backends.api.worker import Block, Wait
from penstock.backends.mysql.load.columns import TargetColumn
from penstock.backends.mysql.load.encoding import INFILE, Encoder
from penstock.backends.mysql.load.taken import check_all_taken, check_warnings
from penstock.backends.mysql.load.wire import Wire

_PIECE = 1 << 18
# Values that the server computes from the text of a field.
_COMPUTED = {
    "digits": "CAST({} AS UNSIGNED)",
    "bytes": "UNHEX({})",
    "geometry": "ST_GeomFromWKB(UNHEX({}))",
}


class InfileStream:
    """Begins to load at once."""

    def __init__(
        self,
        connection: pymysql.Connection,
        table: str,
        columns: Sequence[TargetColumn],
        most: int,
        wait: Wait,
    ) -> None:
        self._connection = connection
        self._table = table
        self._encoder = Encoder(columns, INFILE, f"target: {table}")
        self._wire = Wire(connection)
        self._piece = min(_PIECE, most // 2)
        packet = self._wire.query(load_data(table, columns).encode(), wait)
        if not packet.is_load_local_packet():
            self._wire.done(packet)
            raise pymysql.OperationalError(0, "the server has not asked for the rows")
        self.fileno = self._wire.fileno
        self.check = self._wire.check

    def write(self, block: Block, wait: Wait) -> None:
        if not block.num_rows:
            return
        rows = memoryview(self._encoder.encode(block).buffers()[2])
        for start in range(0, len(rows), self._piece):
            self._wire.send(rows[start : start + self._piece], wait)

    def end(self, wait: Wait) -> int:
        self._wire.send(memoryview(b""), wait)
        done = self._wire.done(self._wire.answer(wait))
        check_warnings(self._connection, self._table, done.warning_count, 0, wait)
        check_all_taken(self._table, self._encoder.passed, done.affected_rows)
        return int(done.affected_rows)


def load_data(table: str, columns: Sequence[TargetColumn]) -> str:
    """The statement. Bytes go in a variable, as digits: the stream is text, of one character set."""
    fields, computed = [], []
    for place, column in enumerate(columns):
        by = _COMPUTED.get(column.kind)
        if by:
            fields.append(f"@penstock{place}")
            computed.append(f"{column.quoted} = {by.format(fields[-1])}")
        else:
            fields.append(column.quoted)
    return (
        f"LOAD DATA LOCAL INFILE 'penstock' INTO TABLE {table} CHARACTER SET utf8mb4 "
        r"FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' "
        f"({', '.join(fields)}){' SET ' if computed else ''}{', '.join(computed)}"
    )
