"""Rows of the target that the source has no more.

Once a night is merged, the target has every key that the source has. So where a range of keys has
as many rows on both sides, none is gone; where it has more in the target, its keys are compared one
by one. The source is read with the snapshot that the night's rows were read with.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from penstock.backends.api.control import RunRow
from penstock.backends.api.nights import CountsTogether, FindsGone, KeyDigest
from penstock.backends.api.source import CutsFiner, SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PermanentError, PlanningError
from penstock.model.extents import Extent, Key, KeyRange, Whole
from penstock.model.tables import ColumnPair
from penstock.planning.cuts import cut_range
from penstock.planning.orders import compared_key
from penstock.spec.copy_spec import CopySpec

# Keys that are compared one by one where a range has lost one.
RANGE_ROWS = 20_000
MOST_RANGES = 1000


@dataclass(frozen=True, slots=True)
class Gone:
    """What was found."""

    mine: int
    """Rows of the source."""
    theirs: int
    """Rows that the target would have once the night is merged, if none were deleted."""
    keys: Iterator[tuple[Extent, Sequence[KeyDigest]]]
    """Those to be deleted, by the range that they are in; read as they are asked for."""


def find_gone(
    spec: CopySpec, run: RunRow, source: SourceCatalog, target: TargetCatalog, *, exact: bool
) -> Gone:
    """
    Parameters:
        source: reads with the night's snapshot.
        exact: all rows of the night were read with it.

    Raises:
        PermanentError: too many rows would go, or the target lacks some; as the keys are read, too.
    """
    assert isinstance(target, FindsGone), "its capabilities say so"
    (mine,) = _counts(source, spec, [Whole()])
    (theirs,) = target.counts_after(run, [Whole()])
    if mine == theirs and exact:
        return Gone(mine, theirs, iter(()))
    if theirs < mine and exact:
        raise PermanentError(
            f"target: {spec.target_name} would have {theirs:,} rows once the night is merged, and "
            f"{spec.source_name} has {mine:,}: rows were deleted from the target since they were "
            "loaded; read all rows anew: `penstock watermark reset`, and run the night again"
        )
    _check_share(spec, mine, theirs)

    def keys() -> Iterator[tuple[Extent, Sequence[KeyDigest]]]:
        key, count = _key_pairs(run), 0
        for extent in _differing(spec, run, source, target, key, theirs):
            extra = _extra(spec, run, source, target, key, extent)
            count += len(extra)
            if extra:
                yield extent, extra
        if exact and count != theirs - mine:
            raise PermanentError(
                f"{spec.target_name}: expected {theirs - mine:,} rows that {spec.source_name} has "
                f"no more, by counts of both sides; found {count:,}: is the target being written "
                "to? Nothing was deleted"
            )
        _check_share(spec, mine, mine + count)

    return Gone(mine, theirs, keys())


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


def _counts(source: SourceCatalog, spec: CopySpec, extents: Sequence[Extent]) -> list[int]:
    if isinstance(source, CountsTogether):
        return source.counts(spec.relation, spec.where, extents)
    return [source.checksum(spec.relation, spec.where, each, ()).rows for each in extents]


def _key_pairs(run: RunRow) -> list[ColumnPair]:
    by_target = {pair.target: pair for pair in run.plan.pairs}
    return [by_target[name] for name in run.plan.load.conflict_columns]


def _differing(
    spec: CopySpec,
    run: RunRow,
    source: SourceCatalog,
    target: TargetCatalog,
    key: Sequence[ColumnPair],
    rows: int,
) -> Sequence[Extent]:
    """The ranges that have more rows in the target."""
    extents = _ranges(spec, source, target, key, rows)
    if len(extents) < 2:
        return extents
    assert isinstance(target, FindsGone)
    mine, theirs = _counts(source, spec, extents), target.counts_after(run, extents)
    return [
        extent for extent, here, there in zip(extents, mine, theirs, strict=True) if here != there
    ]


def _ranges(
    spec: CopySpec,
    source: SourceCatalog,
    target: TargetCatalog,
    key: Sequence[ColumnPair],
    rows: int,
) -> Sequence[Extent]:
    """Ranges of the key's first column that both sides tell apart alike; else all rows in one."""
    first = key[0]
    count = min(rows // RANGE_ROWS, MOST_RANGES)
    if count < 2 or first.source != first.target:
        return [Whole()]
    try:
        compared = compared_key(spec, Key(first.source), source, target)
        known = source.key_statistics(spec.relation, compared, spec.where)
        if not known.indexed:
            return [Whole()]
        if isinstance(source, CutsFiner):
            known = source.finer_statistics(spec.relation, spec.where, known, count)
        extents = [extent for extent, _ in cut_range(known, count).extents]
        target.check_condition(spec.target_ref, spec.where, extents[0])
    except PlanningError:
        return [Whole()]
    bounds = [each.lower for each in extents if isinstance(each, KeyRange) and each.lower]
    if len(bounds) > 1 and source.misplaced(spec.relation, compared, bounds) is not None:
        return [Whole()]
    return extents


def _extra(
    spec: CopySpec,
    run: RunRow,
    source: SourceCatalog,
    target: FindsGone,
    key: Sequence[ColumnPair],
    extent: Extent,
) -> list[KeyDigest]:
    names = [pair.target for pair in key]
    with (
        closing(
            _as_generator(source.row_digests(spec.relation, spec.where, extent, key, names))
        ) as mine,
        closing(_as_generator(target.keys_there(run, extent))) as theirs,
    ):
        return list(_not_in(mine, theirs))


def _as_generator(rows: Iterator[KeyDigest]) -> Generator[KeyDigest]:
    yield from rows


def _not_in(mine: Iterator[KeyDigest], theirs: Iterator[KeyDigest]) -> Iterator[KeyDigest]:
    """Those of the target that the source has not; both are sorted."""
    here = next(mine, None)
    for each in theirs:
        while here is not None and here < each:
            here = next(mine, None)
        if here != each:
            yield each
