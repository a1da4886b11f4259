"""The search for rows that differ, in two streams of keys and digests; listed by partition."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby, islice
from operator import itemgetter
from tempfile import SpooledTemporaryFile

from penstock.model.extents import Extent, Whole
from penstock.model.plans import Partition
from penstock.model.records import CommitRecord
from penstock.verification.comparison import Comparison, Sums
from penstock.verification.result import DIFFERENT, EXTRA, MISSING, Check, RowDifference

MOST_ROWS = 20
"""The maximum number of differing rows listed for a partition."""
BATCH = 1000
IN_MEMORY = 1 << 20
"""Bytes of keys that are buffered before a file is used."""

Rows = Iterator[tuple[str, str]]


class RowSearch:
    """A search for rows that differ, by the keys that identify them."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    @property
    def _most_rows(self) -> int:
        return MOST_ROWS * len(self._comparison.run.plan.partitions)

    def missing(self, extents: Sequence[Extent]) -> list[RowDifference]:
        """Return the source rows that the target lacks or has with other values."""
        differing = chain.from_iterable(
            compare_rows(self._source_rows(extent), self._target_rows(extent)) for extent in extents
        )
        missing = (row for row in differing if row.what != EXTRA)
        return list(islice(missing, self._most_rows))

    def _source_rows(self, extent: Extent, only: Sequence[str] = ()) -> Rows:
        return self._comparison.source.row_digests(
            self._comparison.spec.relation,
            self._comparison.selection,
            extent,
            self._comparison.pairs,
            self._key,
            only,
        )

    def _target_rows(
        self,
        extent: Extent,
        only: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        other_than: Sequence[CommitRecord] = (),
    ) -> Rows:
        where = self._comparison.where if isinstance(extent, Whole) else self._comparison.spec.where
        return self._comparison.target.row_digests(
            self._comparison.table,
            where,
            extent,
            self._comparison.pairs,
            self._key,
            only,
            loaded_by=loaded_by,
            not_loaded_by=other_than,
        )

    @cached_property
    def _unique(self) -> tuple[str, ...]:
        """The columns that identify a row; empty if there are none."""
        key = self._comparison.run.plan.load.conflict_columns or self._comparison.target.unique_key(
            self._comparison.table
        )
        return key if {pair.target for pair in self._comparison.pairs}.issuperset(key) else ()

    @property
    def _key(self) -> tuple[str, ...]:
        return self._unique or tuple(pair.target for pair in self._comparison.pairs)

    def same_keys(self) -> bool:
        """Whether both sides have the same keys; without a unique key, the same rows.

        False if keys of the two systems cannot be compared.
        """
        comparison = self._comparison
        by_target = {pair.target: pair for pair in comparison.comparable()}
        if not by_target.keys() >= set(self._key):
            return False
        pairs = [by_target[name] for name in self._key]
        mine = comparison.source.checksum(
            comparison.spec.relation, comparison.selection, Whole(), pairs
        )
        theirs = comparison.target.checksum(comparison.table, comparison.where, Whole(), pairs)
        return mine == theirs

    def of_partitions(self, checks: list[Check], mine: Sums, theirs: Sums) -> list[Check]:
        if not self._comparison.pairs or theirs.total is None:
            return checks
        if not mine.parts or not theirs.parts:
            may_have_moved = not mine.parts and not self._comparison.is_merged
            where = "; the source's partitions have changed since the run" if may_have_moved else ""
            self._comparison.notes.append(
                "differing rows were searched for in the whole table" + where
            )
            differences = compare_rows(self._source_rows(Whole()), self._target_rows(Whole()))
            return self.locate(checks, _first(differences, self._most_rows))
        wrong = {check.partition_id for check in checks if not check.ok}
        rows: dict[str | None, list[RowDifference]] = {}
        for partition in self._comparison.run.plan.partitions:
            record = self._comparison.records.get(partition.id)
            if partition.id in wrong and record is not None:
                rows[partition.id] = self._rows_of(partition, record, theirs)
        checks = [replace(check, rows=tuple(rows.get(check.partition_id, ()))) for check in checks]
        if self._comparison.owns_rows and theirs.records:
            listed = {row.key for differences in rows.values() for row in differences}
            checks = self.locate(checks, self._rows_of_others(theirs.records, listed))
        return checks

    def _rows_of(
        self, partition: Partition, record: CommitRecord, theirs: Sums
    ) -> list[RowDifference]:
        if not theirs.records:
            differences = compare_rows(
                self._source_rows(partition.extent), self._target_rows(partition.extent)
            )
            return _first(differences, MOST_ROWS)

        def candidates() -> Generator[RowDifference]:
            return compare_rows(
                self._source_rows(partition.extent), self._target_rows(Whole(), loaded_by=[record])
            )

        if not (self._comparison.owns_rows or self._unique):
            return _first(candidates(), MOST_ROWS)
        # Another writer's row may have replaced one that the run loaded.
        rows: list[RowDifference] = []
        for keys in _batches(lambda: (row.key for row in candidates())):
            rows += compare_rows(
                self._source_rows(partition.extent, keys), self._target_rows(Whole(), keys)
            )
            if len(rows) >= MOST_ROWS:
                break
        return rows[:MOST_ROWS]

    def _rows_of_others(
        self, records: Sequence[CommitRecord], listed: set[str]
    ) -> list[RowDifference]:
        """Return rows that the run did not load, if the table should have none."""
        rows: list[RowDifference] = []
        for keys in _batches(
            lambda: (key for key, _ in self._target_rows(Whole(), other_than=records))
        ):
            differences = compare_rows(
                self._source_rows(Whole(), keys), self._target_rows(Whole(), keys)
            )
            rows += [row for row in differences if row.key not in listed]
            if len(rows) >= MOST_ROWS:
                break
        return rows[:MOST_ROWS]

    def locate(self, checks: list[Check], rows: Sequence[RowDifference]) -> list[Check]:
        """Assign rows to their partitions, and mark the checks of those as wrong."""
        pending = {row.key: row for row in rows}
        located = []
        for check in checks:
            own_rows = list(pending.values())
            if check.partition_id is not None and own_rows:
                extent = self._comparison.run.plan.partition(check.partition_id).extent
                keys = {key for key, _ in self._source_rows(extent, list(pending))}
                own_rows = [pending.pop(key) for key in keys if key in pending]
            whole = check.partition_id is None and bool(rows)
            if own_rows or whole:
                count = len(rows if whole else own_rows)
                differ = "1 row differs" if count == 1 else f"{count:,} rows differ"
                located.append(
                    replace(
                        check,
                        ok=False,
                        note=check.note or differ,
                        rows=(*check.rows, *own_rows)[:MOST_ROWS],
                    )
                )
            else:
                located.append(check)
        return located


