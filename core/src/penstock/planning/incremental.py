"""The night that an incremental load runs, derived from the earlier nights."""

from __future__ import annotations

from datetime import datetime

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.backends.api.optional.cursors import CursorState, SourceFiles
from penstock.errors import PlanningError, TransientError
from penstock.model.nights import Night, SourceVersions, Watermark
from penstock.model.tables import ColumnPair, TableRef
from penstock.planning.cursors import (
    check_cursor,
    cursor_of,
    explain_cursor_night,
    plan_cursor_night,
)
from penstock.planning.facts import NightFacts
from penstock.planning.nights import (
    explain_full_load,
    explain_night,
    new_leaves,
    plan_full_load,
    plan_night,
)
from penstock.planning.seen_files import explain_files_night, files_of, plan_files_night
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.route import Route
from penstock.spec.modes import Ending

ContinuedNight = tuple[Night | None, str, tuple[str, ...]]
"""The night, the condition for the rows that it reads, and why; no night if no watermark moves."""


def may_move_watermark(route: Route, loading: Loading, target: TargetCapabilities) -> bool:
    """Whether a load of all rows sets an existing watermark of its name without being asked to.

    Otherwise the next night would find a table that it does not know, and read everything.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        target: the capabilities of the target.
    """
    mode = loading.load_mode
    return (
        mode.replaces_table
        and target.merges_nights
        and loading.snapshot != "none"
        and not loading.schema_only
        and isinstance(route.relation, TableRef)
    )


def continue_watermark(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    facts: NightFacts,
    moment: datetime,
) -> ContinuedNight:
    """Return the night to run, with its condition and the reasons.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        pairs: the copied columns.
        facts: the facts about nights.
        moment: the current time.

    Raises:
        PlanningError: the target was changed, which the spec does not allow.
        TransientError: the source is read as of an earlier moment than the last night.
    """
    last, versions = facts.last, facts.versions
    why = facts.refused
    if not why and facts.ahead is not None:
        assert versions is not None
        why = _behind_message(route, facts.ahead, versions)
    if why:
        if loading.incremental is not None:
            raise TransientError(why)
        assert last is not None
        return None, "", (_unmoved_message(last, why),)
    if facts.files is not None:
        return _by_file(route, loading, pairs, facts, facts.files, moment)
    if facts.cursor is not None:
        return _by_column(route, loading, pairs, facts, facts.cursor, moment)
    assert versions is not None
    if loading.load_mode.ending is not Ending.MERGE:
        night = plan_full_load(route, loading, pairs, last, versions)
        return night, "", explain_full_load(night)
    assert facts.now is not None
    assert facts.target is not None
    night = plan_night(
        route,
        loading,
        pairs,
        last,
        versions,
        facts.now,
        facts.max_transaction_distance,
        facts.target,
        moment,
    )
    new = new_leaves(versions, last) if night.since else ()
    return night, facts.changed if night.since else "", explain_night(night, new)


EVERY = "(1 = 1)"
"""The condition of a night that reads some files, and all rows of each."""


def _by_file(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    facts: NightFacts,
    now: SourceFiles,
    moment: datetime,
) -> ContinuedNight:
    last = facts.last
    if loading.load_mode.ending is not Ending.MERGE:
        files = files_of(now, frozenset(), 0)
        night = plan_full_load(route, loading, pairs, last, None, files=files)
        return night, "", explain_files_night(night, now, merges=False)
    assert facts.target is not None
    night = plan_files_night(
        route, loading, pairs, last, now, facts.known_digests, facts.target, moment
    )
    return night, "" if night.full else EVERY, explain_files_night(night, now, merges=True)


def _by_column(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    facts: NightFacts,
    cursor: CursorState,
    moment: datetime,
) -> ContinuedNight:
    last, merges = facts.last, loading.load_mode.ending is Ending.MERGE
    try:
        check_cursor(route, loading, cursor, facts.row_ahead)
    except PlanningError as error:
        if loading.incremental is not None:
            raise
        assert last is not None
        return None, "", (_unmoved_message(last, error.message),)
    if not merges:
        night = plan_full_load(route, loading, pairs, last, facts.versions, cursor_of(cursor))
        return night, "", explain_cursor_night(night, loading, merges=False)
    assert facts.target is not None
    night = plan_cursor_night(
        route,
        loading,
        pairs,
        last,
        cursor,
        facts.range,
        facts.versions,
        facts.now,
        facts.target,
        moment,
    )
    selection = facts.range.condition if facts.range and not night.full else ""
    return night, selection, explain_cursor_night(night, loading, merges=True)


def _unmoved_message(last: Watermark, why: str) -> str:
    return f"watermark {last.name}: not moved, so the next night reads all rows: {why}"


def _behind_message(route: Route, ahead: Watermark, versions: SourceVersions) -> str:
    return (
        f"source: {route.source_name} is read as of an earlier moment than the last night, run "
        f"{ahead.run_id}, which read it as of {ahead.moment}; try again"
        + (" once the standby has caught up" if versions.standby else "")
    )
