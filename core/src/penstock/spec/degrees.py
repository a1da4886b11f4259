"""How many streams at once: a number, or `auto`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError

AUTO = "auto"
"""As many as pay, found out while the copy runs."""


@dataclass(frozen=True, slots=True)
class Streams:
    """What a degree means on one machine."""

    usual: int
    """At once; automatically: to begin with, within a second."""
    most: int
    """Never more; the same unless the number is found automatically."""
    automatic: bool = False

    def limited(self, most: int) -> Streams:
        """No more than this."""
        return Streams(min(self.usual, most), min(self.most, most), self.automatic)


def parse_degree(value: Any, flag: str) -> int | str:
    """
    Raises:
        UsageError: neither a whole number nor `auto`.
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
