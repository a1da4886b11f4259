"""What earlier runs left in a target: read once for all tables of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from penstock.backends.api.optional.nights import CountsMany
from penstock.backends.api.target import TargetCatalog
from penstock.errors import Interrupted, PenstockError
from penstock.model.extents import Whole
from penstock.model.nights import Watermark
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.planning.nights import TargetNow, watermark_name
from penstock.planning.request import PlanRequest
from penstock.spec.modes import Ending, Table


class NightsBefore:
    """The watermarks of earlier nights, and the state of the target.

    Args:
        requests: the requests of the tables that are planned together.
    """

    def __init__(self, target: TargetCatalog, requests: Sequence[PlanRequest]) -> None:
        self._target = target
        self._loads = [each for each in requests if _repeats(each)]
        self._merged = [
            each for each in self._loads if each.loading.load_mode.ending is Ending.MERGE
        ]

    def last(self, request: PlanRequest) -> Watermark | None:
        """Return the watermark that the last night of a table left.

        A target that merges no nights keeps none.
        """
        if not request.capabilities.target.merges_nights:
            return None
        return self._last.get(_name(request))

    def target_now(self, request: PlanRequest) -> TargetNow:
        """Return the state of the target to compare with that watermark.

        Rows are counted if the last night counted them.
        """
        table = request.route.target_ref
        storage = self._storages.get(table, "")
        if not self._is_counted(request):
            return TargetNow(storage, None)
        rows = self._counts.get(table)
        if rows is None:
            rows = self._target.checksum(table, None, Whole(), ()).rows
        return TargetNow(storage, rows)

    @cached_property
    def _last(self) -> Mapping[str, Watermark]:
        names = dict.fromkeys(
            _name(each)
            for each in self._loads
            if each.loading.incremental or _name(each) in self._names
        )
        return self._target.control.watermarks.latest(list(names))

    @cached_property
    def _names(self) -> frozenset[str]:
        try:
            return self._target.control.watermarks.names()
        except Interrupted:
            raise
        except PenstockError:
            return frozenset()  # a load need not set a watermark unless requested

    @cached_property
    def _storages(self) -> Mapping[TableRef, str]:
        tables = dict.fromkeys(each.route.target_ref for each in self._merged)
        return self._target.control.nights.storages(list(tables))

    def _is_counted(self, request: PlanRequest) -> bool:
        last = self.last(request)
        return bool(self._storages.get(request.route.target_ref)) and bool(
            last and last.rows is not None
        )

    @cached_property
    def _counts(self) -> Mapping[TableRef, int]:
        """The row counts, if one statement can count all tables; otherwise empty."""
        tables = dict.fromkeys(
            each.route.target_ref for each in self._merged if self._is_counted(each)
        )
        if not isinstance(self._target, CountsMany):
            return {}
        try:
            return self._target.counts(list(tables))
        except Interrupted:
            raise
        except PenstockError:
            return {}  # an error with one table is reported when that table is counted


def _repeats(request: PlanRequest) -> bool:
    """Whether a load continues a night, leaves a watermark to one, or hides columns as one does."""
    loading, route = request.loading, request.route
    hides = route.exclude_columns or route.masks or route.expressions
    return bool(loading.incremental or loading.load_mode.starts_empty or hides)


def _name(request: PlanRequest) -> str:
    return watermark_name(request.route, request.loading)


class PendingSteps:
    """Steps that stopped runs left undone on the tables of many copies.

    The first access reads those of all tables.

    Args:
        requests: the requests of the copies.
    """

    def __init__(self, target: TargetCatalog, requests: Sequence[PlanRequest]) -> None:
        self._target = target
        self._tables = [
            each.route.target_ref
            for each in requests
            if each.loading.load_mode.table is not Table.RECREATED
        ]

    def of_table(self, table: TableRef) -> tuple[tuple[str, Step], ...]:
        """Return each step with the id of the run that left it."""
        return self._by_table[table]

    @cached_property
    def _by_table(self) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        return self._target.control.steps.pending(self._tables)
