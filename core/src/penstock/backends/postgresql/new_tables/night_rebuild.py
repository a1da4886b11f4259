"""A night that loads all rows into a new table, which then replaces the target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.drift import check_no_rename, plan_with_changes
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.new_tables.missing_table import plan_under_temporary_name
from penstock.backends.postgresql.new_tables.night_plan import keys_table_step
from penstock.backends.postgresql.new_tables.swap import plan_swap
from penstock.backends.postgresql.session.statements import literal, name
from penstock.backends.sql.loads.night_plan import finding_step
from penstock.errors import PlanningError
from penstock.model.plans import SWAP_STEP, LoadPlan
from penstock.model.tables import TableRef
from penstock.spec.modes import SWAP
from penstock.spec.source_changes import HARD, IGNORE, Deletes

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import ColumnPart


def plan_night_rebuild(
    facts: TargetFacts, request: LoadRequest, merge_plan: LoadPlan, *, replaces: bool
) -> LoadPlan:
    """Plan a night that loads a new table; see `BuildsNights.plan_night_rebuild`.

    Args:
        facts: the facts about the target.
        request: the request.
        merge_plan: the plan of the same night as a merge.
        replaces: whether the target has rows, all of which the new table replaces.
    """
    key = merge_plan.conflict_columns
    if request.merges_together:
        raise PlanningError(
            "--atomic batch merges the tables of a batch in one transaction, but each swap has a "
            "transaction of its own; use --atomic table"
        )
    if request.definition is not None:
        plan = plan_under_temporary_name(facts, request, request.definition.native)
        return replace(plan, conflict_columns=key)
    ref = request.target
    check_no_rename(ref, request.changes)
    if replaces:
        _check_replaced(facts, request)
    swapping = replace(request, mode=SWAP, conflict_columns=None, deletes=Deletes(IGNORE))
    plan = plan_swap(facts, swapping)
    if request.changes:
        plan = plan_with_changes(plan, ref, request.changes)
    _check_rows(facts, request)
    if replaces:
        steps = (*plan.steps, keys_table_step(ref, plan.table, key), finding_step(ref))
    else:
        steps = tuple(
            replace(step, statement=f"{_check_empty(ref)};\n{step.statement}")
            if step.id == SWAP_STEP
            else step
            for step in plan.steps
        )
    return replace(plan, steps=steps, conflict_columns=key)


def _check_empty(ref: TableRef) -> str:
    """Return a query that fails if rows were written to the locked table since planning."""
    message = (
        f"target: expected {ref} to be empty, as when the run was planned, found rows, which would "
        "be lost; start a new run"
    )
    body = (
        f"BEGIN IF EXISTS (SELECT FROM {name(ref)}) THEN"
        f" RAISE EXCEPTION USING MESSAGE = {literal(message)}; END IF; END"
    )
    return f"DO {literal(body)}"


def _check_replaced(facts: TargetFacts, request: LoadRequest) -> None:
    """Check that the replacement loses nothing.

    Raises:
        PlanningError: the old table has rows or values that the new one lacks.
    """
    ref, why = request.target, ""
    with planning("target", f"table {ref}"):
        columns = facts.definition(ref)["columns"]
    copied = {pair.target for pair in request.pairs}
    uncopied = [
        each["name"] for each in columns if each["name"] not in copied and not _is_computed(each)
    ]
    if request.deletes.how != HARD:
        why = f"--deletes {request.deletes.how} keeps rows that the source no longer has"
    elif request.where is not None:
        why = "it has rows outside --where"
    elif uncopied:
        why = f"its values of {', '.join(uncopied)} are not copied"
    if why:
        raise PlanningError(f"{ref} cannot be replaced by a new table, because {why}")


def _is_computed(column: ColumnPart) -> bool:
    """Whether the table computes a column itself."""
    return bool(column["generated"])


def _check_rows(facts: TargetFacts, request: LoadRequest) -> None:
    """Check that replacing the table has the same effect as changing its rows.

    Raises:
        PlanningError: row triggers would not run, or the user may not see all rows.
    """
    with planning("target", f"table {request.target}"):
        table = facts.definition(request.target)
    if table["force_row_security"]:
        raise PlanningError(
            f"{request.target} may have rows that row security hides from its owner"
        )
    triggers = [each["name"] for each in table["attached"]["triggers"]]
    if triggers:
        raise PlanningError(
            f"{request.target} has triggers ({', '.join(triggers)}), which a new table gets only "
            "after its rows"
        )
