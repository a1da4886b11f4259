"""The answers that planning has: looked up, never requested."""

# Each method declares the type of its answer; the mapping that holds them cannot.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.backends.api.facts import Fit, KeyStatistics, LoadRequest, RankedBound
from penstock.backends.api.optional.children import ChildRequest, PlannedChildren
from penstock.errors import PenstockError
from penstock.model.extents import Bound, Extent, Key
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, ColumnPair, Relation, TableRef
from penstock.planning.questions import Answers, AnswersNeeded, Question
from penstock.spec.atomic_limits import AtomicLimit
from penstock.spec.modes import Mode


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Bounds of ranges."""

    statistics: KeyStatistics
    disorder: str = ""
    """The reason why these bounds do not ascend, empty if they do; see `orders.disorder`."""


@dataclass(frozen=True, slots=True)
class KeyWindows:
    """The starts of windows of time, as narrow as needed."""

    starts: tuple[Bound, ...]
    origin: str
    interval: str
    disorder: str = ""


@dataclass(frozen=True, slots=True)
class ListedValues:
    """The values of a key."""

    values: tuple[Bound, ...]
    disorder: str = ""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The number of rows that a night reads."""

    rows: float
    """The number of all rows, if it reads all."""
    changed: int | None = None
    """The number of rows that may have changed; None if they need not be counted."""


class KnownAnswers:
    """The known answers. Each method is a question; `Catalogs` has the same methods, and asks them.

    All raise:
        AnswersNeeded: the answer is not known yet.
        PenstockError: as the catalogs raised it.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def _look_up(self, name: str, *arguments: object, **keywords: object) -> Any:
        question = Question(name, arguments, tuple(keywords.items()))
        if question not in self._answers:
            raise AnswersNeeded([question])
        answer = self._answers[question]
        if isinstance(answer, PenstockError):
            raise answer
        return answer

    # Columns

    def fits(
        self, relation: Relation, mine: Sequence[Column], theirs: Sequence[Column]
    ) -> list[Fit]:
        """Return how each source column fits the target column at its position.

        Args:
            relation: the source's table or query.
            mine: the source's columns.
            theirs: the target's columns, one for each of the source's.
        """
        return self._look_up("fits", relation, tuple(mine), tuple(theirs))

    def check_compared(
        self, relation: Relation, table: TableRef | None, pairs: Sequence[ColumnPair]
    ) -> None:
        """Check that checksums of columns can be computed.

        Args:
            relation: the source's table or query.
            table: the target's table; None if the run creates it.
            pairs: the columns.
        """
        self._look_up("check_compared", relation, table, tuple(pairs))

    # The load

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        """Check that the target's table can be loaded; see `TargetCatalog`.

        Args:
            table: the target's table.
            mode: the mode of the load.
            columns: the names of the columns to write.
        """
        self._look_up("check_writable", table, mode, tuple(columns))

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        """See `TargetCatalog`."""
        return self._look_up("plan_load", request)

    def is_still_missing(self, table: TableRef, mode: Mode) -> bool:
        """Whether the mode still creates a table after its load is planned."""
        return self._look_up("is_still_missing", table, mode)

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        """Check that the target can evaluate a condition; see `TargetCatalog`.

        Args:
            table: the target's table.
            where: the condition of `--where`; None for all rows.
            extent: the rows of one partition, or all.
        """
        self._look_up("check_condition", table, where, extent)

    def plan_children(self, request: ChildRequest) -> PlannedChildren:
        """See `AttachesChildren`."""
        return self._look_up("plan_children", request)

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
        """Count the rows that a night reads, as far as needed to decide whether to merge them.

        Args:
            relation: the source's table or query.
            where: the condition of the copy.
            selection: the condition for rows that may have changed; empty if the night reads
                all rows.
            rows: the number of all rows; None if unknown.
            size: bytes of all rows.
            limit: the most that may be merged.
        """
        return self._look_up("merged_rows", relation, where, selection, rows, size, limit)

    def holds_rows(self, table: TableRef) -> bool:
        """See `BuildsNights`."""
        return self._look_up("holds_rows", table)

    def plan_night_rebuild(
        self, request: LoadRequest, merged: LoadPlan, *, if_empty: bool
    ) -> LoadPlan | None:
        """See `BuildsNights`.

        Args:
            request: the load as a merge.
            merged: the plan of that load.
            if_empty: whether to plan only if the target has no rows, and return None otherwise.
        """
        return self._look_up("plan_night_rebuild", request, merged, if_empty=if_empty)

    # Keys

    def key_type(self, relation: Relation, key: Key) -> str:
        """See `SourceCatalog`."""
        return self._look_up("key_type", relation, key)

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        """See `SourceCatalog`."""
        return self._look_up("key_facts", relation, key)

    def order(self, relation: Relation, key: Key, shared_with: TableRef | None) -> str:
        """Return the collation for all comparisons of a key; see `Key.collation`.

        Args:
            relation: the source's table or query.
            key: the key.
            shared_with: the target's table, if it uses the same conditions to decide what to
                delete.
        """
        return self._look_up("order", relation, key, shared_with)

    def bounds(
        self, relation: Relation, key: Key, where: str | None, count: int, *, by_rows: bool
    ) -> KeyBounds:
        """Return the bounds of ranges.

        Args:
            relation: the source's table or query.
            key: the key.
            where: the condition of the copy.
            count: the number of ranges.
            by_rows: whether to read the key of every row instead of statistics.
        """
        return self._look_up("bounds", relation, key, where, count, by_rows=by_rows)

    def windows(
        self,
        relation: Relation,
        key: Key,
        where: str | None,
        intervals: Sequence[str],
        count: int,
    ) -> KeyWindows:
        """Return the windows of the first interval, widest first, that gives enough of them.

        Args:
            relation: the source's table or query.
            key: the key.
            where: the condition of the copy.
            intervals: the widths to try, widest first, such as ``1 day``.
            count: the number of windows that are enough.
        """
        return self._look_up("windows", relation, key, where, tuple(intervals), count)

    def values(
        self, relation: Relation, key: Key, where: str | None, query: str | None
    ) -> ListedValues:
        """Return the distinct values of a key.

        Args:
            relation: the source's table or query.
            key: the key.
            where: the condition of the copy.
            query: a query that lists the values, instead of a scan.
        """
        return self._look_up("values", relation, key, where, query)

    def rank_values(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        """Return values that the user wrote, as the key's own; see `SourceCatalog`.

        Args:
            relation: the source's table or query.
            key: the key.
            texts: the values, as texts.
            ordered: whether they are bounds of ranges.
        """
        return self._look_up("rank_values", relation, key, tuple(texts), ordered=ordered)
