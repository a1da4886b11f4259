"""Widths of types: which values of one column do not fit another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

WHOLE, DECIMAL, FLOAT, TEXT, BYTES, MOMENT, LABELS = (
    "whole", "decimal", "float", "text", "bytes", "moment", "labels",
)  # fmt: skip
"""Kinds of widths. Their sizes are: the greatest number, and the lowest without its sign; digits
before and after the decimal point; bits; characters; bytes; fractional digits of a second.
"""
UNBOUND = inf

_ARGUMENTS = re.compile(r"\s*\(([^()]*)\)")
_LABEL = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class Width:
    """The range of values that a type can hold."""

    kind: str
    """One of the above, or one of the database's own, whose types are compared only with each
    other."""
    sizes: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def holds(self, other: Width) -> bool:
        """Whether a column of this type can hold all values of the other."""
        if self.kind == DECIMAL and other.kind == WHOLE:
            return self.sizes[0] >= len(str(int(max(other.sizes))))
        if self.kind != other.kind or not set(other.labels) <= set(self.labels):
            return False
        return all(mine >= theirs for mine, theirs in zip(self.sizes, other.sizes, strict=True))


@dataclass(frozen=True, slots=True)
class Sized:
    """A type whose arguments are its sizes.

    Args:
        sizes: the default sizes.
        factor: by which arguments are multiplied.
    """

    kind: str
    sizes: tuple[float, ...]
    factor: int = 1

    def width(self, arguments: tuple[int, ...]) -> Width:
        if self.kind == DECIMAL and arguments:
            digits, scale = (*arguments, 0)[:2]
            return Width(DECIMAL, (digits - scale, scale))
        if self.kind == WHOLE or not arguments:
            return Width(self.kind, self.sizes)
        return Width(self.kind, tuple(self.factor * each for each in arguments[: len(self.sizes)]))


def whole(bits: int, *, signed: bool = True) -> Sized:
    """Return the width of a whole-number type."""
    if signed:
        return Sized(WHOLE, (2 ** (bits - 1) - 1, 2 ** (bits - 1)))
    return Sized(WHOLE, (2**bits - 1, 0))


def width_of(text: str, types: Mapping[str, Sized]) -> Width | None:
    """Return the width of a type; None if unknown.

    Args:
        text: in the database's spelling.
        types: by lower-case name without parentheses.
    """
    match = _ARGUMENTS.search(text)
    name = " ".join(_ARGUMENTS.sub(" ", text, count=1).lower().split())
    if match is not None and name == "enum":
        labels = tuple(each.replace("''", "'") for each in _LABEL.findall(match[1]))
        return Width(LABELS, (), labels)
    sized = types.get(name)
    if sized is None:
        return None
    try:
        arguments = tuple(int(each) for each in match[1].split(",")) if match is not None else ()
    except ValueError:
        return None
    return sized.width(arguments)
