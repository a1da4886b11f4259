"""Whether a run's partitions are in the target: as many rows, and the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby, islice
from operator import itemgetter

from penstock.backends.api.control import RunRow
from penstock.backends.api.facts import Checksum
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import ARROW
from penstock.errors import PlanningError, SnapshotLost
from penstock.events import PartitionDifference
from penstock.model.extents import BlockRange, ChildBlocks, Children, Extent, Files, Whole
from penstock.model.plans import Partition, named
from penstock.model.records import CommitRecord, read_later
from penstock.model.tables import ColumnPair, TableRef
from penstock.spec.copy_spec import CopySpec

MOST_ROWS = 20
"""Differing rows that are listed for each partition."""
BATCH = 1000
# These select rows by where the source stores them.
_STORAGE = BlockRange | Children | ChildBlocks | Files
_ARGUMENTS = re.compile(r"\([\d,\s-]*\)")

Rows = Iterator[tuple[str, str]]

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


@dataclass(frozen=True, slots=True)
class _Sums:
    """What one side has."""

    parts: Mapping[str, Checksum] = field(default_factory=dict)
    """By partition; empty where partitions cannot be told apart."""
    total: Checksum | None = None
    """None where the run's rows cannot be told from others."""
    records: Sequence[CommitRecord] = ()
    """Those by which the parts were told apart, where not by their conditions."""
    missing: Sequence[RowDifference] | None = None
    """Rows of the source that are not there, where each of them was looked for."""


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

    Parameters:
        checksums: compare the values, not only how many rows there are.
        show_rows: find some of the rows that differ.
        at_the_end: of an execution: where its rows are of several moments that are over, and the
            source has other rows by now, that is a warning; commit records and target must agree.

    Raises:
        PlanningError: a side cannot be read in this way.
    """
    verifying = _Verifying(
        spec,
        run,
        source,
        target,
        checksums=checksums,
        show_rows=show_rows,
        at_the_end=at_the_end,
    )
    return verifying.run()


class _Verifying:
    def __init__(
        self,
        spec: CopySpec,
        run: RunRow,
        source: SourceCatalog,
        target: TargetCatalog,
        *,
        checksums: bool,
        show_rows: bool,
        at_the_end: bool,
    ) -> None:
        self._at_the_end = at_the_end
        self._spec = spec
        self._run = run
        self._source = source
        self._target = target
        self._checksums = checksums
        self._show_rows = show_rows
        # Between partitions that the caller has named there may be others.
        self._given = run.plan.given
        self._alone = spec.load_mode.owns_selection and not self._given
        self._records = {r.partition_id: r for r in target.control.committed(run.run_id)}
        self._later = read_later(self._records.values())
        self._over: frozenset[str] = frozenset()
        """Partitions of moments that are over, which the source may have other rows of by now."""
        self._written: dict[str, str] = {}
        """Those of them of which it has."""
        self._table = self._loaded_table()
        # In mode replace, rows outside the run's condition are none of its own.
        self._where = spec.where if spec.load_mode.deletes_by_partition else None
        self._notes: list[str] = []
        self._pairs = run.plan.pairs
        self._compared: Sequence[ColumnPair] = ()
        if checksums and run.plan.format == ARROW:
            self._pairs = self._compared = self._canonical()
        elif checksums:
            self._pairs = self._compared = self._as_target_has_them()

    def _loaded_table(self) -> TableRef:
        after = {step.id for step in self._run.plan.load.after}
        if after <= self._target.control.steps_done(self._run.run_id):
            return replace(self._spec.target_ref, only=self._run.plan.load.table.only)
        return self._run.plan.load.table

    def _canonical(self) -> tuple[ColumnPair, ...]:
        """The pairs whose values both of two unlike systems can write alike."""
        pairs = self._run.plan.pairs
        left = [pair.target for pair in pairs if not pair.canonical]
        if left:
            self._notes.append(
                f"values of {', '.join(left)} are not compared, since the two systems write them "
                "differently"
            )
        return tuple(pair for pair in pairs if pair.canonical)

    def _as_target_has_them(self) -> tuple[ColumnPair, ...]:
        """The pairs, cast where the target's type differs in length or precision alone."""
        mine = {column.name: column.type for column in self._run.plan.columns}
        theirs = {column.name: column.type for column in self._target.columns(self._table)}

        def as_target(pair: ColumnPair) -> ColumnPair:
            written, wanted = pair.cast or mine[pair.source], theirs.get(pair.target, "")
            alike = _ARGUMENTS.sub("", written) == _ARGUMENTS.sub("", wanted)
            return replace(pair, cast=wanted) if alike and written != wanted else pair

        return tuple(as_target(pair) for pair in self._run.plan.pairs)

    def run(self) -> Verification:
        apart = self._apart()
        # First: where the run's snapshot is still held, the others are read with it.
        now = self._source_parts(apart)
        adopted = self._adopt()
        if self._at_the_end and self._later:
            self._over = apart if adopted else frozenset(self._records)
        mine = self._source_sums(now, adopted=adopted)
        theirs = self._target_sums(mine)
        same = self._alone and theirs.total == mine.total
        checks = [
            self._check_partition(partition, mine, theirs, same=same)
            for partition in self._run.plan.partitions
        ]
        checks.append(self._check_run(mine, theirs))
        if theirs.missing is not None:
            checks = self._locate(checks, theirs.missing)
        elif self._show_rows and not all(check.ok for check in checks):
            checks = self._with_rows(checks, mine, theirs)
        warnings = tuple(self._warnings())
        return Verification(
            self._run.run_id,
            all(check.ok for check in checks),
            tuple(checks),
            (*self._notes, *warnings),
            "checksums" if self._checksums else "counts",
            warnings,
        )

    def _warnings(self) -> Iterator[str]:
        for moment, names in self._later.items():
            yield f"read later than the rest, as of {moment}: {named(names)}"
        if self._written:
            first = next(iter(self._written))
            yield (
                "the source was written to since these were read, so they were compared with what "
                f"was committed: {named(tuple(self._written))} ({first}: {self._written[first]})"
            )

    # Both sides

    def _apart(self) -> frozenset[str]:
        """Partitions that were not read with the run's one snapshot."""
        if self._spec.snapshot != "shared" or len(self._run.snapshots) != 1:
            return frozenset()
        moment = self._run.snapshots[0].taken_at
        return frozenset(
            name for name, record in self._records.items() if record.read_at not in ("", moment)
        )

    def _source_parts(self, names: Container[str]) -> dict[str, Checksum]:
        spec = self._spec
        return {
            partition.id: self._source.checksum(
                spec.relation, spec.where, partition.extent, self._compared
            )
            for partition in self._run.plan.partitions
            if partition.id in names
        }

    def _adopt(self) -> bool:
        """Read the source as the run has read it, where somebody still holds its snapshot."""
        if self._spec.snapshot == "shared" and len(self._run.snapshots) == 1:
            with suppress(SnapshotLost):
                self._source.adopt(self._run.snapshots[0])
                self._notes.append("the source is read under the run's snapshot")
                return True
        self._notes.append(
            "source and target are compared as they are now: a row that changed since the "
            "run shows "
            "as a difference"
        )
        return False

    def _source_sums(self, read: Mapping[str, Checksum], *, adopted: bool) -> _Sums:
        """
        Parameters:
            read: what was read already, by partition.
        """
        spec, plan = self._spec, self._run.plan
        by_storage = any(isinstance(p.extent, _STORAGE) for p in plan.partitions)
        now, then = self._source.state(spec.relation), self._run.source_state
        moved = (now.layout, now.parts) != (then.layout, then.parts)
        rewritten = not adopted and by_storage and moved
        if rewritten:
            self._notes.append(
                "the source was rewritten since the run: its partitions hold other rows now, so "
                "it is compared as a whole"
            )
            return _Sums(
                total=self._source.checksum(spec.relation, spec.where, Whole(), self._compared)
            )
        left = {partition.id for partition in plan.partitions}.difference(read)
        parts = {**read, **self._source_parts(left)}
        return _Sums(parts, _total(parts.values()))

    def _target_sums(self, mine: _Sums) -> _Sums:
        if self._spec.load_mode.merges_by_key:
            return self._upserted_sums(mine)
        if self._given and self._spec.load_mode.deletes_by_partition and self._same_keys():
            return self._sums_by_condition()
        records = list(self._records.values())
        loaded = self._target.checksums(
            self._table, self._where, records, self._compared, others=self._alone
        )
        if loaded is not None:
            parts = {name: loaded[name] for name in loaded if name}
            total = _total(loaded.values() if self._alone else parts.values())
            return _Sums(parts, total, records=records)
        if not self._alone and not self._is_all_there_is():
            return self._sums_of_own_keys()
        total = self._target.checksum(self._table, self._where, Whole(), self._compared)
        if total != mine.total and self._same_keys():
            return replace(self._sums_by_condition(), total=total)
        self._notes.append(
            "the target is compared as a whole, since it does not tell which partition a row is of"
        )
        return _Sums(total=total)

    @property
    def _committed_rows(self) -> int:
        return sum(record.rows for record in self._records.values())

    def _is_all_there_is(self) -> bool:
        """Whether the target has as many rows as the run has loaded: then there are no others."""
        found = self._target.checksum(self._table, self._where, Whole(), ())
        return found.rows == self._committed_rows

    def _sums_of_own_keys(self) -> _Sums:
        """Of the partitions' conditions, where these select as many rows as the run has loaded."""
        if self._same_keys():
            found = self._sums_by_condition()
            if found.total is not None and found.total.rows == self._committed_rows:
                return found
        self._notes.append(
            f"the target is not compared: in mode {self._spec.mode} it may hold rows of other "
            "origin too, and it does not tell which rows the run has loaded"
        )
        return _Sums()

    def _sums_by_condition(self) -> _Sums:
        parts = {
            partition.id: self._target.checksum(
                self._table, self._spec.where, partition.extent, self._compared
            )
            for partition in self._run.plan.partitions
        }
        return _Sums(parts, _total(parts.values()))

    def _upserted_sums(self, mine: _Sums) -> _Sums:
        """Rows of other origin may be there: then every row of the source is looked for."""
        extents: Sequence[Extent] = [Whole()]
        if self._given:
            if not self._same_keys():
                self._notes.append(
                    "the target is not compared: its key is of another type, or not among its "
                    "columns"
                )
                return _Sums()
            extents = [partition.extent for partition in self._run.plan.partitions]
            theirs = self._sums_by_condition()
        else:
            theirs = _Sums(total=self._target.checksum(self._table, None, Whole(), self._compared))
        if theirs.total == mine.total:
            return theirs
        if self._over:
            self._written.setdefault("the run", "other rows than the target")
            return _Sums()
        if not self._checksums:
            self._notes.append(
                "the target is not counted: in mode upsert it may hold rows of other origin too"
            )
            return _Sums()
        self._notes.append(
            "the target holds other rows too, or other values: each row of the source was looked "
            "for by its key"
        )
        differing = chain.from_iterable(
            compare_rows(self._mine(extent), self._theirs(extent)) for extent in extents
        )
        missing = (row for row in differing if row.what != EXTRA)
        return _Sums(missing=list(islice(missing, self._most_rows)))

    @property
    def _most_rows(self) -> int:
        return MOST_ROWS * len(self._run.plan.partitions)

    def _same_keys(self) -> bool:
        """Whether the partitions' conditions select the same rows on the target."""
        theirs = {column.name: column.type for column in self._target.columns(self._table)}
        if any(theirs.get(column.name) != column.type for column in self._run.plan.columns):
            return False
        partitions = self._run.plan.partitions
        if any(isinstance(p.extent, _STORAGE | Whole) for p in partitions):
            return False
        try:
            self._target.check_condition(self._table, self._spec.where, partitions[0].extent)
        except PlanningError:
            return False
        return True

    # What they say

    def _check_partition(
        self, partition: Partition, mine: _Sums, theirs: _Sums, *, same: bool
    ) -> Check:
        record = self._records.get(partition.id)
        source = mine.parts.get(partition.id)
        target = theirs.parts.get(partition.id)
        note = ""
        if record is None:
            note = "not committed"
        else:
            if source is not None and source.rows != record.rows:
                note = f"the source has {source.rows:,} rows, {record.rows:,} were committed"
            elif (
                target is not None
                and not same
                and target.rows == record.rows
                and source is not None
                and source.digest != target.digest
            ):
                note = "as many rows, but not the same: the checksums differ"
            if note and partition.id in self._over:
                self._written[partition.id], note = note, ""
            if not note and target is not None and not same and target.rows != record.rows:
                note = f"the target has {target.rows:,} rows, {record.rows:,} were committed"
        return self._check(
            partition.id,
            str(partition.extent),
            record.rows if record else None,
            source,
            target,
            note,
        )

    def _check_run(self, mine: _Sums, theirs: _Sums) -> Check:
        committed = self._committed_rows
        wrong = [
            f"the {side} has {found.rows:,}"
            for side, found in (("source", mine.total), ("target", theirs.total))
            if found is not None and found.rows != committed
            if side == "target" or not self._over
        ]
        note = " and ".join(wrong) + f", committed were {committed:,}" if wrong else ""
        source, target = mine.total, theirs.total
        compared = self._checksums and not self._over
        if not note and compared and source and target and source.digest != target.digest:
            note = "as many rows, but not the same: the checksums differ"
        if not note and compared and target is None and theirs.missing is None:
            note = "the target cannot be compared"
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
            source_digest=source.digest if source and self._checksums else None,
            target_digest=target.digest if target and self._checksums else None,
        )

    # Rows that differ

    def _mine(self, extent: Extent, only: Sequence[str] = ()) -> Rows:
        return self._source.row_digests(
            self._spec.relation, self._spec.where, extent, self._pairs, self._key, only
        )

    def _theirs(
        self,
        extent: Extent,
        only: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        other_than: Sequence[CommitRecord] = (),
    ) -> Rows:
        where = self._where if isinstance(extent, Whole) else self._spec.where
        return self._target.row_digests(
            self._table,
            where,
            extent,
            self._pairs,
            self._key,
            only,
            loaded_by=loaded_by,
            other_than=other_than,
        )

    @cached_property
    def _unique(self) -> tuple[str, ...]:
        """The columns that tell rows apart; empty where nothing does."""
        key = self._run.plan.load.conflict_columns or self._target.unique_key(self._table)
        return key if {pair.target for pair in self._pairs}.issuperset(key) else ()

    @property
    def _key(self) -> tuple[str, ...]:
        return self._unique or tuple(pair.target for pair in self._pairs)

    def _with_rows(self, checks: list[Check], mine: _Sums, theirs: _Sums) -> list[Check]:
        if not self._pairs or theirs.total is None:
            return checks
        if not mine.parts or not theirs.parts:
            where = "" if mine.parts else "; the partitions of the source are others now"
            self._notes.append("rows that differ were looked for in the whole table" + where)
            found = compare_rows(self._mine(Whole()), self._theirs(Whole()))
            return self._locate(checks, list(islice(found, self._most_rows)))
        wrong = {check.partition_id for check in checks if not check.ok}
        rows: dict[str | None, list[RowDifference]] = {}
        for partition in self._run.plan.partitions:
            record = self._records.get(partition.id)
            if partition.id in wrong and record is not None:
                rows[partition.id] = self._rows_of(partition, record, theirs)
        checks = [replace(check, rows=tuple(rows.get(check.partition_id, ()))) for check in checks]
        if self._alone and theirs.records:
            listed = {row.key for found in rows.values() for row in found}
            checks = self._locate(checks, self._rows_of_others(theirs.records, listed))
        return checks

    def _rows_of(
        self, partition: Partition, record: CommitRecord, theirs: _Sums
    ) -> list[RowDifference]:
        if not theirs.records:
            found = compare_rows(self._mine(partition.extent), self._theirs(partition.extent))
            return list(islice(found, MOST_ROWS))
        found = compare_rows(
            self._mine(partition.extent), self._theirs(Whole(), loaded_by=[record])
        )
        if not (self._alone or self._unique):
            return list(islice(found, MOST_ROWS))
        # A row that the run has not loaded may have taken the place of one that it has.
        rows: list[RowDifference] = []
        for keys in _batches(row.key for row in found):
            rows += compare_rows(self._mine(partition.extent, keys), self._theirs(Whole(), keys))
            if len(rows) >= MOST_ROWS:
                break
        return rows[:MOST_ROWS]

    def _rows_of_others(
        self, records: Sequence[CommitRecord], listed: set[str]
    ) -> list[RowDifference]:
        """Rows that the run has not loaded, where there should be none."""
        rows: list[RowDifference] = []
        others = self._theirs(Whole(), other_than=records)
        for keys in _batches(key for key, _ in others):
            found = compare_rows(self._mine(Whole(), keys), self._theirs(Whole(), keys))
            rows += [row for row in found if row.key not in listed]
            if len(rows) >= MOST_ROWS:
                break
        return rows[:MOST_ROWS]

    def _locate(self, checks: list[Check], rows: Sequence[RowDifference]) -> list[Check]:
        """Say of rows which partition they belong to, and of that one that it is wrong."""
        left = {row.key: row for row in rows}
        located = []
        for check in checks:
            here = list(left.values())
            if check.partition_id is not None and here:
                extent = self._run.plan.partition(check.partition_id).extent
                keys = {key for key, _ in self._mine(extent, list(left))}
                here = [left.pop(key) for key in keys if key in left]
            whole = check.partition_id is None and bool(rows)
            if here or whole:
                located.append(
                    replace(
                        check,
                        ok=False,
                        note=check.note or f"{len(rows if whole else here):,} rows differ",
                        rows=(*check.rows, *here)[:MOST_ROWS],
                    )
                )
            else:
                located.append(check)
        return located


