"""Rows of the target that the source has no more.

Once a night is merged, the target has every key that the source has. So if both have as many rows,
none is gone. Else the keys of both sides are put into buckets by their digests: where a bucket has
one key more in the target, the difference of the sums is its digest; of others the keys are
compared one by one. The source is read with the snapshot that the night's rows were read with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.optional.nights import (
    Bucket,
    Chosen,
    CountsRanges,
    FindsGone,
    GroupsKeys,
    KeyDigest,
    KeyRanges,
)
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PermanentError
from penstock.model.extents import Whole
from penstock.model.tables import ColumnPair
from penstock.spec.copy_spec import CopySpec

# Keys of a range; how many of them, and what share of all keys, are worth looking at alone.
RANGE_KEYS = 1024
MOST_SPANS, MOST_SHARE = 200, 0.25
# Keys of a bucket, and how many buckets there are: 2 to the power of these.
BUCKET_KEYS = 64
FEWEST_BITS, MOST_BITS = 4, 18
_NONE = Bucket(0, 0)


@dataclass(frozen=True, slots=True)
class Gone:
    """What was found."""

    digests: Sequence[int]
    """Of the keys of the rows that are gone."""
    check: Callable[[int], None]
    """Raises `PermanentError` where another number of rows has these digests than are gone, or more
    than are allowed to go."""
    within: KeyRanges | None = None
    """Where they are; None: anywhere."""


def find_gone(
    spec: CopySpec, run: RunRow, source: SourceCatalog, target: TargetCatalog, *, exact: bool
) -> Gone:
    """
    Parameters:
        source: reads with the night's snapshot.
        exact: all rows of the night were read with it.

    Raises:
        PermanentError: too many rows would go, or the target lacks some.
    """
    assert isinstance(target, FindsGone), "its capabilities say so"
    # The target has all keys of the source: it was not read by what may miss some.
    exact = exact and not (run.plan.night and run.plan.night.missing)
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(source.checksum, spec.relation, spec.where, Whole(), ())
        theirs = target.count_after(run)
        mine = counting.result().rows

    def check(count: int) -> None:
        if exact and count != theirs - mine:
            raise PermanentError(
                f"{spec.target_name}: expected {theirs - mine:,} rows that {spec.source_name} has "
                f"no more, by counts of both sides; found {count:,}: is the target being written "
                "to? Nothing was deleted"
            )
        _check_share(spec, mine, mine + count)

    if mine == theirs and exact:
        return Gone((), check)
    if theirs < mine and exact:
        raise PermanentError(
            f"target: {spec.target_name} would have {theirs:,} rows once the night is merged, and "
            f"{spec.source_name} has {mine:,}: rows were deleted from the target since they were "
            "loaded; read all rows anew: `penstock watermark reset`, and run the night again"
        )
    _check_share(spec, mine, theirs)
    within, left = None, theirs
    if exact and isinstance(source, GroupsKeys) and isinstance(target, CountsRanges):
        within, left = _ranges(spec, run, source, target, theirs)
    return Gone(_gone_keys(spec, run, source, target, left, within, exact=exact), check, within)


def _key(run: RunRow) -> list[ColumnPair]:
    by_target = {pair.target: pair for pair in run.plan.pairs}
    return [by_target[name] for name in run.plan.load.conflict_columns]


def _ranges(
    spec: CopySpec, run: RunRow, source: GroupsKeys, target: CountsRanges, rows: int
) -> tuple[KeyRanges | None, int]:
    """The ranges in which keys are gone, and how many keys the target has in them. After the merge
    it has all keys of the source, so none is gone where both have as many."""
    count = max(1, rows // RANGE_KEYS)
    found = source.key_ranges(spec.relation, spec.where, _key(run), count)
    there = target.ranges_after(run, found[0]) if found else None
    if found is None or there is None:
        return None, rows
    bits, here = found
    differing = [each for each in {**here, **there} if here.get(each, 0) != there.get(each, 0)]
    within = KeyRanges(bits, differing)
    left = sum(there.get(each, 0) for each in differing)
    if not differing or left > rows * MOST_SHARE or len(within.spans()) > MOST_SPANS:
        return None, rows
    return within, left


def _check_share(spec: CopySpec, mine: int, theirs: int) -> None:
    """
    Raises:
        PermanentError: more rows would be deleted than are allowed to.
    """
    gone, most = theirs - mine, spec.most_deleted
    if most.allows(gone, theirs) and (mine or gone == 0 or most.share == 1):
        return
    found = "no rows at all" if mine == 0 else f"{mine:,} rows"
    raise PermanentError(
        f"--deletes {spec.deletes}: {spec.source_name} has {found}, and {spec.target_name} would "
        f"lose {gone:,} of {theirs:,}: --max-deletes allows {spec.max_deletes}. Nothing was "
        "deleted, and nothing merged; if they may go, raise --max-deletes"
    )


def _gone_keys(
    spec: CopySpec,
    run: RunRow,
    source: SourceCatalog,
    target: FindsGone,
    rows: int,
    within: KeyRanges | None,
    *,
    exact: bool,
) -> list[int]:
    """The digests of the keys.

    Parameters:
        rows: how many keys the target has there.
        exact: it has all keys of the source.
    """
    key = _key(run)
    if not isinstance(source, GroupsKeys):
        names = [pair.target for pair in key]
        every = source.row_digests(spec.relation, spec.where, Whole(), key, names)
        return list(_not_in(every, target.keys_there(run, None)))
    bits = min(max((rows // BUCKET_KEYS).bit_length(), FEWEST_BITS), MOST_BITS)
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(source.key_buckets, spec.relation, spec.where, key, bits, within)
        there = target.buckets_after(run, bits, within)
        here = reading.result()
    single, several = _differing(here, there, exact=exact)
    if several:
        chosen = Chosen(bits, several, within)
        mine = source.chosen_keys(spec.relation, spec.where, key, chosen)
        single += _not_in(mine, target.keys_there(run, chosen))
    return single


def _differing(
    here: dict[int, Bucket], there: dict[int, Bucket], *, exact: bool
) -> tuple[list[int], list[int]]:
    """Digests of keys that are alone in being gone from their bucket, and buckets of which others
    are."""
    single: list[int] = []
    several: list[int] = []
    for number, theirs in there.items():
        mine = here.get(number, _NONE)
        if exact and theirs.count == mine.count + 1:
            single.append(theirs.total - mine.total)
        elif theirs != mine:
            several.append(number)
    return single, several


def _not_in(mine: Iterator[KeyDigest], theirs: Iterator[KeyDigest]) -> Iterator[int]:
    """The digests of those of the target that the source has not; both are sorted."""
    here = next(mine, None)
    for each in theirs:
        while here is not None and here < each:
            here = next(mine, None)
        if here != each:
            yield int(each[1])
    for _ in mine:
        pass  # a session reads one stream at a time: this one is read to its end
