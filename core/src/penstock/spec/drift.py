"""The option `--on-drift`: what to do about columns that have changed in the source."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.model.drift import ADD, KINDS, RENAME, WIDEN

FAIL, IGNORE = "fail", "ignore"


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
