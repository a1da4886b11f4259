"""What a repeated load does with rows that the source has no more."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import UsageError

IGNORE, HARD, SOFT = "ignore", "hard", "soft"
DEFAULT_COLUMN = "deleted_at"
MOST_DELETED = "30%,1000"


@dataclass(frozen=True, slots=True)
class Deletes:
    """The option `--deletes`."""

    how: str
    column: str = ""
    """With soft deletes: holds when a row was found to be gone, and NULL while it is there."""

    @property
    def found(self) -> bool:
        """Whether rows that are gone are looked for."""
        return self.how != IGNORE


@dataclass(frozen=True, slots=True)
class MostDeleted:
    """The option `--max-deletes`."""

    share: float
    """Of the target's rows, 0 to 1."""
    floor: int
    """So many may go in any case."""

    def allows(self, gone: int, rows: int) -> bool:
        return gone <= max(self.floor, self.share * rows)


def parse_deletes(text: str) -> Deletes:
    """
    Raises:
        UsageError: it is not `ignore`, `hard`, `soft` or `soft:COLUMN`.
    """
    how, colon, column = text.partition(":")
    if how not in (IGNORE, HARD, SOFT) or (colon and (how != SOFT or not column)):
        raise UsageError(f"--deletes: expected ignore, hard, soft or soft:COLUMN; found {text!r}")
    return Deletes(how, column or DEFAULT_COLUMN if how == SOFT else "")


def parse_most_deleted(text: str) -> MostDeleted:
    """
    Raises:
        UsageError: it is no percentage, with or without a number of rows.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*(?:,\s*([\d_]+)\s*)?", text)
    if found is None or float(found[1]) > 100:
        raise UsageError(
            "--max-deletes: expected a percentage of the target's rows, and after a comma how many "
            f"rows may go in any case, such as 5%,1000; found {text!r}"
        )
    return MostDeleted(float(found[1]) / 100, int(found[2] or 0))
