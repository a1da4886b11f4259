"""Whether the target can tell which of its rows the source no longer has."""

from __future__ import annotations

from penstock.backends.api.worker import are_shared
from penstock.errors import PlanningError
from penstock.model.extents import Whole
from penstock.model.plans import LoadPlan
from penstock.planning.answers import KnownAnswers
from penstock.planning.column_pairs import ColumnMapping
from penstock.planning.facts import Facts, TargetTable
from penstock.planning.questions import TargetCondition
from penstock.spec.groups.route import Route
from penstock.spec.masks import mentions


def check_deletes(
    route: Route,
    deletes: str,
    facts: Facts,
    mapping: ColumnMapping,
    table: TargetTable,
    load: LoadPlan,
    answers: KnownAnswers,
) -> None:
    """Check that the target can find rows that are gone.

    Args:
        route: the route of the copy.
        deletes: see `CopySpec`.
        facts: the facts about both ends.
        mapping: the mapping of the columns.
        table: the target's table.
        load: the load plan, with the key.
        answers: the answers so far.

    Raises:
        PlanningError: keys cannot be compared, or the target cannot select the run's rows.
    """
    flag = f"--deletes {deletes}"
    if not facts.finds_deleted:
        raise PlanningError(f"{flag}: this target cannot find rows that the source no longer has")
    pairs = {pair.target: pair for pair in mapping.pairs}
    for name in load.conflict_columns:
        pair = pairs[name]
        if pair.expression:
            raise PlanningError(
                f"{flag}: keys are compared with the source's, but key column {name} is computed "
                "by --set or --mask; expected a key that is copied unchanged"
            )
        if pair.source in mapping.changed or name in mapping.changed:
            raise PlanningError(
                f"{flag}: keys are compared with the source's, but values of key column {name} may "
                "change on the way; expected a key that is copied unchanged"
            )
        if are_shared((mapping.format,)) and not pair.canonical:
            raise PlanningError(
                f"{flag}: the two systems write values of key column {name} differently, so keys "
                "cannot be compared; expected a key of whole numbers, texts, dates or UUIDs"
            )
    computed = [pair.source for pair in mapping.pairs if pair.expression]
    if route.where is not None and mentions(route.where, computed):
        raise PlanningError(
            f"{flag}: --where {route.where} also selects the target's rows, but uses a column that "
            "--set or --mask computes; expected only columns that are copied unchanged"
        )
    if route.where is not None and table.is_there:
        answers[TargetCondition(route.target_ref, route.where, Whole())]