def _first(differences: Generator[RowDifference], most: int) -> list[RowDifference]:
    """Return the first rows and close the stream, since a session reads one at a time."""
    with closing(differences):
        return list(islice(differences, most))


def _batches(read: Callable[[], Generator[str]]) -> Iterator[list[str]]:
    """Yield batches of keys, with no stream of them open: a session reads one at a time.

    Keys after the first batch are read anew, if requested, and buffered.
    """
    with closing(read()) as keys:
        batch = list(islice(keys, BATCH))
    yield batch
    if len(batch) < BATCH:
        return
    with SpooledTemporaryFile(IN_MEMORY, "w+", encoding="ascii") as aside:
        with closing(read()) as keys:
            aside.writelines(f"{json.dumps(key)}\n" for key in islice(keys, BATCH, None))
        aside.seek(0)
        while batch := [json.loads(line) for line in islice(aside, BATCH)]:
            yield batch


def compare_rows(mine: Rows, theirs: Rows) -> Generator[RowDifference]:
    """Yield the keys whose rows differ between two sorted streams of keys and digests.

    The digests of only one key are held at a time.
    """
    source_rows, target_rows = _by_key(mine), _by_key(theirs)
    source_row, target_row = next(source_rows, None), next(target_rows, None)
    while source_row is not None or target_row is not None:
        if target_row is None or (source_row is not None and source_row[0] < target_row[0]):
            assert source_row is not None
            yield RowDifference(source_row[0], MISSING)
            source_row = next(source_rows, None)
        elif source_row is None or target_row[0] < source_row[0]:
            yield RowDifference(target_row[0], EXTRA)
            target_row = next(target_rows, None)
        else:
            if source_row[1] != target_row[1]:
                yield RowDifference(source_row[0], _difference(source_row[1], target_row[1]))
            source_row, target_row = next(source_rows, None), next(target_rows, None)


def _difference(source_digests: Counter[str], target_digests: Counter[str]) -> str:
    """Say how the rows of a key differ; several rows may share a key if nothing is unique."""
    missing, extra = source_digests - target_digests, target_digests - source_digests
    if missing and extra:
        return DIFFERENT
    return MISSING if missing else EXTRA


def _by_key(rows: Rows) -> Iterator[tuple[str, Counter[str]]]:
    for key, group in groupby(rows, key=itemgetter(0)):
        yield key, Counter(digest for _, digest in group)
