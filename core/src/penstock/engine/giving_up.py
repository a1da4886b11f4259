"""`give_up`: runs that no process is expected to continue, so that others may have their tables.

`forget_lost` does it for runs whose rows are gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.backends.api.execution.control import GIVEN_UP, ControlStore, NewRun, RunRow
from penstock.engine.stored_runs import load_run, target_catalog
from penstock.engine.value_display import isolate_display
from penstock.errors import TargetBusy
from penstock.spec.copy_spec import stored_target
from penstock.spec.ids import check_run_id


@isolate_display
def give_up(run_ids: str | Iterable[str], *, target: str, control_schema: str = "penstock") -> None:
    """Give runs up: others may empty, drop or replace their tables, and nothing waits for them.

    What they have committed stays. A run that is resumed claims its table again. Runs that are done
    stay done.

    Args:
        run_ids: the id of a run, or several.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: no such run.
        TargetBusy: a process is executing one of them now.
    """
    ids = [run_ids] if isinstance(run_ids, str) else list(run_ids)
    for run_id in ids:
        check_run_id(run_id)
    with target_catalog(target, control_schema) as catalog:
        for run_id in ids:
            _give_up(load_run(catalog, run_id, control_schema), catalog.control)


def _give_up(run: RunRow, control: ControlStore) -> None:
    run_id = run.run_id
    if run.status in ("done", GIVEN_UP):
        return
    table = stored_target(run.spec)
    if run.status == "running" and control.presence.is_at_work(run_id, table):
        raise TargetBusy(f"run {run_id} is being executed now; stop it first, then give it up")
    control.runs.set_statuses({run_id: (GIVEN_UP, run.failures)})
    control.runs.release_snapshot(run_id)


@isolate_display
def forget_lost(
    run_ids: Iterable[str], *, target: str, control_schema: str = "penstock"
) -> tuple[str, ...]:
    """Forget what runs have committed, if none of it is in their tables any more.

    They are given up, and no longer keep others of their series from loading the same partitions.

    Args:
        run_ids: the ids of runs.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Returns:
        The runs that were forgotten.
    """
    forgotten: list[str] = []
    with target_catalog(target, control_schema) as catalog:
        control = catalog.control
        ids = list(dict.fromkeys(run_ids))
        losses = control.tables.losses(ids, counted=False) if ids else {}
        runs = control.runs.load(ids)
        for run_id, loss in losses.items():
            run = runs[run_id]
            if loss.partial or not loss.safe_to_repeat:
                continue
            same = NewRun(run_id, run.spec, run.plan, run.source_state, None)
            control.generations.replan(same, run.generation)
            control.runs.set_statuses({run_id: (GIVEN_UP, ())})
            forgotten.append(run_id)
    return tuple(forgotten)
