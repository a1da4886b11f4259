"""COPY outside of the interpreter, on psycopg's connections, through the libpq it has loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import psycopg

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import translated
from penstock.backends.shared.native import native
from penstock.errors import PenstockError

# How a turn has ended; `Outcome` in core/native/src/turn.rs.
MORE, READY, SPOKE, SOURCE_FAILED, TARGET_FAILED, REFUSED = range(6)


@dataclass(frozen=True, slots=True)
class CopySink:
    """A COPY FROM STDIN that has begun."""

    connection: Connection


def pump(source: Connection, target: Connection) -> Any:
    """From a COPY that has begun on the one to that on the other."""
    module, library = _loaded()
    return module.Pump(library, _pointer(source), _pointer(target))


def lines(source: Connection) -> Any:
    """Of a COPY in text format that has begun; see `api.worker.LINES`."""
    module, library = _loaded()
    return module.Lines(library, _pointer(source))


def decoder(source: Connection, kinds: list[str], most_rows: int, most_bytes: int) -> Any:
    """Of a binary COPY that has begun; see `Decoder` in core/native/src/decode/decoder.rs."""
    module, library = _loaded()
    made = module.Decoder(kinds, most_rows, most_bytes)
    made.attach(library, _pointer(source))
    return made


@cache
def _loaded() -> tuple[ModuleType, Any]:
    """The package, which is installed, and the library that psycopg's connections are of."""
    module = native()
    assert module is not None
    # Wherever psycopg's own code is linked with it, or has loaded it.
    if psycopg.pq.__impl__ == "python":
        return module, module.Libpq(import_module("psycopg.pq._pq_ctypes").libname)
    path = import_module(f"psycopg_{psycopg.pq.__impl__}.pq").__file__
    return module, module.Libpq(path)


def _pointer(connection: Connection) -> int:
    """Of the connection, as the library knows it."""
    found: int = connection.pgconn.pgconn_ptr  # type: ignore[attr-defined]
    return found


def _nothing() -> None:
    pass


class NativeMover:
    """See `Mover`.

    Parameters:
        moved: an object of `penstock_native` with turns.
        connections: the source's, and the target's where the object uses it too.
        finish: called when all is moved.
        refused: what an object's `fault` means, for those that look at values.
    """

    def __init__(
        self,
        moved: Any,
        connections: tuple[Connection, ...],
        *,
        finish: Callable[[], None] = _nothing,
        refused: Callable[[int, int, str, bytes], PenstockError] | None = None,
    ) -> None:
        self._moved = moved
        self._connections = connections
        self._finish = finish
        self._refused = refused

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
        elif outcome == REFUSED:
            assert self._refused is not None
            raise self._refused(*self._moved.fault)
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
