"""Reads how the columns of a target's table have parted from the source's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.optional.drift import AltersColumns, Followed
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import are_shared
from penstock.errors import PlanningError
from penstock.model.drift import ADD, RENAME, WIDEN, ColumnChange
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column
from penstock.planning.drift import Drift, Parted, gone_changes, parted
from penstock.planning.facts import NightFacts, TargetTable
from penstock.planning.request import PlanRequest
from penstock.planning.target_table import wanted_table

_OF_KEY = "it is in the key by which rows are found"


def read_drift(
    request: PlanRequest,
    source: SourceCatalog,
    target: TargetCatalog,
    columns: Sequence[Column],
    table: TargetTable | None,
    night: NightFacts | None,
) -> Drift | None:
    """
    Parameters:
        columns: the source's.
        table: the target's; what is made has not parted.

    Raises:
        PlanningError: what would be changed cannot be said.
    """
    if table is None or not table.is_there:
        return None
    last = night.last if night is not None else None
    found = parted(
        request.route,
        request.loading,
        columns,
        table.columns,
        last,
        alike=not are_shared(request.capabilities.formats),
        same=_is_same(night),
    )
    if found is None:
        return None
    gone = gone_changes(found.gone)
    if why := _why_not(request, target):
        changes = _refused(found, columns, table, why)
        return _of([*changes, *gone], table.columns, {}) if changes or gone else None
    assert isinstance(target, AltersColumns)
    wanted = _wanted(request, source, target, columns, found)
    there = {each.name: each for each in table.columns}
    altered = target.column_changes(
        request.route.target_ref,
        Followed(
            [wanted[name] for name in found.added],
            [(old, new) for new, old in found.renamed.items()],
            [(there[now], wanted[name]) for name, now in found.compared.items()],
            [there[now] for now in found.loosened.values()],
        ),
    )
    if not (altered or gone):
        return None
    if found.renamed:
        key = {*target.unique_key(request.route.target_ref)}
        key.update(request.loading.conflict_columns or ())
        altered = tuple(
            replace(each, refused=_OF_KEY) if each.kind == RENAME and each.was in key else each
            for each in altered
        )
    return _of([*altered, *gone], table.columns, wanted)


def _is_same(night: NightFacts | None) -> bool:
    """Whether the source's table is the one that the last night has read."""
    if night is None or night.last is None or night.versions is None:
        return False
    then, now = night.last.source, night.versions
    return then is not None and (then.system, then.database, then.table) == (
        now.system,
        now.database,
        now.table,
    )


def _why_not(request: PlanRequest, target: TargetCatalog) -> str:
    """Why no column can be altered; empty where it can."""
    system = request.capabilities.target.system
    if not isinstance(target, AltersColumns):
        return f"Penstock does not alter tables of {system}"
    if request.loading.load_mode.attaches:
        return f"--mode {request.loading.mode} makes tables like the target's, which stays"
    return ""


def _refused(
    found: Parted, columns: Sequence[Column], table: TargetTable, why: str
) -> list[ColumnChange]:
    types = {each.name: each.type for each in columns}
    there = {each.name: each.type for each in table.columns}
    return [
        *(ColumnChange(RENAME, new, old, refused=why) for new, old in found.renamed.items()),
        *(
            ColumnChange(WIDEN, name, there[now], types[name], refused=why)
            for name, now in found.compared.items()
        ),
        *(ColumnChange(ADD, name, type=types[name], refused=why) for name in found.added),
    ]


def _wanted(
    request: PlanRequest,
    source: SourceCatalog,
    target: AltersColumns,
    columns: Sequence[Column],
    found: Parted,
) -> dict[str, Column]:
    """What the columns would be made as that are new, or may be too narrow."""
    names = [*found.added, *found.compared]
    asked = [each for each in columns if each.name in names]
    if not asked:
        return {}
    route = replace(request.route, columns=tuple(each.name for each in asked))

    def define() -> TableDefinition:
        definition = source.definition(request.route.relation, partitioning=False)
        return wanted_table(route, request.loading, columns, definition).definition

    try:
        made = target.wanted_columns(request.route.target_ref, asked, define)
    except PlanningError as error:
        raise PlanningError(
            f"--on-drift: {request.route.target_name} lacks {', '.join(names)}: {error.message}",
            error.diagnosis,
        ) from error
    return {each.name: each for each in made if each.name in names}


def _of(
    changes: Sequence[ColumnChange], columns: Sequence[Column], wanted: dict[str, Column]
) -> Drift:
    by_name = {each.name: each for each in columns}
    for change in changes:
        if change.kind == RENAME:
            by_name[change.column] = replace(by_name.pop(change.was), name=change.column)
        elif change.kind == ADD and change.column in wanted:
            by_name[change.column] = replace(wanted[change.column], nullable=True, generated=False)
        elif change.kind == WIDEN:
            was = by_name[change.column]
            now = wanted[change.column] if change.type and change.column in wanted else was
            nullable = was.nullable or change.nullable
            by_name[change.column] = replace(
                now, nullable=nullable, generated=False, has_default=was.has_default
            )
    return Drift(tuple(changes), tuple(by_name.values()))
