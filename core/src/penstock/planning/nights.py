"""Nights by row version: they read from the last horizon, or everything, with the reason. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from penstock.errors import PlanningError
from penstock.model.codec import to_json
from penstock.model.nights import Cursor, Horizon, Night, SeenFiles, SourceVersions, Watermark
from penstock.model.plans import SWAP_STEP, WATERMARK_STEP, LoadPlan, Step
from penstock.model.tables import ColumnPair
from penstock.planning.partition_extents import quantity
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.nights import Nights
from penstock.spec.groups.route import Route


@dataclass(frozen=True, slots=True)
class TargetNow:
    """The state of the target as a night finds it."""

    storage: str
    """A value that identifies the table; empty if the table does not exist."""
    rows: int | None
    """The number of rows; None if not counted."""


FIRST = "this is the first night"
RESET = "the watermark was reset"
RECREATED = "the source's table was recreated"
EARLIER = "the source has gone back to an earlier state"
SELECTS_OTHERS = "--where, the copied columns or the soft-delete column have changed"
"""Reasons for which a night reads all rows, whatever tells it which rows have changed."""


def watermark_name(route: Route, nightly: Nights) -> str:
    """Return the name under which the target stores the watermark."""
    return nightly.watermark or f"{route.source_name} to {route.target_ref}"


def plan_night(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    last: Watermark | None,
    source: SourceVersions,
    now: Horizon,
    max_transaction_distance: int,
    target: TargetNow,
    moment: datetime,
) -> Night:
    """Plan a night by row versions.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        pairs: the copied columns.
        last: the watermark of the night before.
        source: the source's row versions.
        now: the horizon at planning; the run's snapshot is taken then or later.
        max_transaction_distance: the number of transactions across which ids are comparable.
        target: the state of the target's table.
        moment: the time of planning.

    Raises:
        PlanningError: the target was changed, which the spec does not allow.
    """
    selects = selected_text(route, loading, pairs)
    changed = check_target(route, loading, last, target)
    full = _why_full(last, source, now, max_transaction_distance, selects, changed) or why_due(
        loading, last, moment
    )
    return Night(
        watermark_name(route, loading),
        last.epoch if last else 0,
        full,
        source,
        selects,
        since=last.horizon if last and not full else None,
        moment=last.moment if last and not full else "",
        target=target.storage,
        rows=target.rows,
        full_at=last.full_at if last and not full else "",
    )


def check_target(route: Route, loading: Loading, last: Watermark | None, target: TargetNow) -> str:
    """Return how the target's table differs from what the last night left; empty if it does not.

    Args:
        route: the options of the copy.
        loading: the options of the copy.
        last: the watermark of the last night.
        target: the state of the target's table.

    Raises:
        PlanningError: it differs, which the spec does not allow.
    """
    changed = _target_change(last, target)
    position = last and (last.horizon or last.cursor or last.files)
    if changed and position and loading.on_target_changed == "fail":
        raise PlanningError(
            f"{route.target_name}: {changed}, and --on-target-changed fail allows no full load; "
            "find out why, then run `penstock watermark reset`, or use --on-target-changed full"
        )
    return changed


def plan_full_load(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    last: Watermark | None,
    source: SourceVersions | None,
    cursor: Cursor | None = None,
    files: SeenFiles | None = None,
) -> Night:
    """Return the night that a load of all rows leaves, in a mode that keeps no other rows.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        pairs: the copied columns.
        last: the watermark of the night before.
        source: the source's row versions; None if it has none.
        cursor: how far the load reads by a column; None for row versions or files.
        files: the files that it reads; None if it does not read by files.
    """
    return Night(
        watermark_name(route, loading),
        last.epoch if last else 0,
        f"--mode {loading.mode} reloads the table",
        source,
        selected_text(route, loading, pairs),
        cursor=cursor,
        files=files,
    )


def with_watermark_step(load: LoadPlan, name: str, *, with_swap: bool) -> LoadPlan:
    """Return the plan of a load whose last transaction also moves a watermark.

    Args:
        load: the plan without it.
        name: the watermark's name.
        with_swap: whether that transaction may be the one that swaps the table into place.
    """
    last = max((step.rank for step in load.after), default=0)
    # Steps that follow it may change the definition by which the table is recognized.
    if with_swap and any(step.id == SWAP_STEP and step.rank == last for step in load.after):
        steps = [
            replace(step, name=f"{step.name}, and set watermark {name}", moves_watermark=True)
            if step.id == SWAP_STEP
            else step
            for step in load.steps
        ]
        return replace(load, steps=tuple(steps))
    what = f"set watermark {name}"
    step = Step(WATERMARK_STEP, what, "", after=True, rank=last + 1, moves_watermark=True)
    return replace(load, steps=(*load.steps, step))


def explain_full_load(night: Night) -> tuple[str, ...]:
    """Describe what happens to the watermark."""
    return (
        f"watermark {night.name}: set at the end, from this run's snapshot; the next run with "
        "--mode upsert --incremental xmin reads only what may have changed since",
    )


def explain_night(night: Night, new: Sequence[int]) -> tuple[str, ...]:
    """Explain what a night reads, and why.

    Args:
        night: the night.
        new: ids of the tables whose rows are all read.
    """
    new_ones = "is new, reattached or altered"
    if len(new) > 1:
        new_ones = "are new, reattached or altered"
    held_back = (
        f"; {night.source.oldest} holds the horizon back, so more rows than needed are read again"
        if night.source and night.source.oldest
        else ""
    )
    if night.full:
        return (f"night: all rows are read, since {night.full}{held_back}",)
    anew = f", and all rows of {quantity(len(new), 'child table')} that {new_ones}" if new else ""
    return (f"night: rows that may have changed since {night.moment} are read{anew}{held_back}",)


def new_leaves(source: SourceVersions, last: Watermark | None) -> tuple[int, ...]:
    """Return the ids of tables attached since the last night, whose rows may be of any age."""
    leaves = last.source.leaves if last and last.source else {}
    return tuple(
        int(leaf) for leaf, attached in source.leaves.items() if leaves.get(leaf) != attached
    )


def selected_text(route: Route, loading: Loading, pairs: tuple[ColumnPair, ...]) -> str:
    """Return what a night selects, as a text to compare.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        pairs: the copied columns.
    """
    content = {
        "where": route.where,
        "pairs": to_json(sorted(pairs, key=lambda pair: pair.target)),
        # If some nights did not set the mark, rows that come back would stay marked.
        "mark": loading.deletion.column,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _target_change(last: Watermark | None, target: TargetNow) -> str:
    """Return how the target's table differs from what the last night left; empty if it does not."""
    if last is None:
        return ""
    if not target.storage:
        return "the target's table does not exist"
    if last.target != target.storage:
        return "the target's table was recreated or rewritten since the last night"
    if last.rows is not None and target.rows is not None and last.rows != target.rows:
        return (
            f"the target's table had {last.rows:,} rows after the last night, and has "
            f"{target.rows:,} now"
        )
    return ""


