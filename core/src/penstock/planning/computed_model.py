"""The definition of a table whose copy leaves out columns, or computes some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.model.table_model import (
    TEXT,
    ColumnModel,
    ColumnType,
    TableDefinition,
    TableModel,
    omitted_check,
    omitted_foreign_key,
    omitted_index,
    omitted_key,
    omitted_of_column,
)
from penstock.model.tables import DISTINCT, EXPRESSION, Column, NotCopied
from penstock.spec.masks import mentions

_DIGITS = 64
"""The length of a SHA-256 in hexadecimal form."""
NEUTRAL = "computed"
"""The dialect of a definition that has only a model, so that every system treats it as foreign."""


def with_columns(definition: TableDefinition, columns: Sequence[Column]) -> TableDefinition:
    """Return the definition of a table with the columns of a copy.

    Args:
        definition: the definition of the source's table.
        columns: the copied columns; a computed one has the trait `EXPRESSION`, and `DISTINCT` if
            its values are distinct for distinct values of the table's column.
    """
    model = definition.model
    by_name = {column.name: column for column in columns}
    missing = {each.name for each in model.columns} - by_name.keys()
    computed = {column.name for column in columns if EXPRESSION in column.traits}
    changed_keys = missing | {name for name in computed if not by_name[name].traits[DISTINCT]}
    changed = missing | computed
    kept_keys = [key for key in model.keys if changed_keys.isdisjoint(key.columns)]
    kept_checks = [check for check in model.checks if not mentions(check.test.text, changed)]
    kept_indexes = [
        index
        for index in model.indexes
        if changed_keys.isdisjoint((*index.columns, *index.included))
        and not (index.predicate and mentions(index.predicate.text, changed))
        and (index.columns or not mentions(index.text, changed))
        and (not index.method or not mentions(index.text, computed))
    ]
    kept_foreign_keys = [key for key in model.foreign_keys if changed.isdisjoint(key.columns)]
    omitted: list[NotCopied] = []
    omitted += [omitted_key(key) for key in model.keys if key not in kept_keys]
    omitted += [omitted_check(check) for check in model.checks if check not in kept_checks]
    omitted += [omitted_index(index) for index in model.indexes if index not in kept_indexes]
    omitted += [
        omitted_foreign_key(key) for key in model.foreign_keys if key not in kept_foreign_keys
    ]
    for each in model.columns:
        if each.name in computed:
            omitted += [replace(item, remedy="") for item in omitted_of_column(each).values()]
    by_original_name = {each.name: each for each in model.columns}
    columns_of_copy = [
        _computed_column(column)
        if column.name in computed
        else _copied_column(by_original_name[column.name], changed)
        for column in columns
        if column.name in computed or column.name in by_original_name
    ]
    model_of_copy = TableModel(
        tuple(columns_of_copy),
        tuple(kept_keys),
        tuple(kept_checks),
        tuple(kept_indexes),
        tuple(kept_foreign_keys),
        model.comment,
        "" if mentions(model.partitioning, changed) else model.partitioning,
    )
    return replace(
        definition,
        dialect=NEUTRAL,
        model=model_of_copy,
        others=(*definition.others, *omitted),
        omitted=(),
        flavour="",
        native=None,
    )


def _computed_column(column: Column) -> ColumnModel:
    type_ = ColumnType(TEXT, _DIGITS) if column.traits[DISTINCT] else ColumnType()
    return ColumnModel(column.name, type_, column.type, column.nullable)


def _copied_column(column: ColumnModel, changed: set[str]) -> ColumnModel:
    if column.generated is None or not mentions(column.generated.expression.text, changed):
        return column
    return replace(column, generated=column.generated.as_copied)
