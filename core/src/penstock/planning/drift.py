"""Drift: how the columns of a source and of an existing target table have diverged. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import Drifted, PlanningError
from penstock.model.codec import to_json
from penstock.model.drift import ADD, GONE, KINDS, RECOMPUTE, RENAME, WIDEN, ColumnChange
from penstock.model.nights import Night, Watermark
from penstock.model.source_columns import SourceColumn, changed_meaning, match_earlier
from penstock.model.tables import Column
from penstock.planning.column_pairs import chosen_columns
from penstock.planning.hidden_columns import remember_hidden
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.route import Route
from penstock.spec.option import derived
from penstock.spec.source_changes import APPROVED, FAIL, IGNORE


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
    recomputed: tuple[ColumnChange, ...] = ()
    """Columns that both sides compute, and the source by another expression than before."""

    def __bool__(self) -> bool:
        return bool(
            self.added
            or self.renamed
            or self.dropped
            or self.compared
            or self.loosened
            or self.recomputed
        )


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
    raw: Sequence[Column],
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
        raw: the source's columns, before any is left out or computed.
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
        _recomputed(raw, in_target, last_columns, renamed) if route.columns is None else (),
    )
    if not matched:
        return None  # no name is on both sides: these are not the same tables
    return differences or None


def _recomputed(
    raw: Sequence[Column],
    in_target: Mapping[str, Column],
    last_columns: Mapping[str, SourceColumn],
    renamed: Mapping[str, str],
) -> tuple[ColumnChange, ...]:
    """Return the columns that both sides compute, and the source by another expression than before.

    If the target's expression is the source's text, or has changed since as well, the user has seen
    to it.

    Args:
        raw: the source's columns.
        in_target: the target's columns, by the source's names.
        last_columns: the columns as the last night found them, by name.
        renamed: the names before, by those now.
    """
    changes = []
    for each in raw:
        then = last_columns.get(renamed.get(each.name, each.name))
        target = in_target.get(each.name)
        if then is None or target is None or not (each.generated and target.generated):
            continue
        expected = _with_names(then.formula, renamed)
        if not then.formula or _bare(each.formula) in (expected, _bare(target.formula)):
            continue
        if then.target_formula in ("", _bare(target.formula)):
            changes.append(
                ColumnChange(
                    RECOMPUTE,
                    each.name,
                    then.formula,
                    each.formula,
                    refused="the target computes it: give its column the source's expression, or "
                    "make it a column that is not computed, or load the table once with "
                    "--mode recreate",
                )
            )
    return tuple(changes)


def _with_names(formula: str, renamed: Mapping[str, str]) -> str:
    """Return an expression with the present names of columns, to compare."""
    text, now = _bare(formula), {_bare(old): _bare(new) for new, old in renamed.items()}
    if not now:
        return text
    names = "|".join(map(re.escape, sorted(now, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)({names})(?!\w)", lambda found: now[found[1]], text)


def _bare(text: str) -> str:
    """Return an expression without the quotes around names, which only some names need."""
    return text.replace('"', "").replace("`", "")


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
    if loading.drift.approved == approval_of(drift.changes):
        return tuple(each for each in drift.changes if each.refused)
    return tuple(
        each
        for each in drift.changes
        if each.refused or (each.kind not in makes if each.kind != GONE else not makes)
    )


def approval_of(changes: Sequence[ColumnChange]) -> str:
    """Return a digest of changes, by which a plan recognises those that a person has approved.

    What they cost is left out, because the number of rows in it is an estimate.
    """
    facts = to_json([replace(each, cost="") for each in changes])
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def planned_changes(loading: Loading, drift: Drift | None) -> tuple[ColumnChange, ...]:
    """Return the changes that a plan makes."""
    if drift is None or loading.drift.ignores:
        return ()
    return tuple(each for each in drift.changes if each.kind in KINDS)


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
    kinds = {each.kind for each in drift.changes if each.kind in KINDS}
    use = ",".join(sorted(loading.drift.makes | kinds)) or ADD
    remedies = [] if refused else [f"--on-drift {use} to make all of these changes"]
    remedies += [f"--on-drift {IGNORE} to copy only the columns that both have"]
    begins = mismatch or f"{route.source_name} has changed"
    changes = tuple(f"{each}{_more(each, omitted)}" for each in drift.changes)
    approval = ",".join((*sorted(loading.drift.makes), f"{APPROVED}{approval_of(drift.changes)}"))
    return Drifted(
        f"{begins}\n--on-drift {value} does not change {route.target_name}; the changes "
        "needed are:\n"
        + "\n".join(f"  {each}" for each in changes)
        + f"\nuse {', or '.join(remedies)}",
        changes=changes,
        approval="" if refused else approval,
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
    return derived(route, columns=tuple(both))


def drift_texts(
    loading: Loading, drift: Drift | None, changes: Sequence[ColumnChange]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the plan's reasons and warnings.

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
    return _in_full(night, f"columns of the source have changed ({', '.join(map(str, changes))})")


def read_exchanged(
    night: Night,
    columns: Sequence[Column],
    copied: Collection[str],
    before: Sequence[SourceColumn],
) -> Night:
    """Return the night; it reads all rows if names stand for other columns than in the last one.

    Args:
        night: the night.
        columns: the source's columns.
        copied: the names of those that are copied.
        before: the columns as the last night found them.
    """
    names = changed_meaning(before, tuple(map(SourceColumn.of, columns)), copied)
    if night.full or not names:
        return night
    return _in_full(night, f"other columns of the source have these names now: {', '.join(names)}")


def _in_full(night: Night, why: str) -> Night:
    return replace(night, full=why, since=None, moment="", full_at="", lower="")


def followed_columns(
    route: Route,
    columns: Sequence[Column],
    selected: Sequence[Column],
    theirs: Sequence[Column],
    changes: Sequence[ColumnChange],
    copied: Collection[str],
    before: Sequence[SourceColumn],
    *,
    ignored: bool,
) -> tuple[SourceColumn, ...]:
    """Return the source's columns as the target follows them, for the next night.

    Args:
        route: the options that hide columns.
        columns: all columns of the source.
        selected: the columns with masks and expressions applied, possibly with other types.
        theirs: the target's columns.
        changes: the changes that this night makes to them.
        copied: the names of the columns that this night copies.
        before: the columns as the last night found them; empty if unknown.
        ignored: whether the target ignores what has changed since the last night.
    """
    as_copied = {each.name: each for each in selected}
    renamed = {each.column: each.was for each in changes if each.kind == RENAME}
    formulas = {each.name: _with_names(each.formula, renamed) for each in theirs}
    present = [SourceColumn.of(each) for each in columns]
    matching, known = match_earlier(before, present), {each.name: each for each in before}
    names = {each.name for each in columns}
    kept = [each for each in matching.unmatched if each.name not in names]
    followed = []
    for each in present:
        column = replace(each, target_formula=formulas.get(each.name, ""))
        if each.name in as_copied:
            copy = as_copied[each.name]
            stored_type = "" if copy.type == each.type else each.type
            column = replace(
                column, type=copy.type, nullable=copy.nullable, stored_type=stored_type
            )
        column = remember_hidden(route, column, matching.candidates(each))
        then, was = known.get(each.name), matching.same.get(each.name)
        if ignored and was is not None and was.name != each.name and each.name not in copied:
            # A later night finds that it was renamed.
            kept.append(replace(was, hidden=column.hidden, mask=column.mask))
            continue
        if ignored and then is not None:
            # A later night finds the change.
            column = replace(column, type=then.type, nullable=then.nullable)
            if then.formula:
                column = replace(column, formula=then.formula, target_formula=then.target_formula)
        followed.append(column)
    return (*(kept if ignored else ()), *followed)
