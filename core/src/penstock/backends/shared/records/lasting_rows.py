"""What has become of the rows of a run that is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.backends.api.execution.control import Loss, RunRow
from penstock.model.extents import BlockRange, ChildBlocks, Children, Extent, Files, Whole
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import Ending, Entry, mode_of

MOST_COUNTED = 10_000_000
"""The rows that are counted at once; of larger tables, only whether they have any is asked."""


@dataclass(frozen=True)
class Lasting:
    """A complete run, and how to look for its rows."""

    run: RunRow
    records: Sequence[CommitRecord]
    counted: bool
    """Whether to count the rows; otherwise only whether there are any."""

    @classmethod
    def of(cls, run: RunRow, records: Sequence[CommitRecord], *, counted: bool) -> Lasting:
        """Return how to look for the rows of a run.

        Args:
            run: the run.
            records: its commit records.
            counted: whether to count rows, if their number says anything.
        """
        mode = mode_of(run.spec)
        # Rows that meet others of the same key, or that later loads delete, change the number.
        merges = mode.entry is Entry.BY_KEY or mode.ending is Ending.MERGE
        return cls(run, records, counted and not merges)

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @property
    def expected(self) -> int:
        """The committed rows."""
        return sum(record.rows for record in self.records)

    @cached_property
    def table(self) -> TableRef:
        """The table that has the rows in the end."""
        return stored_target(self.run.spec)

    @property
    def where(self) -> str | None:
        """The condition of the rows in the target; None for the whole table."""
        selects = mode_of(self.run.spec).entry is Entry.REPLACE
        return self.run.spec["where"] if selects else None

    @property
    def extents(self) -> Sequence[Extent]:
        """The extents of the rows in the target; empty for the whole table."""
        if mode_of(self.run.spec).entry is not Entry.REPLACE:
            return ()
        extents = [partition.extent for partition in self.run.plan.partitions]
        # Only the source knows which rows some of them select.
        unknown = Whole | BlockRange | Children | ChildBlocks | Files
        return () if any(isinstance(extent, unknown) for extent in extents) else extents


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at the table of a complete run found."""

    rows: int | None = None
    """The rows; if they were not counted, 1 if there are any; None if unknown."""
    change: str = ""
    """Why the rows cannot be there, as a predicate; empty if they can."""
    emptied: bool = False
    """Whether the rows are known to be gone, whatever the table has now."""


def all_lasting(
    runs: Mapping[str, RunRow], committed: Mapping[str, Sequence[CommitRecord]], *, counted: bool
) -> list[Lasting]:
    """Return the runs that have committed rows, and count those of the smallest.

    Args:
        runs: runs, by id.
        committed: their commit records.
        counted: whether to count at all.
    """
    lasting = [
        Lasting.of(run, committed[run_id], counted=counted)
        for run_id, run in runs.items()
        if any(record.rows for record in committed[run_id])
    ]
    budget = MOST_COUNTED
    for place, run in sorted(enumerate(lasting), key=lambda item: item[1].expected):
        budget -= run.expected if run.counted else 0
        if budget < 0:
            lasting[place] = replace(run, counted=False)
    return lasting


def loss_of(run: Lasting, seen: Seen) -> Loss | None:
    """Return what a complete run has lost; None if nothing shows."""
    vacant = seen.rows == 0
    if seen.change or vacant:
        what = seen.change or (
            "has none of the rows that the run selects" if run.where or run.extents else "is empty"
        )
        found = seen.rows if run.counted or vacant else None
        return Loss(
            f"{run.table} {what}", run.expected, found, safe_to_repeat=vacant or seen.emptied
        )
    if run.counted and seen.rows is not None and seen.rows < run.expected:
        return Loss(f"{run.table} lacks rows", run.expected, seen.rows, partial=True)
    return None
