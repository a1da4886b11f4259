"""The types that the user specifies for columns of a new table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from penstock.errors import PlanningError
from penstock.model.table_model import ENUM, JSON, TableModel
from penstock.model.tables import Column

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
