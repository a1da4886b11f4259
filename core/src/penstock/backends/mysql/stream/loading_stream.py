"""The base of the streams into a table: the server must store every row unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pymysql.protocol import MysqlPacket, OKPacketWrapper

from penstock.backends.api.worker import Block, Wait
from penstock.backends.mysql.connection import Connection
from penstock.backends.mysql.errors import CONSTRAINTS, translated
from penstock.backends.mysql.stream.encoding import RowEncoder, Syntax
from penstock.backends.mysql.stream.wire import SIDE, StatementWire
from penstock.errors import Diagnosis, PermanentError
from penstock.model import values
from penstock.model.tables import Column

_ROW = re.compile(r"(?<= at row )\d+$")
_PLACE = re.compile(r" for column (?:(?:`[^`]+`\.)*`(.+?)`|'(.+?)') at row ([\d,]+)$")
_MOST_SHOWN = 3


class TableStream:
    """A stream into one table.

    Args:
        connection: a session within the attempt's transaction.
        table: the quoted name.
        columns: the columns to load, in the order of the batches.
        most: the maximum packet size that the server accepts, in bytes.
    """

    syntax: Syntax

    def __init__(
        self, connection: Connection, table: str, columns: Sequence[Column], most: int
    ) -> None:
        self._connection = connection
        self._table = table
        self._columns = columns
        self._most = most
        self._encoder = RowEncoder(columns, self.syntax, table)
        self._wire = StatementWire(connection)
        self._rows = 0
        self.fileno = self._wire.fileno

    def check(self) -> None:
        with translated(SIDE, self._table):
            self._wire.check()

    def write(self, block: Block, wait: Wait) -> None:
        if block.num_rows:
            before = self._encoder.encoded_rows
            rows = self._encoder.encode(block)
            with translated(SIDE, self._table):
                self._send(rows, before, wait)

    def end(self, wait: Wait) -> int:
        with translated(SIDE, self._table):
            self._finish(wait)
        return self._rows

    def _send(self, rows: pa.Array, before: int, wait: Wait) -> None:
        """Send some rows.

        Args:
            rows: a text for each row, from the encoder.
            before: how many rows of the stream were sent before these.
            wait: waits for the socket, within the stall timeout.
        """
        raise NotImplementedError

    def _finish(self, wait: Wait) -> None:
        """Finish, after the last row."""

    def _take(self, answer: MysqlPacket, before: int, wait: Wait) -> None:
        """Take the answer to a statement.

        Raises:
            PermanentError: the server reports a warning; even a note may report lost digits.
        """
        done = OKPacketWrapper(answer)
        self._rows += done.affected_rows
        if done.warning_count:
            with wait.answering(SIDE):
                warnings = self._connection.show_warnings()
            messages = list(dict.fromkeys(in_stream(text, before) for _, _, text in warnings))
            shown = list(dict.fromkeys(map(values.server_message, messages)))
            more = f"; and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
            code = warnings[0][1] if warnings else 0  # as with max_error_count = 0
            expected = CONSTRAINTS.get(code, "each value to fit into its column")
            raise PermanentError(
                f"{SIDE}: {self._table}: {_place(messages)}expected {expected}, found: "
                f"{'; '.join(shown[:_MOST_SHOWN])}{more}",
                Diagnosis(side=SIDE),
            )


def _place(messages: Sequence[str]) -> str:
    """Return the first place in the server's message, in the words of our own messages."""
    match = next(filter(None, map(_PLACE.search, messages)), None)
    return f"column {(match[1] or match[2])!r}, row {match[3]}: " if match else ""


def in_stream(text: Any, before: int) -> str:
    """Return the server's message with the row of the stream.

    The server counts the rows of a statement.
    """
    return _ROW.sub(lambda row: f"{int(row[0]) + before:,}", str(text))
