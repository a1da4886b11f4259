"""Whether a run may finish: all of its partitions are committed, and still count."""

from __future__ import annotations

from typing import Any

from penstock.backends.api.execution.control import RunRow
from penstock.backends.shared.attempts.refusals import load_lost, not_committed
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks


def check_finishing(ledger: Ledger[Any], hooks: LoadHooks[Any], run_id: str) -> RunRow:
    """Check that a run may finish.

    Args:
        ledger: the target's records.
        hooks: what the backend knows about the loaded tables.
        run_id: the id of the run.

    Raises:
        TargetChanged: another run has shut this one out.
        LoadLost: a crash has emptied the table. TransientError: the run was restarted.
    """
    run = ledger.runs.find(run_id)
    if run is not None:
        hooks.check_not_shut_out(run)
    if run is None or not ledger.commits.are_complete(run_id, len(run.plan.partitions)):
        raise not_committed(run_id)
    if run.plan.load.volatile and not hooks.is_intact(run_id):
        raise load_lost(run_id)
    return run
