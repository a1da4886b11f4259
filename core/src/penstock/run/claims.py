"""Whether two runs executed at the same time would change each other's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.control import ControlStore, RunRow
from penstock.errors import TargetBusy
from penstock.model.nights import check_epoch
from penstock.model.plans import PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import mode_of


def enter(spec: CopySpec, run_id: str, plan: PartitionPlan, control: ControlStore) -> None:
    """Register this process as executing the run.

    Raises:
        Overtaken: another night has ended since this one was planned.
        TargetBusy: another run is changing the same rows right now.
    """
    control.enter(run_id, spec.target_ref, collision_check(spec, plan, control))
    check_not_overtaken(run_id, plan, control)


def check_not_overtaken(run_id: str, plan: PartitionPlan, control: ControlStore) -> None:
    """
    Raises:
        Overtaken: another night has ended since this one was planned.
    """
    if plan.night is not None and plan.load.night_step not in control.steps_done(run_id):
        name = plan.night.name
        check_epoch(run_id, plan.night, control.latest_watermarks([name]).get(name))


def collision_check(
    spec: CopySpec, plan: PartitionPlan, control: ControlStore
) -> Callable[[Sequence[str]], None]:
    """The check for `ControlStore.enter`: raises `TargetBusy` if another run under way on the table
    would change the same rows.

    Parameters:
        spec, plan: of the run about to be executed.
    """

    def check(others: Sequence[str]) -> None:
        for other in others:
            run = control.load_run(other)
            if run is None:
                # Its control tables are elsewhere: nothing is known of it but its presence.
                if spec.load_mode.starts_empty:
                    raise _busy(spec, other, "")
                continue
            if _collide(spec, plan, run):
                raise _busy(spec, other, run.spec["mode"])

    return check


def _busy(spec: CopySpec, other: str, mode: str) -> TargetBusy:
    how = f" (--mode {mode})" if mode else ""
    return TargetBusy(
        f"--mode {spec.mode}: run {other}{how} is changing the same rows of {spec.target_name} "
        "right now, so nothing was changed; try again once it has ended, or stop it first"
    )


def _are_parts(spec: CopySpec, plan: PartitionPlan, other: RunRow) -> bool:
    """Whether two runs that merge at their end load parts of a table: each has a stage of its own,
    and their merges take turns. Those of one watermark follow one another."""
    where = other.spec["where"]
    if spec.where is None or where is None or spec.where == where:
        return False
    mine, theirs = plan.night, other.plan.night
    return mine is None or theirs is None or mine.name != theirs.name


def _collide(spec: CopySpec, plan: PartitionPlan, other: RunRow) -> bool:
    """Whether the runs are known to touch the same rows.

    Conditions cannot be compared unless their texts are equal. Runs with different conditions may
    run side by side, and their attempts check for each other's rows.
    """
    mine, theirs, where = spec.load_mode, mode_of(other.spec), other.spec["where"]
    if mine.merges_at_end and theirs.merges_at_end:
        return not _are_parts(spec, plan, other)
    if mine.starts_empty or theirs.starts_empty:
        return True
    if mine.only_adds and theirs.only_adds:
        return False
    if spec.where is not None and where is not None and spec.where != where:
        return False
    # Partitions that callers name are independent; attempts at the same one take turns.
    return not (plan.given and other.plan.given)
