"""A store of records: the eight methods with which a backend keeps runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Any, Final, TypeVar

from penstock.spec.worker_spec import Patience

T = TypeVar("T")
Row = Mapping[str, Any]
"""Values by column: strings, integers, None, and everything that JSON supports."""


class Kind(Enum):
    """The kinds of records; where they are rows, the names of their tables."""

    RUN = "run"
    COMMIT = "commit_record"
    STEP = "step_record"
    RECOPY = "recopy_record"
    JOURNAL = "journal"
    WATERMARK = "watermark"


class Hold(Enum):
    """The locks that a transaction holds while it lasts."""

    CHANGE = "change"
    """Changes of the run."""
    NOTE = "note"
    """Changes of the run, for a moment: nothing else is read in the transaction."""
    STEP = "step"
    """Restarts of the run, and removal of any of its commit records."""
    RECOPY = "recopy"
    """Attempts and steps of some partitions, and restarts of the run. Open attempts are awaited."""
    ALONE = "alone"
    """Everything: open attempts of the run are awaited or ended; later ones find what the
    transaction has changed.
    """


class Now(Enum):
    """A placeholder value for the store's own clock."""

    NOW = "now"


NOW: Final = Now.NOW


class RecordStore(ABC):
    """Records kept in the target.

    Conditions are columns with their expected values; a tuple means any of its values. They name a
    run or a series. Records are changed and deleted within `transact`. Times are read as text.
    """

    patience = Patience()
    """How long calls wait for others; may be set at any time."""
    batch_id = ""
    """See `ControlStore.batch_id`."""
    steps_with_records: bool
    """Whether a step's statement is undone with the transaction that should record it. Otherwise
    the record follows the step in a separate transaction, and a step without a record is done
    again, so it must be repeatable.
    """

    @abstractmethod
    def create(self) -> None:
        """Create whatever is missing to keep records.

        Raises:
            PlanningError: the user may not; says what an administrator can do.
        """

    @abstractmethod
    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        """Do everything that `body` does with the records of one run, or nothing.

        Args:
            run_id: the id of the run.
            body: may be called again if another process was faster.
            hold: the locks that the transaction takes.
            partition_ids: sorted; the partitions that `Hold.RECOPY` is about.
            patience: seconds to wait for their open attempts; 0 for no limit.

        Raises:
            TransientError: attempts are open for longer.
        """

    def joins(self, run_ids: Sequence[str]) -> bool:
        """Whether one transaction may change several runs, which belong to one batch."""
        return False

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        """Run `transact` for several runs that may be joined.

        Args:
            run_ids: the ids of the runs.
            body: the work, called with the transaction open; it may be called again.
            hold: for changes of the runs, or for a step.
        """
        raise NotImplementedError  # it joins none

    def exclusive(self, run_id: str, step_id: str = "") -> AbstractContextManager[None]:
        """Keep others from doing a step at the same time, over several transactions.

        Without a step id, exclude everything that must not run during a step.

        If two processes may do a step at once, its record is rejected with a `TransientError` when
        partitions were given up since it began. If steps share a transaction with their records,
        this does nothing.
        """
        return nullcontext()

    @abstractmethod
    def read(self, kind: Kind, where: Row, columns: Sequence[str]) -> list[Row]:
        """Return the records that meet a condition; none if nothing has been created yet.

        Args:
            kind: the kind of the records.
            where: values that fields of the records must have; a sequence for any of several.
            columns: the fields to return.

        Raises:
            PermanentError: some of the tables are missing.
        """

    def read_all(
        self, kind: Kind, run_ids: Sequence[str], columns: Sequence[str]
    ) -> dict[str, list[Row]]:
        """Return the records of several runs, by run.

        Args:
            kind: the kind of the records.
            run_ids: the ids of the runs.
            columns: the fields to return.
        """
        return {run_id: self.read(kind, {"run_id": run_id}, columns) for run_id in run_ids}

    def latest_watermarks(self, names: Sequence[str], columns: Sequence[str]) -> list[Row]:
        """Return the record with the highest epoch for each name; `columns` has both."""
        latest: dict[str, Row] = {}
        for row in self.read(Kind.WATERMARK, {"name": tuple(names)}, columns) if names else ():
            newest = latest.get(row["name"])
            if newest is None or newest["epoch"] < row["epoch"]:
                latest[row["name"]] = row
        return list(latest.values())

    @abstractmethod
    def count(self, kind: Kind, where: Row) -> int:
        """Count the records that meet a condition."""

    def tally(self, run_ids: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """Return, by run, the number of committed partitions and rows.

        Changes nothing. Runs without any may be left out.
        """
        counts: dict[str, tuple[int, int]] = {}
        where = {"run_id": tuple(run_ids)}
        for row in self.read(Kind.COMMIT, where, ("run_id", "rows")) if run_ids else ():
            partitions, rows = counts.get(row["run_id"], (0, 0))
            counts[row["run_id"]] = (partitions + 1, rows + row["rows"])
        return counts

    @abstractmethod
    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        """Add records whose keys do not exist yet. All have the same columns.

        Returns:
            how many were added.
        """

    def put_journal(self, row: Row) -> None:
        """Add the journal of an execution, or replace its previous version.

        Takes no lock and waits for none, since only the execution writes it.
        """
        if not self.add(Kind.JOURNAL, [row]):
            mine = {name: row[name] for name in ("run_id", "execution_id")}
            self.change(Kind.JOURNAL, mine, {"content": row["content"]})

    def put_journals(self, rows: Sequence[Row]) -> None:
        """Store the journals of several runs."""
        for row in rows:
            self.put_journal(row)

    @abstractmethod
    def change(self, kind: Kind, where: Row, changes: Row) -> int:
        """Change the records that meet a condition; return how many there are.

        Args:
            kind: the kind of the records.
            where: values that fields of the records must have; a sequence for any of several.
            changes: the new values, by field.
        """

    @abstractmethod
    def delete(self, kind: Kind, where: Row) -> None: ...

    def sweep(self) -> None:
        """Remove what dead attempts have left behind, if possible."""
        return
