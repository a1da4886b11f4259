"""The steps that stopped runs have left undone: asked for once for all tables of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from penstock.backends.api.target import TargetCatalog
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.planning.request import PlanRequest


class StepsLeft:
    """What stopped runs have left undone on the tables of many copies: the first that is wanted is
    asked for with all others.

    Parameters:
        requests: of the copies.
    """

    def __init__(self, target: TargetCatalog, requests: Sequence[PlanRequest]) -> None:
        self._target = target
        self._tables = [
            each.route.target_ref for each in requests if not each.loading.load_mode.recreates
        ]

    def on(self, table: TableRef) -> tuple[tuple[str, Step], ...]:
        """Each step with the id of the run that has left it."""
        return self._found[table]

    @cached_property
    def _found(self) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        return self._target.control.steps_left(self._tables)
