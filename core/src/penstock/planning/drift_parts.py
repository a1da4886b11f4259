"""The columns of a plan: those of both sides, mapped, with the changes that follow drift."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.api.facts import TableStatistics
from penstock.errors import PlanningError
from penstock.model.drift import GONE, ColumnChange, original_names
from penstock.model.tables import Column
from penstock.planning.answers import KnownAnswers, evaluate_together, part
from penstock.planning.column_pairs import ColumnMapping, chosen_columns, map_columns
from penstock.planning.drift import (
    Drift,
    drift_error,
    narrow_route,
    omitted_changes,
    planned_changes,
)
from penstock.planning.facts import Facts, TargetTable, fact
from penstock.planning.hidden_columns import check_hidden
from penstock.planning.questions import Fits
from penstock.planning.request import PlanRequest
from penstock.spec.groups.route import Route
from penstock.spec.option import derived


class DriftParts:
    """The columns of both sides, once the target's have followed the source's.

    Each part of a plan is computed from others, and from known answers; one that lacks an answer
    raises `AnswersNeeded`.
    """

    def __init__(self, request: PlanRequest, facts: Facts, answers: KnownAnswers) -> None:
        self.request = request
        self.route = request.route
        self.loading = request.loading
        self.mode = request.loading.load_mode
        self.facts = facts
        self.answers = answers

    @part
    def columns(self) -> Sequence[Column]:
        return fact(self.facts.columns)

    @part
    def selected(self) -> Sequence[Column]:
        return selected_columns(self.facts)

    @part
    def table(self) -> TargetTable:
        """The target's table, once its columns have followed the source's."""
        table = fact(self.facts.table)
        assert table is not None
        drift = self.drift
        return replace(table, columns=drift.columns) if drift and self.changes else table

    @part
    def drift(self) -> Drift | None:
        fact(self.facts.table)
        return fact(self.facts.drift)

    @part
    def changes(self) -> tuple[ColumnChange, ...]:
        """The changes to the target's columns."""
        return planned_changes(self.loading, self.drift)

    def names_before_changes(self, names: Iterable[str]) -> list[str]:
        """Return the names of target columns before any change; new columns are left out."""
        before = original_names(self.changes)
        return [now for name in names if (now := before(name)) is not None]

    @part
    def statistics(self) -> TableStatistics:
        return fact(self.facts.statistics)

    @part
    def mapping(self) -> ColumnMapping:
        drift = self.drift
        if drift is None:
            self._check_hidden(self.route)
            return self._map(self.route, self.table.columns)
        if self.loading.drift.ignores:
            narrow = narrow_route(self.route, self.selected, self.table.columns)
            self._check_hidden(narrow)
            return self._map(narrow, self.table.columns)
        self._check_hidden(self.route)
        if omitted := omitted_changes(self.loading, drift):
            raise self._drift_error(drift, omitted)
        every = derived(self.route, columns=self.route.columns or self._copied_columns(drift))
        return self._map(every, drift.columns)

    def _check_hidden(self, route: Route) -> None:
        """Check that no column is copied that nights have masked or left out by another name."""
        copied = {each.name for each in chosen_columns(route, self.selected)}
        before = fact(self.facts.columns_before)
        check_hidden(self.route, self.columns, copied, before)

    def _copied_columns(self, drift: Drift) -> tuple[str, ...]:
        """Return the source's columns, except those that both sides compute."""
        computed = {each.name for each in drift.columns if each.generated}
        return tuple(
            each.name for each in self.selected if not (each.generated and each.name in computed)
        )

    def _drift_error(self, drift: Drift, omitted: Sequence[ColumnChange]) -> PlanningError:
        """Return the error for columns that may not follow the source's.

        If columns would not fit even after all changes, return the error of that instead.
        """
        table = fact(self.facts.table)
        assert table is not None

        def tried(columns: Sequence[Column]) -> PlanningError | None:
            try:
                self._map(self.route, columns)
            except PlanningError as error:
                return error
            return None

        removed = [each.column for each in drift.changes if each.kind == GONE]
        would_be = [each for each in drift.columns if each.name not in removed]
        now, then = evaluate_together(partial(tried, table.columns), partial(tried, would_be))
        if then is not None:
            return now or then
        return drift_error(self.route, self.loading, drift, omitted, now.message if now else "")

    def _map(self, route: Route, theirs: Sequence[Column]) -> ColumnMapping:
        relation = self.route.relation
        return map_columns(
            route,
            self.selected,
            theirs,
            fit=lambda mine, theirs: self.answers[Fits(relation, tuple(mine), tuple(theirs))],
            formats=self.request.formats,
            whole_rows=self.request.takes_whole_rows(route),
        )


def selected_columns(facts: Facts) -> Sequence[Column]:
    """Return the source's columns with masks and expressions applied."""
    return fact(facts.columns if facts.selected is None else facts.selected)
