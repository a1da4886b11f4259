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
    if standing.lost is not None:
        raise standing.lost
    if standing.loaded_by is not None:
        raise loaded_already(spec.series, attempt.partition.id, *standing.loaded_by)


def started_over(attempt: Attempt, generation: int | None) -> PenstockError:
    spec = attempt.spec
    if generation is None:
        return PermanentError(
            f"target: run {spec.run_id} is no longer there", Diagnosis(side="target")
        )
    # The rows were rolled back, and the new generation copies them again.
    return Superseded(
        f"target: another process has started run {spec.run_id} over: expected generation "
        f"{spec.generation}, found {generation}",
        Diagnosis(side="target"),
    )


def loaded_already(series: str, partition_id: str, run_id: str, at: str) -> PermanentError:
    return PermanentError(
        f"target: partition {partition_id} was loaded already, by run {run_id} at {at}; "
        f"expected no other run of series {series} to have loaded it, which would double its rows",
        Diagnosis(side="target"),
    )


def already_committed(attempt: Attempt) -> TransientError:
    return TransientError(
        f"target: partition {attempt.partition.id} was committed by another attempt meanwhile",
        Diagnosis(side="target"),
    )


def attempt_ended(attempt: Attempt) -> TransientError:
    return TransientError(
        f"target: partition {attempt.partition.id}: this attempt made no progress for the grace "
        "time, and a newer one has taken its place",
        Diagnosis(side="target"),
    )


def locked_by_others(attempt: Attempt) -> TransientError:
    return TransientError(
        f"target: partition {attempt.partition.id} is locked by a session that is not one of "
        "its attempts",
        Diagnosis(side="target"),
    )


def record_missing(attempt: Attempt) -> PermanentError:
    return PermanentError(
        f"target: the commit record of partition {attempt.partition.id} is gone: expected 1, "
        "found 0",
        Diagnosis(side="target"),
    )


def not_replaced(attempt: Attempt, left: int) -> PermanentError:
    partition = attempt.partition
    return PermanentError(
        f"target: {left:,} rows of {attempt.spec.target_table} that partition {partition.id} "
        f"({partition.extent}) replaces are still there after they were deleted; expected none "
        "(does a trigger or rule keep them?)",
        Diagnosis(side="target"),
    )


def wrongly_selected(attempt: Attempt, rows: int, selected: int) -> PermanentError:
    partition, where = attempt.partition, attempt.spec.where
    condition = f"{partition.extent} and {where}" if where else str(partition.extent)
    return PermanentError(
        f"target: partition {partition.id}: expected that its condition selects the {rows:,} rows "
        f"that were loaded, found that it selects {selected:,}: source and target evaluate it "
        f"differently, so replacing them again would double rows: {condition}",
        Diagnosis(side="target"),
    )


def key_with_null(columns: Sequence[str], rows: int, reason: str = "") -> PermanentError:
    """Return the error for a NULL in a key.

    Args:
        reason: why a NULL cannot be part of a key there.
    """
    because = f", since {reason}" if reason else ""
    return PermanentError(
        f"--mode upsert: expected a value in {', '.join(columns)} of every row{because}; found "
        f"{rows:,} rows with a NULL",
        Diagnosis(side="target"),
    )


def key_twice(key: Sequence[str], found: str, code: str = "") -> PermanentError:
    """Return the error for a duplicate key.

    Args:
        found: the key, and how often it occurs.
        code: the server's error code.
    """
    return PermanentError(
        f"--mode upsert: expected every key ({', '.join(key)}) once in the rows that are copied; "
        f"found {found}",
        Diagnosis(side="target", code=code),
    )


OF_ANOTHER_PARTITION = (
    "another partition may have copied; expected keys that are written alike; cut by the key's own "
    "column under the target's collation, or copy in one partition (--partitions 1), or have the "
    "key tell all texts apart"
)
OF_ANOTHER_ROW = (
    "the source may still have in another row, which was not read; expected keys that are written "
    "alike; read all rows anew, with --atomic and without --incremental or named partitions, or "
    "after `penstock watermark reset`; or have the key tell all texts apart"
)


def key_respelled(
    key: Sequence[str],
    mine: Sequence[object],
    theirs: Sequence[object],
    which: str = OF_ANOTHER_PARTITION,
) -> PermanentError:
    """Return the error for rows that are the same to the target, so that chance decides which wins.

    Args:
        which: where the other row may come from, and what to do.
    """
    found, there = (f"({', '.join(map(str, each))})" for each in (mine, theirs))
    return PermanentError(
        f"--mode upsert: the target's key ({', '.join(key)}) holds {found}, which is copied, equal "
        f"to {there}, which is there, and {which}",
        Diagnosis(side="target"),
    )


def superseded(run_id: str) -> Superseded:
    return Superseded(
        f"target: another process has replaced the snapshot of run {run_id}, or started the run "
        "over, at this moment",
        Diagnosis(side="target"),
    )


def load_lost(run_id: str) -> LoadLost:
    return LoadLost(
        f"target: a crash of the server has emptied the unlogged table that run {run_id} loads",
        Diagnosis(side="target"),
    )


def not_committed(run_id: str) -> TransientError:
    return TransientError(
        f"target: run {run_id} was started over by another process, or partitions of it are being "
        "copied again: expected every partition committed, found some that are not",
        Diagnosis(side="target"),
    )
