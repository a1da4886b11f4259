"""The load of a plan, and the checks of its source against its target."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.backends.api.facts import LoadRequest, Siblings
from penstock.backends.api.worker import are_shared, compared_pairs
from penstock.errors import PlanningError
from penstock.model.extents import Whole
from penstock.model.plans import LoadPlan
from penstock.model.tables import SequencePosition
from penstock.planning.answers import KnownAnswers, Outdated, evaluate_together, part
from penstock.planning.column_pairs import ColumnMapping
from penstock.planning.drift_parts import DriftParts
from penstock.planning.facts import Facts, TargetTable, fact
from penstock.planning.masked_keys import check_key
from penstock.planning.pending_steps import with_pending_steps
from penstock.planning.questions import (
    ComparedColumns,
    PlannedLoad,
    StillMissing,
    TargetCondition,
    WritableTable,
)
from penstock.spec.groups.route import Route
from penstock.spec.masks import mentions
from penstock.spec.modes import Table


class LoadParts:
    """The load, as the target plans it, and the checks of both sides against each other."""

    def __init__(self, sides: DriftParts) -> None:
        self._sides = sides
        self._request = sides.request
        self._route = sides.route
        self._loading = sides.loading
        self._mode = sides.mode
        self._facts = sides.facts
        self._answers = sides.answers

    @part
    def side_checks(self) -> None:
        """Check both sides against each other.

        Raises:
            PlanningError: the target cannot be written, is the source, or cannot be compared.
        """
        evaluate_together(self._check_writable, self._check_apart, self._check_compared)

    def _check_writable(self) -> None:
        if self._sides.table.is_there:
            columns = self._sides.names_before_changes(
                pair.target for pair in self._sides.mapping.pairs
            )
            self._answers[WritableTable(self._route.target_ref, self._mode, tuple(columns))]

    def _check_apart(self) -> None:
        if not fact(self._facts.is_same):
            return
        name = self._route.source_name
        if self._route.table is not None and self._route.table_ref == self._route.target_ref:
            raise PlanningError(
                f"source and target are the same table ({name}); choose another target"
            )
        raise PlanningError(
            f"source and target are in the same file or folder ({name}), which cannot be written "
            "while it is read; choose another target"
        )

    def _check_compared(self) -> None:
        if self._request.verify == "checksums":
            pairs = compared_pairs(self._sides.mapping.pairs, self._sides.mapping.format)
            is_comparable = self._sides.table.is_there and not self._sides.changes
            table = self._route.target_ref if is_comparable else None
            self._answers[ComparedColumns(self._route.relation, table, tuple(pairs))]

    @part
    def load_request(self) -> LoadRequest:
        route, loading, request = self._route, self._loading, self._request
        return LoadRequest(
            run_id=request.run_id,
            source=route.relation,
            target=route.target_ref,
            mode=self._mode,
            pairs=self._sides.mapping.pairs,
            conflict_columns=loading.conflict_columns,
            indexes=loading.indexes,
            unlogged=loading.unlogged,
            definition=self._sides.table.definition,
            new_columns=self._sides.table.new_columns,
            where=route.where,
            has_given_partitions=bool(request.partitions),
            extents=tuple((partition.id, partition.extent) for partition in request.partitions),
            writing=loading.writing,
            heirs=fact(self._facts.heirs),
            siblings=request.siblings or Siblings(),
            deletes=loading.deletion,
            merges_together=loading.atomic == "batch" and request.siblings is not None,
            sequence_positions=self._sequence_positions,
            changes=self._sides.changes,
            columns_after_changes=tuple(self._sides.table.columns) if self._sides.changes else (),
            schema_only=loading.schema_only,
        )

    @part
    def _sequence_positions(self) -> Mapping[str, SequencePosition] | None:
        """The sequence positions of columns whose values are copied unchanged."""
        positions = fact(self._facts.positions)
        computed = {pair.source for pair in self._sides.mapping.pairs if pair.expression}
        if positions is None or not computed:
            return positions
        return {name: position for name, position in positions.items() if name not in computed}

    @part
    def planned_load(self) -> LoadPlan:
        """The load, as the target plans it.

        Raises:
            Outdated: another run created the table while this plan was going to.
        """
        route, request = self._route, self.load_request
        is_made = self._mode.table is Table.TARGET and not self._sides.table.is_there
        load, is_missing = evaluate_together(
            lambda: self._answers[PlannedLoad(request)],
            lambda: not is_made or self._answers[StillMissing(route.target_ref, self._mode)],
        )
        if not is_missing:
            raise Outdated
        return load

    @part
    def load_with_pending_steps(self) -> tuple[LoadPlan, tuple[str, ...]]:
        """The load with the steps that stopped runs left undone, and remarks on them."""
        return with_pending_steps(self._loading, self.planned_load, fact(self._facts.pending_steps))

    @part
    def deletion_check(self) -> None:
        if self._loading.deletion.is_enabled:
            load, _ = self.load_with_pending_steps
            check_deletes(
                self._route,
                self._loading.deletes,
                self._facts,
                self._sides.mapping,
                self._sides.table,
                load,
                self._answers,
            )

    @part
    def key_check(self) -> None:
        load, _ = self.load_with_pending_steps
        check_key(self._route, self._sides.mapping, load)


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
