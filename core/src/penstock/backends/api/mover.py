"""What moves bytes outside of the interpreter, where both ends of a stream know a way to do so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Mover(Protocol):
    """Moves bytes for a moment at a time, and waits for servers by itself.

    Between these moments signals are handled, and stalls are looked for.
    """

    def run(self, seconds: float, watched: int, check: Callable[[], None]) -> bool:
        """Move bytes for so long at most.

        Parameters:
            watched: the target's socket, for a mover that does not know it; or negative.
            check: called when that has become readable.

        Returns: False once what is moved is there.
        """
        ...

    @property
    def waited(self) -> tuple[float, float]:
        """Seconds spent waiting for the source and for the target."""
        ...

    @property
    def idle(self) -> float:
        """Seconds for which nothing has moved."""
        ...

    @property
    def side(self) -> str:
        """What it waits for, if it is idle."""
        ...


class Pump(Mover, Protocol):
    """Moves all rows of a partition from source to target."""

    most: int | None
    """Bytes of a turn, roughly, for a stream that keeps to a rate; None: as many as it can."""

    @property
    def rows(self) -> int:
        """Moved so far, roughly."""
        ...

    @property
    def bytes(self) -> int:
        """Moved so far."""
        ...