def _batches(keys: Iterable[str]) -> Iterator[list[str]]:
    left = iter(keys)
    while batch := list(islice(left, BATCH)):
        yield batch


def _total(sums: Iterable[Checksum]) -> Checksum:
    sums = list(sums)
    return Checksum(sum(s.rows for s in sums), str(sum(int(s.digest) for s in sums)))


def compare_rows(mine: Rows, theirs: Rows) -> Iterator[RowDifference]:
    """Of two streams of keys and digests, both sorted: the keys whose rows differ.

    Holds the digests of one key.
    """
    left, right = _by_key(mine), _by_key(theirs)
    here, there = next(left, None), next(right, None)
    while here is not None or there is not None:
        if there is None or (here is not None and here[0] < there[0]):
            assert here is not None
            yield RowDifference(here[0], MISSING)
            here = next(left, None)
        elif here is None or there[0] < here[0]:
            yield RowDifference(there[0], EXTRA)
            there = next(right, None)
        else:
            if here[1] != there[1]:
                yield RowDifference(here[0], _what(here[1], there[1]))
            here, there = next(left, None), next(right, None)


def _what(here: Counter[str], there: Counter[str]) -> str:
    """A key may stand for several rows, where nothing is unique."""
    missing, extra = here - there, there - here
    if missing and extra:
        return DIFFERENT
    return MISSING if missing else EXTRA


def _by_key(rows: Rows) -> Iterator[tuple[str, Counter[str]]]:
    for key, group in groupby(rows, key=itemgetter(0)):
        yield key, Counter(digest for _, digest in group)
