"""Bounds of a key's ranges without a scan: the range with most rows is halved, again and again.

How many rows are in a range the server estimates by looking into the index where it begins and
where it ends (https://dev.mysql.com/doc/refman/8.4/en/range-optimization.html: "index dives").
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.api.facts import WeightedBound
from penstock.backends.mysql.catalog.tables import OF_TABLE, rows_of_each
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.between import middle
from penstock.model.extents import Bound, Key
from penstock.model.tables import Relation, TableRef

ORIGIN = "the server's estimates, by dives into the key's index"
# Ranges that are weighed.
MOST = 256
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
                at = middle(self._tag, ranges[place].first, ends[place])
                if at is not None and at != ends[place]:
                    middles[place] = at
            if not middles:
                break
            empty = []
            for place, at in zip(middles, self._nearest([*middles.values()]), strict=True):
                if at is None or at == lasts[place]:
                    empty.append(place)
                elif at != ranges[place].first:
                    found[place] = at
            # Nothing is between the middle and the end. What is left of the range ends with its
            # last key, however far before that is.
            open_ = set()
            before = self._before([middles[place] for place in empty])
            for place, at in zip(empty, before, strict=True):
                if at is not None and at != ranges[place].first:
                    ends[place] = at
                    open_.add(place)
        return found

    def _nearest(self, texts: list[str]) -> list[str | None]:
        """The first key that there is from each of them on."""
        return self._fetch(
            [f"min({self.column})"] * len(texts), [f" WHERE {self._from(text)}" for text in texts]
        )

    def _before(self, texts: list[str]) -> list[str | None]:
        """The last key that there is before each of them."""
        return self._fetch(
            [f"max({self.column})"] * len(texts),
            [f" WHERE {self.column} < {self._literal(text)}" for text in texts],
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
        if not asked:
            return []
        (found,) = self._session.fetch(f"SELECT {', '.join(asked)}", self._subject)
        return [None if text is None else str(text) for text in found]

    def _from(self, text: str) -> str:
        return f"{self.column} >= {self._literal(text)}"

    def _literal(self, text: str) -> str:
        return MYSQL.bound(Bound(self._tag, text))
