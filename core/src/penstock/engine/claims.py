"""Whether two concurrent runs would change each other's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.errors import TargetBusy
from penstock.model.nights import check_epoch
from penstock.model.plans import PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Ending, mode_of


def enter(spec: CopySpec, run_id: str, plan: PartitionPlan, control: ControlStore) -> None:
    """Register this process as executing the run.

    Args:
        spec: the options of the run.
        run_id: the id of the run.
        plan: the plan of the run.
        control: the target's control store.

    Raises:
        Overtaken: another night has ended since this one was planned.
        TargetBusy: another run is already writing these rows.
    """
    check = collision_check(spec, plan, control)
    failed = control.presence.enter({run_id: spec.target_ref}, lambda _, others: check(others))
    for error in failed.values():
        raise error
    check_not_overtaken(run_id, plan, control)


def check_not_overtaken(run_id: str, plan: PartitionPlan, control: ControlStore) -> None:
    """Check that no other night has ended since this one was planned.

    Args:
        run_id: the id of the run.
        plan: the plan of the run; a plan without a night is always valid.
        control: the target's control store, which has the watermark.

    Raises:
        Overtaken: another night has ended since this one was planned.
    """
    if plan.night is not None and plan.load.night_step not in control.steps.done([run_id])[run_id]:
        name = plan.night.name
        check_epoch(run_id, plan.night, control.watermarks.latest([name]).get(name))


def collision_check(
    spec: CopySpec, plan: PartitionPlan, control: ControlStore
) -> Callable[[Sequence[str]], None]:
    """Return the check for `Presence.enter`.

    It raises `TargetBusy` if another run on the table would change the same rows.

    Args:
        spec: the options of the run to execute.
        plan: the plan of the run.
        control: the target's control store.
    """

    def check(run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            run = control.runs.find(run_id)
            if run is None:
                # Its control tables are elsewhere: only its presence is known.
                if spec.load_mode.starts_empty:
                    raise _busy(spec, run_id, "")
                continue
            if _collide(spec, plan, run):
                raise _busy(spec, run_id, run.spec["mode"])

    return check


def _busy(spec: CopySpec, run_id: str, mode: str) -> TargetBusy:
    how = f" (--mode {mode})" if mode else ""
    return TargetBusy(
        f"--mode {spec.mode}: run {run_id}{how} is already writing these rows of "
        f"{spec.target_name}; nothing was changed: try again once it has ended, or stop it first"
    )


def _are_parts(where: str | None, plan: PartitionPlan, other_run: RunRow) -> bool:
    """Whether two runs that merge at their end load parts of a table.

    Each then has its own stage, and their merges take turns. Runs of one watermark follow one
    another.
    """
    theirs = other_run.spec["where"]
    if where is None or theirs is None or where == theirs:
        return False
    night, other_night = plan.night, other_run.plan.night
    return night is None or other_night is None or night.name != other_night.name


def _collide(spec: CopySpec, plan: PartitionPlan, other_run: RunRow) -> bool:
    """Whether the runs are known to touch the same rows.

    Conditions are comparable only if their texts are equal. Runs with different conditions may run
    concurrently, and their attempts check for each other's rows.
    """
    mine, theirs = spec.load_mode, mode_of(other_run.spec)
    where, their_where = spec.where, other_run.spec["where"]
    if mine.ending is Ending.MERGE and theirs.ending is Ending.MERGE:
        return not _are_parts(where, plan, other_run)
    if mine.starts_empty or theirs.starts_empty:
        return True
    if mine.only_adds and theirs.only_adds:
        return False
    if where is not None and their_where is not None and where != their_where:
        return False
    # Partitions that callers define are independent; attempts at the same one take turns.
    return not (plan.has_given_partitions and other_run.plan.has_given_partitions)
