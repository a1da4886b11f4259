"""What a comparison of both sides has found."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.events import PartitionDifference

MISSING = "missing in the target"
EXTRA = "only in the target"
DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class RowDifference:
    key: str
    what: str
    """``missing in the target``, ``only in the target``, ``different``."""


@dataclass(frozen=True, slots=True)
class Check:
    """What both sides have of one partition, or of the whole run."""

    partition_id: str | None
    """None: the whole run."""
    label: str
    committed: int | None
    """Rows by the commit record; None where there is none."""
    source: int | None
    """Rows that the source has; None where they were not counted."""
    target: int | None
    """Rows that the target has; None where they cannot be told from others."""
    ok: bool
    note: str = ""
    source_digest: str | None = None
    """None where only rows are counted."""
    target_digest: str | None = None
    rows: tuple[RowDifference, ...] = ()
    """Some of those that differ, where they were asked for."""


@dataclass(frozen=True, slots=True)
class Verification:
    run_id: str
    ok: bool
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    method: str = "counts"
    """``counts`` or ``checksums``."""
    warnings: tuple[str, ...] = ()
    """Notes about what was read as of another moment than the rest."""

    @property
    def wrong(self) -> tuple[Check, ...]:
        """The partitions that differ; the whole run where it is none of them."""
        wrong = [check for check in self.checks if not check.ok]
        return tuple(check for check in wrong if check.partition_id is not None) or tuple(wrong)

    @property
    def differences(self) -> tuple[PartitionDifference, ...]:
        """What is wrong, as events tell it."""
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
