"""Mode upsert: merge staged rows into the table by a unique key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.worker import LoadResult
from penstock.backends.shared.attempts.refusals import (
    OF_ANOTHER_PARTITION,
    key_respelled,
    key_twice,
    key_with_null,
)
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session

SUBJECT = "--mode upsert"


class Merging:
    """A merge into one table.

    Args:
        dialect: the session's dialect, or one that knows more about the table.
        table: the table as an item of FROM.
        names: the names of the loaded columns.
        key: the names of the key columns among them.
        mark: the column that records when a row was found to be deleted; empty without one.
    """

    def __init__(
        self,
        session: Session,
        dialect: CatalogDialect,
        table: str,
        names: Sequence[str],
        key: Sequence[str],
        mark: str = "",
    ) -> None:
        self._session = session
        self._dialect = dialect
        self._table = table
        self._key = tuple(key)
        self._value_columns = [name for name in names if name not in key]
        self._mark = mark
        ident = dialect.ident
        self.match = " AND ".join(f"t.{ident(name)} = s.{ident(name)}" for name in key)
        """Whether the rows `t` and `s` have equal keys."""

    def merge(
        self,
        staged: str,
        rows: int,
        holds_equal_keys: Callable[[], bool],
        advice: str = OF_ANOTHER_PARTITION,
    ) -> LoadResult:
        """Update the rows that differ, and insert the missing ones.

        Args:
            staged: the stage and its number of rows.
            rows: the number of staged rows.
            holds_equal_keys: whether the stage has all rows whose keys the target treats as
                equal. Asked if equal keys are spelled differently.
            advice: where other such rows may be, and what to do; see `key_respelled`.

        Raises:
            PermanentError: a key is NULL or a duplicate.
        """
        self._check_key(staged)
        ident, respelled = self._dialect.ident, self._dialect.respelled_condition(self._key)
        differ = f"{self._dialect.differ(self._value_columns)} OR {respelled}"
        marked = f"t.{ident(self._mark)} IS NOT NULL" if self._mark else ""
        joined = f"FROM {staged} AS s JOIN {self._table} AS t ON {self.match}"
        ((matched, updated, respelled_rows),) = self._session.fetch(
            f"SELECT count(*), count(CASE WHEN {differ}{f' OR {marked}' if marked else ''}"
            f" THEN 1 END), count(CASE WHEN {respelled} THEN 1 END) {joined}",
            SUBJECT,
        )
        if respelled_rows and not holds_equal_keys():
            key = self._key
            pair = ", ".join(f"{row}.{ident(name)}" for row in "st" for name in key)
            one = self._dialect.limited_query(f"SELECT {pair} {joined} WHERE {respelled}", 1)
            for pair_values in self._session.fetch(one, SUBJECT):
                raise key_respelled(key, pair_values[: len(key)], pair_values[len(key) :], advice)
        if self._mark:
            cleared = f"{ident(self._mark)} = NULL"
            self._session.run(
                self._dialect.update_matching(self._table, staged, self._key, cleared, marked)
            )
        # Rows that do not differ are not touched.
        self._session.run(self._dialect.merge(self._table, staged, self._key, self._value_columns))
        return LoadResult(rows, rows - matched, updated)

    def _check_key(self, staged: str) -> None:
        names = ", ".join(map(self._dialect.ident, self._key))
        null = " OR ".join(f"{self._dialect.ident(name)} IS NULL" for name in self._key)
        ((nulls,),) = self._session.fetch(f"SELECT count(*) FROM {staged} WHERE {null}", SUBJECT)
        if nulls:
            raise key_with_null(self._key, nulls)
        twice = f"SELECT {names}, count(*) FROM {staged} GROUP BY {names} HAVING count(*) > 1"
        for *key_values, times in self._session.fetch(
            self._dialect.limited_query(twice, 1), SUBJECT
        ):
            shown = self._spellings(staged) or f"({', '.join(map(str, key_values))})"
            raise key_twice(self._key, f"{shown} {times:,} times")

    def _spellings(self, staged: str) -> str:
        query = self._dialect.spellings(staged, self._key)
        return str(self._session.fetch(query, SUBJECT)[0][0]) if query else ""
