"""Nights by files: they read new files, or all, with the reason. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from penstock.backends.api.facts import SourceFile
from penstock.backends.api.optional.cursors import SourceFiles
from penstock.model.nights import Night, SeenFiles, Watermark
from penstock.model.tables import ColumnPair
from penstock.planning.nights import (
    FIRST,
    RESET,
    SELECTS_OTHERS,
    TargetNow,
    check_target,
    selected_text,
    watermark_name,
    why_due,
)
from penstock.planning.partition_extents import quantity
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.route import Route

_DIGITS = 16
MISSING = "files are not compared with each other: a key may be in several of them"


def digest(file: SourceFile) -> str:
    """Return a digest that is equal for the same file with the same content."""
    text = f"{file.path}\0{file.size}\0{file.version}"
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def seen_digests(history: Sequence[Watermark]) -> frozenset[str]:
    """Return the digests of all files that were read up to a night.

    Args:
        history: the watermarks of its name, the newest first.
    """
    by_epoch: Mapping[int, Watermark] = {each.epoch: each for each in history}
    digests: set[str] = set()
    mark = history[0] if history else None
    while mark is not None and mark.files is not None:
        text = mark.files.digests
        digests.update(text[at : at + _DIGITS] for at in range(0, len(text), _DIGITS))
        mark = by_epoch.get(mark.files.after)
    return frozenset(digests)


def plan_files_night(
    route: Route,
    loading: Loading,
    pairs: tuple[ColumnPair, ...],
    last: Watermark | None,
    now: SourceFiles,
    known_digests: frozenset[str],
    target: TargetNow,
    moment: datetime,
) -> Night:
    """Plan a night by files.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        pairs: the copied columns.
        last: the watermark of the night before.
        now: the files of the source.
        known_digests: the digests of files already read; see `seen_digests`.
        target: the state of the target's table.
        moment: the time of planning.

    Raises:
        PlanningError: the target was changed, which the spec does not allow.
    """
    selects = selected_text(route, loading, pairs)
    changed = check_target(route, loading, last, target)
    full = _why_full(last, now, known_digests, selects, changed) or why_due(loading, last, moment)
    return Night(
        watermark_name(route, loading),
        last.epoch if last else 0,
        full,
        None,
        selects,
        moment=last.moment if last and not full else "",
        target=target.storage,
        rows=target.rows,
        full_at=last.full_at if last and not full else "",
        files=files_of(
            now, frozenset() if full else known_digests, last.epoch if last and not full else 0
        ),
        missing="" if full else MISSING,
    )


def files_of(now: SourceFiles, known_digests: frozenset[str], after: int) -> SeenFiles:
    """Return what a night records about the files that it reads.

    Args:
        now: the files of the source.
        known_digests: digests of the files that it does not read.
        after: the epoch of the night that it continues; 0 if it reads all files.
    """
    return SeenFiles("".join(sorted(set(map(digest, now.files)) - known_digests)), after, now.place)


def new_files(now: SourceFiles, known_digests: frozenset[str]) -> tuple[SourceFile, ...]:
    """Return the files not read yet; the smallest file if there are none, as a plan needs one."""
    new = tuple(file for file in now.files if digest(file) not in known_digests)
    return new or tuple(sorted(now.files, key=lambda file: file.size)[:1])


def explain_files_night(night: Night, now: SourceFiles, *, merges: bool) -> tuple[str, ...]:
    """Explain what a night reads, and why.

    Args:
        night: the night.
        now: the files of the source.
        merges: whether the run is a night that merges, not a load that only sets the watermark.
    """
    assert night.files is not None
    count = len(night.files.digests) // _DIGITS
    if not merges:
        return (
            f"watermark {night.name}: set at the end, with {quantity(count, 'file')}; the next run "
            "with --mode upsert --incremental files reads only files added later",
        )
    if night.full:
        return (f"night: all {quantity(count, 'file')} are read, since {night.full}",)
    return (f"night: {count:,} of {quantity(len(now.files), 'file')} are new and are read",)


def _why_full(
    last: Watermark | None,
    now: SourceFiles,
    known_digests: frozenset[str],
    selects: str,
    changed: str,
) -> str:
    """Return why all files are read; empty if only new ones are."""
    if last is None:
        return FIRST
    if last.files is None:
        how = last.cursor.name if last.cursor else "row versions" if last.horizon else ""
        return f"the last night was read by {how}, not by files" if how else RESET
    if changed:
        return changed
    if last.files.place != now.place:
        return "the source is a different folder"
    if last.selects != selects:
        return SELECTS_OTHERS
    if altered := known_digests - set(map(digest, now.files)):
        have = "has" if len(altered) == 1 else "have"
        return f"{quantity(len(altered), 'file')} of earlier nights {have} been changed or removed"
    return ""
