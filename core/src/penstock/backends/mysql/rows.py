"""Rows of a query as the server sends them: packets off the socket, whose values nobody looks into.

PyMySQL makes a tuple of each row, which costs ten times as much as all that is done here.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

import pymysql
from pymysql.constants import COMMAND, CR
from pymysql.err import raise_mysql_exception
from pymysql.protocol import MysqlPacket

from penstock.backends.api.worker import Wait

# Bytes of rows that are handed on together, and rows at about most. Larger gains nothing.
BLOCK = 4 << 20
MOST_ROWS = 1 << 14
# Bytes that are asked for at once.
_CHUNK = 128 << 10
# After the last row: values may be looked at a few bytes beyond their ends.
_SLACK = 8

_HEADER = 4
_SIZE = Struct("<I").unpack_from
_LONGEST = (1 << 24) - 1
"""The length of a packet that the next one continues; and, of a header, the bits that say it."""
_ERROR, _EOF = 0xFF, 0xFE
_EOF_MOST = 8


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows. Their bytes hold until the next ones are asked for."""

    data: memoryview
    starts: list[int]
    """Where each row begins. It consists of values, each after its length, see `decoding`."""
    size: int
    """Bytes of the rows themselves."""


def read_rows(connection: Any, query: str, wait: Wait) -> Iterator[Rows]:
    """Run a query on a source, and read its rows to their end.

    A stream that is left before its end leaves a connection that is good for nothing.

    Parameters:
        connection: PyMySQL's, with nothing unread.

    Raises:
        pymysql.Error: what the server has sent, at the beginning or in between; or it is gone.
    """
    with wait.answering("source"):
        connection._execute_command(COMMAND.COM_QUERY, query)
    timeout = connection._sock.gettimeout()
    connection._sock.settimeout(0)
    stream = _Stream(connection, wait)
    stream.skip_columns()
    yield from stream.rows()
    connection._sock.settimeout(timeout)


class _Stream:
    """What the server sends, in one buffer: from `_begin` to `_end` it is not handed on yet."""

    def __init__(self, connection: Any, wait: Wait) -> None:
        self._connection = connection
        self._socket = connection._sock
        self._wait = wait
        self._buffer = bytearray(BLOCK + _SLACK)
        self._view = memoryview(self._buffer)
        self._begin = 0
        self._end = 0

    def skip_columns(self) -> None:
        """What the result's columns are is known: only how many descriptions of them to pass by."""
        first = self._packet()
        first.check_error()
        # A server that asks for a file instead, as a false one would, says no number.
        count = first.read_length_encoded_integer()
        if not count:
            raise pymysql.InternalError(CR.CR_MALFORMED_PACKET, "expected rows, found none")
        for _ in range(count + 1):
            self._packet().check_error()

    def rows(self) -> Iterator[Rows]:
        starts: list[int] = []
        while True:
            ended = self._find(starts)
            full = self._end == BLOCK
            if starts and (ended or full or len(starts) >= MOST_ROWS):
                yield Rows(self._view, starts, self._begin - starts[0])
                starts = []
            if ended:
                return
            if not starts:
                self._to_front()
                if full and self._end == BLOCK:
                    yield self._large_row()
                    continue
            self._receive_more()

    def _find(self, starts: list[int]) -> bool:
        """Note where the rows begin that are wholly there. Returns: whether the last one was."""
        buffer, position, end = self._buffer, self._begin, self._end
        first, last = position, position
        append, limit = starts.append, end - _HEADER
        while position <= limit:
            last = position
            append(position + _HEADER)
            position += _HEADER + (_SIZE(buffer, position)[0] & _LONGEST)
        if position > end:
            starts.pop()
            position = last
        self._begin = position
        if position != end or position == first:
            return False
        # Nothing follows: so this may be the end, and what is before it cannot.
        kind = buffer[last + _HEADER]
        if kind == _ERROR:
            raise_mysql_exception(bytes(self._view[last + _HEADER : end]))
        if kind == _EOF and end - last - _HEADER <= _EOF_MOST:
            starts.pop()
            return True
        return False

    def _large_row(self) -> Rows:
        """A row that is longer than the buffer, in one of its own."""
        row = bytearray()
        length = _LONGEST
        while length == _LONGEST:
            self._need(_HEADER)
            length = _SIZE(self._buffer, self._begin)[0] & _LONGEST
            self._begin += _HEADER
            start = len(row)
            row.extend(bytes(length))
            here = min(length, self._end - self._begin)
            with memoryview(row) as view:
                view[start : start + here] = self._view[self._begin : self._begin + here]
                self._begin += here
                while here < length:
                    here += self._receive(view[start + here :])
        row.extend(bytes(_SLACK))
        return Rows(memoryview(row), [0], len(row) - _SLACK)

    def _packet(self) -> MysqlPacket:
        self._need(_HEADER)
        start = self._begin + _HEADER
        length = _SIZE(self._buffer, self._begin)[0] & _LONGEST
        self._need(_HEADER + length)
        start = self._begin + _HEADER
        self._begin = start + length
        return MysqlPacket(bytes(self._view[start : self._begin]), "utf-8")

    def _need(self, count: int) -> None:
        while self._end - self._begin < count:
            if self._end + _CHUNK > BLOCK:
                self._to_front()
            self._receive_more()

    def _to_front(self) -> None:
        if not self._begin:
            return
        rest = bytes(self._view[self._begin : self._end])
        self._view[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)

    def _receive_more(self) -> None:
        self._end += self._receive(self._view[self._end : min(self._end + _CHUNK, BLOCK)])

    def _receive(self, into: memoryview) -> int:
        while True:
            try:
                count = self._socket.recv_into(into)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait("source", self._socket.fileno(), False)
            except ssl.SSLWantWriteError:
                self._wait("source", self._socket.fileno(), True)
            except OSError as error:
                raise pymysql.OperationalError(
                    CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query ({error})"
                ) from error
            else:
                if count:
                    return int(count)
                raise pymysql.OperationalError(
                    CR.CR_SERVER_LOST, "Lost connection to MySQL server during query"
                )
