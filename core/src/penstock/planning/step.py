"""Planning as a function: from facts and answers to a plan, or to more questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.api.facts import LoadRequest, Siblings, TableStatistics
from penstock.backends.api.optional.children import ChildRequest, PlannedChildren
from penstock.backends.api.worker import compared_pairs
from penstock.errors import PlanningError
from penstock.model.drift import GONE, ColumnChange, original_names
from penstock.model.nights import Night
from penstock.model.plans import MERGE_STEP, LoadPlan, Partition, PartitionPlan
from penstock.model.tables import Column, SequencePosition
from penstock.planning.column_pairs import ColumnMapping, chosen_columns, map_columns
from penstock.planning.conditions import check_conditions
from penstock.planning.cursors import explained_cursor
from penstock.planning.deleted_rows import check_deletes
from penstock.planning.drift import (
    Drift,
    drift_texts,
    drifted,
    followed,
    narrowed,
    omitted_changes,
    planned_changes,
    reading_all,
)
from penstock.planning.facts import Facts, TargetTable, fact
from penstock.planning.incremental import Continued, continued
from penstock.planning.known_answers import KnownAnswers
from penstock.planning.masked_keys import check_bounds, check_key, without_masked_key
from penstock.planning.night_rebuild import built, within_limit
from penstock.planning.nights import explained, setting_watermark
from penstock.planning.partitions import PlannedPartitions, deletes_by_condition, plan_partitions
from penstock.planning.pending_steps import with_pending_steps
from penstock.planning.questions import Answers, AnswersNeeded, Outdated, Questions, part, together
from penstock.planning.remarks import (
    computed_columns,
    created_columns,
    creation_remark,
    omitted_column_remarks,
)
from penstock.planning.request import PlanRequest
from penstock.planning.seen_files import new_files
from penstock.spec.parts import Route
from penstock.spec.strategies import FILES


def step(request: PlanRequest, facts: Facts, answers: Answers) -> PartitionPlan | Questions:
    """Plan a copy as far as the answers allow. It does no I/O and keeps no state: the same
    arguments give the same result.

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
    """Plan the same without a target: how the source would be cut.

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
    """The parts of a plan. Each is computed from others, and from known answers; one that lacks an
    answer raises `AnswersNeeded`."""

    def __init__(self, request: PlanRequest, facts: Facts, known: KnownAnswers) -> None:
        self._request = request
        self._route = request.route
        self._loading = request.loading
        self._mode = request.loading.load_mode
        self._facts = facts
        self._known = known

    def plan(self) -> PartitionPlan:
        # Errors of earlier parts are reported first.
        names = (
            "_mapping",
            "_both_sides",
            "_planned_load",
            "_loaded",
            "_gone",
            "_key_kept",
            "_continued",
            "_load",
            "_partitions",
            "_conditions",
            "_children",
        )
        together(*(partial(getattr, self, name) for name in names))
        return self._assembled()

    @part
    def _columns(self) -> Sequence[Column]:
        return fact(self._facts.columns)

    @part
    def _selected(self) -> Sequence[Column]:
        return _selected(self._facts)

    @part
    def _table(self) -> TargetTable:
        """The target's table, once its columns have followed the source's."""
        table = fact(self._facts.table)
        assert table is not None
        drift = self._drift
        return replace(table, columns=drift.columns) if drift and self._changes else table

    @part
    def _drift(self) -> Drift | None:
        fact(self._facts.table)
        return fact(self._facts.drift)

    @part
    def _changes(self) -> tuple[ColumnChange, ...]:
        """The changes to the target's columns."""
        return planned_changes(self._loading, self._drift)

    def _now(self, names: Iterable[str]) -> list[str]:
        """Return the names of target columns before any change; new columns are left out."""
        before = original_names(self._changes)
        return [now for name in names if (now := before(name)) is not None]

    @part
    def _statistics(self) -> TableStatistics:
        return fact(self._facts.statistics)

    @part
    def _mapping(self) -> ColumnMapping:
        drift = self._drift
        if drift is None:
            return self._mapped(self._route, self._table.columns)
        if self._loading.drift.ignores:
            narrow = narrowed(self._route, self._selected, self._table.columns)
            return self._mapped(narrow, self._table.columns)
        if left := omitted_changes(self._loading, drift):
            raise self._drifted(drift, left)
        every = replace(self._route, columns=self._route.columns or self._written(drift))
        return self._mapped(every, drift.columns)

    def _written(self, drift: Drift) -> tuple[str, ...]:
        """Return the source's columns, except those that both sides compute."""
        computed = {each.name for each in drift.columns if each.generated}
        return tuple(
            each.name for each in self._selected if not (each.generated and each.name in computed)
        )

    def _drifted(self, drift: Drift, left: Sequence[ColumnChange]) -> PlanningError:
        """Return the error for columns that may not follow the source's.

        If columns would not fit even after all changes, return the error of that instead.
        """
        table = fact(self._facts.table)
        assert table is not None

        def tried(columns: Sequence[Column]) -> PlanningError | None:
            try:
                self._mapped(self._route, columns)
            except PlanningError as error:
                return error
            return None

        kept = [each.column for each in drift.changes if each.kind == GONE]
        would_be = [each for each in drift.columns if each.name not in kept]
        now, then = together(partial(tried, table.columns), partial(tried, would_be))
        if then is not None:
            return now or then
        return drifted(self._route, self._loading, drift, left, now.message if now else "")

    def _mapped(self, route: Route, theirs: Sequence[Column]) -> ColumnMapping:
        relation = self._route.relation
        return map_columns(
            route,
            self._selected,
            theirs,
            fit=lambda mine, theirs: self._known.fits(relation, mine, theirs),
            formats=self._request.capabilities.formats,
        )

    @part
    def _both_sides(self) -> None:
        """Check both sides against each other.

        Raises:
            PlanningError: the target cannot be written, is the source, or cannot be compared.
        """
        together(self._check_writable, self._check_apart, self._check_compared)

    def _check_writable(self) -> None:
        if self._table.is_there:
            written = self._now(pair.target for pair in self._mapping.pairs)
            self._known.check_writable(self._route.target_ref, self._mode, written)

    def _check_apart(self) -> None:
        if fact(self._facts.is_same):
            raise PlanningError(
                f"source and target are the same table ({self._route.source_name}), or are in the "
                "same file, which cannot be written while it is read; choose another target"
            )

    def _check_compared(self) -> None:
        if self._loading.verify == "checksums":
            pairs = compared_pairs(self._mapping.pairs, self._mapping.format)
            there = self._table.is_there and not self._changes
            table = self._route.target_ref if there else None
            self._known.check_compared(self._route.relation, table, pairs)

    # The load

    @part
    def _load_request(self) -> LoadRequest:
        route, loading, request = self._route, self._loading, self._request
        return LoadRequest(
            run_id=request.run_id,
            source=route.relation,
            target=route.target_ref,
            mode=self._mode,
            pairs=self._mapping.pairs,
            conflict_columns=loading.conflict_columns,
            indexes=loading.indexes,
            unlogged=loading.unlogged,
            definition=self._table.definition,
            new_columns=self._table.new_columns,
            where=route.where,
            given=bool(request.partitions),
            extents=tuple((partition.id, partition.extent) for partition in request.partitions),
            writing=loading.writing,
            heirs=fact(self._facts.heirs),
            siblings=request.siblings or Siblings(),
            deletes=loading.gone,
            merges_together=loading.atomic == "batch" and request.siblings is not None,
            counted=self._counted,
            changes=self._changes,
            followed=tuple(self._table.columns) if self._changes else (),
        )

    @part
    def _counted(self) -> Mapping[str, SequencePosition] | None:
        """The sequence positions of columns whose values are copied unchanged."""
        found = fact(self._facts.positions)
        computed = {pair.source for pair in self._mapping.pairs if pair.expression}
        if found is None or not computed:
            return found
        return {name: position for name, position in found.items() if name not in computed}

    @part
    def _planned_load(self) -> LoadPlan:
        """The load, as the target plans it.

        Raises:
            Outdated: another run created the table while this plan was going to.
        """
        route, request = self._route, self._load_request
        is_made = not (self._table.is_there or self._mode.loads_new_table)
        load, is_missing = together(
            lambda: self._known.plan_load(request),
            lambda: not is_made or self._known.is_still_missing(route.target_ref, self._mode),
        )
        if not is_missing:
            raise Outdated
        return load

    @part
    def _loaded(self) -> tuple[LoadPlan, tuple[str, ...]]:
        """The load with the steps that stopped runs left undone, and remarks on them."""
        return with_pending_steps(
            self._loading, self._planned_load, fact(self._facts.pending_steps)
        )

    @part
    def _gone(self) -> None:
        if self._loading.gone.found:
            load, _ = self._loaded
            check_deletes(
                self._route,
                self._loading.deletes,
                self._facts,
                self._mapping,
                self._table,
                load,
                self._known,
            )

    # Nights

    @part
    def _key_kept(self) -> None:
        load, _ = self._loaded
        check_key(self._route, self._mapping, load)

    @part
    def _continued(self) -> Continued:
        found = fact(self._facts.night)
        if found is None:
            return None, "", ()
        night, selection, reasons = continued(
            self._route, self._loading, self._mapping.pairs, found, self._request.moment
        )
        if night is None:
            return night, selection, reasons
        ignored = self._loading.drift.ignores
        columns = followed(self._columns, self._selected, found.last, ignored=ignored)
        night = replace(night, columns=columns)
        if self._changes and self._mode.merges_at_end:
            night = reading_all(night, self._changes)
            selection, reasons = "", self._explained(night)
        return night, selection, reasons

    def _explained(self, night: Night) -> tuple[str, ...]:
        """Return remarks on a night that reads all rows."""
        if night.cursor is not None:
            return explained_cursor(night, self._loading, merges=True)
        return explained(night, ())

    @part
    def _within_limit(self) -> tuple[Continued, bool]:
        """The night, with its rows counted, and whether they may be merged."""
        night, selection, reasons = self._continued
        if night is None or not self._mode.merges_at_end:
            return self._continued, True
        found, may_merge = within_limit(
            self._route,
            self._loading.nightly,
            night,
            selection,
            self._statistics,
            self._known,
        )
        if found is not night:
            selection, reasons = "", self._explained(found)
        return (found, selection, reasons), may_merge

    @part
    def _load(self) -> tuple[LoadPlan, Continued]:
        """The load with any step that moves the watermark, and what the load continues."""
        (night, selection, reasons), may_merge = self._within_limit
        load, _ = self._loaded
        if night is None:
            return load, (night, selection, reasons)
        if self._mode.merges_at_end and night.full:
            load, said = built(
                self._route,
                self._loading.nightly,
                self._load_request,
                load,
                self._table.columns,
                self._statistics,
                self._known,
                may_merge=may_merge,
                can_build=self._facts.builds_nights,
            )
            reasons = (*reasons, *said)
        if load.night_step != MERGE_STEP:
            with_swap = self._request.capabilities.target.steps_with_records
            load = setting_watermark(load, night.name, with_swap=with_swap)
        return load, (night, selection, reasons)

    # Partitions

    @property
    def _cut(self) -> tuple[PlanRequest, TableStatistics]:
        """The request and statistics for cutting; a night by files cuts the files that it reads."""
        request, statistics = self._request, self._statistics
        found = fact(self._facts.night)
        if found is None or found.files is None:
            return request, statistics
        (night, selection, _), _ = self._within_limit
        if night is None or not selection:
            return request, statistics
        by_files = replace(request.cutting, strategy=FILES.name, cut_strategy=FILES)
        files = new_files(found.files, found.seen)
        size = sum(file.size for file in files)
        return replace(request, cutting=by_files), replace(statistics, files=files, bytes=size)

    @property
    def _few(self) -> TableStatistics | None:
        """Statistics of the rows that a night reads by an index."""
        found = fact(self._facts.night)
        if found is None or found.selected is None:
            return None
        (night, _, _), _ = self._within_limit
        return None if night is None or night.full else found.selected

    @part
    def _partitions(self) -> PlannedPartitions:
        names = {column.name for column in self._columns}
        request, statistics = self._cut
        statistics = without_masked_key(self._route, statistics)
        found = plan_partitions(request, statistics, names, self._known, self._few)
        check_bounds(self._route, names, found.partitions)
        return replace(found, partitions=()) if self._loading.schema_only else found

    @part
    def _conditions(self) -> None:
        if deletes_by_condition(self._mode, self._request.capabilities.target):
            check_conditions(
                self._route,
                self._partitions.choice,
                self._partitions.partitions,
                self._mapping,
                self._table,
                self._known,
            )

    @part
    def _children(self) -> PlannedChildren:
        found = self._partitions
        if not self._mode.attaches:
            return PlannedChildren(found.partitions)
        assert found.choice.key is not None
        load, _ = self._load
        return self._known.plan_children(
            ChildRequest(
                table=load.table,
                key=found.choice.key,
                pairs=self._mapping.pairs,
                partitions=found.partitions,
                selective=self._route.where is not None,
                windows=found.cut.windows,
            )
        )

    # The plan

    def _assembled(self) -> PartitionPlan:
        mapping, statistics = self._mapping, self._statistics
        load, (night, selection, night_reasons) = self._load
        _, left = self._loaded
        drift_reasons, drift_warnings = drift_texts(self._loading, self._drift, self._changes)
        choice, cut, children = self._partitions.choice, self._partitions.cut, self._children
        partitions, given = children.partitions, self._request.partitions
        return PartitionPlan(
            strategy=choice.strategy,
            reasons=(
                *choice.reasons,
                *statistics.notes,
                *cut.reasons,
                *mapping.reasons,
                *computed_columns(self._route, self._columns, mapping),
                *children.reasons,
                *created_columns(self._table.new_columns, self._request.capabilities.formats),
                *left,
                *drift_reasons,
                *night_reasons,
            ),
            warnings=(
                *cut.warnings,
                *drift_warnings,
                *mapping.warnings,
                *load.warnings,
                *creation_remark(self._route, self._mode, self._table, load),
                *children.warnings,
                *omitted_column_remarks(
                    self._route, self._columns, fact(self._facts.heirs_columns)
                ),
            ),
            partitions=_unknown_sizes(partitions) if selection else partitions,
            columns=mapping.columns,
            pairs=mapping.pairs,
            format=mapping.format,
            load=load,
            rows=None if given or selection else _selected_rows(statistics),
            bytes=None if given or selection else round(statistics.bytes * statistics.selected),
            series=self._request.series,
            night=night,
            selection=selection,
        )


