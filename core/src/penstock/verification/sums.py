"""Row counts and checksums of each side: by partition, and for the whole run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import Checksum
from penstock.model.extents import Extent, Whole
from penstock.spec.modes import Entry
from penstock.spec.source_changes import HARD
from penstock.verification.comparison import STORAGE, Comparison, Sums
from penstock.verification.partitions import Proof, may_overlap, prove
from penstock.verification.rows import RowSearch


class SourceSums:
    """Sums of the source."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def parts(self, names: Container[str]) -> dict[str, Checksum]:
        spec = self._comparison.spec
        return {
            partition.id: self._comparison.source.checksum(
                spec.relation,
                self._comparison.selection,
                partition.extent,
                self._comparison.compared,
            )
            for partition in self._comparison.run.plan.partitions
            if partition.id in names
        }

    def sums(self, read: Mapping[str, Checksum], *, adopted: bool) -> Sums:
        """Return the sums of the source.

        Args:
            read: checksums read before, by partition.
            adopted: whether the source is read with the run's own snapshot.
        """
        spec, plan = self._comparison.spec, self._comparison.run.plan
        by_storage = any(isinstance(p.extent, STORAGE) for p in plan.partitions)
        now, then = self._comparison.source.state(spec.relation), self._comparison.run.source_state
        has_moved = (now.layout, now.parts) != (then.layout, then.parts)
        rewritten = not adopted and by_storage and has_moved
        if rewritten:
            self._comparison.notes.append(
                "the source was rewritten after the run: its partitions hold other rows now, so "
                "it is compared as a whole"
            )
            return Sums(
                total=self._comparison.source.checksum(
                    spec.relation, self._comparison.selection, Whole(), self._comparison.compared
                )
            )
        unread = {partition.id for partition in plan.partitions}.difference(read)
        parts = {**read, **self.parts(unread)}
        return Sums(parts, _total(parts.values()))

    def proof(self, mine: Sums, *, at_once: bool) -> Proof | None:
        """Check that the partitions hold each row once; None if there is nothing to check.

        Args:
            mine: the sums of the source.
            at_once: whether all partitions were read as of the moment of the source.
        """
        spec, plan = self._comparison.spec, self._comparison.run.plan
        if mine.total is None or not mine.parts or not may_overlap(plan):
            return None
        source = self._comparison.source
        return prove(source, spec, plan, mine.total.rows, same_moment=at_once)


class TargetSums:
    """Sums of the target."""

    def __init__(self, comparison: Comparison, rows: RowSearch) -> None:
        self._comparison = comparison
        self._rows = rows

    def sums(self, mine: Sums) -> Sums:
        entry = self._comparison.spec.load_mode.of_partitions.entry
        if entry is Entry.BY_KEY:
            return self._upserted_sums(mine)
        if (
            self._comparison.given_partitions
            and entry is Entry.REPLACE
            and self._comparison.evaluates_conditions()
        ):
            return self._sums_by_condition()
        records = list(self._comparison.records.values())
        loaded = self._comparison.target.checksums(
            self._comparison.table,
            self._comparison.where,
            records,
            self._comparison.compared,
            digest_others=self._comparison.owns_rows,
        )
        if loaded is not None:
            parts = {name: loaded[name] for name in loaded if name}
            total = _total(loaded.values() if self._comparison.owns_rows else parts.values())
            return Sums(parts, total, records=records)
        if not self._comparison.owns_rows:
            all_rows = self._comparison.target.checksum(
                self._comparison.table, self._comparison.where, Whole(), ()
            )
            if all_rows.rows > self._comparison.committed_rows:
                return self._sums_of_own_keys()
        total = self._comparison.target.checksum(
            self._comparison.table, self._comparison.where, Whole(), self._comparison.compared
        )
        if total != mine.total and self._comparison.same_keys():
            return replace(self._sums_by_condition(), total=total)
        self._comparison.notes.append(
            "the target is compared as a whole, since its rows cannot be assigned to partitions"
        )
        return Sums(total=total)

    def _sums_of_own_keys(self) -> Sums:
        """Sum by the partitions' conditions, if they select no more rows than the run loaded.

        Otherwise return the partitions whose rows cannot all be there.
        """
        lacking: dict[str, Checksum] = {}
        if self._comparison.same_keys():
            by_condition = self._sums_by_condition()
            if (
                by_condition.total is not None
                and by_condition.total.rows <= self._comparison.committed_rows
            ):
                return by_condition
            records = self._comparison.records
            lacking = {
                name: part
                for name, part in by_condition.parts.items()
                if name in records and part.rows < records[name].rows
            }
        self._comparison.notes.append(
            f"the target is not compared: in mode {self._comparison.spec.mode} it may also hold "
            "rows from elsewhere, which are indistinguishable from the run's"
        )
        return Sums(lacking)

    def _sums_by_condition(self) -> Sums:
        parts = {
            partition.id: self._comparison.target.checksum(
                self._comparison.table,
                self._comparison.spec.where,
                partition.extent,
                self._comparison.compared,
            )
            for partition in self._comparison.run.plan.partitions
        }
        return Sums(parts, _total(parts.values()))

    def merged_sums(self, mine: Sums) -> Sums:
        """Sum a table that nights are merged into.

        If rows that are gone are deleted from it, it holds no rows but the source's.
        """
        comparison = self._comparison
        if (
            comparison.spec.deletion.how != HARD
            and comparison.spec.load_mode.entry is not Entry.REPLACE
        ):
            return self._upserted_sums(mine)
        return Sums(
            total=comparison.target.checksum(
                comparison.table, comparison.spec.where, Whole(), comparison.compared
            )
        )

    def _upserted_sums(self, mine: Sums) -> Sums:
        """Sum an upserted table. If it may hold rows from elsewhere, look up every source row."""
        extents: Sequence[Extent] = [Whole()]
        if self._comparison.given_partitions:
            if not self._comparison.same_keys():
                self._comparison.notes.append(
                    "the target is not compared: its key has another type, or is not among its "
                    "columns"
                )
                return Sums()
            extents = [partition.extent for partition in self._comparison.run.plan.partitions]
            theirs = self._sums_by_condition()
        else:
            theirs = Sums(
                total=self._comparison.target.checksum(
                    self._comparison.table, None, Whole(), self._comparison.compared
                )
            )
        if theirs.total == mine.total:
            return theirs
        if self._comparison.outdated:
            self._comparison.changed.setdefault("the run", "other rows than the target")
            return Sums()
        if not self._comparison.checksums:
            if theirs.total and mine.total and theirs.total.rows < mine.total.rows:
                return theirs  # it has too few rows, wherever they are from
            self._comparison.notes.append(
                "the target's rows are not compared: in mode upsert it may also hold rows from "
                "elsewhere, which can take the place of lost ones; --checksum looks up each row"
            )
            return Sums()
        self._comparison.notes.append(
            "the target also holds other rows, or other values: each row of the source was looked "
            "up by its key"
        )
        return Sums(missing=self._rows.missing(extents))


def _total(sums: Iterable[Checksum]) -> Checksum:
    sums = list(sums)
    return Checksum(sum(s.rows for s in sums), str(sum(int(s.digest) for s in sums)))
