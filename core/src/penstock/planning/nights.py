"""From where on a night reads: the last one's horizon, or everything, with the reason. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from penstock.model.codec import to_json
from penstock.model.nights import Horizon, Night, SourceVersions, Watermark
from penstock.model.tables import ColumnPair
from penstock.spec.copy_spec import CopySpec


@dataclass(frozen=True, slots=True)
class TargetNow:
    """What a night finds in the target."""

    storage: str
    """What the table is recognised by; empty: it is not there."""
    rows: int | None
    """None: not counted."""


def watermark_name(spec: CopySpec) -> str:
    """Under which the target keeps how far the source was read."""
    return spec.watermark or f"{spec.source_name} to {spec.target_ref}"


def plan_night(
    spec: CopySpec,
    pairs: tuple[ColumnPair, ...],
    last: Watermark | None,
    source: SourceVersions,
    now: Horizon,
    furthest: int,
    target: TargetNow,
) -> Night:
    """
    Parameters:
        last: what the night before has left.
        now: the horizon as of planning; the run's snapshot is taken then, or later.
        furthest: how many transactions ids may be compared over.
    """
    selects = _selects(spec, pairs)
    full = _why_full(last, source, now, furthest, selects, target)
    return Night(
        watermark_name(spec),
        last.epoch if last else 0,
        full,
        source,
        selects,
        since=last.horizon if last and not full else None,
        moment=last.moment if last and not full else "",
        target=target.storage,
        rows=target.rows,
    )


def is_behind(last: Watermark, source: SourceVersions, now: Horizon) -> bool:
    """Whether the source is read as of an earlier moment than the last night."""
    then = last.source
    return (
        then is not None
        and last.horizon is not None
        and (then.system, then.timeline, then.database)
        == (source.system, source.timeline, source.database)
        and now.xmax < last.horizon.xmax
    )


def explained(night: Night) -> tuple[str, ...]:
    """What a night reads, and why, for people."""
    held = (
        f"; {night.source.oldest} holds the horizon back, so more rows are read again than needed"
        if night.source.oldest
        else ""
    )
    if night.full:
        return (f"night: all rows are read, since {night.full}{held}",)
    return (f"night: rows that may have changed since {night.moment} are read{held}",)


def new_leaves(night: Night, last: Watermark | None) -> tuple[int, ...]:
    """The tables that were attached since the last night, whose rows may be of any age."""
    known = last.source.leaves if last and last.source else {}
    return tuple(
        int(leaf) for leaf, attached in night.source.leaves.items() if known.get(leaf) != attached
    )


def _selects(spec: CopySpec, pairs: tuple[ColumnPair, ...]) -> str:
    content = {"where": spec.where, "pairs": to_json(sorted(pairs, key=lambda pair: pair.target))}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _why_full(
    last: Watermark | None,
    source: SourceVersions,
    now: Horizon,
    furthest: int,
    selects: str,
    target: TargetNow,
) -> str:
    """Empty where only what has changed is to be read."""
    if last is None:
        return "this is the first night"
    then = last.source
    if last.horizon is None or then is None:
        return "the watermark was reset"
    if not target.storage:
        return "the target's table is not there"
    if last.target != target.storage:
        return "the target's table was made anew since the last night"
    if None not in (last.rows, target.rows) and last.rows != target.rows:
        return (
            f"the target's table had {last.rows:,} rows after the last night, and has "
            f"{target.rows:,} now"
        )
    if source.filtered:
        return "row security hides rows of the source from this user, and may have hidden others"
    if then.system != source.system:
        return "the source is another server"
    if then.database != source.database:
        return "the source is another database"
    if then.table != source.table:
        return "the source's table was made anew"
    if then.timeline != source.timeline:
        return f"the source is on timeline {source.timeline} since a failover, not {then.timeline}"
    if last.selects != selects:
        return "--where or the columns have changed"
    if then.shape != source.shape:
        return "columns or types of the source were changed, which gives rows no new version"
    if now.xmax - last.horizon.xmin >= furthest:
        return f"{now.xmax - last.horizon.xmin:,} transactions have begun since the last night"
    if now.xmax < last.horizon.xmax and not source.standby:
        return "the source has gone back to an earlier state"
    return ""
