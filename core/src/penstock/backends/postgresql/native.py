"""COPY outside the interpreter, on psycopg's connections, through the libpq that psycopg loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import psycopg

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.session.libpq import library, pointer
from penstock.backends.shared.native import native
from penstock.errors import PenstockError

# The results of a turn: `Outcome` in core/native/src/turn.rs.
MORE, READY, SPOKE, SOURCE_FAILED, TARGET_FAILED, REFUSED = range(6)

_log = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class CopySink:
    """A running COPY FROM STDIN."""

    connection: Connection


def available() -> bool:
    """Whether the native code is installed and fits psycopg's libpq."""
    return _libraries() is not None


def is_plain(connection: Connection) -> bool:
    """Whether rows can be read from the connection's socket directly, without encryption."""
    _, libpq = _loaded()
    return bool(libpq.is_plain(pointer(connection)))


def pump(source: Connection, target: Connection, unanswered: bool) -> Any:
    """Return a pump from a running COPY TO to a running COPY FROM.

    Args:
        source: the source's session.
        target: the target's session.
        unanswered: here and below: the source's COPY was sent, and libpq has read nothing since;
            only for connections that are plain.
    """
    module, libpq = _loaded()
    return module.Pump(libpq, pointer(source), pointer(target), unanswered)


def lines(
    source: Connection, unanswered: bool, *, verbatim: bool, trimmed: Sequence[bool] = ()
) -> Any:
    """Return a reader of a running COPY in text format or CSV.

    Args:
        source: the source's session.
        unanswered: see `pump`.
        verbatim: whether lines stay as they are; otherwise they become `api.worker.LINES`.
        trimmed: for each column whether its values lose the blanks at their end.
    """
    module, libpq = _loaded()
    return module.Lines(libpq, pointer(source), unanswered, verbatim, list(trimmed))


def decoder(
    source: Connection, unanswered: bool, kinds: list[str], most_rows: int, most_bytes: int
) -> Any:
    """Return a decoder of a running binary COPY.

    See `Decoder` in core/native/src/decode/decoder.rs.

    Args:
        source: the source's session.
        unanswered: see `pump`.
        kinds: how each column is sent, see `Kind` in core/native/src/decode/kind.rs.
        most_rows: the maximum number of rows in a batch.
        most_bytes: the maximum size of a batch on the wire, in bytes.
    """
    module, libpq = _loaded()
    native_decoder = module.Decoder(kinds, most_rows, most_bytes)
    native_decoder.attach(libpq, pointer(source), unanswered)
    return native_decoder


@cache
def _libraries() -> tuple[ModuleType, Any] | None:
    """Return the package, and the library of psycopg's connections; None without either."""
    module = native()
    if module is None:
        return None
    try:
        return module, module.Libpq(library())
    except OSError as error:
        _log.warning(
            "penstock-native is not used, because psycopg's libpq cannot be loaded: %s", error
        )
        return None


def _loaded() -> tuple[ModuleType, Any]:
    libraries = _libraries()
    assert libraries is not None
    return libraries


def _nothing() -> None:
    pass


class NativeMover:
    """See `Mover`.

    Args:
        native_mover: an object of `penstock_native` that works in turns.
        connections: the source's, and the target's if the object uses it too.
        finish: called when everything has been moved.
        refusal: translates an object's `fault` to an error, for objects that examine values.
    """

    max_turn_bytes: int | None = None

    def __init__(
        self,
        native_mover: Any,
        connections: tuple[Connection, ...],
        *,
        finish: Callable[[], None] = _nothing,
        refusal: Callable[[int, int, str, bytes], PenstockError] | None = None,
    ) -> None:
        self._native_mover = native_mover
        self._connections = connections
        self._finish = finish
        self._refusal = refusal

    def run(self, seconds: float, target_socket: int, check: Callable[[], None]) -> bool:
        limits = () if self.max_turn_bytes is None else (self.max_turn_bytes,)
        outcome = self._native_mover.run(seconds, target_socket, *limits)
        if outcome == READY:
            self._finish()
            return False
        if outcome == SPOKE:
            check()
        elif outcome in (SOURCE_FAILED, TARGET_FAILED):
            place = outcome - SOURCE_FAILED
            with translated(("source", "target")[place]):
                message = self._connections[place].pgconn.get_error_message()
                raise psycopg.OperationalError(message or "the connection was lost")
        elif outcome == REFUSED:
            assert self._refusal is not None
            raise self._refusal(*self._native_mover.fault)
        return True

    @property
    def wait_seconds(self) -> tuple[float, float]:
        source, target, _, _ = self._native_mover.waits
        return source, target

    @property
    def idle_seconds(self) -> float:
        return float(self._native_mover.waits[2])

    @property
    def side(self) -> str:
        return str(self._native_mover.waits[3])

    @property
    def rows(self) -> int:
        return int(self._native_mover.rows)

    @property
    def bytes(self) -> int:
        return int(self._native_mover.bytes)
