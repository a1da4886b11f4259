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

from penstock.backends.api.control import RunRow
from penstock.backends.api.nights import Bucket, Chosen, FindsGone, GroupsKeys, KeyDigest
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PermanentError
from penstock.model.extents import Whole
from penstock.spec.copy_spec import CopySpec

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
    return Gone(_gone_keys(spec, run, source, target, theirs), check)


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
    spec: CopySpec, run: RunRow, source: SourceCatalog, target: FindsGone, rows: int
) -> list[int]:
    """The digests of the keys."""
    by_target = {pair.target: pair for pair in run.plan.pairs}
    key = [by_target[name] for name in run.plan.load.conflict_columns]
    if not isinstance(source, GroupsKeys):
        names = [pair.target for pair in key]
        every = source.row_digests(spec.relation, spec.where, Whole(), key, names)
        return list(_not_in(every, target.keys_there(run, None)))
    bits = min(max((rows // BUCKET_KEYS).bit_length(), FEWEST_BITS), MOST_BITS)
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(source.key_buckets, spec.relation, spec.where, key, bits)
        there = target.buckets_after(run, bits)
        here = reading.result()
    single, several = _differing(here, there)
    if several:
        chosen = Chosen(bits, several)
        mine = source.chosen_keys(spec.relation, spec.where, key, chosen)
        single += _not_in(mine, target.keys_there(run, chosen))
    return single


def _differing(here: dict[int, Bucket], there: dict[int, Bucket]) -> tuple[list[int], list[int]]:
    """Digests of keys that are alone in being gone from their bucket, and buckets of which others
    are."""
    single: list[int] = []
    several: list[int] = []
    for number, theirs in there.items():
        mine = here.get(number, _NONE)
        if theirs.count == mine.count + 1:
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
