"""Rows of the target that the source no longer has.

Once a night is merged, the target has every key that the source has. So if both have as many rows,
none is gone. Otherwise the keys of both sides are put into buckets by their digests. If a bucket
has one more key in the target, the difference of the sums is that key's digest; in other differing
buckets the keys are compared one by one. The source is read with the night's snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.optional.nights import (
    Bucket,
    CountsRanges,
    FindsDeletedRows,
    GroupsKeys,
    KeyDigest,
    KeyRanges,
    KeySelection,
    RespellsKeys,
)
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PermanentError, TooManyDeletes
from penstock.model.extents import Whole
from penstock.model.tables import ColumnPair
from penstock.spec.copy_spec import CopySpec
from penstock.spec.source_changes import approved_deletes

# Keys in a range; the number and the share of keys up to which ranges are searched alone.
RANGE_KEYS = 1024
MOST_SPANS, MOST_SHARE = 200, 0.25
# Keys in a bucket, and the limits of the number of buckets, as powers of 2.
BUCKET_KEYS = 64
FEWEST_BITS, MOST_BITS = 4, 18
_NONE = Bucket(0, 0)


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The rows found to be gone."""

    digests: Sequence[int]
    """The digests of the keys of the rows that are gone."""
    check: Callable[[int], None]
    """Raises `PermanentError` if the number of rows with these digests differs from the number of
    rows gone, or exceeds the number that may be deleted."""
    within: KeyRanges | None = None
    """The ranges that hold the gone rows; None if they may be anywhere."""


def find_deleted(
    spec: CopySpec, run: RunRow, source: SourceCatalog, target: TargetCatalog, *, exact: bool
) -> DeletedRows:
    """Find the rows of the target that the source no longer has.

    Args:
        spec: the options of the run.
        run: the stored run.
        source: a catalog that reads with the night's snapshot.
        target: the target's catalog.
        exact: whether all rows of the night were read with that snapshot.

    Raises:
        PermanentError: too many rows would be deleted, or the target lacks rows.
    """
    assert isinstance(target, FindsDeletedRows), "its capabilities say so"
    # A night whose cursor may miss rows leaves the target without some keys of the source.
    exact = exact and not (run.plan.night and run.plan.night.missing)
    if isinstance(target, RespellsKeys):
        _check_respelled(spec, run, source, target.respelled_keys(run))
    with ThreadPoolExecutor(1) as executor:
        counting = executor.submit(source.checksum, spec.relation, spec.where, Whole(), ())
        theirs = target.count_after_merge(run)
        mine = counting.result().rows

    if mine == theirs and exact:
        return DeletedRows((), partial(_check_found, spec, mine, 0, 0))
    if theirs < mine and exact:
        raise PermanentError(
            f"target: {spec.target_name} would have {theirs:,} rows once the night is merged, and "
            f"{spec.source_name} has {mine:,}: rows were deleted from the target since they were "
            "loaded; to read all rows, run `penstock watermark reset`, then the night again"
        )
    _check_share(spec, mine, theirs)
    within, rows = None, theirs
    if exact and isinstance(source, GroupsKeys) and isinstance(target, CountsRanges):
        within, rows = _ranges(spec, run, source, target, theirs)
    digests = _gone_keys(spec, run, source, target, rows, within, exact=exact)
    expected = theirs - mine if exact else len(digests)
    return DeletedRows(digests, partial(_check_found, spec, mine, expected, len(digests)), within)


def _check_found(spec: CopySpec, mine: int, expected: int, sought: int, found: int) -> None:
    """Check the number of rows to delete.

    A difference of sums that is no key's digest finds no row. So all of them must be found, too:
    equal numbers alone could be of other rows.

    Args:
        spec: the options of the run.
        mine: the number of the source's rows.
        expected: the number of gone rows by counts of both sides.
        sought: the number of digests.
        found: the number of rows of the target with these digests.

    Raises:
        PermanentError: the numbers differ, or too many rows would be deleted.
    """
    if not expected == sought == found:
        raise PermanentError(
            f"{spec.target_name}: expected {expected:,} rows that {spec.source_name} no longer "
            f"has, by counts of both sides; found {found:,} of {sought:,} whose keys it lacks: has "
            "something else written to the target, or spelled a key differently there? Nothing was "
            "deleted; to compare all rows, run `penstock watermark reset`, then the night again"
        )
    _check_share(spec, mine, mine + found)


def _check_respelled(
    spec: CopySpec, run: RunRow, source: SourceCatalog, digests: Sequence[int]
) -> None:
    """Check that the source no longer has keys that the merge will spell differently.

    Otherwise two of its rows would become one, because only the target takes their keys for equal.

    Raises:
        PermanentError: the source has such a key.
    """
    if not digests:
        return
    key, sought = _key(run), set(digests)
    names = [pair.target for pair in key]
    if isinstance(source, GroupsKeys):
        mask = 2**MOST_BITS - 1
        chosen = KeySelection(MOST_BITS, sorted({each & mask for each in sought}))
        keys = source.chosen_keys(spec.relation, spec.where, key, chosen)
    else:
        keys = source.row_digests(spec.relation, spec.where, Whole(), key, names)
    both = [text for text, digest in keys if int(digest) in sought]
    if both:
        raise PermanentError(
            f"{spec.target_name}: its key ({', '.join(names)}) takes {len(both):,} keys of "
            f"{spec.source_name} for equal to others that the source also has, such as {both[0]}; "
            "expected keys that differ in the target, too: give its key a type or a collation that "
            "distinguishes all values. Nothing was merged"
        )


