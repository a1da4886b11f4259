"""Runs found complete: whether their rows are still there, and whether to plan them again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.backends.api.execution.control import ControlStore, Loss, RunRow, reading_run
from penstock.errors import Diagnosis, PenstockError, PermanentError, SpecMismatch, TargetChanged
from penstock.events import Warned
from penstock.planning.asking.search_path import with_stored_schemas
from penstock.spec.copy_spec import CopySpec, stored_target
from penstock.spec.modes import Ending, mode_of


def shows_in_target(spec: CopySpec, run: RunRow) -> bool:
    """Whether what a run has committed is in the target's table, and not in another one."""
    return run.status == "done" or run.plan.load.table == spec.target_ref


def check_rows_left(
    spec: CopySpec, run: RunRow, loss: Loss | None, *, finish: bool = True
) -> Warned | None:
    """Check that a run found complete still has its rows, before it ends as a success again.

    Args:
        spec: the options of this execution.
        run: the stored run.
        loss: what its table lacks; None if nothing shows.
        finish: whether this execution is the one that checks the run.

    Returns:
        A warning about rows that are missing; None if all are there.

    Raises:
        TargetChanged: the table was emptied, dropped or replaced.
        PermanentError: rows are missing, and the run is to be verified.
    """
    if loss is None:
        return None
    if not loss.partial:
        raise TargetChanged(
            f"target: {loss_text(run.run_id, loss)}. Nothing was copied; to load it again, start "
            "a new run: the same command without --run-id, or with another one",
            Diagnosis(side="target"),
        )
    message = (
        f"{loss_text(run.run_id, loss)}: others have deleted rows since, or replaced them. "
        "Nothing was copied; to load them again, start a new run"
    )
    # A run that is not done yet is compared with the source.
    if finish and spec.verify != "none" and run.status == "done":
        raise PermanentError(f"target: {message}", Diagnosis(side="target"))
    return Warned(run_id=run.run_id, message=message)


def loss_text(run_id: str, loss: Loss) -> str:
    """Return a clause on what a run has lost."""
    found = "" if loss.found is None else f", found {loss.found:,}"
    return (
        f"{loss.what}, although run {run_id} has committed every partition: expected "
        f"{loss.expected:,} rows{found}"
    )


def find_losses(
    runs: Mapping[str, tuple[CopySpec, RunRow]], control: ControlStore
) -> Mapping[str, Loss]:
    """Return what the tables of complete runs lack, by run.

    Args:
        runs: complete runs, by id, with the options of this execution.
        control: the target's control store.
    """
    ids = [
        run_id
        for run_id, (spec, run) in runs.items()
        if shows_in_target(spec, run) and not _is_in_between(run)
    ]
    for run_id in ids:
        with reading_run(run_id):
            mode_of(runs[run_id][1].spec)
    return control.tables.losses(ids, counted=True) if ids else {}


def _is_in_between(run: RunRow) -> bool:
    """Whether a run still has steps to do, and will look for lost rows itself before them."""
    return run.status != "done" and run.plan.load.volatile


def reasons_to_renew(
    runs: Sequence[tuple[CopySpec, RunRow]], control: ControlStore
) -> dict[str, str | PenstockError]:
    """Return why runs are to be planned again, by run; the others continue as they are.

    They are, if a user asks to load their tables again and either the tables have lost the rows, or
    the options have changed. Rows that are still there are never added a second time.

    Args:
        runs: stored runs, each with the request.
        control: the target's control store.

    Returns:
        the reason, or the error of a run that can neither continue nor be planned again.
    """
    ids = [run.run_id for spec, run in runs if shows_in_target(spec, run)]
    losses = control.tables.losses(ids, counted=False) if ids else {}
    committed = control.commits.of([run.run_id for _, run in runs])
    reasons: dict[str, str | PenstockError] = {}
    for spec, run in runs:
        rows = sum(record.rows for record in committed[run.run_id])
        try:
            reason = _reason(spec, run, losses.get(run.run_id), rows)
        except PenstockError as error:
            reasons[run.run_id] = error
        else:
            if reason:
                reasons[run.run_id] = reason
    return reasons


def _reason(spec: CopySpec, run: RunRow, loss: Loss | None, rows: int) -> str:
    adds = spec.load_mode.only_adds
    if loss is not None and not loss.partial:
        if adds and not loss.safe_to_repeat:
            raise TargetChanged(
                f"target: {loss.what} since run {run.run_id} loaded {loss.expected:,} rows, and "
                "the table that is there now has rows of its own, so loading again may double "
                "them: empty or drop it first, or start a new run",
                Diagnosis(side="target"),
            )
        return f"{loss.what}, and has lost the {loss.expected:,} rows that the run had loaded"
    spec = with_stored_schemas(spec, run.spec)
    differences = spec.differences(run.spec)
    if not differences:
        return ""
    changes = "; ".join(differences)
    same_table = stored_target(run.spec) == spec.target_ref
    if rows and same_table and adds and mode_of(run.spec).ending is not Ending.MERGE:
        raise SpecMismatch(
            f"run {run.run_id} exists with other options, and has loaded {rows:,} rows into "
            f"{spec.target_ref}, which a new run in mode {spec.mode} would add again: use the same "
            "options, remove these rows first, or start a new run:\n  " + "\n  ".join(differences)
        )
    return f"its options have changed: {changes}"


def complete_runs(
    runs: Mapping[str, RunRow], committed: Mapping[str, Collection[object]]
) -> dict[str, RunRow]:
    """Return the runs whose partitions are all committed.

    Args:
        runs: runs, by id.
        committed: what each has committed.
    """
    return {
        run_id: run
        for run_id, run in runs.items()
        if len(committed[run_id]) == len(run.plan.partitions)
    }
