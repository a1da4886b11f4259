"""A gate that holds one stream at a row, so that a fault happens at the right moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

from penstock_testkit import TcpProxy
from penstock_testkit.proxy import Direction, Link

from .cli import PATIENCE


class Gate:
    """Stops the connection that sends a needle, before the needle passes.

    Args:
        first: called when the needle arrives, before the connection is stopped.
        skip: the number of needles that pass before that.
    """

    def __init__(
        self,
        proxy: TcpProxy,
        needle: bytes,
        direction: Direction,
        first: Callable[[], object] = lambda: None,
        skip: int = 0,
    ) -> None:
        self._first = first
        self._skip = skip
        self._reached = threading.Event()
        self._open = threading.Event()
        proxy.on_bytes(needle, direction, self._hold, once=not skip)

    def _hold(self) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._first()
        self._reached.set()
        self._open.wait()

    def is_reached(self) -> bool:
        return self._reached.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait briefly for a connection at the gate.

        Returns:
            Whether a connection has arrived.
        """
        return self._reached.wait(seconds)

    def reached(self) -> None:
        """Wait for a connection at the gate."""
        if not self._reached.wait(PATIENCE):
            raise AssertionError("nothing has come to the gate")

    def open(self) -> None:
        """Let the connection pass, and all later ones."""
        self._open.set()


def cut_this_connection() -> None:
    """Cut only the connection for which `TcpProxy.on_bytes` called this function.

    The block that holds the needle is lost.
    """
    cast(Link, threading.current_thread()).cut()
