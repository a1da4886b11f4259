"""What has changed in the source: the options `--deletes` for rows, `--on-drift` for columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.model.drift import ADD, KINDS, RENAME, WIDEN

IGNORE, HARD, SOFT, FAIL = "ignore", "hard", "soft", "fail"
DEFAULT_COLUMN = "deleted_at"
MOST_DELETED = "30%,1000"
"""The limit unless the option names one."""


@dataclass(frozen=True, slots=True)
class MostDeleted:
    """How many rows may be deleted."""

    share: float
    """A share of the target's rows, 0 to 1."""
    floor: int
    """The number of rows that may be deleted in any case."""

    def __str__(self) -> str:
        rows = f" or {self.floor:,} rows" if self.floor else ""
        return f"{self.share * 100:g}%{rows}"

    def allows(self, deletions: int, rows: int) -> bool:
        """Whether a number of deletions is allowed in a table with a number of rows."""
        return deletions <= max(self.floor, self.share * rows)


_USUAL = MostDeleted(0.3, 1000)


@dataclass(frozen=True, slots=True)
class Deletes:
    """The parsed option `--deletes`."""

    how: str
    column: str = ""
    """With soft deletes: the column for the time when a row was found gone; NULL until then."""
    most: MostDeleted = _USUAL

    @property
    def what(self) -> tuple[str, str]:
        """The action and its column, without the limit."""
        return self.how, self.column

    @property
    def is_enabled(self) -> bool:
        """Whether to look for rows that are gone."""
        return self.how != IGNORE


def parse_deletes(text: str) -> Deletes:
    """Parse the option `--deletes`.

    Raises:
        UsageError: the text is not `ignore`, `hard`, `soft` or `soft:COLUMN`, or what follows is
            not a limit.
    """
    what, comma, limit = text.partition(",")
    how, colon, column = what.strip().partition(":")
    if how not in (IGNORE, HARD, SOFT) or (colon and (how != SOFT or not column)):
        raise UsageError(
            "--deletes: expected ignore, hard, soft or soft:COLUMN, with a limit after a comma "
            f"if need be, such as hard,5%; found {text!r}"
        )
    if comma and how == IGNORE:
        raise UsageError(f"--deletes: ignore deletes nothing: omit the limit; found {text!r}")
    column = (column or DEFAULT_COLUMN) if how == SOFT else ""
    return Deletes(how, column, parse_most_deleted(limit, "--deletes") if comma else _USUAL)


def parse_most_deleted(text: str, flag: str) -> MostDeleted:
    """Parse a limit: a percentage, and a number of rows after a comma if need be.

    Args:
        text: the limit.
        flag: the option, for the message.

    Raises:
        UsageError: the text is no limit.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*(?:,\s*([\d_]+)\s*)?", text)
    if match is None or float(match[1]) > 100:
        raise UsageError(
            f"{flag}: expected a percentage of the target's rows and, after a comma, a "
            f"number of rows that is always allowed, such as 5%,1000; found {text!r}"
        )
    return MostDeleted(float(match[1]) / 100, int(match[2] or 0))


@dataclass(frozen=True, slots=True)
class OnDrift:
    """The parsed value of `on_drift`."""

    ignores: bool
    """Whether to copy only the columns that both sides have."""
    makes: frozenset[str]
    """The kinds of changes to make in the target; see `ColumnChange`."""


def parse_on_drift(text: str) -> OnDrift:
    """Parse the option `--on-drift`.

    Raises:
        UsageError: the text is not `fail`, `ignore`, or some of `add`, `widen` and `rename`.
    """
    words = [word.strip() for word in text.split(",")]
    if words in ([FAIL], [IGNORE]):
        return OnDrift(words == [IGNORE], frozenset())
    if not set(words) <= {ADD, WIDEN, RENAME}:
        raise UsageError(
            f"--on-drift: expected {FAIL}, {IGNORE}, or some of {', '.join(KINDS)}, separated by "
            f"commas; found {text!r}"
        )
    return OnDrift(ignores=False, makes=frozenset(words))
