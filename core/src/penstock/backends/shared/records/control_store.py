"""The control store over a store of records: what is kept of runs, whatever the database."""

from __future__ import annotations

from typing import Any

from penstock.backends.api.execution.records import RecordStore
from penstock.backends.shared.attempts.run_presence import RunPresence
from penstock.backends.shared.records.generations import Generations
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks, NightHooks
from penstock.backends.shared.records.loaded_tables import LoadedTables
from penstock.backends.shared.records.night_records import NightRecords
from penstock.backends.shared.records.recopies import Recopies
from penstock.backends.shared.records.step_records import PendingSteps, StepRecords
from penstock.model.awaited import during
from penstock.spec.worker_spec import Patience


class RecordedRuns:
    """See `ControlStore`.

    Args:
        ledger: the target's records.
        hooks: what the backend knows about the loaded tables.
        presence: how the backend shows which runs are executed.
        night_hooks: how the backend merges; None for one that does not.
        pending: the steps that stopped runs have left undone, if the backend has its own way to
            find them.
        closable_during_calls: see `ControlStore`.
    """

    def __init__(
        self,
        ledger: Ledger[Any],
        hooks: LoadHooks[Any],
        presence: RunPresence,
        night_hooks: NightHooks | None = None,
        *,
        pending: PendingSteps | None = None,
        closable_during_calls: bool = False,
    ) -> None:
        self.records: RecordStore = ledger.store
        """The store that holds the records."""
        self.runs = ledger.runs
        self.commits = ledger.commits
        self.watermarks = ledger.watermarks
        self.journals = ledger.journals
        self.hooks = hooks
        """The backend's own operations on loaded tables."""
        self.presence = presence
        self.tables = LoadedTables(ledger, hooks)
        self.nights = NightRecords(ledger, hooks, night_hooks)
        self.steps = StepRecords(
            ledger, hooks, pending or PendingSteps(ledger, hooks, presence), self.nights
        )
        self.generations = Generations(ledger, hooks, self.steps)
        self.recopies = Recopies(ledger, hooks)
        self.closable_during_calls = closable_during_calls

    @during("creating the control tables")
    def create(self) -> None:
        self.records.create()

    @property
    def patience(self) -> Patience:
        return self.records.patience

    @patience.setter
    def patience(self, patience: Patience) -> None:
        self.records.patience = patience

    @property
    def batch_id(self) -> str:
        return self.records.batch_id

    @batch_id.setter
    def batch_id(self, batch_id: str) -> None:
        self.records.batch_id = batch_id
