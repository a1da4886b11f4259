"""The table that rows go into: which one is wanted, and what it must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import PlanningError
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column
from penstock.planning.column_pairs import chosen_columns
from penstock.planning.column_types import asked_types
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES


@dataclass(frozen=True, slots=True)
class WantedTable:
    """A table to be made; see `TargetCatalog.defined_columns`."""

    definition: TableDefinition
    columns: Sequence[Column]
    types: dict[str, str]


def wanted_table(
    spec: CopySpec, columns: Sequence[Column], definition: TableDefinition
) -> WantedTable:
    """
    Parameters:
        columns, definition: the source's.

    Raises:
        PlanningError: types of columns, or an order by some, are asked for that cannot be.
    """
    copied = chosen_columns(spec, columns)
    if spec.columns is not None:
        definition = replace(definition, model=definition.model.with_values())
    types = asked_types(spec.column_types, copied, definition.model)
    ordered = _never_null(spec, copied)
    if spec.enums == "text":
        definition = replace(definition, model=definition.model.with_texts())
    definition = replace(definition, arrays=spec.arrays, enums=spec.enums)
    return WantedTable(definition, ordered, types)


def _never_null(spec: CopySpec, copied: Sequence[Column]) -> Sequence[Column]:
    """With those that the table is ordered by as columns without NULL.

    Raises:
        PlanningError: it is to be ordered by another one.
    """
    by = spec.order_by or ()
    for name in set(by).difference(column.name for column in copied):
        known = ", ".join(column.name for column in copied)
        raise PlanningError(f"--order-by: expected some of the columns {known}; found {name}")
    return [replace(each, nullable=each.nullable and each.name not in by) for each in copied]


def check_taken_as_is(spec: CopySpec) -> None:
    """Of a table that is there, and that the mode does not make.

    Raises:
        PlanningError: somebody has said what it is to be made like.
    """
    if asked := "--types" if spec.types else "--order-by" if spec.order_by else "":
        raise PlanningError(
            f"{asked}: {spec.target_name} is there, and mode {spec.mode} takes it as it is; "
            "expected --mode recreate, or a target that does not exist"
        )


def must_be_missing(spec: CopySpec) -> bool:
    """Whether a table is made alone, and none is dropped for it."""
    return spec.schema_only and not MODES[spec.mode].recreates


def is_there(spec: CopySpec) -> PlanningError:
    return PlanningError(
        f"--schema-only: {spec.target_name} is there; expected no such table, or --mode recreate, "
        "which drops it with its rows"
    )


def without_mark(spec: CopySpec, columns: Sequence[Column]) -> Sequence[Column]:
    """The columns that rows are loaded into: all but the one that says when a row was gone.

    Raises:
        PlanningError: there is no such column.
    """
    mark = spec.gone.column
    left = [column for column in columns if column.name != mark]
    if mark and len(left) == len(columns):
        raise PlanningError(
            f"--deletes {spec.deletes}: expected a column {mark!r} of {spec.target_name}, for the "
            "time when a row was found to be gone; found none: add one that may be NULL, or name "
            "another with soft:COLUMN"
        )
    return left
