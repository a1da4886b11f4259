"""What has changed in the source: the options `--deletes` for rows, `--on-drift` for columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.model.drift import ADD, KINDS, RENAME, WIDEN

IGNORE, HARD, SOFT, FAIL = "ignore", "hard", "soft", "fail"
DEFAULT_COLUMN = "deleted_at"
APPROVED = "approved:"
"""The prefix of what a person has approved: the digest of column changes, or numbers of rows."""
MOST_DELETED = "30%,1000"
"""The limit unless the option names one."""


@dataclass(frozen=True, slots=True)
class MostDeleted:
    """How many rows may be deleted."""

    share: float
    """A share of the target's rows, 0 to 1."""
    floor: int
    """The number of rows that may be deleted in any case."""
    approved: tuple[int, int] | None = None
    """The only number of rows that may be deleted, and that of the target's; None for any."""

    def __str__(self) -> str:
        if self.approved is not None:
            return "exactly {:,} of {:,} rows, as approved".format(*self.approved)
        rows = f" or {self.floor:,} rows" if self.floor else ""
        return f"{self.share * 100:g}%{rows}"

    def allows(self, deletions: int, rows: int) -> bool:
        """Whether a number of deletions is allowed in a table with a number of rows."""
        if self.approved is not None:
            return deletions == 0 or (deletions, rows) == self.approved
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
    if match := re.fullmatch(rf"\s*{APPROVED}(\d+)/(\d+)\s*", limit):
        return Deletes(how, column, MostDeleted(0, 0, (int(match[1]), int(match[2]))))
    return Deletes(how, column, parse_most_deleted(limit, "--deletes") if comma else _USUAL)


def approved_deletes(text: str, deleted: int, rows: int) -> str:
    """Return a value of `--deletes` that permits only these numbers.

    Args:
        text: the value that does not permit them.
        deleted: the number of rows to delete.
        rows: the number of the target's rows before.
    """
    return f"{text.partition(',')[0]},{APPROVED}{deleted}/{rows}"


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
    approved: str = ""
    """The digest of the changes that are made all together, whatever their kinds; empty if none
    were approved."""

    @property
    def lets_columns_differ(self) -> bool:
        """Whether a copy may go on although columns have diverged."""
        return self.ignores or bool(self.makes or self.approved)


def parse_on_drift(text: str) -> OnDrift:
    """Parse the option `--on-drift`.

    Raises:
        UsageError: the text is not `fail`, `ignore`, or some of `add`, `widen` and `rename`.
    """
    words = [word.strip() for word in text.split(",")]
    if words in ([FAIL], [IGNORE]):
        return OnDrift(words == [IGNORE], frozenset())
    if re.fullmatch(rf"{APPROVED}[0-9a-f]+", words[-1]):
        approved = words.pop().removeprefix(APPROVED)
        return OnDrift(
            ignores=False, makes=parse_on_drift(",".join(words) or FAIL).makes, approved=approved
        )
    if not set(words) <= {ADD, WIDEN, RENAME}:
        raise UsageError(
            f"--on-drift: expected {FAIL}, {IGNORE}, or some of {', '.join(KINDS)}, separated by "
            f"commas; found {text!r}"
        )
    return OnDrift(ignores=False, makes=frozenset(words))
