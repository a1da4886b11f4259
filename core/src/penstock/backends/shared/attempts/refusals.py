"""Reasons for which an attempt or execution may not continue, each worded in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.backends.api.execution.attempt import Attempt, Standing
from penstock.errors import (
    Diagnosis,
    LoadLost,
    PenstockError,
    PermanentError,
    PlanningError,
    Superseded,
    Taken,
    TransientError,
)


@contextmanager
def as_planning() -> Iterator[None]:
    """Raise errors that no retry can help as `PlanningError`."""
    try:
        yield
    except PermanentError as error:
        if type(error) is not PermanentError:
            raise
        raise PlanningError(error.message, error.diagnosis) from error.__cause__


def check_standing(attempt: Attempt, standing: Standing) -> None:
    """Check that an attempt may continue.

    Raises:
        Superseded: the run was restarted.
        PermanentError: the run no longer exists, or another run of the series has committed the
            partition.
        LoadLost: a crash has emptied the table.
    """
    spec = attempt.spec
    if standing.generation != spec.generation:
        raise started_over(attempt, standing.generation)
    if standing.loss is not None:
        raise standing.loss
    if standing.loaded_by is not None:
        raise loaded_already(spec.series, attempt.partition.id, *standing.loaded_by)


def started_over(attempt: Attempt, generation: int | None) -> PenstockError:
    """Return the error of an attempt whose run was restarted, or deleted.

    Args:
        attempt: the attempt.
        generation: the generation of the run; None if the run no longer exists.
    """
    spec = attempt.spec
    if generation is None:
        return PermanentError(
            f"target: run {spec.run_id} no longer exists", Diagnosis(side="target")
        )
    # The rows were rolled back, and the new generation copies them again.
    return Superseded(
        f"target: another process has restarted run {spec.run_id}: expected generation "
        f"{spec.generation}, found {generation}",
        Diagnosis(side="target"),
    )


def loaded_already(series: str, partition_id: str, run_id: str, at: str) -> PermanentError:
    """Return the error for a partition that another run of the series has committed.

    Args:
        series: the name of the series.
        partition_id: the id of the partition.
        run_id: the id of the other run.
        at: the time of its commit, as the target writes it.
    """
    return PermanentError(
        f"target: partition {partition_id} has already been loaded by run {run_id} at {at}; "
        f"another run of series {series} would duplicate its rows",
        Diagnosis(side="target"),
    )


def already_committed(attempt: Attempt) -> TransientError:
    """Return the error of an attempt whose partition another attempt has committed.

    It is transient, because a retry finds the commit record.
    """
    return TransientError(
        f"target: partition {attempt.partition.id} has already been committed by another attempt",
        Diagnosis(side="target"),
    )


def taken(attempt: Attempt) -> Taken:
    """Return the error of an attempt at a partition that another execution is copying."""
    return Taken(
        f"target: another execution is copying partition {attempt.partition.id}",
        Diagnosis(side="target"),
    )


def attempt_ended(attempt: Attempt) -> TransientError:
    """Return the error of an attempt that a newer one has displaced."""
    return TransientError(
        f"target: partition {attempt.partition.id}: this attempt made no progress within the "
        "grace time, and a newer one has taken its place",
        Diagnosis(side="target"),
    )


def locked_by_others(attempt: Attempt) -> TransientError:
    """Return the error of an attempt whose partition a session outside Penstock has locked."""
    return TransientError(
        f"target: partition {attempt.partition.id} is locked by a session that is not one of "
        "its attempts",
        Diagnosis(side="target"),
    )


def record_missing(attempt: Attempt) -> PermanentError:
    """Return the error of an attempt whose commit record disappeared before the commit."""
    return PermanentError(
        f"target: the commit record of partition {attempt.partition.id} is missing: expected "
        "1, found 0",
        Diagnosis(side="target"),
    )


def not_replaced(attempt: Attempt, remaining: int) -> PermanentError:
    """Return the error of an attempt whose deletion left rows that its partition replaces.

    Args:
        attempt: the attempt.
        remaining: the number of those rows.
    """
    partition = attempt.partition
    return PermanentError(
        f"target: {remaining:,} rows of {attempt.spec.target_table} that partition {partition.id} "
        f"({partition.extent}) replaces are still there after the deletion; expected none "
        "(does a trigger or rule keep them?)",
        Diagnosis(side="target"),
    )


def wrongly_selected(attempt: Attempt, rows: int, selected: int) -> PermanentError:
    """Return the error of an attempt whose condition does not select the rows that it has loaded.

    Args:
        attempt: the attempt.
        rows: the number of rows that it has loaded.
        selected: the number of rows that the condition selects in the target.
    """
    partition, where = attempt.partition, attempt.spec.where
    condition = f"{partition.extent} and {where}" if where else str(partition.extent)
    return PermanentError(
        f"target: partition {partition.id}: expected its condition to select the {rows:,} loaded "
        f"rows, found that it selects {selected:,}: source and target evaluate it differently, so "
        f"replacing them again would duplicate rows: {condition}",
        Diagnosis(side="target"),
    )


def key_with_null(columns: Sequence[str], rows: int, reason: str = "") -> PermanentError:
    """Return the error for a NULL in a key.

    Args:
        columns: the columns of the key.
        rows: the number of rows with a NULL.
        reason: why a NULL cannot be part of a key there.
    """
    because = f", since {reason}" if reason else ""
    return PermanentError(
        f"--mode upsert: expected every row to have a value in {', '.join(columns)}{because}; "
        f"found {rows:,} rows with NULL",
        Diagnosis(side="target"),
    )


def key_twice(key: Sequence[str], duplicate: str, code: str = "") -> PermanentError:
    """Return the error for a duplicate key.

    Args:
        key: the columns of the key.
        duplicate: the key, and how often it occurs.
        code: the server's error code.
    """
    return PermanentError(
        f"--mode upsert: expected each key ({', '.join(key)}) once among the copied rows; found "
        f"{duplicate}",
        Diagnosis(side="target", code=code),
    )


OF_ANOTHER_PARTITION = (
    "another partition may have copied; expected equal keys to be spelled alike; partition by "
    "the key's own column under the target's collation, copy in one partition (--partitions 1), or "
    "give the key a collation that distinguishes all texts"
)
OF_ANOTHER_ROW = (
    "the source may still have, unread; expected equal keys to be spelled alike; read all rows, "
    "with --atomic and without --incremental or named partitions, or after `penstock watermark "
    "reset`; or give the key a collation that distinguishes all texts"
)


def key_respelled(
    key: Sequence[str],
    mine: Sequence[object],
    theirs: Sequence[object],
    advice: str = OF_ANOTHER_PARTITION,
) -> PermanentError:
    """Return the error for rows that are the same to the target, so that chance decides which wins.

    Args:
        key: the columns of the key.
        mine: a key among the copied rows.
        theirs: the key of an existing row that the target compares as equal.
        advice: where the other row may come from, and what to do.
    """
    copied_key, existing_key = (f"({', '.join(map(str, each))})" for each in (mine, theirs))
    return PermanentError(
        f"--mode upsert: the target's key ({', '.join(key)}) treats {copied_key}, which is being "
        f"copied, as equal to {existing_key}, an existing row that {advice}",
        Diagnosis(side="target"),
    )


def keys_respelled(key: Sequence[str], count: int, advice: str) -> PermanentError:
    """Return the error of `key_respelled` without the keys.

    Args:
        key: the columns of the key.
        count: the number of copied keys.
        advice: as there.
    """
    return PermanentError(
        f"--mode upsert: the target's key ({', '.join(key)}) treats {count:,} of the copied keys "
        f"as equal to others, spelled differently, of existing rows that {advice}",
        Diagnosis(side="target"),
    )


def superseded(run_id: str) -> Superseded:
    """Return the error of an execution that another one has displaced."""
    return Superseded(
        f"target: another process has just replaced the snapshot of run {run_id}, or restarted the "
        "run",
        Diagnosis(side="target"),
    )


def load_lost(run_id: str) -> LoadLost:
    """Return the error of a run whose unlogged table is empty after a crash of the server."""
    return LoadLost(
        f"target: a server crash has emptied the unlogged table that run {run_id} loads",
        Diagnosis(side="target"),
    )


def not_committed(run_id: str) -> TransientError:
    """Return the error of a run that cannot finish, because some partitions are not committed."""
    return TransientError(
        f"target: another process has restarted run {run_id}, or is copying partitions of it "
        "again: expected every partition to be committed, found some that are not",
        Diagnosis(side="target"),
    )
