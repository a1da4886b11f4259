"""The result of comparing both sides."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.events import PartitionComparison, PartitionDifference

MISSING = "missing in the target"
EXTRA = "only in the target"
DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that one side lacks, or whose values differ."""

    key: str
    what: str
    """``missing in the target``, ``only in the target``, ``different``."""


@dataclass(frozen=True, slots=True)
class Check:
    """The comparison of one partition, or of the whole run."""

    partition_id: str | None
    """None for the whole run."""
    label: str
    committed: int | None
    """Rows by the commit record; None without one."""
    source: int | None
    """Rows in the source; None if not counted."""
    target: int | None
    """Rows in the target; None if they cannot be told from others."""
    ok: bool
    note: str = ""
    source_digest: str | None = None
    """None if only rows are counted."""
    target_digest: str | None = None
    rows: tuple[RowDifference, ...] = ()
    """Some of the rows that differ, if requested."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of `verify` for one run."""

    run_id: str
    ok: bool
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    method: str = "counts"
    """``counts`` or ``checksums``."""
    warnings: tuple[str, ...] = ()
    """Notes on rows read as of another moment than the rest, and on columns not compared."""

    @property
    def wrong(self) -> tuple[Check, ...]:
        """The partitions that differ; the whole run if it differs but none of them does."""
        wrong = [check for check in self.checks if not check.ok]
        return tuple(check for check in wrong if check.partition_id is not None) or tuple(wrong)

    @property
    def differences(self) -> tuple[PartitionDifference, ...]:
        """The differences, as events carry them."""
        return tuple(
            PartitionDifference(
                partition_id=check.partition_id,
                label=check.label,
                note=check.note,
                committed=check.committed,
                source=check.source,
                target=check.target,
            )
            for check in self.wrong
        )

    @property
    def compared(self) -> tuple[PartitionComparison, ...]:
        """The counts of both sides, as events carry them."""
        return tuple(
            PartitionComparison(
                partition_id=check.partition_id,
                source=check.source,
                target=check.target,
                source_digest=check.source_digest,
                target_digest=check.target_digest,
            )
            for check in self.checks
        )
