"""Whether a run's partitions are in the target, and whether the rows are as many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.backends.base import RunRow, SourceCatalog, TargetCatalog
from penstock.model import BlockRange, CommitRecord, Extent, Partition, Whole
from penstock.spec import CopySpec


@dataclass(frozen=True, slots=True)
class Check:
    """Row counts of one partition, or of the whole run."""

    partition_id: str | None
    """None: the whole run."""
    label: str
    committed: int | None
    """Rows by the commit record; None where there is none."""
    source: int | None
    """Rows that the source has now; None where they were not counted."""
    target: int | None
    """Rows that the target has now; None where they cannot be told from others."""
    ok: bool
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verification:
    run_id: str
    ok: bool
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def verify_counts(
    spec: CopySpec,
    run: RunRow,
    records: Sequence[CommitRecord],
    source: SourceCatalog,
    target: TargetCatalog,
) -> Verification:
    """Count every partition on both sides and compare with its commit record.

    Where partitions cannot be told apart on the target (block ranges), or hold rows besides the
    run's (append), the target is counted as a whole or not at all; `notes` says so.
    """
    done = {record.partition_id: record for record in records}
    partitions = run.plan.partitions
    extents = [partition.extent for partition in partitions]
    by_key = not any(isinstance(extent, BlockRange | Whole) for extent in extents)
    alone = spec.mode in ("truncate", "replace")
    rewritten = (
        any(isinstance(extent, BlockRange) for extent in extents)
        and source.state(spec.table_ref).layout != run.source_state.layout
    )
    checks = [
        _check_partition(
            spec,
            partition,
            done.get(partition.id),
            None if rewritten else source,
            target if by_key and alone else None,
        )
        for partition in partitions
    ]
    checks.append(_check_run(spec, records, source, target if alone else None))
    notes = [
        "rows are counted as source and target have them now: one that was written since the run "
        "shows as a difference"
    ]
    if not alone:
        notes.append(
            "the target is not counted: in mode append it may hold rows of other origin too"
        )
    elif not by_key:
        notes.append(
            f"the target is counted as a whole: partitions by {run.plan.strategy} exist only in "
            "the source"
        )
    if rewritten:
        notes.append(
            "the source was rewritten since the run: its block ranges hold other rows now, so it "
            "is counted as a whole"
        )
    return Verification(run.run_id, all(check.ok for check in checks), tuple(checks), tuple(notes))


def _check_partition(
    spec: CopySpec,
    partition: Partition,
    record: CommitRecord | None,
    source: SourceCatalog | None,
    target: TargetCatalog | None,
) -> Check:
    extent: Extent = partition.extent
    in_source = source.count(spec.table_ref, spec.where, extent) if source else None
    in_target = target.count(spec.target_ref, spec.where, extent) if target else None
    committed = record.rows if record else None
    if record is None:
        note = "not committed"
    elif in_source is not None and committed != in_source:
        note = f"the source has {in_source:,}, committed were {committed:,}"
    elif in_target is not None and in_target != committed:
        note = f"the target has {in_target:,}, committed were {committed:,}"
    else:
        note = ""
    return Check(partition.id, str(extent), committed, in_source, in_target, ok=not note, note=note)


def _check_run(
    spec: CopySpec,
    records: Sequence[CommitRecord],
    source: SourceCatalog,
    target: TargetCatalog | None,
) -> Check:
    committed = sum(record.rows for record in records)
    # In mode replace, rows outside the run's condition are none of its own.
    where = spec.where if spec.mode == "replace" else None
    in_source = source.count(spec.table_ref, spec.where, Whole())
    in_target = target.count(spec.target_ref, where, Whole()) if target else None
    wrong = [
        f"the {side} has {found:,}"
        for side, found in (("source", in_source), ("target", in_target))
        if found is not None and found != committed
    ]
    note = " and ".join(wrong) + f", committed were {committed:,}" if wrong else ""
    return Check(None, "whole run", committed, in_source, in_target, ok=not wrong, note=note)
