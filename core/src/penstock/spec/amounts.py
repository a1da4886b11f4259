"""Amounts in rows or bytes: the options `--partitions` and `--atomic-limit`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.spec.option_values import MOST, MOST_BYTES, check_within
from penstock.spec.units import parse_size


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """What a plan aims for: a number of partitions, or a size of each; at most one is set."""

    count: int | None = None
    rows: int | None = None
    """In each partition."""
    bytes: int | None = None
    """Of the source, in each partition."""


def parse_partitions(value: Any) -> PartitionSize:
    """Parse a plain number of partitions, ``500000 rows``, or a size such as ``64MB``.

    Raises:
        UsageError: the value is none of these, or is out of range.
    """
    if value is None:
        return PartitionSize()
    text = str(value)
    number = re.fullmatch(r"\s*(-?[\d_]+)\s*(rows?)?\s*", text, re.IGNORECASE)
    if number is not None and not isinstance(value, bool):
        amount = int(number[1])
        check_within("partitions", amount, 1, MOST)
        return PartitionSize(rows=amount) if number[2] else PartitionSize(count=amount)
    try:
        if text.strip()[-1:].isdecimal():
            raise UsageError(text)  # without a unit
        size = parse_size(text, "--partitions")
    except UsageError:
        raise UsageError(
            "--partitions: expected a number of partitions, such as 16, or what each holds, such "
            f"as '500000 rows' or 64MB; found {value!r}"
        ) from None
    check_within("partitions", size, 1, MOST_BYTES)
    return PartitionSize(bytes=size)


FAIL = "fail"


@dataclass(frozen=True, slots=True)
class AtomicLimit:
    """A limit in rows, or in bytes of the source; at least one of the two is None."""

    rows: int | None = None
    bytes: int | None = None
    fails: bool = False
    """Above the limit, fail; otherwise load a new table that replaces the target's."""

    def is_below(self, rows: float, size: float) -> bool:
        """Whether a night reads more than the limit.

        Args:
            rows: the rows it reads.
            size: the bytes of its rows in the source.
        """
        if self.rows is not None:
            return rows > self.rows
        return self.bytes is not None and size > self.bytes


def parse_atomic_limit(text: str | None) -> AtomicLimit:
    """Parse a limit: a plain number counts rows, one with a unit is a size; ``,fail`` may follow.

    Raises:
        UsageError: the text is no limit.
    """
    if text is None:
        return AtomicLimit()
    amount, comma, above = text.partition(",")
    try:
        if comma and above.strip() != FAIL:
            raise UsageError(above)
        if re.fullmatch(r"\s*[\d_]+\s*", amount):
            return AtomicLimit(rows=int(amount), fails=bool(comma))
        return AtomicLimit(bytes=parse_size(amount, "--atomic-limit"), fails=bool(comma))
    except UsageError:
        raise UsageError(
            "--atomic-limit: expected a number of rows, such as 50000000, or a size, such as "
            f"20GiB, with ',fail' after it if need be; found {text!r}"
        ) from None
