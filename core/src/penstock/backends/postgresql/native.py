"""COPY outside of the interpreter, on psycopg's connections, through the libpq it has loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.libpq import library
from penstock.backends.shared.native import native

# How a turn has ended; `Outcome` in core/native/src/turn.rs.
MORE, READY, SPOKE, SOURCE_FAILED, TARGET_FAILED = range(5)

_log = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class CopySink:
    """A COPY FROM STDIN that has begun."""

    connection: Connection


@cache
def libpq() -> Any | None:
    """The library of psycopg's connections; None where `penstock_native` cannot be used with it."""
    module = native()
    if module is None:
        return None
    try:
        return module.Libpq(library())
    except OSError as error:
        _log.warning("penstock-native is not used, as it does not find psycopg's libpq: %s", error)
        return None


class NativeMover:
    """See `Mover`.

    Parameters:
        moved: an object of `penstock_native` with turns.
        connections: the source's, and the target's where the object uses it too.
        finish: called when all is moved.
    """

    def __init__(
        self, moved: Any, connections: tuple[Connection, ...], finish: Callable[[], None]
    ) -> None:
        self._moved = moved
        self._connections = connections
        self._finish = finish

    def run(self, seconds: float, watched: int, check: Callable[[], None]) -> bool:
        outcome = self._moved.run(seconds, watched)
        if outcome == READY:
            self._finish()
            return False
        if outcome == SPOKE:
            check()
        elif outcome in (SOURCE_FAILED, TARGET_FAILED):
            place = outcome - SOURCE_FAILED
            with translated(("source", "target")[place]):
                message = self._connections[place].pgconn.get_error_message()
                raise psycopg.OperationalError(message)
        return True

    @property
    def waited(self) -> tuple[float, float]:
        waited: tuple[float, float] = self._moved.waited
        return waited

    @property
    def idle(self) -> float:
        return float(self._moved.idle)

    @property
    def side(self) -> str:
        return str(self._moved.side)

    @property
    def rows(self) -> int:
        return int(self._moved.rows)

    @property
    def bytes(self) -> int:
        return int(self._moved.bytes)
