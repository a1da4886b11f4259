"""Drift: how the columns of a source and of an existing target table have diverged. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import Drifted, PlanningError
from penstock.model.drift import ADD, GONE, RENAME, WIDEN, ColumnChange, SourceColumn
from penstock.model.nights import Night, Watermark
from penstock.model.tables import Column
from penstock.planning.column_pairs import chosen_columns
from penstock.spec.drift import FAIL, IGNORE
from penstock.spec.parts import Loading, Route


@dataclass(frozen=True, slots=True)
class ColumnDifferences:
    """Columns that have changed or differ, by their names in the source."""

    renamed: Mapping[str, str]
    """The name in the target, by the name in the source."""
    added: tuple[str, ...]
    """Columns that the target does not have."""
    dropped: tuple[Column, ...]
    """Columns of the target that the source no longer has."""
    compared: Mapping[str, str]
    """Columns whose type may be wider than the target's, with their name there."""
    loosened: Mapping[str, str]
    """Columns that take NULL, unlike the target's, with their name there."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Columns that were masked or left out under an earlier name, with that name."""

    def __bool__(self) -> bool:
        return bool(self.added or self.renamed or self.dropped or self.compared or self.loosened)


@dataclass(frozen=True, slots=True)
class Drift:
    """The changes that the target's columns would need, in the terms of its backend."""

    changes: tuple[ColumnChange, ...]
    columns: tuple[Column, ...]
    """The target's columns after all changes."""


def compare_columns(
    route: Route,
    loading: Loading,
    mine: Sequence[Column],
    theirs: Sequence[Column],
    last: Watermark | None,
    *,
    same_dialect: bool,
    same_table: bool,
) -> ColumnDifferences | None:
    """Return how the columns differ; None if they are not compared, or there is nothing to report.

    A type that the target has had from the start, or that the user has given it, is no drift: types
    are compared if the source's has changed since the last night, or if `--on-drift widen` asks for
    it.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        mine: the source's columns.
        theirs: the target's columns.
        last: the watermark of the last night.
        same_dialect: whether both sides write types alike.
        same_table: whether the source's table is the one that the last night read.
    """
    if route.map == "position":
        return None
    chosen = chosen_columns(route, mine)
    names, target_columns = {each.name for each in mine}, {each.name: each for each in theirs}
    last_columns = {each.name: each for each in last.columns} if last is not None else {}
    before = {each.identity: each for each in last_columns.values() if each.identity and same_table}
    renamed = {
        each.name: before[each.identity].name
        for each in chosen
        if each.identity in before
        if each.name not in target_columns
        if (name := before[each.identity].name) in target_columns and name not in names
    }
    in_target = {
        each.name: target_columns[name]
        for each in chosen
        if (name := renamed.get(each.name, each.name)) in target_columns
    }
    widens = WIDEN in loading.drift.makes
    compared, loosened = {}, {}
    for each in chosen:
        if (target := in_target.get(each.name)) is None or target.generated:
            continue
        then = last_columns.get(renamed.get(each.name, each.name))
        changed = then is not None and then.type != each.type
        if changed or (widens and (each.type != target.type if same_dialect else then is None)):
            compared[each.name] = target.name
        if each.nullable and not target.nullable and (widens or (then and not then.nullable)):
            loosened[each.name] = target.name
    matched = {target.name for target in in_target.values()}
    differences = ColumnDifferences(
        renamed,
        tuple(each.name for each in chosen if each.name not in in_target),
        ()
        if route.columns is not None
        else tuple(
            each
            for each in theirs
            if not (each.name in matched or each.generated or route.excludes(each.name))
        ),
        compared,
        loosened,
        {
            each.name: old
            for each in chosen
            if each.identity in before and (old := before[each.identity].name) != each.name
            if (route.excludes(old) or route.mask_of(old)) and not route.mask_of(each.name)
        },
    )
    if not matched:
        return None  # no name is on both sides: these are not the same tables
    return differences or None


def dropped_columns(columns: Sequence[Column]) -> list[ColumnChange]:
    """Return changes that report the columns that the source no longer has."""
    return [
        ColumnChange(
            GONE,
            each.name,
            refused=""
            if each.nullable or each.has_default
            else "it is NOT NULL and has no default, so every new row needs a value",
        )
        for each in columns
    ]


def omitted_changes(loading: Loading, drift: Drift) -> tuple[ColumnChange, ...]:
    """Return the changes that were not requested, or cannot be made."""
    if loading.drift.ignores:
        return ()
    makes = loading.drift.makes
    return tuple(
        each
        for each in drift.changes
        if each.refused or (each.kind not in makes if each.kind != GONE else not makes)
    )


