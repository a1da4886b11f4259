"""The table that rows go into: its definition, the types requested for it, and its requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from penstock.errors import PlanningError
from penstock.model.table_model import ENUM, JSON, TableDefinition, TableModel
from penstock.model.tables import Column
from penstock.planning.column_pairs import chosen_columns
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
    return [replace(each, nullable=False) if each.name in by else each for each in copied]


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


_OF_TYPE = "source:"
_NAMELESS = (JSON, ENUM)
"""Kinds of types that a source may have without a type of that name: JSON may be a checked text,
and each enum type may have a name of its own."""


def requested_types(
    rules: Mapping[str, str], columns: Sequence[Column], model: TableModel | None = None
) -> dict[str, str]:
    """Return the specified types, by column.

    The rule for the column itself applies, else the first one that the column matches.

    Args:
        rules: see `CopySpec.column_types`.
        columns: the columns of the new table.
        model: the model of the source's table, if it has one.

    Raises:
        PlanningError: a rule matches no column.
    """
    _check_known(rules, columns)
    types = model.types if model is not None else {}
    kinds = {name: type_.kind for name, type_ in types.items() if type_.kind in _NAMELESS}
    types_by_column = {}
    for column in columns:
        kind = kinds.get(column.name, "")
        meeting = [rule for rule in rules if _meets(column, rule, kind)]
        names = [column.name] if column.name in rules else meeting
        if names:
            types_by_column[column.name] = rules[names[0]]
    return types_by_column


def _is_rule(name: str) -> bool:
    return name.startswith(_OF_TYPE) or "*" in name


def _meets(column: Column, rule: str, kind: str) -> bool:
    if rule.startswith(_OF_TYPE):
        expected, actual = rule.removeprefix(_OF_TYPE).strip().lower(), column.type.lower()
        return bool(expected) and expected in (actual, actual.partition("(")[0].strip(), kind)
    return _is_rule(rule) and fnmatchcase(column.name, rule)


def _check_known(rules: Mapping[str, str], columns: Sequence[Column]) -> None:
    names = {column.name for column in columns}
    unknown = [name for name in rules if name not in names and not _is_rule(name)]
    if unknown:
        raise PlanningError(
            f"--types: expected names of copied columns, found {', '.join(map(repr, unknown))}; "
            f"copied are {', '.join(column.name for column in columns)}"
        )
