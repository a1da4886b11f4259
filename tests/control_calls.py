"""Calls of a control store about one run, which raise what they report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.execution.control import ControlStore
from penstock.errors import PenstockError
from penstock.model.plans import LoadPlan
from penstock.model.tables import TableRef


def prepare(control: ControlStore, run_id: str, load: LoadPlan) -> bool:
    outcome = control.generations.prepare({run_id: load})[run_id]
    if isinstance(outcome, PenstockError):
        raise outcome
    return outcome


def check_target(control: ControlStore, run_id: str) -> None:
    for error in control.tables.check([run_id]).values():
        raise error


def enter(
    control: ControlStore, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]
) -> None:
    failed = control.presence.enter({run_id: table}, lambda _, others: check(others))
    for error in failed.values():
        raise error
