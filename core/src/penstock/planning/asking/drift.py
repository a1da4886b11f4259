"""Drift, read from both sides: the differences between the target's and the source's columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.backends.api.optional.drift import AltersColumns, PermittedDifferences
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import are_shared
from penstock.errors import PlanningError
from penstock.model.drift import ADD, RENAME, WIDEN, ColumnChange
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column
from penstock.planning.drift import ColumnDifferences, Drift, compare_columns, dropped_columns
from penstock.planning.facts import NightFacts, TargetTable
from penstock.planning.request import PlanRequest
from penstock.planning.target_table import new_table
from penstock.spec.modes import Entry
from penstock.spec.option import derived

_IS_IN_KEY = "it is part of the key that identifies rows"


def read_drift(
    request: PlanRequest,
    target: TargetCatalog,
    columns: Sequence[Column],
    raw: Sequence[Column],
    table: TargetTable | None,
    night: NightFacts | None,
    define: Callable[[], TableDefinition],
) -> Drift | None:
    """Return how the columns differ; None if they are not compared, or do not differ.

    Args:
        request: the request for the plan.
        target: the catalog of the target.
        columns: the source's columns that are copied.
        raw: the source's columns, before any is left out or computed.
        table: the target's table; one that the run creates cannot have diverged.
        night: the facts about the last night; None if the load moves no watermark.
        define: returns the definition of the source's table with these columns.

    Raises:
        PlanningError: a change cannot be described.
    """
    if table is None or not table.is_there:
        return None
    last = night.last if night is not None else None
    differences = compare_columns(
        request.route,
        request.loading,
        columns,
        table.columns,
        raw,
        last,
        same_dialect=not are_shared(request.capabilities.formats),
        same_table=_is_same(night),
    )
    if differences is None:
        return None
    # The user alone can make these changes.
    dropped = [*dropped_columns(differences.dropped), *differences.recomputed]
    if why := _why_not(request, target):
        changes = _refused_changes(differences, columns, why)
        return _drift([*changes, *dropped], table.columns, {}) if changes or dropped else None
    assert isinstance(target, AltersColumns)
    expected = _expected_columns(request, target, columns, differences, define)
    target_columns = {each.name: each for each in table.columns}
    altered = target.column_changes(
        request.route.target_ref,
        PermittedDifferences(
            [expected[name] for name in differences.added],
            [(old, new) for new, old in differences.renamed.items()],
            [(target_columns[now], expected[name]) for name, now in differences.compared.items()],
            [target_columns[now] for now in differences.loosened.values()],
        ),
    )
    if not (altered or dropped):
        return None
    if differences.renamed:
        key = {*target.unique_key(request.route.target_ref)}
        key.update(request.loading.conflict_columns or ())
        altered = tuple(
            replace(each, refused=_IS_IN_KEY) if each.kind == RENAME and each.was in key else each
            for each in altered
        )
    return _drift([*altered, *dropped], table.columns, expected)


def is_elsewhere(night: NightFacts) -> bool:
    """Whether the last night certainly read another server or database than this one reads."""
    if night.last is None:
        return False
    then, now = night.last.source, night.versions
    if then is None or now is None:
        return False
    return (then.system, then.database) != (now.system, now.database)


def _is_same(night: NightFacts | None) -> bool:
    """Whether the source's table may be the one that the last night read.

    The identity of a column names its table, but no server.
    """
    if night is None or night.last is None:
        return False
    then, now = night.last.source, night.versions
    if then is None or now is None:
        return then is now  # both nights read by a column
    return not is_elsewhere(night)


def _why_not(request: PlanRequest, target: TargetCatalog) -> str:
    """Return why no column can be altered; empty if columns can be."""
    system = request.capabilities.target.system
    if not isinstance(target, AltersColumns):
        return f"Penstock does not alter {system} tables"
    if request.loading.load_mode.entry is Entry.ATTACH:
        return (
            f"--mode {request.loading.mode} creates tables like the target's, which stays as it is"
        )
    return ""


def _refused_changes(
    differences: ColumnDifferences, columns: Sequence[Column], why: str
) -> list[ColumnChange]:
    """Return the changes that cannot be made, except of types, which every load checks."""
    types = {each.name: each.type for each in columns}
    return [
        *(ColumnChange(RENAME, new, old, refused=why) for new, old in differences.renamed.items()),
        *(ColumnChange(ADD, name, type=types[name], refused=why) for name in differences.added),
    ]


def _expected_columns(
    request: PlanRequest,
    target: AltersColumns,
    columns: Sequence[Column],
    differences: ColumnDifferences,
    define: Callable[[], TableDefinition],
) -> dict[str, Column]:
    """Return the target's columns for source columns that are new or may not fit."""
    names = [*differences.added, *differences.compared]
    chosen = [each for each in columns if each.name in names]
    if not chosen:
        return {}
    route = derived(request.route, columns=tuple(each.name for each in chosen))

    def defined() -> TableDefinition:
        return new_table(route, request.loading, columns, define()).definition

    try:
        expected = target.expected_columns(request.route.target_ref, chosen, defined)
    except PlanningError as error:
        raise PlanningError(
            f"--on-drift: {request.route.target_name} lacks {', '.join(names)}: {error.message}",
            error.diagnosis,
        ) from error
    return {each.name: each for each in expected if each.name in names}


def _drift(
    changes: Sequence[ColumnChange], columns: Sequence[Column], expected: dict[str, Column]
) -> Drift:
    by_name = {each.name: each for each in columns}
    for change in changes:
        if change.kind == RENAME:
            by_name[change.column] = replace(by_name.pop(change.was), name=change.column)
        elif change.kind == ADD and change.column in expected:
            by_name[change.column] = replace(
                expected[change.column], nullable=True, generated=False
            )
        elif change.kind == WIDEN:
            was = by_name[change.column]
            now = expected[change.column] if change.type and change.column in expected else was
            nullable = was.nullable or change.nullable
            by_name[change.column] = replace(
                now, nullable=nullable, generated=False, has_default=was.has_default
            )
    return Drift(tuple(changes), tuple(by_name.values()))
