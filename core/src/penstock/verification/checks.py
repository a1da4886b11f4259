"""Checks that the target holds a run's partitions: as many rows, and the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import Checksum
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import SnapshotLost
from penstock.model.extents import Whole
from penstock.model.plans import Partition, id_list
from penstock.model.records import read_later
from penstock.spec.copy_spec import CopySpec
from penstock.verification.comparison import Comparison, Sums
from penstock.verification.partitions import Proof, difference, unsure
from penstock.verification.result import Check, Verification
from penstock.verification.rows import RowSearch
from penstock.verification.sums import SourceSums, TargetSums

CHECKSUMS_DIFFER = "equal row counts, but different checksums"
COUNTED = (
    "only rows were counted: changed values, and rows that others have replaced by as many, are "
    "found by --checksum"
)


def verify_run(
    spec: CopySpec,
    run: RunRow,
    source: SourceCatalog,
    target: TargetCatalog,
    *,
    checksums: bool = False,
    show_rows: bool = False,
    at_the_end: bool = False,
) -> Verification:
    """Compare every partition on both sides, and with its commit record.

    Args:
        spec: the options of the run.
        run: the stored run.
        source: the catalog of the source.
        target: the catalog of the target.
        checksums: compare values, not only row counts.
        show_rows: list some of the rows that differ.
        at_the_end: whether this is the end of an execution. If its rows were read as of several
            moments, and the source has changed since, differences from the source are warnings;
            commit records and target must still agree.

    Raises:
        PlanningError: one side cannot be read for the comparison.
    """
    comparison = Comparison(spec, run, source, target, checksums=checksums)
    return _Checks(comparison, show_rows=show_rows, at_the_end=at_the_end).verification()


class _Checks:
    def __init__(self, comparison: Comparison, *, show_rows: bool, at_the_end: bool) -> None:
        self._comparison = comparison
        self._show_rows = show_rows
        self._at_the_end = at_the_end
        self._later = read_later(comparison.records.values())
        self._rows = RowSearch(comparison)
        self._proof: Proof | None = None

    def verification(self) -> Verification:
        if not self._comparison.checksums:
            self._comparison.notes.append(COUNTED)
        if self._comparison.is_merged:
            return self._merged_verification()
        separate = self._read_apart()
        # These come first: if the run's snapshot is still held, all other reads use it.
        source = SourceSums(self._comparison)
        now = source.parts(separate)
        adopted = self._adopt()
        if self._at_the_end and self._later:
            self._comparison.outdated = separate if adopted else frozenset(self._comparison.records)
        mine = source.sums(now, adopted=adopted)
        self._proof = source.proof(mine, at_once=adopted and not now)
        theirs = TargetSums(self._comparison, self._rows).sums(mine)
        totals_match = self._comparison.owns_rows and theirs.total == mine.total
        if totals_match and (moved := self._moved(theirs)):
            totals_match = self._comparison.checksums or self._rows.same_keys()
            if totals_match:
                theirs = self._without(theirs, moved)
        checks = [
            self._check_partition(partition, mine, theirs, totals_match=totals_match)
            for partition in self._comparison.run.plan.partitions
        ]
        checks.append(self._check_run(mine, theirs))
        if theirs.missing is not None:
            checks = self._rows.locate(checks, theirs.missing)
        elif self._show_rows and not all(check.ok for check in checks):
            checks = self._rows.of_partitions(checks, mine, theirs)
        warnings = tuple(self._warnings())
        return Verification(
            self._comparison.run.run_id,
            all(check.ok for check in checks),
            tuple(checks),
            (*self._comparison.notes, *warnings),
            "checksums" if self._comparison.checksums else "counts",
            warnings,
        )

    def _merged_verification(self) -> Verification:
        """Compare all rows of both sides.

        Which rows of the target this run wrote is unknown, and does not matter.
        """
        self._adopt()
        comparison = self._comparison
        relation, where = comparison.spec.relation, comparison.spec.where
        mine = comparison.source.checksum(relation, where, Whole(), comparison.compared)
        theirs = TargetSums(comparison, self._rows).merged_sums(Sums(total=mine))
        target_sum, note = theirs.total, ""
        if target_sum is not None and target_sum.rows != mine.rows:
            note = f"the source has {mine.rows:,} rows, and the target {target_sum.rows:,}"
        elif target_sum is not None and comparison.checksums and target_sum.digest != mine.digest:
            note = CHECKSUMS_DIFFER
        checks = [self._check(None, "all rows", None, mine, target_sum, note)]
        if theirs.missing is not None:
            checks = self._rows.locate(checks, theirs.missing)
        elif self._show_rows and note:
            checks = self._rows.of_partitions(checks, Sums(total=mine), theirs)
        return Verification(
            comparison.run.run_id,
            all(check.ok for check in checks),
            tuple(checks),
            (*comparison.notes, *comparison.warnings),
            "checksums" if comparison.checksums else "counts",
            comparison.warnings,
        )

    def _moved(self, theirs: Sums) -> tuple[str, ...]:
        """Return the partitions that no longer have as many rows as they committed.

        Other transactions may have updated these rows, copied them again, or put others in their
        place.
        """
        records = self._comparison.records
        return tuple(
            name
            for name, part in theirs.parts.items()
            if theirs.records and name in records and part.rows != records[name].rows
        )

    def _without(self, theirs: Sums, moved: tuple[str, ...]) -> Sums:
        """Return the sums without those of partitions that are compared as parts of the table."""
        what = "checksums of all rows" if self._comparison.checksums else "the keys of all rows"
        self._comparison.notes.append(
            f"rows of {id_list(moved)} were written again since they were committed, so these "
            f"partitions are compared with the rest of the table: {what} are the same on both sides"
        )
        parts = {name: part for name, part in theirs.parts.items() if name not in moved}
        return replace(theirs, parts=parts)

    def _warnings(self) -> Iterator[str]:
        yield from self._comparison.warnings
        for moment, names in self._later.items():
            yield f"read later than the rest, as of {moment}: {id_list(names)}"
        if self._proof is not None and self._proof.doubt:
            yield unsure(self._proof)
        changed = self._comparison.changed
        if changed:
            first = next(iter(changed))
            yield (
                "the source was written to after these were read, so they were compared with what "
                f"was committed: {id_list(tuple(changed))} ({first}: {changed[first]})"
            )

    def _read_apart(self) -> frozenset[str]:
        """Return the partitions that were not read with the run's own snapshot."""
        if self._comparison.spec.snapshot != "shared" or len(self._comparison.run.snapshots) != 1:
            return frozenset()
        moment = self._comparison.run.snapshots[0].taken_at
        return frozenset(
            name
            for name, record in self._comparison.records.items()
            if record.read_at not in ("", moment)
        )

    def _adopt(self) -> bool:
        """Adopt the run's snapshot for reading, and return whether a session still holds it."""
        if self._comparison.spec.snapshot == "shared" and len(self._comparison.run.snapshots) == 1:
            with suppress(SnapshotLost):
                self._comparison.source.adopt(self._comparison.run.snapshots[0])
                self._comparison.notes.append("the source is read with the run's snapshot")
                return True
        self._comparison.notes.append(
            "both sides are compared as they are now: a row that changed after the run shows as a "
            "difference"
        )
        return False

    def _check_partition(
        self, partition: Partition, mine: Sums, theirs: Sums, *, totals_match: bool
    ) -> Check:
        record = self._comparison.records.get(partition.id)
        source = mine.parts.get(partition.id)
        target = theirs.parts.get(partition.id)
        note = ""
        if record is None:
            note = "not committed"
        else:
            if source is not None and source.rows != record.rows:
                note = f"the source has {source.rows:,} rows, but {record.rows:,} were committed"
            elif (
                target is not None
                and not totals_match
                and target.rows == record.rows
                and source is not None
                and source.digest != target.digest
            ):
                note = CHECKSUMS_DIFFER
            if note and partition.id in self._comparison.outdated:
                self._comparison.changed[partition.id], note = note, ""
            if not note and target is not None and not totals_match and target.rows != record.rows:
                note = f"the target has {target.rows:,} rows, but {record.rows:,} were committed"
        return self._check(
            partition.id,
            str(partition.extent),
            record.rows if record else None,
            source,
            target,
            note,
        )

    def _check_run(self, mine: Sums, theirs: Sums) -> Check:
        committed = self._comparison.committed_rows
        wrong = [
            f"the {side} has {total.rows:,}"
            for side, total in (("source", mine.total), ("target", theirs.total))
            if total is not None and total.rows != committed
            if side == "target" or not self._comparison.outdated
        ]
        note = " and ".join(wrong) + f" rows, but {committed:,} were committed" if wrong else ""
        source, target = mine.total, theirs.total
        compared = self._comparison.checksums and not self._comparison.outdated
        if not note and compared and source and target and source.digest != target.digest:
            note = CHECKSUMS_DIFFER
        if not note and compared and target is None and theirs.missing is None:
            note = (
                "not compared: the table may have other rows, and the target cannot tell which "
                "rows this run loaded"
            )
        if self._proof is not None and self._proof.wrong:
            reason = difference(self._comparison.spec, self._comparison.run.plan, self._proof)
            note = f"{note}; {reason}" if note else reason
        return self._check(None, "whole run", committed, source, target, note)

    def _check(
        self,
        partition_id: str | None,
        label: str,
        committed: int | None,
        source: Checksum | None,
        target: Checksum | None,
        note: str,
    ) -> Check:
        return Check(
            partition_id,
            label,
            committed,
            source.rows if source else None,
            target.rows if target else None,
            ok=not note,
            note=note,
            source_digest=source.digest if source and self._comparison.checksums else None,
            target_digest=target.digest if target and self._comparison.checksums else None,
        )
