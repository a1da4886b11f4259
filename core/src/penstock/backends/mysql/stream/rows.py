"""Rows of a query as the server sends them: packets from the socket, whose values are not examined.

PyMySQL would make a tuple of each row, which takes ten times as long as everything here.
"""

from __future__ import annotations

import ssl
from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import pymysql
from pymysql.constants import COMMAND, CR
from pymysql.err import raise_mysql_exception
from pymysql.protocol import MysqlPacket

from penstock.backends.api.worker import Wait
from penstock.errors import Diagnosis, PermanentError

# The approximate maximum size of rows handed on together, in bytes. Larger gains nothing.
BLOCK = 4 << 20
MOST_ROWS = 1 << 14
# Bytes per read.
CHUNK = 128 << 10
# After the last row: code may look a few bytes beyond the end of a value.
_SLACK = 8

_HEADER = 4
_SIZE = Struct("<I").unpack_from
_LONGEST = (1 << 24) - 1
"""The length of a packet that continues in the next one, and the mask for the length in a header.
"""
_ERROR, _EOF = 0xFF, 0xFE
_EOF_MOST = 8
# Per row: Arrow's arrays have 32-bit offsets.
MOST_BYTES = (1 << 31) - 1 - _SLACK


class Rows(NamedTuple):
    """Complete rows of a query, as the server sent them."""

    data: memoryview
    """Valid until the next rows are asked for."""
    starts: array[int]
    """The start of each row, in 64 bits. A row consists of values, each preceded by its length, see
    `decoding`.
    """


NO_ROWS = Rows(memoryview(b""), array("q"))


def read_rows(connection: Any, query: str, wait: Wait) -> Iterator[Rows]:
    """Run a query on a source, and read its rows to the end.

    A stream that is abandoned leaves a connection that cannot be used again.

    Args:
        connection: PyMySQL's connection, with nothing unread.
        query: the query, which needs no values.
        wait: waits for the socket, within the stall timeout.

    Raises:
        pymysql.Error: an error from the server, at the beginning or in between; or the server is
            gone.
        PermanentError: a row is too long for Arrow.
    """
    with wait.answering("source"):
        connection._execute_command(COMMAND.COM_QUERY, query)
    timeout = connection._sock.gettimeout()
    connection._sock.settimeout(0)
    yield from _Stream(connection._sock, wait).rows()
    connection._sock.settimeout(timeout)


class _Stream:
    """The data from the server, in one buffer.

    The part from `_begin` to `_end` is not handed on yet.
    """

    def __init__(self, socket: Any, wait: Wait) -> None:
        self._socket = socket
        self._wait = wait
        self._buffer = bytearray(BLOCK + _SLACK)
        self._view = memoryview(self._buffer)
        self._begin = self._end = 0

    def rows(self) -> Iterator[Rows]:
        # The columns are known, so their descriptions are only skipped. A fake server that requests
        # a file instead sends no number.
        count = self._packet().read_length_encoded_integer()
        if not count:
            raise pymysql.InternalError(CR.CR_MALFORMED_PACKET, "expected rows, found none")
        for _ in range(count + 1):
            self._packet()
        starts = array("q")
        while True:
            ended = self._find(starts)
            full = self._end == BLOCK
            if starts and (ended or full or len(starts) >= MOST_ROWS):
                yield Rows(self._view, starts)
                starts = array("q")
            if ended:
                return
            if full and not starts:
                if not self._begin:
                    yield self._large_row()
                    continue
                self._to_front()
            self._receive_more()

    def _find(self, starts: array[int]) -> bool:
        """Note where complete rows begin; return whether the rows have ended."""
        buffer, begin, end = self._buffer, self._begin, self._end
        position = last = begin
        append, limit = starts.append, end - _HEADER
        while position <= limit:
            last = position
            append(position + _HEADER)
            position += _HEADER + (_SIZE(buffer, position)[0] & _LONGEST)
        if position > end:
            starts.pop()
            position = last
        self._begin = position
        # Only a packet that nothing follows may be something other than a row.
        if begin == position or position != end:
            return False
        last += _HEADER
        if buffer[last] == _ERROR:
            raise_mysql_exception(bytes(self._view[last:end]))
        if buffer[last] == _EOF and end - last <= _EOF_MOST:
            starts.pop()
            return True
        return False

    def _large_row(self) -> Rows:
        """Return a row larger than the buffer, in a buffer of its own."""
        row = bytearray()
        length = _LONGEST
        while length == _LONGEST:
            length = self._length()
            start = len(row)
            if start + length > MOST_BYTES:
                raise PermanentError(
                    f"source: expected rows of at most {MOST_BYTES:,} bytes, found a longer one; "
                    "leave such rows out with --where, or some of the columns with --columns",
                    Diagnosis(side="source"),
                )
            row.extend(bytes(length))
            with memoryview(row) as view:
                copied_bytes = min(length, self._end - self._begin)
                view[start : start + copied_bytes] = self._view[
                    self._begin : self._begin + copied_bytes
                ]
                self._begin += copied_bytes
                while copied_bytes < length:
                    copied_bytes += self._receive(view[start + copied_bytes :])
        row.extend(bytes(_SLACK))
        return Rows(memoryview(row), array("q", [0]))

    def _packet(self) -> MysqlPacket:
        length = self._length()
        self._need(length)
        self._begin += length
        packet = MysqlPacket(bytes(self._view[self._begin - length : self._begin]), "utf-8")
        packet.check_error()
        return packet

    def _length(self) -> int:
        """Return the length of the packet that begins here; its content follows."""
        self._need(_HEADER)
        self._begin += _HEADER
        return int(_SIZE(self._buffer, self._begin - _HEADER)[0] & _LONGEST)

    def _need(self, count: int) -> None:
        while self._end - self._begin < count:
            if self._end == BLOCK:
                self._to_front()
            self._receive_more()

    def _to_front(self) -> None:
        unread = bytes(self._view[self._begin : self._end])
        self._view[: len(unread)] = unread
        self._begin, self._end = 0, len(unread)

    def _receive_more(self) -> None:
        self._end += self._receive(self._view[self._end : min(self._end + CHUNK, BLOCK)])

    def _receive(self, into: memoryview) -> int:
        reason: object = "the server closed it"
        while True:
            try:
                if count := self._socket.recv_into(into):
                    return int(count)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
                writing = isinstance(error, ssl.SSLWantWriteError)
                self._wait("source", self._socket.fileno(), writing)
                continue
            except OSError as error:
                reason = error
            raise pymysql.OperationalError(
                CR.CR_SERVER_LOST, f"Lost connection to MySQL ({reason})"
            )
