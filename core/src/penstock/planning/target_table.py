"""The table that rows go into: the definition it needs, and the requirements for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import PlanningError
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column
from penstock.planning.column_pairs import chosen_columns
from penstock.planning.column_types import requested_types
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.route import Route
from penstock.spec.modes import MODES, Table


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created; see `TargetCatalog.defined_columns`."""

    definition: TableDefinition
    columns: Sequence[Column]
    types: dict[str, str]


def new_table(
    route: Route,
    loading: Loading,
    columns: Sequence[Column],
    definition: TableDefinition,
) -> NewTable:
    """Return the table to create.

    Args:
        route: the options of the copy.
        loading: the options of the copy.
        columns: the columns of the source's table.
        definition: the definition of the source's table.

    Raises:
        PlanningError: a requested column type, or order, is not possible.
    """
    copied = chosen_columns(route, columns)
    if route.columns is not None:
        definition = replace(definition, model=definition.model.with_values())
    types = requested_types(loading.column_types, copied, definition.model)
    ordered = _never_null(loading, copied)
    if loading.enums == "text":
        definition = replace(definition, model=definition.model.with_texts())
    definition = replace(definition, arrays=loading.arrays, enums=loading.enums)
    return NewTable(definition, ordered, types)


def _never_null(loading: Loading, copied: Sequence[Column]) -> Sequence[Column]:
    """Return the columns, with those that order the table as columns without NULL.

    Raises:
        PlanningError: the table is to be ordered by a column that is not copied.
    """
    by = loading.order_by or ()
    for name in set(by).difference(column.name for column in copied):
        names = ", ".join(column.name for column in copied)
        raise PlanningError(f"--order-by: expected copied columns ({names}); found {name}")
    return [replace(each, nullable=each.nullable and each.name not in by) for each in copied]


def check_existing_table(route: Route, loading: Loading) -> None:
    """Check the options for an existing table that the mode does not create.

    Raises:
        PlanningError: the user has specified how to create it.
    """
    if flag := "--types" if loading.types else "--order-by" if loading.order_by else "":
        raise PlanningError(
            f"{flag}: {route.target_name} already exists, and --mode {loading.mode} does not "
            "change it; use --mode recreate, or a target that does not exist"
        )


def must_be_missing(loading: Loading) -> bool:
    """Whether a table is only created, and none is dropped for it."""
    return loading.schema_only and MODES[loading.mode].table is not Table.RECREATED


def existing_table_error(route: Route) -> PlanningError:
    """Return the error for a table that `--schema-only` would create, but that already exists."""
    return PlanningError(
        f"--schema-only: {route.target_name} already exists; drop it, or use --mode recreate, "
        "which drops it with its rows"
    )


def without_mark(route: Route, loading: Loading, columns: Sequence[Column]) -> Sequence[Column]:
    """Return the columns to load into: all except the one that marks when a row was gone.

    Args:
        route: the options of the copy.
        loading: the options of the copy.
        columns: the columns of the target's table.

    Raises:
        PlanningError: the table has no such column.
    """
    mark = loading.deletion.column
    unmarked = [column for column in columns if column.name != mark]
    if mark and len(unmarked) == len(columns):
        raise PlanningError(
            f"--deletes {loading.deletes}: expected a nullable column {mark!r} in "
            f"{route.target_name}, for the time at which a row was found to be deleted; found "
            "none: add it, or name another with soft:COLUMN"
        )
    return unmarked
