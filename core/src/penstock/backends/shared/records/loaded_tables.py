"""The tables that runs load: whether they are still the runs', and have their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.backends.api.execution.control import Loss, RunRow
from penstock.backends.shared.records.lasting_rows import all_lasting, loss_of
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.errors import Overtaken, PenstockError
from penstock.model.nights import check_epoch
from penstock.model.plans import SWAP_STEP


class LoadedTables:
    """See `api.execution.control.LoadedTables`."""

    def __init__(self, ledger: Ledger[Any], hooks: LoadHooks[Any]) -> None:
        self._ledger = ledger
        self._runs = ledger.runs
        self._hooks = hooks
        self.is_intact = hooks.is_intact

    def check(self, run_ids: Sequence[str]) -> dict[str, PenstockError]:
        changes = self._hooks.changes(run_ids)
        return {run_id: self._overtaking(run_id) or error for run_id, error in changes.items()}

    def _overtaking(self, run_id: str) -> Overtaken | None:
        """Return why another night dropped the run's stage; None if none did."""
        run = self._runs.find(run_id)
        if run is None or run.plan.night is None:
            return None
        if run.plan.load.night_step in self._ledger.steps_done([run_id])[run_id]:
            return None
        name = run.plan.night.name
        try:
            check_epoch(run_id, run.plan.night, self._ledger.watermarks.latest([name]).get(name))
        except Overtaken as error:
            return error
        return None

    def drop_left(self, run_ids: Sequence[str]) -> None:
        runs, done = self._runs.load(run_ids), self._ledger.steps_done(run_ids)
        left = [
            run.plan.load.table
            for run_id, run in runs.items()
            if SWAP_STEP not in done[run_id]
            and any(step.id == SWAP_STEP for step in run.plan.load.after)
        ]
        if left:
            self._hooks.drop_stages(left)

    def losses(self, run_ids: Sequence[str], *, counted: bool) -> dict[str, Loss]:
        runs = self._last_nights(self._runs.load(run_ids))
        if not self._hooks.shows_before_last_steps:
            runs = {run_id: run for run_id, run in runs.items() if run.status == "done"}
        lasting = all_lasting(runs, self._ledger.commits.of(list(runs)), counted=counted)
        seen = self._hooks.see_again(lasting) if lasting else {}
        found = [run for run in lasting if run.run_id in seen]
        losses = {run.run_id: loss_of(run, seen[run.run_id]) for run in found}
        return {run_id: loss for run_id, loss in losses.items() if loss is not None}

    def _last_nights(self, runs: Mapping[str, RunRow]) -> dict[str, RunRow]:
        """Return runs without nights after which others have merged, and may have deleted rows."""
        names = {night.name for run in runs.values() if (night := run.plan.night) is not None}
        latest = self._ledger.watermarks.latest(sorted(names)) if names else {}
        return {
            run_id: run
            for run_id, run in runs.items()
            if run.plan.night is None
            or run.plan.night.name not in latest
            or latest[run.plan.night.name].run_id == run_id
        }
