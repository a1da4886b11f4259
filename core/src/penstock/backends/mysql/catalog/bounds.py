"""Bounds of a key's ranges without a scan: the range with most rows is halved, again and again.

How many rows are in a range the server estimates by looking into the index where it begins and
where it ends (https://dev.mysql.com/doc/refman/8.4/en/range-optimization.html: "index dives").
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import takewhile

from penstock.backends.api.facts import WeightedBound
from penstock.backends.mysql.catalog.tables import OF_TABLE, rows_of_each
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.model.extents import Bound, Key
from penstock.model.tables import Relation, TableRef

ORIGIN = "the server's estimates, by dives into the key's index"
# Ranges that are weighed.
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
    found = _Dive(session, rows, key, tag)
    nulls = found.estimates([f"{found.column} IS NULL"])[0] if nullable else 0
    ranges = found.ranges()
    total = sum(each.weight for each in ranges)
    bounds = tuple(WeightedBound(Bound(tag, r.first), r.weight / total) for r in ranges)
    return bounds, nulls / (total + nulls) if ranges else 0.0


class _Dive:
    """Each question is asked of all ranges at once: for themselves they take longer than the
    answers."""

    def __init__(self, session: MySqlSession, rows: str, key: Key, tag: str) -> None:
        self._session = session
        self._rows = rows
        self._tag = tag
        self._subject = f"--key {key.text}"
        self.column = MYSQL.key(key)

    def ranges(self) -> list[_Range]:
        low, high = self._fetch([f"min({self.column})", f"max({self.column})"], [""] * 2)
        if low is None or high is None:
            return []
        ranges = [_Range(low, None, 0)]
        self._weigh(ranges)
        while wide := self._wide(ranges):
            divided = self._divide(wide, high)
            halves = {}
            for each, at in zip(wide, divided, strict=True):
                each.halves = at is not None
                if at is not None:
                    halves[each.first] = [_Range(each.first, at, 0), _Range(at, each.last, 0)]
            self._weigh([half for both in halves.values() for half in both])
            ranges = [half for each in ranges for half in halves.get(each.first, [each])]
        return ranges

    @staticmethod
    def _wide(ranges: list[_Range]) -> list[_Range]:
        """Those to divide next, heaviest first."""
        least = sum(each.weight for each in ranges) / MOST
        wide = [each for each in ranges if each.halves and each.weight > max(1, least)]
        wide.sort(key=lambda each: each.weight, reverse=True)
        return wide[: MOST - len(ranges)]

    def _weigh(self, ranges: list[_Range]) -> None:
        tests = []
        for each in ranges:
            ends = [self._from(each.first)]
            if each.last is not None:
                ends.append(f"{self.column} < {self._literal(each.last)}")
            tests.append(" AND ".join(ends))
        for each, weight in zip(ranges, self.estimates(tests), strict=True):
            each.weight = max(1, weight)

    def _divide(self, ranges: list[_Range], greatest: str) -> list[str | None]:
        """Of each range a key within it, about in its middle; None where none is found."""
        found: list[str | None] = [None] * len(ranges)
        lasts = [each.last or greatest for each in ranges]
        ends = list(lasts)
        open_ = set(range(len(ranges)))
        for _ in range(TRIES):
            middles: dict[int, str] = {}
            for place in sorted(open_):
                middle = _middle(self._tag, ranges[place].first, ends[place])
                if middle is not None and middle != ends[place]:
                    middles[place] = middle
            if not middles:
                break
            open_ = set()
            for place, at in zip(middles, self._nearest([*middles.values()]), strict=True):
                if at is None or at == lasts[place]:
                    ends[place] = middles[place]  # nothing is between it and the end
                    open_.add(place)
                elif at != ranges[place].first:
                    found[place] = at
        return found

    def _nearest(self, texts: list[str]) -> list[str | None]:
        """The first key that there is from each of them on."""
        return self._fetch(
            [f"min({self.column})"] * len(texts), [f" WHERE {self._from(text)}" for text in texts]
        )

    def estimates(self, tests: list[str]) -> list[int]:
        if not tests:
            return []
        return [found or 0 for found in rows_of_each(self._session, self._rows, tests)]

    def _fetch(self, values: list[str], conditions: list[str]) -> list[str | None]:
        asked = [
            f"(SELECT {MYSQL.bound_text(self._tag, value)} FROM {self._rows}{condition})"
            for value, condition in zip(values, conditions, strict=True)
        ]
        (found,) = self._session.fetch(f"SELECT {', '.join(asked)}", self._subject)
        return [None if text is None else str(text) for text in found]

    def _from(self, text: str) -> str:
        return f"{self.column} >= {self._literal(text)}"

    def _literal(self, text: str) -> str:
        return MYSQL.bound(Bound(self._tag, text))


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