def _key(run: RunRow) -> list[ColumnPair]:
    by_target = {pair.target: pair for pair in run.plan.pairs}
    return [by_target[name] for name in run.plan.load.conflict_columns]


def _ranges(
    spec: CopySpec, run: RunRow, source: GroupsKeys, target: CountsRanges, rows: int
) -> tuple[KeyRanges | None, int]:
    """Return the ranges in which keys are gone, and the number of the target's keys in them.

    After the merge the target has all keys of the source, so a range with equal counts has none
    gone.
    """
    count = max(1, rows // RANGE_KEYS)
    source_ranges = source.key_ranges(spec.relation, spec.where, _key(run), count)
    target_counts = target.ranges_after_merge(run, source_ranges[0]) if source_ranges else None
    if source_ranges is None or target_counts is None:
        return None, rows
    bits, source_counts = source_ranges
    differing = [
        each
        for each in {**source_counts, **target_counts}
        if source_counts.get(each, 0) != target_counts.get(each, 0)
    ]
    within = KeyRanges(bits, differing)
    remaining = sum(target_counts.get(each, 0) for each in differing)
    if not differing or remaining > rows * MOST_SHARE or len(within.spans()) > MOST_SPANS:
        return None, rows
    return within, remaining


def _check_share(spec: CopySpec, mine: int, theirs: int) -> None:
    """Check that no more rows are deleted than allowed.

    Raises:
        TooManyDeletes: more rows would be deleted than are allowed.
    """
    deleted, most = theirs - mine, spec.deletion.most
    empties = mine == 0 and deleted and most.share < 1 and most.approved is None
    if most.allows(deleted, theirs) and not empties:
        return
    allowed = spec.deletes.partition(",")[0]
    amount = "no rows at all" if mine == 0 else f"{mine:,} rows"
    raise TooManyDeletes(
        f"--deletes {spec.deletes}: {spec.source_name} has {amount}, and {spec.target_name} would "
        f"lose {deleted:,} of {theirs:,}; at most {most} may be deleted. Nothing was deleted or "
        f"merged; if the rows should be deleted, allow more: --deletes {allowed},100%",
        deleted=deleted,
        rows=theirs,
        approval=approved_deletes(spec.deletes, deleted, theirs),
    )


def _gone_keys(
    spec: CopySpec,
    run: RunRow,
    source: SourceCatalog,
    target: FindsDeletedRows,
    rows: int,
    within: KeyRanges | None,
    *,
    exact: bool,
) -> list[int]:
    """Return the digests of the keys that are gone.

    Args:
        spec: the copy.
        run: the record of the run.
        source: the catalog of the source.
        target: the catalog of the target.
        rows: the number of keys that the target has in the ranges.
        within: the ranges to search; None for the whole table.
        exact: whether the target has all keys of the source.
    """
    key = _key(run)
    if not isinstance(source, GroupsKeys):
        names = [pair.target for pair in key]
        every = source.row_digests(spec.relation, spec.where, Whole(), key, names)
        return list(_not_in(every, target.target_keys(run, None)))
    bits = min(max((rows // BUCKET_KEYS).bit_length(), FEWEST_BITS), MOST_BITS)
    with ThreadPoolExecutor(1) as executor:
        reading = executor.submit(source.key_buckets, spec.relation, spec.where, key, bits, within)
        target_buckets = target.buckets_after_merge(run, bits, within)
        source_buckets = reading.result()
    single, several = _compare_buckets(source_buckets, target_buckets, exact=exact)
    if several:
        chosen = KeySelection(bits, several, within)
        mine = source.chosen_keys(spec.relation, spec.where, key, chosen)
        single += _not_in(mine, target.target_keys(run, chosen))
    return single


def _compare_buckets(
    source_buckets: dict[int, Bucket], target_buckets: dict[int, Bucket], *, exact: bool
) -> tuple[list[int], list[int]]:
    """Return the digests of single keys that are gone from a bucket, and other differing buckets.

    Keys of the other buckets must be compared one by one.
    """
    single: list[int] = []
    several: list[int] = []
    for number, theirs in target_buckets.items():
        mine = source_buckets.get(number, _NONE)
        if exact and theirs.count == mine.count + 1:
            single.append(theirs.total - mine.total)
        elif theirs != mine:
            several.append(number)
    return single, several


def _not_in(mine: Iterator[KeyDigest], theirs: Iterator[KeyDigest]) -> Iterator[int]:
    """Return the target's digests that the source does not have; both inputs are sorted."""
    candidate = next(mine, None)
    for each in theirs:
        while candidate is not None and candidate < each:
            candidate = next(mine, None)
        if candidate != each:
            yield int(each[1])
    for _ in mine:
        pass  # a session reads one stream at a time, so read this one to its end
