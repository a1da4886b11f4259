"""Bounds of a key's ranges without a scan: the range with most rows is halved, again and again.

How many rows are in a range the server estimates by looking into the index where it begins and
where it ends (https://dev.mysql.com/doc/refman/8.4/en/range-optimization.html: "index dives").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import takewhile

from penstock.backends.api.facts import WeightedBound
from penstock.backends.mysql.catalog.tables import OF_TABLE, explained_rows
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.model.extents import Bound, Key
from penstock.model.tables import Relation, TableRef

ORIGIN = "the server's estimates, by dives into the key's index"
# Ranges that are weighed: each costs about three questions of a millisecond.
MOST = 256
_PREFIX = 8
_DIGITS = " 0123456789abcdefghijklmnopqrstuvwxyz"
# Of halving what is left of a range, before it is taken to have no keys within.
TRIES = 24


@dataclass(slots=True)
class _Range:
    first: str
    """As the text of a bound; a value that there is."""
    last: str | None
    """Where the next one begins."""
    weight: int
    halves: bool = True


def is_indexed(session: MySqlSession, relation: Relation, name: str) -> bool:
    """Whether a column is the first one of an index."""
    assert isinstance(relation, TableRef)
    found = session.facts(
        f"SELECT column_name FROM information_schema.statistics {OF_TABLE}"
        " AND seq_in_index = 1 AND sub_part IS NULL",
        relation,
    )
    return any((column or "").lower() == name.lower() for (column,) in found)


def dive(
    session: MySqlSession, rows: str, key: Key, tag: str, *, nullable: bool
) -> tuple[tuple[WeightedBound, ...], float]:
    """Bounds with their weights, and the share of rows whose key is NULL."""
    column, subject = MYSQL.key(key), f"--key {key.text}"

    def estimate(tested: str) -> int:
        return explained_rows(session, rows, tested) or 0

    def weigh(first: str, last: str | None) -> int:
        ends = [f"{column} >= {MYSQL.bound(Bound(tag, first))}"]
        if last is not None:
            ends.append(f"{column} < {MYSQL.bound(Bound(tag, last))}")
        return max(1, estimate(" AND ".join(ends)))

    def nearest(text: str) -> str | None:
        """The first key that there is from there on."""
        tested = f"{column} >= {MYSQL.bound(Bound(tag, text))}"
        ((found,),) = session.fetch(
            f"SELECT {MYSQL.bound_text(tag, f'min({column})')} FROM {rows} WHERE {tested}", subject
        )
        return None if found is None else str(found)

    ((low, high),) = session.fetch(
        f"SELECT {MYSQL.bound_text(tag, f'min({column})')},"
        f" {MYSQL.bound_text(tag, f'max({column})')} FROM {rows}",
        subject,
    )
    nulls = estimate(f"{column} IS NULL") if nullable else 0
    if low is None:
        return (), 0.0
    ranges = [_Range(str(low), None, weigh(str(low), None))]
    while len(ranges) < MOST:
        place = max(range(len(ranges)), key=lambda i: ranges[i].weight * ranges[i].halves)
        found = ranges[place]
        if not found.halves or found.weight <= 1:
            break
        at = _divide(tag, found, str(high), nearest)
        if at is None:
            found.halves = False
            continue
        ranges[place : place + 1] = [
            _Range(found.first, at, weigh(found.first, at)),
            _Range(at, found.last, weigh(at, found.last)),
        ]
    total = sum(each.weight for each in ranges)
    bounds = tuple(WeightedBound(Bound(tag, r.first), r.weight / total) for r in ranges)
    return bounds, nulls / (total + nulls)


def _divide(
    tag: str, found: _Range, greatest: str, nearest: Callable[[str], str | None]
) -> str | None:
    """A key within a range, about in its middle; None where none is found."""
    end = last = found.last or greatest
    for _ in range(TRIES):
        middle = _middle(tag, found.first, end)
        if middle is None or middle == end:
            return None
        at = nearest(middle)
        if at == found.first:
            return None
        if at is not None and at != last:
            return at
        end = middle  # nothing is between it and the end
    return None


def _middle(tag: str, low: str, high: str) -> str | None:
    """A text between two others, as far as can be told without knowing their order."""
    match tag:
        case "int2" | "int4" | "int8":
            return str((int(low) + int(high) + 1) // 2)
        case "numeric":
            return format((Decimal(low) + Decimal(high)) / 2, "f")
        case "date" | "timestamp" | "timestamptz":
            first, last = (_time(text) for text in (low, high))
            middle = first + (last - first) / 2
            if tag == "date":
                return middle.date().isoformat()
            text = middle.replace(tzinfo=None).isoformat(" ", "microseconds")
            return f"{text}+00" if tag == "timestamptz" else text
        case "bytea":
            digits = _halved(bytes.fromhex(low[2:]), bytes.fromhex(high[2:]))
            return "\\x" + digits.hex()
        case "text":
            return _between(low, high)
    return None


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _halved(low: bytes, high: bytes) -> bytes:
    """Between two, as numbers of the bytes after those that they share."""
    same = _shared(low, high)
    numbers = [
        int.from_bytes(each[same : same + _PREFIX].ljust(_PREFIX, b"\0")) for each in (low, high)
    ]
    return low[:same] + (sum(numbers) // 2).to_bytes(_PREFIX)


def _shared(low: str | bytes, high: str | bytes) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))


def _between(low: str, high: str) -> str:
    """Between two texts, as numbers of digits that nearly every collation has in this order."""
    same = _shared(low, high)
    ends = (low[same : same + _PREFIX], high[same : same + _PREFIX])
    upper = any(map(str.isupper, ends))
    number = sum(_number(end.lower()) for end in ends) // 2
    digits = ""
    for _ in range(_PREFIX):
        number, place = divmod(number, len(_DIGITS))
        digits = _DIGITS[place] + digits
    digits = digits.rstrip()
    return low[:same] + (digits.upper() if upper else digits)


def _number(text: str) -> int:
    number = 0
    for character in text.ljust(_PREFIX):
        place = bisect_right(_DIGITS, character) - 1
        number = number * len(_DIGITS) + max(place, 0)
    return number
