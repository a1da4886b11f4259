"""Columns that are not copied as they are: masked, computed, or left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from penstock.errors import UsageError

HASH, HMAC, NULL, LAST4, YEAR = "hash", "hmac", "null", "last4", "year"
KINDS = (HASH, f"{HMAC}:env:NAME", NULL, LAST4, YEAR)
DIGESTS = (HASH, HMAC)
"""Masks that yield different values for different values."""

_KEY = re.compile(rf"{HMAC}:env:([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask of a column's values."""

    kind: str
    variable: str = ""
    """The environment variable that holds the key of an HMAC."""

    def __str__(self) -> str:
        return f"{self.kind}:env:{self.variable}" if self.variable else self.kind


def is_pattern(name: str) -> bool:
    """Whether a column's name contains wildcards."""
    return "*" in name or "?" in name


def meets(name: str, rule: str) -> bool:
    """Whether a column's name equals a rule's name, or matches its pattern."""
    return name == rule or (is_pattern(rule) and fnmatchcase(name, rule))


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether SQL may mention one of the columns; true in doubt."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in names)


def split_rules(value: object, flag: str) -> tuple[str, ...]:
    """Split ``a=f(x, ','), b=2`` at commas outside quotes and brackets; lists and tables, too.

    Raises:
        UsageError: the value is of another type.
    """
    if isinstance(value, Mapping):
        return tuple(f"{name}={text}" for name, text in value.items())
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise UsageError(f"{flag}: expected COLUMN=..., separated by commas; found {value!r}")
    return tuple(part.strip() for text in value for part in _parts(text))


def _parts(text: str) -> Iterable[str]:
    start, depth, quote = 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth <= 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def parse_expressions(rules: Sequence[str] | None) -> dict[str, str]:
    """Parse the rules of `set`.

    Returns: expressions of the source, by column.

    Raises:
        UsageError: a rule is malformed, or a column has two.
    """
    return _by_column(rules, "--set", "COLUMN=EXPRESSION")


def parse_masks(rules: Sequence[str] | None) -> dict[str, Mask]:
    """Parse the rules of `mask`.

    Returns: masks, by column or pattern.

    Raises:
        UsageError: a rule is malformed, or a column has two.
    """
    masks = {}
    for column, text in _by_column(rules, "--mask", f"COLUMN={'|'.join(KINDS)}").items():
        key = _KEY.fullmatch(text)
        if key is None and text not in (HASH, NULL, LAST4, YEAR):
            # Not shown: the user may have written a key here.
            what = f" and {HMAC}: without the name of a variable" if text.startswith(HMAC) else ""
            raise UsageError(
                f"--mask {column}: expected one of {', '.join(KINDS)}; found something else{what}"
            )
        masks[column] = Mask(HMAC, key[1]) if key else Mask(text)
    return masks


def _by_column(rules: Sequence[str] | None, flag: str, form: str) -> dict[str, str]:
    by_column: dict[str, str] = {}
    for rule in rules or ():
        name, separator, text = rule.partition("=")
        name, text = _unquoted(name.strip()), text.strip()
        if not (name and separator and text):
            raise UsageError(f"{flag}: expected {form} for each column, found only {name!r}")
        if name in by_column:
            raise UsageError(f"{flag}: expected each column once, found {name!r} twice")
        by_column[name] = text
    return by_column


def _unquoted(name: str) -> str:
    quoted = len(name) > 1 and name.startswith('"') and name.endswith('"')
    return name[1:-1].replace('""', '"') if quoted else name