def why_due(nightly: Nights, last: Watermark | None, moment: datetime) -> str:
    """Return why all rows are due to be read although they need not be; empty if they are not.

    Args:
        nightly: the options of the night.
        last: the watermark of the last night.
        moment: the time of planning.
    """
    if nightly.full_every is None or last is None:
        return ""
    if last.full_at:
        age = moment - datetime.fromisoformat(last.full_at)
        if age.total_seconds() < nightly.full_every:
            return ""
    moment_read = f"as of {last.full_at}" if last.full_at else "at an unknown time"
    return f"all rows were last read {moment_read} (--full-every)"


def _why_full(
    last: Watermark | None,
    source: SourceVersions,
    now: Horizon,
    max_transaction_distance: int,
    selects: str,
    changed: str,
) -> str:
    """Return why all rows are read; empty if only changed rows are.

    Args:
        last: the watermark of the last night; None without one.
        source: see `plan_night`.
        now: see `plan_night`.
        max_transaction_distance: see `plan_night`.
        selects: what the night selects; see `selected_text`.
        changed: how the target's table was changed since the last night.
    """
    if last is None:
        return FIRST
    then = last.source
    if last.files is not None:
        return "the last night was read by files, not by row versions"
    if last.cursor is not None:
        return f"the last night was read by {last.cursor.name}, not by row versions"
    if last.horizon is None or then is None:
        return RESET
    if changed:
        return changed
    if anew := why_not_the_same(last, then, source, selects):
        return anew
    if now.xmax - last.horizon.xmin >= max_transaction_distance:
        return f"{now.xmax - last.horizon.xmin:,} transactions have begun since the last night"
    if now.xmax < last.horizon.xmax and not source.standby:
        return EARLIER
    return ""


def why_not_the_same(
    last: Watermark, then: SourceVersions, source: SourceVersions, selects: str
) -> str:
    """Return why the source or the selection differs from what the last night read.

    Args:
        last: the watermark of the last night.
        then: the source's row versions that it recorded.
        source: the source's row versions now.
        selects: what the night selects; see `selected_text`.
    """
    if then.system != source.system:
        return "the source is a different server"
    if then.database != source.database:
        return "the source is a different database"
    if then.table != source.table:
        return RECREATED
    if then.timeline != source.timeline:
        return f"the source failed over from timeline {then.timeline} to {source.timeline}"
    if last.selects != selects:
        return SELECTS_OTHERS
    table = str(source.table)
    altered = table in source.leaves and source.leaves[table] != then.leaves.get(table)
    if altered or then.shape != source.shape:
        return "columns or types of the source have changed, which leaves row versions as they are"
    return ""
