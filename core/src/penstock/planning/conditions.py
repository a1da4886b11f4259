"""Whether the target may delete by the partitions' conditions: they must mean the same there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.errors import PlanningError
from penstock.model.extents import Crossing
from penstock.model.plans import Partition
from penstock.model.tables import Column, ColumnPair
from penstock.planning.answers import KnownAnswers, evaluate_together
from penstock.planning.choice import Choice
from penstock.planning.column_pairs import ColumnMapping
from penstock.planning.facts import TargetTable
from penstock.planning.questions import TargetCondition
from penstock.spec.groups.route import Route
from penstock.spec.masks import mentions


def check_conditions(
    route: Route,
    choice: Choice,
    partitions: Sequence[Partition],
    mapping: ColumnMapping,
    table: TargetTable,
    answers: KnownAnswers,
) -> None:
    """Check that the partitions' conditions select the same rows in the target.

    Args:
        route: the route of the copy.
        choice: the strategy, with its key.
        partitions: the partitions.
        mapping: the mapping of the columns.
        table: the target's table.
        answers: the answers so far.

    Raises:
        PlanningError: the target may select other rows by a partition's condition.
    """
    _check_same_names(mapping.pairs)
    if choice.key is None:
        raise PlanningError("--mode replace: expected a key strategy and --key; found none")
    if choice.how.hashes:
        _check_hashed_alike(mapping.columns, table.columns)
    _check_not_computed(route, mapping.pairs, [choice.key, *_crossed_keys(partitions)])
    for key in {choice.key, *_crossed_keys(partitions)}:
        _check_key_unchanged(key, mapping)
    kinds = {type(partition.extent): partition.extent for partition in partitions}
    evaluate_together(
        *(
            partial(answers.__getitem__, TargetCondition(route.target_ref, route.where, extent))
            for extent in kinds.values()
        )
    )


def _crossed_keys(partitions: Sequence[Partition]) -> set[str]:
    crossings = (each.extent for each in partitions if isinstance(each.extent, Crossing))
    return {key.text for crossing in crossings for key in crossing.keys}


def _check_same_names(pairs: Sequence[ColumnPair]) -> None:
    """Check that names are equal on both sides, since both evaluate the partitions' condition."""
    differing = [
        f"{pair.source} into {pair.target}" for pair in pairs if pair.source != pair.target
    ]
    if differing:
        raise PlanningError(
            "--mode replace deletes from the target by the condition that selects from the source: "
            f"expected the same column names on both sides; found {', '.join(differing)}"
        )


def _check_not_computed(route: Route, pairs: Sequence[ColumnPair], keys: Sequence[str]) -> None:
    """Check that no key is computed: the target lacks the values of the source's condition."""
    computed = [pair.source for pair in pairs if pair.expression]
    for flag, text in (("--where", route.where or ""), *(("--key", key) for key in keys)):
        changed_columns = [name for name in computed if mentions(text, [name])]
        if changed_columns:
            raise PlanningError(
                f"--mode replace deletes by {flag} {text}, which uses column {changed_columns[0]}: "
                "expected only columns that are copied unchanged; found one with --set or --mask"
            )


def _check_key_unchanged(key: str, mapping: ColumnMapping) -> None:
    """Check that the key is not rounded.

    A rounded key could be in the range of another partition, which would delete its row.
    """
    names = {column.name for column in mapping.columns}
    changed = [name for name in mapping.changed if name == key or key not in names]
    if changed:
        raise PlanningError(
            f"--mode replace deletes by --key {key}, so its values must arrive unchanged, but they "
            f"may change on the way: {'; '.join(mapping.warnings)}"
        )


def _check_hashed_alike(mine: Sequence[Column], theirs: Sequence[Column]) -> None:
    """Check that both sides hash alike: values are hashed by their text, and 1.0 is not 1.00."""
    types = {column.name: column.type for column in theirs}
    differing = [
        f"{column.name} ({column.type}, {types[column.name]})"
        for column in mine
        if types[column.name] != column.type
    ]
    if differing:
        raise PlanningError(
            "--mode replace with --strategy hash: expected identical column types on both "
            f"sides, so that both hash alike; found {', '.join(differing)}; use --strategy range"
        )