def _source_plan(request: PlanRequest, facts: Facts, known: KnownAnswers) -> PartitionPlan:
    raw = fact(facts.columns)
    columns = tuple(chosen_columns(request.route, _selected(facts)))
    statistics = fact(facts.statistics)
    names = {column.name for column in raw}
    statistics = without_masked_key(request.route, statistics)
    found = plan_partitions(replace(request, partitions=()), statistics, names, known)
    check_bounds(request.route, names, found.partitions)
    return PartitionPlan(
        strategy=found.choice.strategy,
        reasons=(*found.choice.reasons, *statistics.notes, *found.cut.reasons),
        warnings=found.cut.warnings,
        partitions=found.partitions,
        columns=columns,
        pairs=(),
        format="",
        load=LoadPlan(request.route.target_ref),
        rows=_selected_rows(statistics),
        bytes=round(statistics.bytes * statistics.selected),
    )


def _selected(facts: Facts) -> Sequence[Column]:
    return fact(facts.columns if facts.selected is None else facts.selected)


def _selected_rows(statistics: TableStatistics) -> int | None:
    return None if statistics.rows is None else round(statistics.rows * statistics.selected)


def _unknown_sizes(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Remove sizes, for a night: how many rows have changed shows only when they are read."""
    return tuple(replace(partition, rows=None, bytes=None) for partition in partitions)
