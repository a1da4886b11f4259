"""Drift: how the columns of a source and of a target's table that is there have parted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import Drifted, PlanningError
from penstock.model.drift import ADD, GONE, RENAME, WIDEN, ColumnChange, SourceColumn
from penstock.model.nights import Night, Watermark
from penstock.model.tables import Column
from penstock.planning.column_pairs import chosen_columns
from penstock.spec.drift import FAIL, IGNORE
from penstock.spec.parts import Loading, Route


@dataclass(frozen=True, slots=True)
class Parted:
    """Columns that are not as they were, or not alike, by their names in the source."""

    renamed: Mapping[str, str]
    """The name in the target, by the one in the source."""
    added: tuple[str, ...]
    """The target has no such column."""
    gone: tuple[Column, ...]
    """The target's that the source has no more."""
    compared: Mapping[str, str]
    """Whose type may be wider than the target's: its name there."""
    loosened: Mapping[str, str]
    """That take NULL, which the target's do not: its name there."""

    def __bool__(self) -> bool:
        return bool(self.added or self.renamed or self.gone or self.compared or self.loosened)


@dataclass(frozen=True, slots=True)
class Drift:
    """What would have to be changed of a target's columns, as its backend says it."""

    changes: tuple[ColumnChange, ...]
    columns: tuple[Column, ...]
    """The target's, once all changes are made."""


def parted(
    route: Route,
    loading: Loading,
    mine: Sequence[Column],
    theirs: Sequence[Column],
    last: Watermark | None,
    *,
    alike: bool,
    same: bool,
) -> Parted | None:
    """How the columns differ; None where they are not compared at all, or there is nothing to say.

    A type that the target has had from the start, or that somebody has given it, is no drift: types
    are compared where the source's has changed since the last night, or where `--on-drift widen`
    asks for it.

    Parameters:
        last: what the last night has left.
        alike: types are written alike on both sides.
        same: the source's table is the one that the last night has read.
    """
    if route.map == "position":
        return None
    wanted = chosen_columns(route, mine)
    names, there = {each.name for each in mine}, {each.name: each for each in theirs}
    known = {each.name: each for each in last.columns} if last is not None else {}
    before = {each.identity: each for each in known.values() if each.identity and same}
    renamed = {
        each.name: before[each.identity].name
        for each in wanted
        if each.identity in before
        if each.name not in there
        if (name := before[each.identity].name) in there and name not in names
    }
    in_target = {
        each.name: there[name]
        for each in wanted
        if (name := renamed.get(each.name, each.name)) in there
    }
    asked = WIDEN in loading.drift.makes
    compared, loosened = {}, {}
    for each in wanted:
        if (target := in_target.get(each.name)) is None or target.generated:
            continue
        then = known.get(renamed.get(each.name, each.name))
        changed = then is not None and then.type != each.type
        if changed or (asked and (each.type != target.type if alike else then is None)):
            compared[each.name] = target.name
        if each.nullable and not target.nullable and (asked or (then and not then.nullable)):
            loosened[each.name] = target.name
    kept = {target.name for target in in_target.values()}
    found = Parted(
        renamed,
        tuple(each.name for each in wanted if each.name not in in_target),
        ()
        if route.columns is not None
        else tuple(
            each
            for each in theirs
            if not (each.name in kept or each.generated or route.excludes(each.name))
        ),
        compared,
        loosened,
    )
    if not kept:
        return None  # no name is on both sides: these are not the same tables
    return found or None


def gone_changes(gone: Sequence[Column]) -> list[ColumnChange]:
    """What is to be said of columns that the source has no more."""
    return [
        ColumnChange(
            GONE,
            each.name,
            refused=""
            if each.nullable or each.has_default
            else "it is NOT NULL without a default, so no new row can be without a value",
        )
        for each in gone
    ]


def left_undone(loading: Loading, drift: Drift) -> tuple[ColumnChange, ...]:
    """The changes that are not asked for, or cannot be made."""
    if loading.drift.ignores:
        return ()
    makes = loading.drift.makes
    return tuple(
        each
        for each in drift.changes
        if each.refused or (each.kind not in makes if each.kind != GONE else not makes)
    )


