"""The number of concurrent streams: a number, or `auto`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError

AUTO = "auto"
"""The degree that finds the best number of streams while the copy runs."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The numbers of streams that a degree means on one machine."""

    usual: int
    """Concurrent streams; with `auto`, the number reached within the first second."""
    most: int
    """The maximum; equal to `usual` unless the degree is `auto`."""
    automatic: bool = False

    def limited(self, most: int) -> Streams:
        """Return the same, limited to `most` streams."""
        return Streams(min(self.usual, most), min(self.most, most), self.automatic)


def parse_degree(value: Any, flag: str) -> int | str:
    """Parse a degree.

    Raises:
        UsageError: the value is neither a whole number nor `auto`.
    """
    text = str(value).strip()
    if text.lower() == AUTO:
        return AUTO
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(text)
    except ValueError:
        raise UsageError(f"{flag}: expected auto or a whole number, found {value!r}") from None
