"""Bounds of a key's ranges without a scan: the range with the most rows is halved repeatedly.

The server estimates the rows of a range by looking up both of its ends in the index
(https://dev.mysql.com/doc/refman/8.4/en/range-optimization.html: "index dives").
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.api.facts import WeightedBound
from penstock.backends.mysql.catalog.tables import rows_of_each
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.rows.midpoints import middles
from penstock.model.extents import Bound, Key

ORIGIN = "the server's estimates, from dives into the key's index"
# The maximum number of ranges to weigh.
MOST = 256
# How often to halve the rest of a range before assuming that it has no more keys.
TRIES = 24


@dataclass(slots=True)
class _Range:
    first: str
    """The text of the bound; an existing value."""
    last: str | None
    """The start of the next range."""
    weight: int
    halves: bool = True


def dive(
    session: MySqlSession, rows: str, key: Key, tag: str, *, nullable: bool
) -> tuple[tuple[WeightedBound, ...], float]:
    """Return weighted bounds, and the share of rows whose key is NULL.

    Args:
        session: a session on the source.
        rows: an item of FROM with the table's rows.
        key: the key, with the collation of an index on it.
        tag: the type of the bounds.
        nullable: whether the key may be NULL.

    Returns:
        Bounds whose weights add up to 1, in the key's order; empty if every key is NULL.
    """
    search = _Dive(session, rows, key, tag)
    nulls = search.estimates([f"{search.column} IS NULL"])[0] if nullable else 0
    ranges = search.ranges()
    total = sum(each.weight for each in ranges)
    bounds = tuple(WeightedBound(Bound(tag, r.first), r.weight / total) for r in ranges)
    return bounds, nulls / (total + nulls) if ranges else 0.0


class _Dive:
    """A search for bounds.

    Each question is asked for all ranges at once, since round trips take longer than the answers.
    """

    def __init__(self, session: MySqlSession, rows: str, key: Key, tag: str) -> None:
        self._session = session
        self._rows = rows
        self._key = key
        self._tag = tag
        self._subject = f"--key {key.text}"
        self.column = MYSQL.compared_key(key, tag)

    def ranges(self) -> list[_Range]:
        low, high = self._fetch([f"min({self.column})", f"max({self.column})"], [""] * 2)
        if low is None or high is None:
            return []
        ranges = [_Range(low, None, 0)]
        if not low.strip("0-: .+"):
            # A zero date or year: no middle can be computed from it.
            above = f" WHERE {self.column} > {self._literal(low)}"
            (second,) = self._fetch([f"min({self.column})"], [above])
            if second is not None:
                ranges = [_Range(low, second, 0, halves=False), _Range(second, None, 0)]
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
        """Return the ranges to divide next, heaviest first."""
        least = sum(each.weight for each in ranges) / MOST
        wide = [each for each in ranges if each.halves and each.weight > max(1, least)]
        wide.sort(key=lambda each: each.weight, reverse=True)
        return wide[: MOST - len(ranges)]

    def _weigh(self, ranges: list[_Range]) -> None:
        tests = []
        for each in ranges:
            tests.append(
                " AND ".join([f"{self.column} >= {self._literal(each.first)}", *self._below(each)])
            )
        for each, weight in zip(ranges, self.estimates(tests), strict=True):
            each.weight = max(1, weight)

    def _divide(self, ranges: list[_Range], greatest: str) -> list[str | None]:
        """Return a key near the middle of each range; None if there is no such key."""
        keys: list[str | None] = [None] * len(ranges)
        ends = [each.last or greatest for each in ranges]
        open_ = set(range(len(ranges)))
        for _ in range(TRIES):
            halves = self._middles(ranges, ends, sorted(open_))
            if not halves:
                break
            empty = []
            nearest = self._within("min", ">=", ranges, halves)
            for place, at in zip(halves, nearest, strict=True):
                if at is None:
                    empty.append(place)
                else:
                    keys[place] = at
            # There are no keys between the middle and the end, so the rest of the range ends at the
            # last key before it.
            open_ = set()
            before = self._within("max", "<", ranges, {place: halves[place] for place in empty})
            for place, at in zip(empty, before, strict=True):
                if at is not None:
                    ends[place] = keys[place] = at
                    open_.add(place)
        return keys

    def _middles(self, ranges: list[_Range], ends: list[str], open_: list[int]) -> dict[int, str]:
        """Return, for each open range, a value between its first key and its end, if there is one.

        For texts these are guesses at the collation's order; the server says which are right.
        """
        guesses = {place: middles(self._tag, ranges[place].first, ends[place]) for place in open_}
        if self._tag != "text":
            return {
                place: texts[0]
                for place, texts in guesses.items()
                if texts and texts[0] != ends[place]
            }
        tests = []
        for place, texts in guesses.items():
            low, high = self._literal(ranges[place].first), self._literal(ends[place])
            cases = (
                f"WHEN {low} < {at} AND {at} < {high} THEN {number}"
                for number, at in enumerate(map(self._literal, texts))
            )
            tests.append(f"CASE {' '.join(cases)} END")
        if not tests:
            return {}
        (right,) = self._session.fetch(f"SELECT {', '.join(tests)}", self._subject)
        return {
            place: guesses[place][number]
            for place, number in zip(guesses, right, strict=True)
            if number is not None
        }

    def _within(
        self, end: str, side: str, ranges: list[_Range], halves: dict[int, str]
    ) -> list[str | None]:
        """Return the first key (`min`) from each middle on (`>=`), or the last one before it.

        Only keys inside a range count, not the one that begins it.
        """
        conditions = []
        for place, text in halves.items():
            each = ranges[place]
            above = f"{self.column} > {self._literal(each.first)}"
            beyond = f"{self.column} {side} {self._literal(text)}"
            conditions.append(f" WHERE {' AND '.join([above, beyond, *self._below(each)])}")
        return self._fetch([f"{end}({self.column})"] * len(halves), conditions)

    def _below(self, each: _Range) -> list[str]:
        return [] if each.last is None else [f"{self.column} < {self._literal(each.last)}"]

    def estimates(self, tests: list[str]) -> list[int]:
        if not tests:
            return []
        return [rows or 0 for rows in rows_of_each(self._session, self._rows, tests)]

    def _fetch(self, values: list[str], conditions: list[str]) -> list[str | None]:
        queries = [
            f"(SELECT {MYSQL.bound_text(self._tag, value)} FROM {self._rows}{condition})"
            for value, condition in zip(values, conditions, strict=True)
        ]
        if not queries:
            return []
        (texts,) = self._session.fetch(f"SELECT {', '.join(queries)}", self._subject)
        return [None if text is None else str(text) for text in texts]

    def _literal(self, text: str) -> str:
        return MYSQL.bound_operand(self._key, Bound(self._tag, text))
