"""The reasons and warnings of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.worker import are_shared
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, TableRef
from penstock.planning.column_pairs import ColumnMapping
from penstock.planning.facts import TargetTable
from penstock.spec.groups.route import Route
from penstock.spec.modes import Mode, Table

CREATED = "missing in the target, and created there: "


def creation_remark(
    route: Route, mode: Mode, table: TargetTable, load: LoadPlan
) -> tuple[str, ...]:
    """Return a remark on the table to be created; it names the table, to reveal a misspelling.

    Args:
        route: the route of the copy.
        mode: the mode of the load.
        table: the target's table.
        load: the load plan.
    """
    schemas = ", ".join(step.makes_schema for step in load.before if step.makes_schema)
    created = [f"schema {schemas}"] if schemas else []
    if not table.is_there and mode.table is Table.TARGET:
        created.append(f"table {route.target_name}")
    return (f"{CREATED}{' and '.join(created)}",) if created else ()


def created_columns(columns: Sequence[Column], formats: Sequence[str]) -> tuple[str, ...]:
    """Return a remark on the columns to be created; between like systems those of the source."""
    if not columns or not are_shared(formats):
        return ()
    return (f"columns created: {', '.join(f'{item.name} {item.type}' for item in columns)}",)


def omitted_column_remarks(
    route: Route, columns: Sequence[Column], heirs: Mapping[TableRef, Sequence[Column]]
) -> list[str]:
    """Return a warning for each table whose rows arrive without some of its columns.

    Args:
        route: the route of the copy.
        columns: the source's columns.
        heirs: the columns of each inheriting table.
    """
    mine = {column.name for column in columns}
    warnings = []
    for heir, theirs in heirs.items():
        more = [column.name for column in theirs if column.name not in mine]
        if more:
            warnings.append(
                f"rows of {heir}, which inherits from {route.source_name}, are copied without "
                f"its additional columns ({', '.join(more)}); copy {heir} separately, and "
                f"{route.source_name} with --descendants exclude, as copy-all does"
            )
    return warnings


def computed_columns(
    route: Route, columns: Sequence[Column], mapping: ColumnMapping
) -> tuple[str, ...]:
    """Return remarks on columns that are not copied unchanged.

    Args:
        route: the options that compute columns or leave some out.
        columns: the source's columns.
        mapping: the mapping of the columns.
    """
    copied = [pair.source for pair in mapping.pairs if pair.expression]
    masks = {name: route.mask_of(name) for name in copied if name not in route.expressions}
    masked = [f"{name} ({mask})" for name, mask in masks.items()]
    by_expression = [f"{name} = {text}" for name, text in route.expressions.items()]
    excluded = [column.name for column in columns if route.excludes(column.name)]
    remarks = {"masked": masked, "set": by_expression, "excluded": excluded}
    return tuple(f"{what}: {', '.join(names)}" for what, names in remarks.items() if names)
