"""Nights by column: the value from which they read, or everything, with the reason. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from penstock.backends.api.optional.cursors import CursorRange, CursorState
from penstock.errors import PlanningError
from penstock.model.nights import Cursor, Horizon, Night, SourceVersions, Watermark
from penstock.model.tables import ColumnPair
from penstock.planning.nights import (
    EARLIER,
    FIRST,
    RECREATED,
    RESET,
    SELECTS_OTHERS,
    TargetNow,
    check_target,
    selected_text,
    watermark_name,
    why_due,
    why_not_the_same,
)
from penstock.planning.partition_extents import quantity
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.route import Route
from penstock.spec.night_kinds import check_unit
from penstock.spec.units import duration_text


def is_comparable(since: Cursor, now: CursorState) -> bool:
    """Whether values of the last night are comparable with those of the source now."""
    return (since.columns, since.type) == (now.columns, now.type)


def check_cursor(route: Route, loading: Loading, now: CursorState, row_ahead: str) -> None:
    """Check the values of a cursor column.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        now: the state of the columns in the source.
        row_ahead: a row whose value is too far ahead, by its key.

    Raises:
        PlanningError: rows have no value or one that is too far ahead, or the lookback is not a
            length of such values.
    """
    nightly, name = loading, ", ".join(now.columns)
    if nightly.lookback is not None:
        check_unit(nightly.lookback, now.type, name)
    flag = f"--incremental {name}"
    if now.ahead:
        where = f", in the row {row_ahead}" if row_ahead else ""
        most = (
            f"at most {duration_text(nightly.max_ahead)} ahead of the source's clock (--max-ahead)"
        )
        allow = "raise --max-ahead, or pass --max-ahead 0 to read it every night"
        if not now.text:
            most, allow = "a value that can be compared with others", "or exclude it with --where"
        raise PlanningError(
            f"{flag}: {route.source_name}: expected {most}; found {now.ahead}{where}: correct it, "
            f"{allow}"
        )
    if now.nulls and nightly.null_cursor == "refuse":
        raise PlanningError(
            f"{flag}: {route.source_name}: {quantity(now.nulls, 'row')} without a value (NULL) "
            "would never be read again: set a value, name a second column as a fallback "
            f"(--incremental {name},created_at), or pass --null-cursor include to read them every "
            "night"
        )


def plan_cursor_night(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    last: Watermark | None,
    now: CursorState,
    new_rows: CursorRange | None,
    versions: SourceVersions | None,
    horizon: Horizon | None,
    target: TargetNow,
    moment: datetime,
) -> Night:
    """Plan a night by column.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        pairs: the copied columns.
        last: the watermark of the night before.
        now: the state of the columns in the source.
        new_rows: the rows from the last night's value on.
        versions: the source's row versions; None if it has none.
        horizon: the horizon of the source's rows; None if they have no versions.
        target: the state of the target's table.
        moment: the time of planning.

    Raises:
        PlanningError: the target was changed, which the spec does not allow.
    """
    selects = selected_text(route, loading, pairs)
    changed = check_target(route, loading, last, target)
    full = _why_full(last, now, new_rows, versions, horizon, selects, changed) or why_due(
        loading, last, moment
    )
    before = last.cursor if last and not full else None
    missing = before.unproven if before else ""
    return Night(
        watermark_name(route, loading),
        last.epoch if last else 0,
        full,
        versions,
        selects,
        moment=last.moment if last and not full else "",
        target=target.storage,
        rows=target.rows,
        full_at=last.full_at if last and not full else "",
        cursor=cursor_of(now, missing),
        lower=new_rows.lower if new_rows and not full else "",
        missing=missing,
    )


def cursor_of(now: CursorState, missing: str = "") -> Cursor:
    """Return how far a run reads by a column.

    Args:
        now: the state of the columns in the source.
        missing: why the run may miss rows.
    """
    unproven = now.unproven or missing
    return Cursor(now.columns, now.type, now.text, unproven, now.source, now.proof, now.assumed)


def without_range(night: Night, why: str) -> Night:
    """Return the night changed to read all rows, for the reason `why`."""
    cursor = night.cursor
    if cursor is not None and cursor.unproven == night.missing:
        cursor = replace(cursor, unproven="")
    return replace(
        night,
        full=why,
        since=None,
        moment="",
        full_at="",
        lower="",
        missing="",
        cursor=cursor,
    )


def explain_cursor_night(night: Night, loading: Loading, *, merges: bool) -> tuple[str, ...]:
    """Explain what a night reads, and whether that is proven to be enough.

    Args:
        night: the night.
        loading: the options for loading.
        merges: whether the run is a night that merges, not a load that only sets the watermark.
    """
    cursor = night.cursor
    assert cursor is not None
    proof = (
        f"not proven: {cursor.unproven}"
        if cursor.unproven
        else f"proven: the server sets {cursor.name}, and no row below {cursor.text} can appear"
        + (f", as long as {cursor.assumed}" if cursor.assumed else "")
    )
    remark = f"nights by {cursor.name}: {proof}"
    if not merges:
        return (
            f"watermark {night.name}: set at the end, by {cursor.name}; the next run with --mode "
            f"upsert --incremental {','.join(cursor.columns)} reads only what has changed since",
            remark,
        )
    if night.full:
        return (f"night: all rows are read, since {night.full}", remark)
    nulls = ", as are rows without a value" if loading.null_cursor == "include" else ""
    return (
        f"night: rows with {cursor.name} >= {night.lower} are read{nulls} "
        f"(--lookback {loading.lookback})",
        remark,
    )


def _why_full(
    last: Watermark | None,
    now: CursorState,
    new_rows: CursorRange | None,
    versions: SourceVersions | None,
    horizon: Horizon | None,
    selects: str,
    changed: str,
) -> str:
    """Return why all rows are read; empty if only changed rows are."""
    if last is None:
        return FIRST
    since, name = last.cursor, ", ".join(now.columns)
    if since is None:
        if last.horizon is not None:
            return f"the last night was read by row versions, not by {name}"
        if last.files is not None:
            return f"the last night was read by files, not by {name}"
        return RESET
    if since.columns != now.columns:
        return f"the last night was read by {since.name}, not by {name}"
    if changed:
        return changed
    if since.type != now.type:
        return f"the type of {name} has changed from {since.type} to {now.type}"
    if anew := _why_anew(last, now, versions, selects):
        return anew
    if not since.text:
        return f"the last night found no value in {name}"
    if new_rows is not None and new_rows.broken:
        return new_rows.broken
    if new_rows is None or (new_rows.behind and horizon is None):
        return f"the greatest {name} is less than the last night's: rows were deleted, or {EARLIER}"
    if horizon and last.horizon and horizon.xmax < last.horizon.xmax:
        return EARLIER
    return ""


def _why_anew(
    last: Watermark, now: CursorState, versions: SourceVersions | None, selects: str
) -> str:
    """Return why the source differs from the one that the last night read; empty if it does not."""
    assert last.cursor is not None
    then = last.cursor.source
    for what in dict.fromkeys((*then, *now.source)):
        if then.get(what) != now.source.get(what):
            return f"the source has changed: another {what}"
    if (versions is None) != (last.source is None):
        return RECREATED
    if versions is None or last.source is None:
        return "" if last.selects == selects else SELECTS_OTHERS
    return why_not_the_same(last, last.source, versions, selects)
