"""The steps that stopped runs left undone: read once for all tables of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from penstock.backends.api.target import TargetCatalog
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.planning.request import PlanRequest
from penstock.spec.modes import Table


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
