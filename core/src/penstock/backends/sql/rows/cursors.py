"""Columns whose values grow with each change: the greatest value, and the rows from a value on.

The database compares values, and its own texts of them are stored. Of several columns the first
that is not NULL counts. Conditions name each column separately, so that an index can be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

from penstock.backends.api.optional.cursors import CursorRange, CursorState
from penstock.backends.sql.dialect import Dialect, raw
from penstock.backends.sql.rows.bounds import WHOLE_NUMBERS
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key
from penstock.model.nights import Cursor
from penstock.model.values import value as value_of
from penstock.spec.night_kinds import TIMES, number_back, seconds_back

NUMBERS = (*WHOLE_NUMBERS, "numeric")
CURSORS = (*TIMES, *NUMBERS)
FLAG = "--incremental"


@dataclass(frozen=True, slots=True)
class CursorSql:
    """The SQL with which a database reads by columns.

    Args:
        rows: an item of FROM.
        fetch: returns the rows of a query; the second argument describes it for messages.
        as_text: converts a value, given its tag, to the text of a bound.
        clock: a query for the current time as an ISO 8601 text; UTC if it has no zone.
        first: wraps a SELECT so that it ends after its first row.
    """

    dialect: Dialect
    rows: str
    fetch: Callable[[str, str], Sequence[tuple[Any, ...]]]
    as_text: Callable[[str, str], str]
    clock: str
    first: Callable[[str], str]

    def now(
        self,
        where: str | None,
        columns: Sequence[str],
        tag: str,
        max_ahead: float,
        *,
        nullable: bool,
        upper_limit: str = "",
    ) -> tuple[str, int, str]:
        """Return the current state of the columns.

        Args:
            where: the condition of `--where`; None for all rows.
            columns: the names of the columns.
            tag: the tag of their type.
            max_ahead: the most seconds that a value may be ahead of the clock; 0 for no limit.
            nullable: whether all of them may be NULL.
            upper_limit: an expression for the upper limit of values; empty without one.

        Returns:
            up to where to read, the number of rows without a value, and a value that is too
        far ahead; see `CursorState`.
        """
        subject = f"{FLAG} {', '.join(columns)}"
        clock, limit = self._clock(tag, max_ahead, subject)
        greatest = self._greatest(where, columns)
        text = self.as_text(tag, "value")
        up_to = "value"
        for least in (each for each in (clock, upper_limit) if each):
            is_above = self.dialect.comparison(up_to, ">", least)
            up_to = f"CASE WHEN {is_above} THEN {least} ELSE {up_to} END"
        is_late = self.dialect.comparison("value", ">", limit)
        tested = f"CASE WHEN {is_late} THEN 1 ELSE 0 END" if limit else "0"
        query = f"SELECT {text}, {self.as_text(tag, up_to)}, {tested} FROM ({greatest}) AS newest"
        rows = self.fetch(query, subject)
        greatest_text, read_to, is_ahead = rows[0] if rows else (None, None, 0)
        nulls = self._nulls(where, columns, subject) if nullable else 0
        if greatest_text is None:
            return "", nulls, ""
        if not is_finite(tag, str(greatest_text)):
            return "", nulls, str(greatest_text)
        return str(read_to), nulls, str(greatest_text) if is_ahead else ""

    def _clock(self, tag: str, max_ahead: float, subject: str) -> tuple[str, str]:
        """Return the current time and the last allowed moment, as values; empty without any."""
        if tag in NUMBERS:
            return "", ""
        ((text,),) = self.fetch(self.clock, subject)
        moment = datetime.fromisoformat(str(text))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        latest = datetime.max.replace(tzinfo=UTC) - moment - timedelta(days=1)
        limit = moment + min(timedelta(seconds=max_ahead), latest)
        return self._moment(tag, moment), self._moment(tag, limit) if max_ahead else ""

    def _moment(self, tag: str, moment: datetime) -> str:
        if tag == "date":
            return self.dialect.bound(Bound(tag, moment.date().isoformat()))
        text = moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return self.dialect.bound(Bound(tag, f"{text}+00" if tag == "timestamptz" else text))

    def _greatest(self, where: str | None, columns: Sequence[str]) -> str:
        """Return a query for the greatest value.

        Each column is queried separately, so that an index can be used.
        """
        parts = []
        for place, column in enumerate(columns):
            tests = [] if where is None else [raw(where)]
            tests += [f"{self._name(each)} IS NULL" for each in columns[:place]]
            chosen = f" WHERE {' AND '.join(tests)}" if tests else ""
            value = self.dialect.greatest(self._name(column))
            parts.append(f"SELECT {value} AS value FROM {self.rows}{chosen}")
        if len(parts) == 1:
            return parts[0]
        listed, value = " UNION ALL ".join(parts), self.dialect.greatest("value")
        return f"SELECT {value} AS value FROM ({listed}) AS each_column"

    def _nulls(self, where: str | None, columns: Sequence[str], subject: str) -> int:
        tests = [] if where is None else [raw(where)]
        chosen = " AND ".join([*tests, self._is_null(columns)])
        ((count,),) = self.fetch(
            f"SELECT {self.dialect.counted} FROM {self.rows} WHERE {chosen}", subject
        )
        return int(count)

    def _name(self, column: str) -> str:
        return self.dialect.key(Key(column))

    def _is_null(self, columns: Sequence[str]) -> str:
        return " AND ".join(f"{self._name(each)} IS NULL" for each in columns)

    def range(
        self, since: Cursor, state: CursorState, lookback: str, *, nulls: bool
    ) -> CursorRange:
        """Return the rows that a night reads; see `ReadsByColumn.cursor_range`.

        Args:
            since: the cursor of the last night.
            state: the state of the columns in the source.
            lookback: how far below the last value to read.
            nulls: whether to read rows without a value too.
        """
        subject = f"{FLAG} {since.name}"
        last = Bound(since.type, since.text)
        ((text, is_less),) = self.fetch(
            f"SELECT {self.as_text(since.type, self._earlier(last, lookback, since.name))}, "
            f"{self._is_less(state, last)}",
            subject,
        )
        lower = Bound(since.type, str(text))
        return CursorRange(
            lower.text, self._condition(since.columns, lower, nulls=nulls), bool(is_less)
        )

    def _is_less(self, state: CursorState, last: Bound) -> str:
        if not state.text:
            return "1"
        mine, theirs = (self.dialect.bound(each) for each in (Bound(state.type, state.text), last))
        return f"CASE WHEN {self.dialect.comparison(mine, '<', theirs)} THEN 1 ELSE 0 END"

    def _earlier(self, last: Bound, lookback: str, name: str) -> str:
        """Return a value that is smaller by the lookback."""
        if last.type in NUMBERS:
            with localcontext() as context:
                context.prec = 1000  # more than any number's digits, so nothing is rounded
                return self.dialect.bound(
                    Bound(last.type, self._whole(last, number_back(lookback, name)))
                )
        seconds = math.ceil(seconds_back(lookback, name))
        value = self.dialect.bound(last)
        return self.dialect.earlier(value, last.type, seconds) if seconds else value

    def _whole(self, last: Bound, back: Decimal) -> str:
        if last.type in WHOLE_NUMBERS:
            back = Decimal(math.ceil(back))
        return format(Decimal(last.text) - back, "f")

    def _condition(self, columns: Sequence[str], lower: Bound, *, nulls: bool) -> str:
        value = self.dialect.bound(lower)
        tests = []
        for place, column in enumerate(columns):
            others = self._is_null(columns[:place])
            test = self.dialect.comparison(self._name(column), ">=", value)
            tests.append(f"({others} AND {test})" if others else test)
        if nulls:
            tests.append(f"({self._is_null(columns)})")
        return f"({' OR '.join(tests)})"

    def keys_at(
        self, where: str | None, columns: Sequence[str], value: Bound, key: Sequence[str]
    ) -> str:
        """Return a row with a value, identified by its key; see `ReadsByColumn.keys_at`.

        Args:
            where: the condition of `--where`; None for all rows.
            columns: the columns of the cursor.
            value: the value of the first of these columns.
            key: the columns of the key.
        """
        subject = f"{FLAG} {', '.join(columns)}"
        tests = [] if where is None else [raw(where)]
        chosen = " AND ".join([*tests, self._condition(columns, value, nulls=False)])
        names = ", ".join(map(self._name, key))
        query = self.first(f"SELECT {names} FROM {self.rows} WHERE {chosen}")
        row = next(iter(self.fetch(query, subject)), None)
        if row is None:
            return ""  # deleted since
        return ", ".join(
            f"{name} = {each if isinstance(each, int) else value_of(str(each))}"
            for name, each in zip(key, row, strict=True)
        )


def is_finite(tag: str, text: str) -> bool:
    """Whether a text is a comparable value: some systems have infinite times, and NaN."""
    if tag in NUMBERS:
        return text.lstrip("+-")[:1].isdigit()
    return text[:1].isdigit()


def tag_of_cursor(tags: Mapping[str, str], columns: Sequence[str], name: str) -> str:
    """Return the common type of the columns.

    Args:
        tags: the tags of all columns of a relation.
        columns: the columns of the cursor.
        name: the relation's name.

    Raises:
        PlanningError: a column does not exist, or its type has no exact order.
    """
    listed = ", ".join(columns)
    for column in columns:
        if column not in tags:
            raise PlanningError(
                f"{FLAG} {listed}: no such column in {name}: {column!r}; it has "
                f"{', '.join(sorted(tags))}"
            )
        if tags[column] not in CURSORS:
            raise PlanningError(
                f"{FLAG} {listed}: expected {column} to be of type {', '.join(CURSORS)}; found "
                f"{tags[column]}"
            )
    column_tags = {tags[column] for column in columns}
    if len(column_tags) > 1:
        raise PlanningError(
            f"{FLAG} {listed}: expected columns of one type; found {', '.join(sorted(column_tags))}"
        )
    return column_tags.pop()
