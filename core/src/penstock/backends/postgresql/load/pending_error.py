"""Early detection of an aborted stream, which libpq reports only after the stream is ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from functools import cache

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.libpq import library, pointer

# An ErrorResponse consists of 'E', a length of 4 bytes, and the fields, beginning with 'S' for
# severity: https://www.postgresql.org/docs/current/protocol-message-formats.html
_HEAD = 6


def has_pending_error(connection: Connection) -> bool:
    """Peek at the next message without consuming it."""
    head = (
        _peek_decrypted(connection) if connection.pgconn.ssl_in_use else _peek(connection.fileno())
    )
    return len(head) == _HEAD and head[0] == ord("E") and head[5] == ord("S")


def _peek(fd: int) -> bytes:
    with contextlib.closing(socket.socket(fileno=os.dup(fd))) as peeker:
        try:
            return peeker.recv(_HEAD, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return b""


def _peek_decrypted(connection: Connection) -> bytes:
    functions = _functions()
    session = functions and functions.PQsslStruct(pointer(connection), b"OpenSSL")
    if functions is None or not session:
        return b""
    head = ctypes.create_string_buffer(_HEAD)
    length: int = functions.SSL_peek(session, head, _HEAD)
    return head.raw[: max(0, length)]


@cache
def _functions() -> ctypes.CDLL | None:
    """Return functions of libpq and its OpenSSL; None if it uses another library."""
    try:
        loaded = ctypes.CDLL(library())
        loaded.PQsslStruct.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        loaded.PQsslStruct.restype = ctypes.c_void_p
        loaded.SSL_peek.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
    except (OSError, AttributeError):
        return None
    return loaded
