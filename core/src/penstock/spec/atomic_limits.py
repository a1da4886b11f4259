"""The option `--atomic-limit`: how much a night may merge in one transaction."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.spec.units import parse_size

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
