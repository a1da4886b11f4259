"""The options for rows that the source no longer has, in a repeated load."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import UsageError

IGNORE, HARD, SOFT = "ignore", "hard", "soft"
DEFAULT_COLUMN = "deleted_at"
MOST_DELETED = "30%,1000"


@dataclass(frozen=True, slots=True)
class Deletes:
    """The parsed option `--deletes`."""

    how: str
    column: str = ""
    """With soft deletes: the column for the time when a row was found gone; NULL until then."""

    @property
    def is_enabled(self) -> bool:
        """Whether to look for rows that are gone."""
        return self.how != IGNORE


@dataclass(frozen=True, slots=True)
class MostDeleted:
    """The parsed option `--max-deletes`."""

    share: float
    """A share of the target's rows, 0 to 1."""
    floor: int
    """The number of rows that may be deleted in any case."""

    def allows(self, deletions: int, rows: int) -> bool:
        """Whether a number of deletions is allowed in a table with a number of rows."""
        return deletions <= max(self.floor, self.share * rows)


def parse_deletes(text: str) -> Deletes:
    """Parse the option `--deletes`.

    Raises:
        UsageError: the text is not `ignore`, `hard`, `soft` or `soft:COLUMN`.
    """
    how, colon, column = text.partition(":")
    if how not in (IGNORE, HARD, SOFT) or (colon and (how != SOFT or not column)):
        raise UsageError(f"--deletes: expected ignore, hard, soft or soft:COLUMN; found {text!r}")
    return Deletes(how, column or DEFAULT_COLUMN if how == SOFT else "")


def parse_most_deleted(text: str) -> MostDeleted:
    """Parse the option `--max-deletes`.

    Raises:
        UsageError: the text is not a percentage, with or without a number of rows.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*(?:,\s*([\d_]+)\s*)?", text)
    if match is None or float(match[1]) > 100:
        raise UsageError(
            "--max-deletes: expected a percentage of the target's rows and, after a comma, a "
            f"number of rows that is always allowed, such as 5%,1000; found {text!r}"
        )
    return MostDeleted(float(match[1]) / 100, int(match[2] or 0))
