"""Mode upsert: stage rows, then merge them into the target, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from penstock.backends.api.worker import LoadResult
from penstock.backends.postgresql.catalog.unique_keys import (
    KeyColumn,
    read_unique_keys,
)
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import from_driver
from penstock.backends.postgresql.session.statements import (
    OWN_XMIN,
    column_list,
    name,
    quoted,
    raw,
    rows_of,
    statement,
)
from penstock.backends.shared.attempts.refusals import (
    key_twice,
    key_with_null,
    keys_respelled,
)
from penstock.backends.sql.catalog.unique_keys import find_key
from penstock.errors import Diagnosis, PermanentError
from penstock.model.tables import ColumnPair, TableRef

# Each session has a pg_temp of its own.
STAGE = TableRef("pg_temp", "penstock_stage")
# The server's cost of an index lookup, in sequentially read blocks.
BLOCKS_OF_A_LOOKUP = 8
BY_INDEX = (
    "SELECT pg_catalog.set_config('enable_hashjoin', 'off', true),"
    " pg_catalog.set_config('enable_mergejoin', 'off', true)"
)
"""Makes the server look up keys in the index until the transaction ends, or until `ANY_WAY`. For a
table not analyzed since its load, it would assume that many rows share a key, and scan it.
"""
ANY_WAY = (
    "SELECT pg_catalog.set_config(name, reset_val, true) FROM pg_catalog.pg_settings"
    " WHERE name IN ('enable_hashjoin', 'enable_mergejoin')"
)
COPIED_BEFORE = (
    "another partition may have copied; expected equal keys to be spelled alike; copy in one "
    "partition (--partitions 1), or give the key a type or a collation that distinguishes all "
    "values"
)
Run = Callable[[Sequence[sql.Composed]], Sequence[int]]
"""Runs statements one after the other, and returns how many rows each has found."""


class PostgresStage:
    """A table that holds rows until they are merged into the target.

    Args:
        connection: a session on the target.
        target: the table to merge into.
        conflict_columns: the columns of the unique key that identifies rows in the target.
        pairs: the columns to merge.
        stage: the stage; by default, a temporary table that lasts until the end of the transaction.
        mark: the column that records when a row was found to be deleted; empty without one.

    Raises:
        PermanentError: the unique key that the run was planned with no longer exists.
    """

    def __init__(
        self,
        connection: Connection,
        target: TableRef,
        conflict_columns: Sequence[str],
        pairs: Sequence[ColumnPair],
        stage: TableRef = STAGE,
        mark: str = "",
    ) -> None:
        self.target = target
        self._mark = mark
        self._stage = stage
        self.identifier = quoted(stage)
        """Where the rows go first."""
        with connection.own_path():
            keys = read_unique_keys(connection, target)
        key = find_key(keys, conflict_columns)
        if key is None:
            raise PermanentError(
                f"target: expected the unique index on ({', '.join(conflict_columns)}) of "
                f"{target} that the run was planned with, found none",
                Diagnosis(side="target"),
            )
        self._key = key
        parameters = {"table": name(target)}
        with connection.own_path():
            facts = connection.first(statement("upsert_facts"), parameters)
        partitioned, fixed, self._may_drop_rows, self._blocks, referenced, columns = facts
        copied = {pair.target for pair in pairs} | {mark}
        self.may_replace = (
            len(keys) > 1
            and not (referenced or fixed or self._may_drop_rows)
            and copied.issuperset(columns)
        )
        """Whether rows may be deleted and inserted instead of being updated, and that may help:
        values of another unique key may change places."""
        # Tables that inherit from it do not share its key.
        self._table = sql.SQL("{}" if partitioned else "ONLY {}").format(quoted(target))
        self._columns = column_list(pair.target for pair in pairs)
        self._updatable = [pair.target for pair in pairs if pair.target not in fixed]
        self._inexact = [column.name for column in key.columns if not column.exact]
        self._told_apart = any(
            pair.cast or pair.canonical for pair in pairs if pair.target in self._inexact
        )
        """Whether the source has another type, which may tell keys apart that are equal here."""
        self._match = sql.SQL(" AND ").join(
            _equal(column, nulls_equal=key.nulls_equal) for column in key.columns
        )

    @property
    def _is_marked(self) -> sql.Composed:
        """A condition for rows marked as deleted."""
        return sql.SQL("t.{} IS NOT NULL").format(sql.Identifier(self._mark))

    def _update_assignments(self, row: str) -> sql.Composed:
        """Return the assignments that update an existing row."""
        assigned = _assignments(self._updatable, row)
        if not self._mark:
            return assigned
        cleared = sql.SQL("{} = NULL").format(sql.Identifier(self._mark))
        return sql.SQL(", ").join([assigned, cleared] if self._updatable else [cleared])

    def _change_condition(self, row: str) -> sql.Composed:
        """Return the condition under which an existing row has to change."""
        tests = [_differ(row, self._updatable)] if self._updatable else []
        tests += [self._is_marked] if self._mark else []
        return sql.SQL("({})").format(sql.SQL(" OR ").join(tests))

    @property
    def _updates_rows(self) -> bool:
        return bool(self._updatable or self._mark)

    def delete(self, deleted_keys: TableRef, mark: str) -> sql.Composed:
        """Return a statement that deletes, or marks, the rows with some keys.

        Args:
            deleted_keys: a table with these keys.
            mark: the column in which to mark the rows; empty to delete them.
        """
        matching = sql.SQL("{} AS s WHERE {}").format(quoted(deleted_keys), self._match)
        if not mark:
            return sql.SQL("DELETE FROM {} AS t USING {}").format(self._table, matching)
        return sql.SQL("UPDATE {} AS t SET {} = pg_catalog.now() FROM {} AND t.{} IS NULL").format(
            self._table, sql.Identifier(mark), matching, sql.Identifier(mark)
        )

    def is_small(self, rows: int) -> bool:
        """Whether looking up this many keys in the index is cheaper than reading the table."""
        return bool(rows * BLOCKS_OF_A_LOOKUP < self._blocks)

    def new_rows(self) -> sql.Composed:
        """Return the staged rows that the target lacks, as an item of FROM."""
        return sql.SQL(
            "(SELECT FROM {stage} AS s WHERE NOT EXISTS (SELECT FROM {table} AS t WHERE {match}))"
            " AS t"
        ).format(stage=self.identifier, table=self._table, match=self._match)

    def rows_after(
        self, where: str | None, columns: Sequence[str], among: Sequence[str] = ()
    ) -> sql.Composed:
        """Return the selected target rows as they will be after the merge, as an item of FROM.

        Keys are those of the source, also if the target spells an equal one differently now.

        Args:
            where: the run's condition; None for all rows.
            columns: the columns to return.
            among: alternative conditions on the key, which select the rows without overlap; all
                rows if empty.
        """
        same = self._match
        if self._inexact:
            same = sql.SQL("{} AND NOT {}").format(same, self._respelled)
        new = sql.SQL(" OR ").join([raw(f"({test})") for test in among] or [sql.SQL("true")])
        return sql.SQL(
            "(SELECT {columns} FROM {rows} AS t UNION ALL SELECT {columns} FROM {stage} AS s"
            " WHERE ({new}) AND NOT EXISTS (SELECT FROM {there} AS t WHERE {match})) AS t"
        ).format(
            columns=column_list(columns),
            rows=self._kept_rows(where, among),
            there=self._selected_rows(where),
            stage=self.identifier,
            match=same,
            new=new,
        )

    @property
    def respells(self) -> bool:
        """Whether equal keys may be spelled differently, so that the merge changes them."""
        return bool(self._inexact)

    @property
    def _respelled(self) -> sql.Composed:
        """Return the condition under which equal keys are spelled differently."""
        return _differ("s", self._inexact)

    @property
    def respelled_rows(self) -> sql.Composed:
        """The target's rows whose keys the merge will spell differently, as an item of FROM."""
        return sql.SQL("(SELECT t.* FROM {} AS s JOIN {} AS t ON {} AND {}) AS t").format(
            self.identifier, self._table, self._match, self._respelled
        )

    def _kept_rows(self, where: str | None, among: Sequence[str]) -> sql.Composed:
        """Return the selected target rows whose keys the merge leaves as they are."""
        selected_rows = self._selected_rows(where, among)
        if not self._inexact:
            return selected_rows
        return sql.SQL(
            "(SELECT * FROM {rows} AS t WHERE NOT EXISTS"
            " (SELECT FROM {stage} AS s WHERE {match} AND {respelled}))"
        ).format(
            rows=selected_rows,
            stage=self.identifier,
            match=self._match,
            respelled=self._respelled,
        )

    def _selected_rows(self, where: str | None, among: Sequence[str] = ()) -> sql.Composed:
        """Return the target's rows that a condition selects, without those found to be deleted."""
        tests: list[sql.Composable] = [] if where is None else [raw(where)]
        if self._mark:
            tests.append(sql.SQL("{} IS NULL").format(sql.Identifier(self._mark)))
        parts = [[*tests, raw(test)] for test in among] or [tests]
        return sql.SQL("({})").format(
            sql.SQL(" UNION ALL ").join(
                sql.SQL("SELECT * FROM {} WHERE {}").format(
                    rows_of(self.target), sql.SQL(" AND ").join(part or [sql.SQL("true")])
                )
                for part in parts
            )
        )

    @property
    def rows(self) -> sql.Composed:
        """The staged rows, as an item of FROM."""
        return sql.SQL("{} AS s").format(self.identifier)

    def target_rows(self, where: str | None, among: Sequence[str] = ()) -> sql.Composed:
        """Return the selected target rows whose keys stay as they are, as an item of FROM."""
        return sql.SQL("{} AS t").format(self._kept_rows(where, among))

    def create(self, connection: Connection) -> None:
        connection.execute(
            statement("stage").format(columns=self._columns, table=quoted(self.target))
        )

    def merge(
        self,
        rows: int,
        run: Run,
        *,
        holds_equal_keys: bool,
        advice: str = COPIED_BEFORE,
    ) -> LoadResult:
        """Update the rows that differ, and insert the missing ones.

        Args:
            rows: the number of staged rows.
            run: runs the statements.
            holds_equal_keys: whether the stage has all rows of the source whose keys the target
                treats as equal.
            advice: where other such rows may be, and what to do; see `key_respelled`.

        Raises:
            PermanentError: a key is NULL or a duplicate, or a trigger drops rows.
        """
        self._check_nulls(run)
        if self._told_apart and not holds_equal_keys:
            query = sql.SQL("SELECT FROM {}").format(self.respelled_rows)
            (count,) = run([query])
            if count:
                raise keys_respelled(self._key.names, count, advice)
        with self._translated_conflicts():
            _, *updated, inserted = run([self._unique_index(), *self._updates(), self._insert()])
        if self._may_drop_rows and inserted + sum(updated) < rows:
            query = statement("stage_missing").format(
                table=self._table, match=self._match, stage=self.identifier
            )
            (missing,) = run([query])
            if missing:
                raise PermanentError(
                    f"target: {missing:,} of {rows:,} rows are not in {self.target} after the "
                    "insert (does a trigger or rule drop rows?)",
                    Diagnosis(side="target"),
                )
        if self._may_drop_rows and self._updatable:
            self._check_updated(run)
        return LoadResult(rows, inserted, sum(updated))

    def replace(self, rows: int, run: Run) -> LoadResult:
        """Merge as in `merge`, but delete all rows that differ first, and insert them again.

        Raises:
            PermanentError: a key is NULL or a duplicate, or another row already has a unique value.
        """
        self._check_nulls(run)
        deleting = sql.SQL("DELETE FROM {} AS t USING {} AS s WHERE {} AND {}").format(
            self._table, self.identifier, self._match, self._change_condition("s")
        )
        with self._translated_conflicts():
            _, deleted, inserted = run([self._unique_index(), deleting, self._insert()])
        return LoadResult(rows, inserted - deleted, deleted)

    @contextmanager
    def _translated_conflicts(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.UniqueViolation as error:
            if error.diag.table_name == self._stage.name:
                duplicate = f"a duplicate: {error.diag.message_detail}"
                raise key_twice(self._key.names, duplicate, error.sqlstate or "") from error
            ours = from_driver(error, "target")
            raise PermanentError(
                f"{ours.message}: another row of {self.target} has this value. If the same "
                f"statement gives that row another value, have {error.diag.constraint_name} "
                "checked after all rows (DEFERRABLE INITIALLY DEFERRED); if the source no longer "
                "has that row, use --deletes hard",
                ours.diagnosis,
            ) from error

    def _check_updated(self, run: Run) -> None:
        """Check that updates took effect, or that a trigger wrote another value.

        Raises:
            PermanentError: rows still have their previous values.
        """
        query = statement("stage_kept").format(
            table=self._table,
            match=self._match,
            differ=_differ("s", self._updatable),
            own=OWN_XMIN,
            stage=self.identifier,
        )
        (unchanged,) = run([query])
        if unchanged:
            raise PermanentError(
                f"target: {unchanged:,} rows of {self.target} still differ from the source after "
                "the update (does a trigger or rule keep them?)",
                Diagnosis(side="target"),
            )

    def _check_nulls(self, run: Run) -> None:
        columns = self._key.distinct_null_columns
        if not columns:
            return
        null = sql.SQL(" OR ").join(
            sql.SQL("{} IS NULL").format(sql.Identifier(column)) for column in columns
        )
        query = sql.SQL("SELECT FROM {} WHERE {}").format(self.identifier, null)
        (count,) = run([query])
        if count:
            raise key_with_null(columns, count, f"{self._key.index} treats NULLs as distinct")

    def _unique_index(self) -> sql.Composed:
        return statement("stage_key").format(
            definitions=sql.SQL(", ").join(
                sql.SQL("{} {} {}").format(
                    sql.Identifier(column.name),
                    sql.SQL(column.collate),
                    sql.SQL(column.operator_class),
                )
                for column in self._key.columns
            ),
            nulls_equal=sql.SQL("NULLS NOT DISTINCT" if self._key.nulls_equal else ""),
            stage=self.identifier,
        )

    def _updates(self) -> list[sql.Composed]:
        """Return the UPDATE, or nothing if no column is left to update."""
        if not self._updates_rows:
            return []
        return [
            statement("stage_update").format(
                table=self._table,
                assignments=self._update_assignments("s"),
                match=self._match,
                differ=self._change_condition("s"),
                stage=self.identifier,
            )
        ]

    def _insert(self) -> sql.Composed:
        action: sql.Composable = sql.SQL("NOTHING")
        if self._updates_rows:
            action = sql.SQL("UPDATE SET {} WHERE {}").format(
                self._update_assignments("excluded"), self._change_condition("excluded")
            )
        return statement("stage_insert").format(
            target=quoted(self.target),
            stage=self.identifier,
            table=self._table,
            columns=self._columns,
            match=self._match,
            key=column_list(self._key.names),
            action=action,
        )


def _differ(row: str, names: Iterable[str]) -> sql.Composed:
    """Compare rows by their bytes.

    This works for types without equality, and tells 1.0 from 1.00.
    """
    names = list(names)
    existing, new = (
        sql.SQL(", ").join(sql.Identifier(side, column) for column in names) for side in ("t", row)
    )
    # Without the cast to record they would be compared column by column.
    return sql.SQL(
        "ROW({})::pg_catalog.record OPERATOR(pg_catalog.*<>) ROW({})::pg_catalog.record"
    ).format(existing, new)


def _assignments(names: Iterable[str], row: str) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(column), sql.Identifier(row, column))
        for column in names
    )


def _equal(column: KeyColumn, *, nulls_equal: bool) -> sql.Composed:
    existing, new = sql.Identifier("t", column.name), sql.Identifier("s", column.name)
    collate = sql.SQL(column.collate)
    equal = sql.SQL("{existing} {collate} {operator} {new} {collate}").format(
        existing=existing, new=new, collate=collate, operator=sql.SQL(column.equals)
    )
    if not (nulls_equal and column.nullable):
        return equal
    return sql.SQL("({} OR ({} IS NULL AND {} IS NULL))").format(equal, existing, new)
