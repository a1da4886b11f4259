"""Both catalogs, with an answer to each question of planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any, cast

from penstock.backends.api.facts import Fit, HashStatistics, RankedBound
from penstock.backends.api.optional.children import AttachesChildren, PlannedChildren
from penstock.backends.api.optional.nights import BuildsNights
from penstock.backends.api.source import SourceCatalog, WithFinerStatistics, WithHashStatistics
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PlanningError
from penstock.model.extents import Whole
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column
from penstock.planning.answers import Question
from penstock.planning.asking.orders import disorder, shared_order
from penstock.planning.column_pairs import ColumnMapping, map_columns
from penstock.planning.partition_extents import MOST_PARTITIONS, by_range, by_values, by_windows
from penstock.planning.questions import (
    Bounds,
    ChildTables,
    ComparedColumns,
    Fits,
    HeldRows,
    KeyBounds,
    KeyFacts,
    KeyHashes,
    KeyType,
    KeyWindows,
    ListedValues,
    MergedRows,
    NightRebuild,
    Order,
    PlannedLoad,
    RankedValues,
    RowCounts,
    StillMissing,
    TargetCondition,
    TimeWindows,
    Values,
    WritableTable,
)
from penstock.spec.groups.route import Route


class Catalogs:
    """Both catalogs, which answer questions.

    If one answer decides what is asked next, and no plan depends on the steps in between, they are
    one question here.

    Args:
        target: None if its table is missing; no question then goes to it.
    """

    def __init__(self, source: SourceCatalog, target: TargetCatalog | None) -> None:
        self._source = source
        self._to = target

    @singledispatchmethod
    def answer(self, asked: Question[Any]) -> object:
        """Return the answer to a question.

        Raises:
            PenstockError: as the catalogs raise it.
        """
        raise AssertionError(f"no method answers {asked}")

    @property
    def _target(self) -> TargetCatalog:
        assert self._to is not None, "a missing target gets no questions"
        return self._to

    # Columns

    @answer.register
    def _fits(self, asked: Fits) -> list[Fit]:
        return self.fits(asked)

    def fits(self, asked: Fits) -> list[Fit]:
        """Return how each source column fits the target column at its position."""
        fits = self._target.fit(asked.mine, asked.theirs)
        casts = [
            (column.name, fit.cast)
            for column, fit in zip(asked.mine, fits, strict=True)
            if fit.cast and not fit.reason
        ]
        if not casts:
            return fits
        castable = self._source.castable(asked.relation, casts)
        allowed = dict(zip(casts, castable, strict=True))
        why = "the types differ, and the source has no assignment cast between them"
        return [
            fit if allowed.get((column.name, fit.cast), True) else replace(fit, reason=why)
            for column, fit in zip(asked.mine, fits, strict=True)
        ]

    @answer.register
    def _compared(self, asked: ComparedColumns) -> None:
        # Over no rows: checksums that cannot be computed are reported before anything is copied.
        self._source.checksum(asked.relation, "1 = 0", Whole(), asked.pairs)
        if asked.table is not None:
            self._target.checksum(asked.table, "1 = 0", Whole(), asked.pairs)

    # The load

    @answer.register
    def _writable(self, asked: WritableTable) -> None:
        self._target.check_writable(asked.table, asked.mode, asked.columns)

    @answer.register
    def _load(self, asked: PlannedLoad) -> LoadPlan:
        return self._target.plan_load(asked.request)

    @answer.register
    def _still_missing(self, asked: StillMissing) -> bool:
        return self._target.creates_table(asked.table, asked.mode)

    @answer.register
    def _condition(self, asked: TargetCondition) -> None:
        self._target.check_condition(asked.table, asked.where, asked.extent)

    @answer.register
    def _children(self, asked: ChildTables) -> PlannedChildren:
        return cast("AttachesChildren", self._target).plan_children(asked.request)

    # Nights

    @answer.register
    def _merged_rows(self, asked: MergedRows) -> RowCounts:
        def count(where: str | None) -> int:
            return self._source.checksum(asked.relation, where, Whole(), ()).rows

        where, selection = asked.where, asked.selection
        rows = count(where) if asked.rows is None else asked.rows
        if not selection or not asked.limit.is_below(rows, asked.size):
            return RowCounts(rows)
        return RowCounts(rows, count(f"({where}\n) AND {selection}" if where else selection))

    @answer.register
    def _held_rows(self, asked: HeldRows) -> bool:
        return self._builder.holds_rows(asked.table)

    @answer.register
    def _night_rebuild(self, asked: NightRebuild) -> LoadPlan | None:
        replaces = self._builder.holds_rows(asked.request.target)
        if asked.if_empty and replaces:
            return None
        return self._builder.plan_night_rebuild(asked.request, asked.merged, replaces=replaces)

    @property
    def _builder(self) -> BuildsNights:
        return cast("BuildsNights", self._target)

    # Keys

    @answer.register
    def _key_type(self, asked: KeyType) -> str:
        return self._source.key_type(asked.relation, asked.key)

    @answer.register
    def _key_hashes(self, asked: KeyHashes) -> HashStatistics:
        if isinstance(self._source, WithHashStatistics):
            return self._source.hash_statistics(asked.relation, asked.key)
        self._source.key_type(asked.relation, asked.key)  # reports an error in the expression
        return HashStatistics()

    @answer.register
    def _key_facts(self, asked: KeyFacts) -> tuple[bool, bool]:
        return self._source.key_facts(asked.relation, asked.key)

    @answer.register
    def _order(self, asked: Order) -> str:
        if asked.shared_with is None:
            return self._source.native_order(asked.relation, asked.key)
        return shared_order(
            self._source, asked.relation, asked.key, self._target, asked.shared_with
        )

    @answer.register
    def _bounds(self, asked: Bounds) -> KeyBounds:
        source, relation, key, where = self._source, asked.relation, asked.key, asked.where
        if asked.by_rows:
            statistics = source.ntile(relation, key, where, asked.count)
        else:
            statistics = source.key_statistics(relation, key, where)
            if isinstance(source, WithFinerStatistics):
                statistics = source.finer_statistics(relation, where, statistics, asked.count)
        extents = (extent for extent, _ in by_range(statistics, asked.count).extents)
        return KeyBounds(statistics, disorder(source, relation, extents))

    @answer.register
    def _windows(self, asked: TimeWindows) -> KeyWindows:
        source, relation, key, where = self._source, asked.relation, asked.key, asked.where
        chosen, *narrower = asked.intervals
        starts, origin = source.windows(relation, key, chosen, where, MOST_PARTITIONS)
        for interval in narrower:
            # Without a first value there are no windows, however narrow.
            if not starts or len(starts) >= asked.count:
                break
            try:
                starts, origin = source.windows(relation, key, interval, where, MOST_PARTITIONS)
            except PlanningError:
                break  # too many
            chosen = interval
        windows = by_windows(starts, key, nullable=False, indexed=True, origin=origin)
        extents = (extent for extent, _ in windows.extents)
        return KeyWindows(starts, origin, chosen, disorder(source, relation, extents))

    @answer.register
    def _values(self, asked: Values) -> ListedValues:
        distinct = self._source.distinct_values(
            asked.relation, asked.key, asked.where, asked.query, MOST_PARTITIONS
        )
        extents = (extent for extent, _ in by_values(distinct, asked.key, nullable=False).extents)
        return ListedValues(distinct, disorder(self._source, asked.relation, extents))

    @answer.register
    def _ranked_values(self, asked: RankedValues) -> tuple[RankedBound, ...]:
        return self._source.rank_values(
            asked.relation, asked.key, asked.texts, ordered=asked.ordered
        )


def match_columns(
    route: Route,
    mine: Sequence[Column],
    theirs: Sequence[Column],
    source: SourceCatalog,
    target: TargetCatalog,
    formats: Sequence[str],
) -> ColumnMapping:
    """Pair the columns, using what both catalogs know of them.

    Args:
        route: the route of the rows.
        mine: the source's columns, with the trait `arrow` if they travel in a shared format.
        theirs: the target's columns.
        source: the catalog of the source.
        target: the catalog of the target.
        formats: the formats that both support, best first for the source.

    Raises:
        PlanningError: as `map_columns` raises it.
    """
    relation, catalogs = route.relation, Catalogs(source, target)
    return map_columns(
        route,
        mine,
        theirs,
        fit=lambda mine, theirs: catalogs.fits(Fits(relation, tuple(mine), tuple(theirs))),
        formats=formats,
    )
