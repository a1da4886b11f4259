"""The answers that planning has: looked up, never asked for."""

# Each method says what its answer is; the mapping that holds them cannot.
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
from penstock.planning.questions import Answers, Question, Wanted
from penstock.spec.atomic_limits import AtomicLimit
from penstock.spec.modes import Mode


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Bounds of ranges."""

    statistics: KeyStatistics
    disorder: str = ""
    """How the ranges that are cut there do not follow one another; see `orders.disorder`."""


@dataclass(frozen=True, slots=True)
class KeyWindows:
    """Starts of windows of time, as narrow as needed."""

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
    """How many rows a night reads."""

    rows: float
    """All of them, if it reads all."""
    changed: int | None = None
    """Those that may have changed; None where they need not be counted."""


class Known:
    """Each method is a question; `Catalogs` has the same methods, and puts them.

    All raise:
        Wanted: the answer is not known yet.
        PenstockError: what the catalogs have raised.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def _look_up(self, name: str, *arguments: object, **named: object) -> Any:
        question = Question(name, arguments, tuple(named.items()))
        if question not in self._answers:
            raise Wanted([question])
        found = self._answers[question]
        if isinstance(found, PenstockError):
            raise found
        return found

    # Columns

    def fits(
        self, relation: Relation, mine: Sequence[Column], theirs: Sequence[Column]
    ) -> list[Fit]:
        """How each of the source's columns goes into the target's column at its place."""
        return self._look_up("fits", relation, tuple(mine), tuple(theirs))

    def check_compared(
        self, relation: Relation, table: TableRef | None, pairs: Sequence[ColumnPair]
    ) -> None:
        """Whether checksums of columns can be computed.

        Parameters:
            table: the target's; None where it is made.
        """
        self._look_up("check_compared", relation, table, tuple(pairs))

    # The load

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        """See `TargetCatalog`."""
        self._look_up("check_writable", table, mode, tuple(columns))

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        """See `TargetCatalog`."""
        return self._look_up("plan_load", request)

    def is_still_missing(self, table: TableRef, mode: Mode) -> bool:
        """Whether the mode still makes a table once its load is planned."""
        return self._look_up("is_still_missing", table, mode)

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        """See `TargetCatalog`."""
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
        """Count the rows that a night reads, as far as that decides whether they may be merged.

        Parameters:
            selection: the condition for those that may have changed; empty: it reads all.
            rows: of all; None where they are not known.
            size: bytes of all rows.
        """
        return self._look_up("merged_rows", relation, where, selection, rows, size, limit)

    def holds_rows(self, table: TableRef) -> bool:
        """See `BuildsNights`."""
        return self._look_up("holds_rows", table)

    def plan_built(
        self, request: LoadRequest, merged: LoadPlan, *, if_empty: bool
    ) -> LoadPlan | None:
        """See `BuildsNights`.

        Parameters:
            if_empty: only where the target has no rows, else None.
        """
        return self._look_up("plan_built", request, merged, if_empty=if_empty)

    # Keys

    def key_type(self, relation: Relation, key: Key) -> str:
        """See `SourceCatalog`."""
        return self._look_up("key_type", relation, key)

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        """See `SourceCatalog`."""
        return self._look_up("key_facts", relation, key)

    def order(self, relation: Relation, key: Key, shared_with: TableRef | None) -> str:
        """The collation by which all comparisons of a key are made; see `Key.collation`.

        Parameters:
            shared_with: the target's table, where it decides by the same conditions what to delete.
        """
        return self._look_up("order", relation, key, shared_with)

    def bounds(
        self, relation: Relation, key: Key, where: str | None, count: int, *, by_rows: bool
    ) -> KeyBounds:
        """
        Parameters:
            count: of ranges.
            by_rows: read the key of every row; else statistics.
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
        """Windows of the first of some intervals, widest first, that gives enough of them."""
        return self._look_up("windows", relation, key, where, tuple(intervals), count)

    def values(
        self, relation: Relation, key: Key, where: str | None, query: str | None
    ) -> ListedValues:
        """
        Parameters:
            query: lists the values instead of a scan.
        """
        return self._look_up("values", relation, key, where, query)

    def ranked(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        """See `SourceCatalog`."""
        return self._look_up("ranked", relation, key, tuple(texts), ordered=ordered)
