"""The libpq of psycopg's connections, for functions that psycopg does not offer."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import psycopg

from penstock.backends.postgresql.connection import Connection


@cache
def library() -> str:
    """Return the path of the library that psycopg loaded: libpq, or its own code linked with it."""
    if psycopg.pq.__impl__ == "python":
        name: str = import_module("psycopg.pq._pq_ctypes").libname
        return name
    path = import_module(f"psycopg_{psycopg.pq.__impl__}.pq").__file__
    assert path is not None
    return path


def pointer(connection: Connection) -> int:
    """Return the connection's pointer in the library."""
    address: int = connection.pgconn.pgconn_ptr  # type: ignore[attr-defined]
    return address
