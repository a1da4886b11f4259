"""The columns that a copy selects: some may be left out, others computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from penstock.backends.api.optional.expressions import ComputesColumns, DefinesComputed
from penstock.backends.api.source import SourceCatalog
from penstock.errors import PlanningError
from penstock.model.source_columns import SourceColumn, match_earlier
from penstock.model.table_model import TableDefinition
from penstock.model.tables import DISTINCT, EXPRESSION, KEY, Column, ColumnPair, MaskingKey
from penstock.planning.computed_model import with_columns
from penstock.spec.groups.route import Route
from penstock.spec.masking_keys import read_key
from penstock.spec.masks import DIGESTS, NULL, is_pattern, meets


def read_selected(
    route: Route,
    source: SourceCatalog,
    columns: Sequence[Column],
    *,
    in_arrow: bool,
    one_of_many: bool,
    before: Callable[[], Sequence[SourceColumn]] = tuple,
) -> tuple[Column, ...]:
    """Return the columns that the copy reads.

    Args:
        route: the options that leave columns out or compute them.
        source: the source's catalog.
        columns: the source's columns.
        in_arrow: whether they have the trait `arrow`.
        one_of_many: whether the options also apply to other tables, so that a column may be
            missing.
        before: returns the columns as the last night found them, for messages.

    Returns:
        the columns; computed ones have the traits `EXPRESSION`, `DISTINCT` and `KEY`.

    Raises:
        PlanningError: a column does not exist, or cannot be computed.
        UsageError: the key of a mask is not set.
    """
    if not one_of_many:
        _check_known(route, columns, before)
    selected = [column for column in columns if not route.excludes(column.name)]
    if columns and not selected:
        raise PlanningError(
            f"--exclude-columns leaves no column of {route.source_name} to copy; it has "
            f"{', '.join(column.name for column in columns)}"
        )
    masked = [column for column in selected if route.mask_of(column.name)]
    if not (masked or route.expressions):
        return tuple(selected)
    identities = {column.name: column.identity for column in columns}
    by_name = {
        name: replace(column, identity=identities.get(name, ""))
        for name, column in _computed(route, source, masked, in_arrow=in_arrow).items()
    }
    names = {column.name for column in selected}
    return (
        *(by_name.get(column.name, column) for column in selected),
        *(column for name, column in by_name.items() if name not in names),
    )


def _computed(
    route: Route, source: SourceCatalog, masked: Sequence[Column], *, in_arrow: bool
) -> dict[str, Column]:
    computing, relation = cast("ComputesColumns", source), route.relation
    texts: dict[str, str] = {}
    keys: dict[str, MaskingKey | None] = {}
    nullable: dict[str, bool] = {}
    distinct = set()
    for name, text in route.expressions.items():
        computing.check_expression(relation, text, f"--set {name}")
        texts[name] = text
    for column in masked:
        mask, name = route.mask_of(column.name), column.name
        assert mask is not None
        keys[name] = read_key(mask.variable) if mask.variable else None
        texts[name] = computing.mask_expression(relation, column, mask, keys[name])
        nullable[name] = column.nullable or mask.kind == NULL
        if mask.kind in DIGESTS:
            distinct.add(name)
    pairs = [
        ColumnPair(name, name, expression=text, key=keys.get(name)) for name, text in texts.items()
    ]
    return {
        column.name: replace(
            column,
            nullable=column.nullable and nullable.get(column.name, True),
            traits={
                **column.traits,
                EXPRESSION: texts[column.name],
                DISTINCT: column.name in distinct,
                KEY: keys.get(column.name),
            },
        )
        for column in computing.computed_columns(relation, pairs, in_arrow=in_arrow)
    }


def _check_known(
    route: Route, columns: Sequence[Column], before: Callable[[], Sequence[SourceColumn]]
) -> None:
    names = [column.name for column in columns]
    for flag, rules in (("--exclude-columns", route.exclude_columns), ("--mask", route.masks)):
        for rule in rules or ():
            if not any(meets(name, rule) for name in names):
                what = "no column matches" if is_pattern(rule) else "no column"
                renamed = "".join(
                    f", which is called {name!r} now"
                    for name, then in match_earlier(
                        before(), tuple(map(SourceColumn.of, columns))
                    ).same.items()
                    if then.name == rule
                )
                raise PlanningError(
                    f"{flag}: {what} {rule!r} in {route.source_name}{renamed}; it has "
                    f"{', '.join(names)}"
                )


def selected_definition(
    source: SourceCatalog,
    definition: TableDefinition,
    columns: Sequence[Column],
    selected: Sequence[Column],
) -> TableDefinition:
    """Return the definition of a table that has the selected columns.

    Args:
        source: the catalog of the source.
        definition: the definition of the source's table.
        columns: the source's columns, which the definition has.
        selected: the selected columns.
    """
    computed = any(EXPRESSION in column.traits for column in selected)
    if not computed and len(selected) == len(columns):
        return definition
    if isinstance(source, DefinesComputed):
        return source.with_columns(definition, tuple(selected))
    return with_columns(definition, selected)
