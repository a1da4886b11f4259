"""Native code that moves bytes outside the interpreter, between ends that support it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Mover(Protocol):
    """An object that moves bytes for a moment at a time, and waits for servers itself.

    Between these moments, signals are handled and stalls detected.
    """

    def run(self, seconds: float, target_socket: int, check: Callable[[], None]) -> bool:
        """Move bytes for a limited time.

        Args:
            seconds: seconds to run for.
            target_socket: the target's socket, for a mover that does not know it; negative for
                others.
            check: called when the socket becomes readable.

        Returns:
            False once everything has been moved.
        """
        ...

    @property
    def wait_seconds(self) -> tuple[float, float]:
        """Seconds spent waiting for the source and for the target."""
        ...

    @property
    def idle_seconds(self) -> float:
        """Seconds since anything moved."""
        ...

    @property
    def side(self) -> str:
        """The side that it waits for while idle."""
        ...


class Pump(Mover, Protocol):
    """A mover for all rows of a partition from source to target."""

    max_turn_bytes: int | None
    """The approximate number of bytes per turn for a stream that keeps to a rate; None for no
    limit.
    """

    @property
    def rows(self) -> int:
        """The approximate number of rows moved so far."""
        ...

    @property
    def bytes(self) -> int:
        """The number of bytes moved so far."""
        ...
