"""The table that a run loads: whether it is unchanged, and what others do to it.

For databases that record neither who loaded a row nor whether a table is still the same. A run that
removes rows tells the runs that loaded them, in the transaction that removes them. Rows removed by
anyone else, or added to a table that a run should have to itself, are detected by the row count.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.shared.records.sql_records import MOST, SqlRecords
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.rows.conditions import TRUE, condition
from penstock.backends.sql.session import Session
from penstock.errors import Diagnosis, PermanentError, PlanningError, TargetChanged
from penstock.model.codec import from_json
from penstock.model.extents import BlockRange, ChildBlocks, Children, Extent, Files, Whole
from penstock.model.plans import PartitionPlan
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.modes import Entry, Mode, mode_of

# Only the source knows which rows these select.
STORAGE = BlockRange | Children | ChildBlocks | Files
OUTSIDER = ""
"""The run id recorded for a change that was made outside Penstock."""
# Row counts per query.
MOST_COUNTED = 100


class LoadRecords(SqlRecords):
    """Records next to the loaded tables.

    A run has two more columns, `loads` (the table's id) and `disturbed_by`, and the table
    `loaded_table` keeps the row count for each id.
    """

    undisturbed = False
    """Whether a table cannot be changed by others while a session is open."""

    def __init__(self, dialect: CatalogDialect) -> None:
        self._dialect = dialect
        self.now = dialect.now
        self.text = dialect.types["text"]

    def placeholder(self, number: int) -> str:
        return self._dialect.placeholder(number)

    def ident(self, column: str) -> str:
        return self._dialect.ident(column)

    @property
    @abstractmethod
    def session(self) -> Session:
        """The session of the open transaction or reading."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[bool]:
        """Use one session for all reads in the block; False if there are no control tables."""

    def noted_rows(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row counts in `loaded_table`, by table id."""
        query = f"SELECT id, {self.ident('rows')} FROM {self.table_name('loaded_table')} AS l WHERE"
        return {
            id_: int(count)
            for tested, values in self._conditions({"id": tuple(ids)})
            for id_, count in self.execute(f"{query} {tested}", values, reading=True)
        }

    def note_rows(self, rows: Mapping[str, int | None]) -> None:
        """Store row counts; None for a table that does not exist."""
        table_name, counted = self.table_name("loaded_table"), self.ident("rows")
        before = self.noted_rows(list(rows))
        emptied = tuple(id_ for id_, count in rows.items() if count is None and id_ in before)
        for tested, values in self._conditions({"id": emptied}) if emptied else ():
            self.execute(f"DELETE FROM {table_name} WHERE {tested}", values, reading=False)
        for id_, count in rows.items():
            if count is not None and id_ in before and before[id_] != count:
                changed = f"UPDATE {table_name} SET {counted} = {self.placeholder(1)}"
                self.execute(
                    f"{changed} WHERE id = {self.placeholder(2)}", [count, id_], reading=False
                )
        new = [
            (id_, count) for id_, count in rows.items() if count is not None and id_ not in before
        ]
        for first in range(0, len(new), MOST):
            added: list[object] = []
            listed = []
            for pair in new[first : first + MOST]:
                places = (self.placeholder(len(added) + place) for place in (1, 2))
                listed.append(f"({', '.join(places)})")
                added += pair
            self.execute(
                f"INSERT INTO {table_name} VALUES {', '.join(listed)}", added, reading=False
            )

    keeps_nights: ClassVar[bool] = False
    """Whether there is a table `watermark`."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of records that have tables."""
        return tuple(kind for kind in Kind if self.keeps_nights or kind is not Kind.WATERMARK)

    def _select(self, kind: Kind, where: Row, columns: Sequence[str], more: str = "") -> list[Row]:
        if kind is Kind.WATERMARK and not self.keeps_nights:
            return []
        return super()._select(kind, where, columns, more)

    def latest_watermarks(self, names: Sequence[str], columns: Sequence[str]) -> list[Row]:
        if not self.keeps_nights:
            return []
        return super().latest_watermarks(names, columns)

    @abstractmethod
    def drop(self, table: TableRef) -> None:
        """Drop a table of the target unless it is in use."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Another run that is loading the table."""

    id: str
    mode: Mode
    has_committed: bool
    """Whether it has committed rows."""
    disturbed_by: str | None


class LoadedTable:
    """A table within a transaction.

    Args:
        records: records with an open session.
    """

    def __init__(self, records: LoadRecords, table: TableRef) -> None:
        self._records = records
        self._session = records.session
        self._dialect = self._session.dialect
        self._table = table
        self._name = self._session.table(table)
        self._counted = self._dialect.ident("rows")
        self._counts: tuple[int | None, int | None] | None = None
        self.id = json.dumps([table.schema, table.name], ensure_ascii=False)
        """As the control tables have it."""

    def rows(self) -> int | None:
        """Return the row count; None if the table does not exist."""
        if read_relations(self._session).get(self._table, True):
            return None
        return self.count(TRUE)

    def count(self, tested: str) -> int:
        """Count the rows that a condition selects."""
        ((count,),) = self._session.fetch(
            f"SELECT count(*) FROM {self._name} WHERE {tested}", f"table {self._table}"
        )
        return int(count)

    def _look(self) -> tuple[int | None, int | None]:
        """Return the expected row count, None without one, and the actual one; see `rows`."""
        counts, self._counts = self._counts, None
        if counts is None:
            expected = self._expected()
            counts = expected, None if expected is None else self.rows()
            self._counts = counts if self._records.undisturbed else None
        return counts

    def _expected(self) -> int | None:
        return self._records.noted_rows([self.id]).get(self.id)

    def check(self, run_id: str, mode: Mode, *, thoroughly: bool = False) -> None:
        """Check that the run's rows are in the table.

        Args:
            run_id: the id of the run.
            mode: the mode of the load.
            thoroughly: count the rows of each partition, if the mode works by their conditions.

        Raises:
            TargetChanged: rows that the run has loaded are gone, or rows of others are in the
                table although the mode removes them.
        """
        runs = self._records.read(Kind.RUN, {"run_id": run_id}, ("disturbed_by",))
        by = runs[0]["disturbed_by"] if runs else None
        if by:
            raise TargetChanged(
                f"target: run {by} has deleted rows of {self._table}, or loaded the same ones, "
                f"since run {run_id} began to load it; start a new run",
                Diagnosis(side="target"),
            )
        expected, actual = self._look()
        if expected is None:
            return
        suspect = by == OUTSIDER or actual is None or actual < expected
        if mode.starts_empty:
            if suspect or actual != expected:
                raise table_changed(run_id, self._table, _rows(expected), _rows(actual))
        elif (suspect or (thoroughly and mode.entry is Entry.REPLACE)) and not (
            self._rows_exist(run_id, table_exists=actual is not None)
        ):
            raise table_changed(
                run_id,
                self._table,
                f"{_rows(expected)} or more, including all that it has committed",
                f"{_rows(actual)}, without some of those",
            )

    def _committed(self, run_id: str) -> dict[str, int]:
        """Return the committed row count of each partition of a run that has rows."""
        records = self._records.read(Kind.COMMIT, {"run_id": run_id}, ("partition_id", "rows"))
        return {row["partition_id"]: row["rows"] for row in records if row["rows"]}

    def _rows_exist(self, run_id: str, *, table_exists: bool) -> bool:
        """Whether the rows that a run has committed exist, as far as can be determined."""
        committed = self._committed(run_id)
        if not committed:
            return True
        where, extents = self._selection(run_id, committed)
        if extents is None or not table_exists:
            return False
        expected = [(extents[partition_id], rows) for partition_id, rows in committed.items()]
        for start in range(0, len(expected), MOST_COUNTED):
            some = expected[start : start + MOST_COUNTED]
            try:
                counts = ", ".join(
                    f"count(CASE WHEN {condition(self._dialect, where, extent)} THEN 1 END)"
                    for extent, _ in some
                )
                (counted,) = self._session.fetch(
                    f"SELECT {counts} FROM {self._name}", f"table {self._table}"
                )
            except PlanningError:
                return False
            if any(count < rows for count, (_, rows) in zip(counted, some, strict=True)):
                return False
        return True

    def _selection(
        self, run_id: str, partition_ids: Collection[str]
    ) -> tuple[str | None, dict[str, Extent] | None]:
        """Return a run's condition and its partitions' extents.

        The extents are None if only the source can evaluate them.
        """
        (row,) = self._records.read(Kind.RUN, {"run_id": run_id}, ("plan", "spec"))
        plan = from_json(PartitionPlan, row["plan"])
        extents = {name: plan.partition(name).extent for name in partition_ids}
        by_key = not any(isinstance(extent, STORAGE) for extent in extents.values())
        by_name = all(pair.source == pair.target for pair in plan.pairs)
        return row["spec"]["where"], extents if by_key and by_name else None

    def check_loaded_since(self, run_id: str) -> None:
        """Check for rows loaded by others, before all rows are removed late in a run.

        Raises:
            TargetChanged: another run has loaded rows since this one was prepared, which would be
                lost.
        """
        table_name, place = self._records.table_name, self._records.placeholder
        latest = self._dialect.limited_query(
            f"SELECT o.run_id FROM {table_name('commit_record')} AS c JOIN {table_name('run')} AS o"
            f" ON o.run_id = c.run_id JOIN {table_name('run')} AS mine ON mine.run_id = {place(1)}"
            f" WHERE o.loads = {place(2)} AND o.run_id <> mine.run_id AND c.{self._counted} > 0"
            " AND c.committed_at > mine.prepared_at ORDER BY c.committed_at DESC",
            1,
        )
        for (other,) in self._records.execute(latest, [run_id, self.id], reading=True):
            raise TargetChanged(
                f"target: run {other} has loaded rows into {self._table} since run {run_id} was "
                "prepared, which would be lost; start a new run if they may be deleted",
                Diagnosis(side="target"),
            )

    def keep_out(self, run_id: str) -> None:
        """Tell all other runs that their rows will be removed.

        An attempt reads this when it commits, in a transaction that locks its run's row. So the
        code that follows sees everything they have committed, and they commit no more.
        """
        self._mark_disturbed(run_id, self._other_runs(run_id))

    def let_in(self, run_id: str) -> None:
        """Withdraw the notice, because the rows were not removed."""
        where = {"loads": self.id, "disturbed_by": run_id}
        self._records.change(Kind.RUN, where, {"disturbed_by": None})

    # What the transaction does

    def begin(self, run_id: str) -> None:
        """Before the first change, alert other runs if the table was changed by others."""
        expected, actual = self._look()
        if expected is None or actual == expected:
            return
        fewer = actual is None or actual < expected
        other_runs = self._other_runs(run_id)
        self._mark_disturbed(
            OUTSIDER,
            [
                each
                for each in other_runs
                if each.mode.starts_empty or (fewer and each.has_committed)
            ],
        )
        self.end()

    def end(self) -> None:
        """After the last change, record the row count."""
        self._records.note_rows({self.id: self.rows()})

    def emptied(self, run_id: str) -> None:
        """Tell other runs that all of their rows were removed."""
        other_runs = self._other_runs(run_id)
        self._mark_disturbed(
            run_id, [each for each in other_runs if each.mode.starts_empty or each.has_committed]
        )

    def replace(self, run_id: str, tested: str) -> None:
        """Delete the rows that a condition selects, and tell the runs that may have loaded them.

        Runs of the modes `replace` and `upsert` accept this: the last one to load a row owns it.
        """
        other_runs = [
            other
            for other in self._other_runs(run_id)
            if other.mode.starts_empty
            or (other.mode.only_adds and other.has_committed and self._overlaps(other.id, tested))
        ]
        self._session.run(f"DELETE FROM {self._name} WHERE {tested}")
        self._mark_disturbed(run_id, other_runs)

    def _overlaps(self, run_id: str, tested: str) -> bool:
        """Whether a run may have loaded some of the rows that a condition selects."""
        where, extents = self._selection(run_id, self._committed(run_id))
        if where is None and extents is None:
            return self.count(tested) > 0
        covered = [Whole()] if extents is None else extents.values()
        try:
            parts = [condition(self._dialect, where, extent) for extent in covered]
            theirs = " OR ".join(f"({part})" for part in parts)
            # An error would abort the transaction; another session sees the table as well.
            ((count,),) = self._session.stream(
                f"SELECT count(*) FROM {self._name} WHERE ({tested}) AND ({theirs})",
                f"table {self._table}",
            )
        except PlanningError:
            return self.count(tested) > 0
        return bool(count)

    def thinned(self, run_id: str) -> None:
        """Tell the runs that may have loaded the deleted rows.

        As in `replace`, runs of the modes `replace` and `upsert` accept this.
        """
        self._mark_disturbed(
            run_id,
            [
                each
                for each in self._other_runs(run_id)
                if each.mode.starts_empty or (each.mode.only_adds and each.has_committed)
            ],
        )

    def delete_partitions(self, run_id: str, mode: Mode, records: Sequence[CommitRecord]) -> None:
        """Delete the rows of a run's partitions by their conditions, from a table of the run's own.

        Args:
            run_id: the id of the run.
            mode: the mode of the load.
            records: the commit records of the partitions.

        Raises:
            PermanentError: the table does not show which rows these are, or holds others.
        """
        names = [record.partition_id for record in records]
        _, extents = self._selection(run_id, names)
        if not mode.starts_empty or extents is None:
            raise PermanentError(
                f"target: rows that a partition loaded into {self._table} cannot be identified, "
                "and so not be deleted; expected --mode replace, or truncate, recreate or swap "
                "with a key strategy and the same column names on both sides; start a new run",
                Diagnosis(side="target"),
            )
        for record in records:
            # All rows of a run with a condition meet it.
            tested = condition(self._dialect, None, extents[record.partition_id])
            deleted = self._session.run(f"DELETE FROM {self._name} WHERE {tested}")
            if deleted != record.rows:
                raise PermanentError(
                    f"target: rows of {self._table} were changed since they were loaded, so the "
                    "partitions cannot be copied again (nothing was deleted); correct them by "
                    f"hand, or start a new run: {record.partition_id}: expected {record.rows:,} "
                    f"rows, found {deleted:,}",
                    Diagnosis(side="target"),
                )

    def _mark_disturbed(self, run_id: str, runs: Collection[_Run]) -> None:
        for run in runs:
            if not run.disturbed_by:
                self._records.change(Kind.RUN, {"run_id": run.id}, {"disturbed_by": run_id})

    def _other_runs(self, run_id: str) -> list[_Run]:
        table_name, place = self._records.table_name, self._records.placeholder
        rows = self._records.execute(
            f"SELECT run_id, spec, (SELECT count(*) FROM {table_name('commit_record')} AS c"
            f" WHERE c.run_id = r.run_id AND c.{self._counted} > 0), disturbed_by"
            f" FROM {table_name('run')} AS r WHERE loads = {place(1)} AND status <> 'done'"
            f" AND run_id <> {place(2)}",
            [self.id, run_id],
            reading=True,
        )
        return [
            _Run(other, mode_of(self._records.read_json(spec)), count > 0, disturbed_by)
            for other, spec, count, disturbed_by in rows
        ]


def _rows(count: int | None) -> str:
    if count is None:
        return "no table of that name"
    return f"{count:,} row{'' if count == 1 else 's'}"


def table_changed(run_id: str, table: TableRef, expected: str, actual: str) -> TargetChanged:
    """Return the error for a table that others have changed while a run loads it.

    Args:
        run_id: the id of the run.
        table: the table.
        expected: a description of the expected state.
        actual: a description of the state that was found.
    """
    return TargetChanged(
        f"target: {table} was changed by another session since run {run_id} began to load it: "
        f"expected {expected}, found {actual}; start a new run",
        Diagnosis(side="target"),
    )
