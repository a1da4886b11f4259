"""Planning as a function: from facts and answers to a plan, or to more questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.optional.children import ChildRequest, PlannedChildren
from penstock.backends.api.optional.texts import GIVEN
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.planning.answers import (
    Answers,
    AnswersNeeded,
    KnownAnswers,
    Questions,
    evaluate_together,
    part,
)
from penstock.planning.column_pairs import chosen_columns
from penstock.planning.conditions import check_conditions
from penstock.planning.drift import (
    drift_texts,
)
from penstock.planning.drift_parts import DriftParts, selected_columns
from penstock.planning.facts import Facts, fact
from penstock.planning.load_parts import LoadParts
from penstock.planning.masked_keys import check_bounds, without_masked_key
from penstock.planning.night_parts import NightParts
from penstock.planning.partitions import PlannedPartitions, deletes_by_condition, plan_partitions
from penstock.planning.questions import ChildTables
from penstock.planning.remarks import (
    computed_columns,
    created_columns,
    creation_remark,
    omitted_column_remarks,
)
from penstock.planning.request import PlanRequest
from penstock.spec.modes import Entry


def step(request: PlanRequest, facts: Facts, answers: Answers) -> PartitionPlan | Questions:
    """Plan a copy as far as the answers allow.

    It does no I/O and keeps no state: the same arguments give the same result.

    Args:
        request: the request.
        facts: the facts about both ends.
        answers: the answers so far; an empty mapping for the first call.

    Returns:
        the plan, or all questions that must be answered before planning can continue; the
        third call, at the latest, returns a plan.

    Raises:
        PenstockError: no plan is possible, or an answer that matters is an error of the catalogs.
        Outdated: the facts no longer hold.
    """
    try:
        return _Planning(request, facts, KnownAnswers(answers)).plan()
    except AnswersNeeded as wanted:
        return Questions(wanted.questions)


def source_step(request: PlanRequest, facts: Facts, answers: Answers) -> PartitionPlan | Questions:
    """Plan the same without a target: how the source would be partitioned.

    Args:
        request: the request.
        facts: the facts about both ends.
        answers: the answers so far; an empty mapping for the first call.
    """
    try:
        return _source_plan(request, facts, KnownAnswers(answers))
    except AnswersNeeded as wanted:
        return Questions(wanted.questions)


class _Planning:
    """The partitions of a plan, and the plan itself."""

    def __init__(self, request: PlanRequest, facts: Facts, answers: KnownAnswers) -> None:
        self._request = request
        self._route = request.route
        self._loading = request.loading
        self._mode = request.loading.load_mode
        self._facts = facts
        self._answers = answers
        self._sides = DriftParts(request, facts, answers)
        self._loads = LoadParts(self._sides)
        self._night = NightParts(self._sides, self._loads)

    def plan(self) -> PartitionPlan:
        # Errors of earlier parts are reported first.
        parts: tuple[tuple[object, str], ...] = (
            (self._sides, "mapping"),
            (self._loads, "side_checks"),
            (self._loads, "planned_load"),
            (self._loads, "load_with_pending_steps"),
            (self._loads, "deletion_check"),
            (self._loads, "key_check"),
            (self._night, "continuation"),
            (self._night, "load"),
            (self, "_partitions"),
            (self, "_conditions"),
            (self, "_children"),
        )
        evaluate_together(*(partial(getattr, *each) for each in parts))
        return self._assemble()

    @part
    def _partitions(self) -> PlannedPartitions:
        names = {column.name for column in self._sides.columns}
        request, statistics = self._night.partitioned
        statistics = without_masked_key(self._route, statistics)
        planned = plan_partitions(
            request, statistics, names, self._answers, self._night.night_statistics
        )
        check_bounds(self._route, names, planned.partitions)
        return replace(planned, partitions=(), skew="") if self._loading.schema_only else planned

    @part
    def _conditions(self) -> None:
        if deletes_by_condition(self._mode, self._request.capabilities.target):
            check_conditions(
                self._route,
                self._partitions.choice,
                self._partitions.partitions,
                self._sides.mapping,
                self._sides.table,
                self._answers,
            )

    @part
    def _children(self) -> PlannedChildren:
        planned = self._partitions
        if self._mode.entry is not Entry.ATTACH:
            return PlannedChildren(planned.partitions)
        assert planned.choice.key is not None
        load, _ = self._night.load
        request = ChildRequest(
            table=load.table,
            key=planned.choice.key,
            pairs=self._sides.mapping.pairs,
            partitions=planned.partitions,
            selective=self._route.where is not None,
            windows=planned.partitioning.windows,
        )
        return self._answers[ChildTables(request)]

    def _assemble(self) -> PartitionPlan:
        mapping, statistics = self._sides.mapping, self._sides.statistics
        load, (night, selection, night_reasons) = self._night.load
        _, pending = self._loads.load_with_pending_steps
        drift_reasons, drift_warnings = drift_texts(
            self._loading, self._sides.drift, self._sides.changes
        )
        choice, children = self._partitions.choice, self._children
        partitioning = self._partitions.partitioning
        partitions, requested = children.partitions, self._request.partitions
        return PartitionPlan(
            strategy=choice.strategy,
            reasons=(
                *choice.reasons,
                *statistics.notes,
                *partitioning.reasons,
                *mapping.reasons,
                *computed_columns(self._route, self._sides.columns, mapping),
                *children.reasons,
                *created_columns(self._sides.table.new_columns, self._request.capabilities.formats),
                *pending,
                *drift_reasons,
                *night_reasons,
            ),
            warnings=(
                *partitioning.warnings,
                # A night's rows may be spread otherwise than those of the table.
                *((self._partitions.skew,) if self._partitions.skew and not selection else ()),
                *drift_warnings,
                *mapping.warnings,
                *load.warnings,
                *creation_remark(self._route, self._mode, self._sides.table, load),
                *children.warnings,
                *omitted_column_remarks(
                    self._route, self._sides.columns, fact(self._facts.heirs_columns)
                ),
            ),
            partitions=_unknown_sizes(partitions) if selection else partitions,
            columns=mapping.columns,
            pairs=mapping.pairs,
            format=mapping.format,
            load=load,
            rows=None if requested or selection else _selected_rows(statistics),
            bytes=None if requested or selection else round(statistics.bytes * statistics.selected),
            series=self._request.series,
            night=night,
            selection=selection,
            most_bytes=statistics.bytes if selection and not requested else None,
            given_types=next(
                (given for each in mapping.columns if (given := each.traits.get(GIVEN))), ""
            ),
        )


def _source_plan(request: PlanRequest, facts: Facts, answers: KnownAnswers) -> PartitionPlan:
    raw = fact(facts.columns)
    columns = tuple(chosen_columns(request.route, selected_columns(facts)))
    statistics = fact(facts.statistics)
    names = {column.name for column in raw}
    statistics = without_masked_key(request.route, statistics)
    planned = plan_partitions(replace(request, partitions=()), statistics, names, answers)
    check_bounds(request.route, names, planned.partitions)
    return PartitionPlan(
        strategy=planned.choice.strategy,
        reasons=(*planned.choice.reasons, *statistics.notes, *planned.partitioning.reasons),
        warnings=(*planned.partitioning.warnings, *((planned.skew,) if planned.skew else ())),
        partitions=planned.partitions,
        columns=columns,
        pairs=(),
        format="",
        load=LoadPlan(request.route.target_ref),
        rows=_selected_rows(statistics),
        bytes=round(statistics.bytes * statistics.selected),
    )


def _selected_rows(statistics: TableStatistics) -> int | None:
    return None if statistics.rows is None else round(statistics.rows * statistics.selected)


def _unknown_sizes(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Remove the sizes: a night learns how many rows have changed only by reading them."""
    return tuple(replace(partition, rows=None, bytes=None) for partition in partitions)
