"""Whether two runs that are executed at the same time would change each other's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.control import ControlStore, RunRow
from penstock.errors import TargetBusy
from penstock.model.plans import PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import MODES


def enter(spec: CopySpec, run_id: str, plan: PartitionPlan, control: ControlStore) -> None:
    """Say that this process executes the run.

    Raises:
        TargetBusy: another run is changing the same rows at this moment.
    """
    control.enter(run_id, spec.target_ref, collisions(spec, plan, control))


def collisions(
    spec: CopySpec, plan: PartitionPlan, control: ControlStore
) -> Callable[[Sequence[str]], None]:
    """What `ControlStore.enter` is to call: raises `TargetBusy` where a run of those that are
    executed on the table would change the same rows.

    Parameters:
        spec, plan: of the run that is about to be executed.
    """

    def check(others: Sequence[str]) -> None:
        for other in others:
            run = control.load_run(other)
            if run is None:
                # Its control tables are elsewhere: nothing is known of it but that it is there.
                if spec.load_mode.starts_empty:
                    raise _busy(spec, other, "")
                continue
            if _collide(spec, plan, run):
                raise _busy(spec, other, run.spec["mode"])

    return check


def _busy(spec: CopySpec, other: str, mode: str) -> TargetBusy:
    how = f" (--mode {mode})" if mode else ""
    return TargetBusy(
        f"--mode {spec.mode}: run {other}{how} is changing the same rows of {spec.target_name} at "
        "this moment, so nothing was changed; try again once it has ended, or end it first"
    )


def _collide(spec: CopySpec, plan: PartitionPlan, other: RunRow) -> bool:
    """Whether the runs are known to touch the same rows.

    Conditions that somebody wrote cannot be compared unless their texts are equal. Runs with
    different ones may go on side by side, and their attempts look out for each other.
    """
    mine, theirs, where = spec.load_mode, MODES[other.spec["mode"]], other.spec["where"]
    if mine.starts_empty or theirs.starts_empty:
        return True
    if mine.only_adds and theirs.only_adds:
        return False
    if spec.where is not None and where is not None and spec.where != where:
        return False
    # Partitions that a caller names stand each for itself, and are loaded one after the other.
    return not (plan.given and other.plan.given)