def made_changes(loading: Loading, drift: Drift | None) -> tuple[ColumnChange, ...]:
    """Those that a plan makes."""
    if drift is None or loading.drift.ignores:
        return ()
    return tuple(each for each in drift.changes if each.kind != GONE)


def drifted(
    route: Route, loading: Loading, drift: Drift, left: Sequence[ColumnChange], said: str
) -> Drifted:
    """
    Parameters:
        left: see `left_undone`.
        said: how the columns do not fit; empty where they do all the same.
    """
    asked = ",".join(sorted(loading.drift.makes)) or FAIL
    refused = any(each.refused for each in left)
    kinds = {each.kind for each in drift.changes if each.kind != GONE}
    use = ",".join(sorted(loading.drift.makes | kinds)) or ADD
    remedies = [] if refused else [f"--on-drift {use} for all of that"]
    remedies += [f"--on-drift {IGNORE} to copy the columns that both have"]
    begins = said or f"{route.source_name} has changed"
    return Drifted(
        f"{begins}\n--on-drift {asked} changes nothing in {route.target_name}; what would be "
        "done:\n"
        + "\n".join(f"  {each}{_more(each, left)}" for each in drift.changes)
        + f"\nuse {', or '.join(remedies)}"
    )


def _more(change: ColumnChange, left: Collection[ColumnChange]) -> str:
    if change.refused:
        found = f": not possible, since {change.refused}"
        return f"{found}; by hand: {change.statement}" if change.statement else found
    if change.kind == GONE:
        return f": {_STAYS}"
    cost = f" ({change.cost})" if change.cost else ""
    asked = "" if change in left else ", as asked for"
    return f"{asked}: {change.statement}{cost}"


_STAYS = "it stays, and is NULL or its default in new rows"


def narrowed(route: Route, columns: Sequence[Column], theirs: Sequence[Column]) -> Route:
    """The route of the columns that both sides have, where not all are copied."""
    there = {each.name: each for each in theirs}
    both = [
        each.name
        for each in chosen_columns(route, columns)
        if each.name in there and not (each.generated and there[each.name].generated)
    ]
    if not both:
        raise PlanningError(
            f"--on-drift: no column of {route.source_name} is one of {route.target_name}"
        )
    return replace(route, columns=tuple(both))


def said_of(
    loading: Loading, drift: Drift | None, made: Sequence[ColumnChange]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reasons and warnings for people."""
    if drift is None:
        return (), ()
    reasons = [
        f"drift: {each}: {each.statement}{f' ({each.cost})' if each.cost else ''}" for each in made
    ]
    warnings = []
    for each in drift.changes:
        if each.kind == GONE:
            warnings.append(f"drift: {each}: {_STAYS}")
        elif loading.drift.ignores:
            left = {ADD: "it is not copied", RENAME: "it is not copied under either name"}
            stays = left.get(each.kind, "the target's stays as it is")
            warnings.append(f"drift: {each}: {stays} (--on-drift {IGNORE})")
    if any(each.kind == ADD for each in made) and loading.load_mode.only_adds:
        warnings.append("drift: rows that are there keep NULL in the columns that are added")
    return tuple(reasons), tuple(warnings)


def reading_all(night: Night, made: Sequence[ColumnChange]) -> Night:
    """The night, which reads all rows where columns change: those that are there have values of
    the new ones, or may have others than before, without a new version."""
    if not made:
        return night
    listed = ", ".join(map(str, made))
    why = f"columns of the source have changed ({listed})"
    return replace(night, full=why, since=None, moment="", full_at="")


def followed(
    columns: Sequence[Column], last: Watermark | None, *, ignored: bool
) -> tuple[SourceColumn, ...]:
    """The source's columns as the target follows them, for the next night.

    Parameters:
        ignored: it does not follow what has changed since the last night.
    """
    if ignored and last is not None and last.columns:
        return last.columns
    return tuple(
        SourceColumn(each.name, each.type, each.nullable, each.identity) for each in columns
    )
