"""Statements over a driver's connection, without blocking on its socket.

The driver itself blocks while it sends, and answers a request for a local file with whatever file
the server names.
"""

from __future__ import annotations

import select
import ssl
from typing import Any

import pymysql
from pymysql.constants import COMMAND, CR
from pymysql.protocol import MysqlPacket

from penstock.backends.api.worker import Wait
from penstock.backends.mysql.connection import Connection
from penstock.errors import Diagnosis, TransientError

SIDE = "target"
_MOST = 0xFFFFFF
"""Bytes per packet; a full packet is followed by another."""


class StatementWire:
    """The wire of a connection, for statements and for what follows them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return int(self._connection._sock.fileno())

    def query(self, statement: bytes, wait: Wait) -> MysqlPacket:
        """Send a statement, and return the first packet of the answer."""
        self._connection._next_seq_id = 0
        command = memoryview(bytes([COMMAND.COM_QUERY]) + statement)
        for start in range(0, len(command) + 1, _MOST):
            self.send(command[start : start + _MOST], wait)
        return self.answer(wait)

    def send(self, payload: memoryview, wait: Wait) -> None:
        """Send one packet."""
        connection = self._connection
        head = len(payload).to_bytes(3, "little") + bytes([connection._next_seq_id])
        connection._next_seq_id = (connection._next_seq_id + 1) % 256
        socket = self._unblocked()
        # Only a plain socket sends several parts at once.
        parts = not isinstance(socket, ssl.SSLSocket)
        unsent = [memoryview(head), payload] if parts else [memoryview(head + payload)]
        while unsent:
            try:
                sent = socket.sendmsg(unsent) if parts else socket.send(unsent[0])
            except (BlockingIOError, ssl.SSLWantWriteError):
                wait(SIDE, self.fileno(), True)
                self.check()
                continue
            except ssl.SSLWantReadError:
                wait(SIDE, self.fileno(), False)
                continue
            except OSError as error:
                self.check()
                raise pymysql.OperationalError(CR.CR_SERVER_GONE_ERROR, str(error)) from error
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.pop(0))
            if unsent:
                unsent[0] = unsent[0][sent:]

    def answer(self, wait: Wait) -> MysqlPacket:
        """Return the first packet of the answer.

        Raises:
            pymysql.Error: the answer is an error.
        """
        while not self._heard():
            wait(SIDE, self.fileno(), False)
        with wait.answering(SIDE):
            return self._connection._read_packet()

    def check(self) -> None:
        """Raise if the server has sent something out of turn."""
        if self._heard():
            self._connection._read_packet()
            raise TransientError(f"{SIDE}: the server ended the stream", Diagnosis(side=SIDE))

    def _unblocked(self) -> Any:
        """Return the socket without a timeout; the driver sets its own again when it uses it."""
        connection = self._connection
        if connection._sock is None:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, "Lost connection to the server")
        connection._sock.settimeout(0)
        connection._current_timeout = 0
        return connection._sock

    def _heard(self) -> bool:
        """Whether the server has sent something, or has closed the connection."""
        poll = select.poll()
        poll.register(self._unblocked(), select.POLLIN)
        readable = bool(poll.poll(0))
        try:
            return bool(self._connection._rfile.peek(1)) or readable
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True
