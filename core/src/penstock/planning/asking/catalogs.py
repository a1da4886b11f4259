"""Both catalogs, with a method for each question of `KnownAnswers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from penstock.backends.api.facts import Fit, LoadRequest, RankedBound
from penstock.backends.api.optional.children import AttachesChildren, ChildRequest, PlannedChildren
from penstock.backends.api.optional.nights import BuildsNights
from penstock.backends.api.source import CutsFiner, SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PlanningError
from penstock.model.extents import Extent, Key, Whole
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, ColumnPair, Relation, TableRef
from penstock.planning.asking.orders import disorder, shared_order
from penstock.planning.column_pairs import ColumnMapping, map_columns
from penstock.planning.cuts import MOST_PARTITIONS, cut_range, cut_values, cut_windows
from penstock.planning.known_answers import KeyBounds, KeyWindows, ListedValues, MergedRows
from penstock.planning.questions import Question
from penstock.spec.atomic_limits import AtomicLimit
from penstock.spec.groups.route import Route
from penstock.spec.modes import Mode


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

    def answer(self, question: Question) -> object:
        """Return the answer to a question.

        Raises:
            PenstockError: as the catalogs raise it.
        """
        return getattr(self, question.name)(*question.arguments, **dict(question.keywords))

    @property
    def _target(self) -> TargetCatalog:
        assert self._to is not None, "a missing target gets no questions"
        return self._to

    # Columns

    def fits(
        self, relation: Relation, mine: Sequence[Column], theirs: Sequence[Column]
    ) -> list[Fit]:
        fits = self._target.fit(mine, theirs)
        casts = [
            (column.name, fit.cast)
            for column, fit in zip(mine, fits, strict=True)
            if fit.cast and not fit.reason
        ]
        if not casts:
            return fits
        allowed = dict(zip(casts, self._source.castable(relation, casts), strict=True))
        why = "the types differ, and the source has no assignment cast between them"
        return [
            fit if allowed.get((column.name, fit.cast), True) else replace(fit, reason=why)
            for column, fit in zip(mine, fits, strict=True)
        ]

    def check_compared(
        self, relation: Relation, table: TableRef | None, pairs: Sequence[ColumnPair]
    ) -> None:
        # Over no rows: checksums that cannot be computed are reported before anything is copied.
        self._source.checksum(relation, "1 = 0", Whole(), pairs)
        if table is not None:
            self._target.checksum(table, "1 = 0", Whole(), pairs)

    # The load

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        self._target.check_writable(table, mode, columns)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        return self._target.plan_load(request)

    def is_still_missing(self, table: TableRef, mode: Mode) -> bool:
        return self._target.creates_table(table, mode)

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        self._target.check_condition(table, where, extent)

    def plan_children(self, request: ChildRequest) -> PlannedChildren:
        return cast("AttachesChildren", self._target).plan_children(request)

    # Nights

    def merged_rows(
        self,
        relation: Relation,
        where: str | None,
        selection: str,
        rows: float | None,
        size: float,
        limit: AtomicLimit,
    ) -> MergedRows:
        def count(where: str | None) -> int:
            return self._source.checksum(relation, where, Whole(), ()).rows

        rows = count(where) if rows is None else rows
        if not selection or not limit.is_below(rows, size):
            return MergedRows(rows)
        return MergedRows(rows, count(f"({where}\n) AND {selection}" if where else selection))

    def holds_rows(self, table: TableRef) -> bool:
        return self._builder.holds_rows(table)

    def plan_night_rebuild(
        self, request: LoadRequest, merged: LoadPlan, *, if_empty: bool
    ) -> LoadPlan | None:
        replaces = self._builder.holds_rows(request.target)
        if if_empty and replaces:
            return None
        return self._builder.plan_night_rebuild(request, merged, replaces=replaces)

    @property
    def _builder(self) -> BuildsNights:
        return cast("BuildsNights", self._target)

    # Keys

    def key_type(self, relation: Relation, key: Key) -> str:
        return self._source.key_type(relation, key)

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        return self._source.key_facts(relation, key)

    def order(self, relation: Relation, key: Key, shared_with: TableRef | None) -> str:
        if shared_with is None:
            return self._source.native_order(relation, key)
        return shared_order(self._source, relation, key, self._target, shared_with)

    def bounds(
        self, relation: Relation, key: Key, where: str | None, count: int, *, by_rows: bool
    ) -> KeyBounds:
        source = self._source
        if by_rows:
            statistics = source.ntile(relation, key, where, count)
        else:
            statistics = source.key_statistics(relation, key, where)
            if isinstance(source, CutsFiner):
                statistics = source.finer_statistics(relation, where, statistics, count)
        extents = (extent for extent, _ in cut_range(statistics, count).extents)
        return KeyBounds(statistics, disorder(source, relation, extents))

    def windows(
        self,
        relation: Relation,
        key: Key,
        where: str | None,
        intervals: Sequence[str],
        count: int,
    ) -> KeyWindows:
        chosen, *narrower = intervals
        starts, origin = self._source.windows(relation, key, chosen, where, MOST_PARTITIONS)
        for interval in narrower:
            # Without a first value there are no windows, however narrow.
            if not starts or len(starts) >= count:
                break
            try:
                starts, origin = self._source.windows(
                    relation, key, interval, where, MOST_PARTITIONS
                )
            except PlanningError:
                break  # too many
            chosen = interval
        cut = cut_windows(starts, key, nullable=False, indexed=True, origin=origin)
        extents = (extent for extent, _ in cut.extents)
        return KeyWindows(starts, origin, chosen, disorder(self._source, relation, extents))

    def values(
        self, relation: Relation, key: Key, where: str | None, query: str | None
    ) -> ListedValues:
        distinct = self._source.distinct_values(relation, key, where, query, MOST_PARTITIONS)
        extents = (extent for extent, _ in cut_values(distinct, key, nullable=False).extents)
        return ListedValues(distinct, disorder(self._source, relation, extents))

    def rank_values(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        return self._source.rank_values(relation, key, texts, ordered=ordered)


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
        fit=lambda mine, theirs: catalogs.fits(relation, mine, theirs),
        formats=formats,
    )