def planned_changes(loading: Loading, drift: Drift | None) -> tuple[ColumnChange, ...]:
    """Return the changes that a plan makes."""
    if drift is None or loading.drift.ignores:
        return ()
    return tuple(each for each in drift.changes if each.kind != GONE)


def drift_error(
    route: Route, loading: Loading, drift: Drift, omitted: Sequence[ColumnChange], mismatch: str
) -> Drifted:
    """Return the error for columns that have diverged.

    Args:
        route: the route of the copy.
        loading: the options for loading.
        drift: all changes.
        omitted: the changes that are not made; see `omitted_changes`.
        mismatch: how the columns do not fit; empty if they fit despite the changes.
    """
    value = ",".join(sorted(loading.drift.makes)) or FAIL
    refused = any(each.refused for each in omitted)
    kinds = {each.kind for each in drift.changes if each.kind != GONE}
    use = ",".join(sorted(loading.drift.makes | kinds)) or ADD
    remedies = [] if refused else [f"--on-drift {use} to make all of these changes"]
    remedies += [f"--on-drift {IGNORE} to copy only the columns that both have"]
    begins = mismatch or f"{route.source_name} has changed"
    return Drifted(
        f"{begins}\n--on-drift {value} does not change {route.target_name}; the changes "
        "needed are:\n"
        + "\n".join(f"  {each}{_more(each, omitted)}" for each in drift.changes)
        + f"\nuse {', or '.join(remedies)}"
    )


def _more(change: ColumnChange, omitted: Collection[ColumnChange]) -> str:
    if change.refused:
        reason = f": not possible, since {change.refused}"
        return f"{reason}; by hand: {change.statement}" if change.statement else reason
    if change.kind == GONE:
        return f": {_STAYS}"
    cost = f" ({change.cost})" if change.cost else ""
    suffix = "" if change in omitted else ", as requested"
    return f"{suffix}: {change.statement}{cost}"


_STAYS = "it stays, with NULL or its default in new rows"


def narrow_route(route: Route, columns: Sequence[Column], theirs: Sequence[Column]) -> Route:
    """Return the route for the columns that both sides have, if not all are copied.

    Args:
        route: the route of the copy.
        columns: the source's columns.
        theirs: the target's columns.
    """
    target_columns = {each.name: each for each in theirs}
    both = [
        each.name
        for each in chosen_columns(route, columns)
        if each.name in target_columns
        and not (each.generated and target_columns[each.name].generated)
    ]
    if not both:
        raise PlanningError(
            f"--on-drift: {route.source_name} and {route.target_name} have no columns in common"
        )
    return replace(route, columns=tuple(both))


def drift_texts(
    loading: Loading, drift: Drift | None, changes: Sequence[ColumnChange]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return reasons and warnings for people.

    Args:
        loading: the options for loading.
        drift: how the columns differ; None if they do not.
        changes: the changes that the plan makes.
    """
    if drift is None:
        return (), ()
    reasons = [
        f"drift: {each}: {each.statement}{f' ({each.cost})' if each.cost else ''}"
        for each in changes
    ]
    warnings = []
    for each in drift.changes:
        if each.kind == GONE:
            warnings.append(f"drift: {each}: {_STAYS}")
        elif loading.drift.ignores:
            omitted = {ADD: "it is not copied", RENAME: "it is not copied under either name"}
            consequence = omitted.get(each.kind, "the target's column stays as it is")
            warnings.append(f"drift: {each}: {consequence} (--on-drift {IGNORE})")
    if any(each.kind == ADD for each in changes) and loading.load_mode.only_adds:
        warnings.append("drift: existing rows keep NULL in the added columns")
    return tuple(reasons), tuple(warnings)


def read_all_rows(night: Night, changes: Sequence[ColumnChange]) -> Night:
    """Return the night; it reads all rows if columns change.

    Existing rows have values for the new columns, or may have new values without a new version.
    """
    if not changes:
        return night
    listed = ", ".join(map(str, changes))
    why = f"columns of the source have changed ({listed})"
    return replace(night, full=why, since=None, moment="", full_at="", lower="")


def followed_columns(
    columns: Sequence[Column],
    selected: Sequence[Column],
    last: Watermark | None,
    *,
    ignored: bool,
) -> tuple[SourceColumn, ...]:
    """Return the source's columns as the target follows them, for the next night.

    Args:
        columns: all columns of the source.
        selected: the columns as they are copied, possibly with other types.
        last: the watermark of the last night.
        ignored: whether the target ignores what has changed since the last night.
    """
    if ignored and last is not None and last.columns:
        return last.columns
    copied = {each.name: each for each in selected}
    return tuple(
        SourceColumn(each.name, as_copied.type, as_copied.nullable, each.identity)
        for each in columns
        for as_copied in (copied.get(each.name, each),)
    )
