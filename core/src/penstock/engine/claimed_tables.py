"""Tables that runs have begun to load and are to go on with, although none is at work just now.

A run with a claim, such as one that an orchestrator will retry, keeps its table from being emptied,
dropped or replaced by another run, until it is done, given up, or makes no progress for long. What
the others have built beside the table goes when another run is about to replace it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from penstock.backends.api.execution.control import GIVEN_UP, BegunRun
from penstock.engine.control_link import ControlLink
from penstock.engine.state import RunState
from penstock.errors import Interrupted, PenstockError, TargetBusy
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import mode_of
from penstock.spec.units import duration_text

_over: dict[str, Callable[[str], bool]] = {}


def watch_claims(prefix: str, is_over: Callable[[str], bool]) -> None:
    """Let this process find out whether the owner of a claim will still continue its run.

    Args:
        prefix: the beginning of the claims that the function knows.
        is_over: whether the owner of a claim has ended for good.
    """
    _over[prefix] = is_over


def is_given_up(claim: str) -> bool:
    """Whether the owner of a claim is known to have ended without its run."""
    for prefix, is_over in _over.items():
        if claim.startswith(prefix):
            return is_over(claim)
    return False


def take_tables(runs: Sequence[RunState], link: ControlLink) -> dict[str, PenstockError]:
    """Check that no claimed run has begun to load a table that a run is about to replace.

    What other stopped runs have built beside such a table is dropped.

    Args:
        runs: runs that have entered their tables, so that no other one can begin.
        link: the link to the target's control store.

    Returns:
        by run, which claimed run is in the way.
    """
    replacing = [run for run in runs if run.replaces_table]
    if not replacing:
        return {}
    begun = link.call(lambda control: control.runs.begun())
    prepared = {each.run_id for each in begun}
    claimed = [each for each in begun if each.spec.get("claim") and not each.given_up]
    # A run that is prepared has taken its table already.
    taking = [run for run in replacing if run.run_id not in prepared]
    failed: dict[str, PenstockError] = {}
    for run in taking:
        for other in claimed:
            error = _conflict(run, other, link)
            if error is not None:
                failed[run.run_id] = error
                break
    _drop_left([run for run in taking if run.run_id not in failed], begun, link)
    return failed


def _drop_left(runs: Sequence[RunState], begun: Sequence[BegunRun], link: ControlLink) -> None:
    """Drop what other runs have built to replace the tables that runs are about to replace."""
    tables = {run.spec.target_ref for run in runs if run.plan.load.loads_beside}
    left = [
        other.run_id
        for other in begun
        if mode_of(other.spec).replaces_table and stored_target(other.spec) in tables
    ]
    if not left:
        return
    try:
        link.call(lambda control: control.tables.drop_left(left))
    except Interrupted:
        raise
    except PenstockError:
        pass  # the next run tries again


def _conflict(run: RunState, other: BegunRun, link: ControlLink) -> TargetBusy | None:
    claim = str(other.spec["claim"])
    if other.run_id == run.run_id or claim == run.spec.claim:
        return None  # its owner has started again
    if not run.loads_table(stored_target(other.spec)):
        return None
    records = link.call(lambda control: control.commits.of([other.run_id])[other.run_id])
    age = _age(max([other.since, *(record.committed_at for record in records)]))
    if age > run.spec.stale_after:
        return None
    if is_given_up(claim):
        link.call(lambda control: control.runs.set_statuses({other.run_id: (GIVEN_UP, ())}))
        return None
    rows = sum(record.rows for record in records)
    idle, stale = duration_text(round(age)), duration_text(run.spec.stale_after)
    return TargetBusy(
        f"--mode {run.spec.mode}: run {other.run_id} (--mode {other.spec['mode']}) has loaded "
        f"{rows:,} rows into {run.spec.target_name} and is not done; its last progress was {idle} "
        f"ago, and {claim} is to continue it. Nothing was changed. Try again once it is done, or "
        f"give it up: penstock give-up {other.run_id} --target URL. It is no longer in the way "
        f"after {stale} without progress (--stale-after)"
    )


def _age(moment: str) -> float:
    """Return the seconds since a moment, as the control tables have it."""
    then = datetime.fromisoformat(moment)
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, time.time() - then.timestamp())
