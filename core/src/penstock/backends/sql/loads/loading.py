"""An attempt's transaction: staged rows go into the table, and the commit record is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from penstock.backends.api.execution.attempt import Attempt, Standing
from penstock.backends.api.execution.records import NOW, Kind, Row
from penstock.backends.api.worker import LoadResult
from penstock.backends.shared.attempts.refusals import already_committed
from penstock.backends.shared.records.sql_records import SqlRecords
from penstock.backends.sql.loads.loaded_table import LoadedTable, LoadRecords
from penstock.backends.sql.loads.merging import Merging
from penstock.backends.sql.rows.conditions import condition
from penstock.model.codec import to_json
from penstock.model.extents import KeyIsNull, KeyOther, KeyRange, KeyValues, selects_all

S_contra = TypeVar("S_contra", contravariant=True)
STAGE = "penstock_stage"


def standing(records: SqlRecords, attempt: Attempt) -> Standing:
    """Return what the control tables say about an attempt's run and partition."""
    spec, mine = attempt.spec, {"partition_id": attempt.partition.id}
    runs = records.read(Kind.RUN, {"run_id": spec.run_id}, ("generation",))
    committed = records.count(Kind.COMMIT, {"run_id": spec.run_id, **mine})
    other_commits: list[tuple[str, str]] = []
    if spec.series:
        columns = ("run_id", "committed_at")
        commits = records.read(Kind.COMMIT, {"series": spec.series, **mine}, columns)
        other_commits = [
            (r["run_id"], r["committed_at"]) for r in commits if r["run_id"] != spec.run_id
        ]
    return Standing(
        generation=runs[0]["generation"] if runs else None,
        committed=bool(committed or other_commits),
        loaded_by=other_commits[0] if other_commits else None,
    )


def initial_record(attempt: Attempt) -> Row:
    """Return the part of a commit record that is known before the load."""
    spec = attempt.spec
    return {
        "run_id": spec.run_id,
        "partition_id": attempt.partition.id,
        "attempt": attempt.number,
        "series": spec.series or None,
        "started_at": attempt.started_at,
        "read_at": spec.read_at,
    }


def final_fields(result: LoadResult, bytes: int) -> Row:
    """Return the rest of a commit record."""
    return {
        **({"spent": to_json(result.spent)} if result.spent else {}),
        "rows": result.rows,
        "bytes": bytes,
        "inserted": result.inserted,
        "updated": result.updated,
        "committed_at": NOW,
    }


def holds_equal_keys(attempt: Attempt, orders: Mapping[str, str]) -> bool:
    """See `SqlLoading.holds_equal_keys` and `SqlLoading.orders`."""
    extent = attempt.partition.extent
    if selects_all(extent, attempt.spec.key_sources):
        return True
    if not isinstance(extent, KeyRange | KeyValues | KeyOther | KeyIsNull):
        return False
    key = extent.key
    names = {pair.source: pair.target for pair in attempt.spec.pairs}
    return not key.expression and orders.get(names.get(key.text, "")) == key.collation


class SqlLoading(ABC, Generic[S_contra]):
    """A `StagedTransaction`, except for how a database reads the stage.

    One transaction at a time loads the table. A database with several writers locks the run's row
    and the partition before `standing` reads them.

    Args:
        records: records in whose session the transaction is open.
    """

    def __init__(self, records: LoadRecords, attempt: Attempt) -> None:
        spec = attempt.spec
        self._records = records
        self._session = records.session
        self._dialect = self._session.dialect
        self._loaded = LoadedTable(records, spec.target_table)
        self._table = self._session.table(spec.target_table)
        self._names = [pair.target for pair in spec.pairs]
        self._listed = ", ".join(map(self._dialect.ident, self._names))

    @abstractmethod
    def insert_staged(self, stage: S_contra, table: str) -> int:
        """Insert the staged rows into a table, as values of its types.

        Returns:
            the number of rows.
        """

    @contextmanager
    def staged_table(self, stage: S_contra) -> Iterator[tuple[str, int]]:
        """Provide the staged rows as a table with the target's columns, and the number of rows."""
        columns = f"SELECT {self._listed} FROM {self._table} LIMIT 0"
        self._session.run(f"CREATE TEMPORARY TABLE {STAGE} AS {columns}")
        yield STAGE, self.insert_staged(stage, STAGE)
        self._session.run(f"DROP TABLE {STAGE}")

    def standing(self, attempt: Attempt) -> Standing:
        return standing(self._records, attempt)

    def check_target(self, attempt: Attempt) -> None:
        self._loaded.check(attempt.spec.run_id, attempt.spec.load_mode)

    def begin_changes(self, attempt: Attempt) -> None:
        self._loaded.begin(attempt.spec.run_id)

    def delete(self, attempt: Attempt) -> None:
        self._loaded.replace(attempt.spec.run_id, self._selected_by(attempt))

    def count_selected(self, attempt: Attempt) -> int:
        return self._loaded.count(self._selected_by(attempt))

    def _selected_by(self, attempt: Attempt) -> str:
        """Return the condition of the partition.

        Called only in mode `replace`: elsewhere the extent may be one that only the source can
        evaluate.
        """
        return condition(self._dialect, attempt.spec.where, attempt.partition.extent)

    def insert(self, attempt: Attempt, stage: S_contra) -> int:
        return self.insert_staged(stage, self._table)

    def merge(self, attempt: Attempt, stage: S_contra) -> LoadResult:
        key = attempt.spec.conflict_columns
        merging = Merging(self._session, self._dialect, self._table, self._names, key)
        with self.staged_table(stage) as (staged, rows):
            return merging.merge(staged, rows, lambda: self.holds_equal_keys(attempt))

    def holds_equal_keys(self, attempt: Attempt) -> bool:
        """Whether all rows whose keys the target treats as equal are in one partition and stage.

        Asked if equal keys are spelled differently.
        """
        return holds_equal_keys(attempt, self.orders(attempt.spec.conflict_columns))

    def orders(self, key: Sequence[str]) -> Mapping[str, str]:
        """Return the collations of the table's columns, as in `Key.collation`.

        Empty for columns without one. Asked if `Dialect.respelled_condition` finds rows.
        """
        raise NotImplementedError

    def end_changes(self) -> None:
        """After the table's last change, record what other runs that load it need."""
        self._loaded.end()

    def insert_record(self, attempt: Attempt, result: LoadResult, bytes: int) -> None:
        self.end_changes()
        row = {**initial_record(attempt), **final_fields(result, bytes)}
        if not self._records.add(Kind.COMMIT, [row]):
            raise already_committed(attempt)

    def commit(self) -> None:
        self._session.run("COMMIT")
