"""Distribution of a plan's partitions over mapped tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from penstock import Partition

MAX_LABEL = 200
"""Maximum number of characters of a label in the grid, of which Airflow keeps 250."""


def pack(
    run_id: str,
    mode: str,
    partitions: Sequence[Partition],
    *,
    per_task: int,
    max_tasks: int,
    concurrency: int,
    max_rate: int | None = None,
    gathers: bool = False,
) -> list[dict[str, Any]]:
    """Return the input of each mapped task.

    Bounds are included only to be shown; the plan itself is in the target.

    Args:
        run_id: the id of the run.
        mode: the mode of the run.
        partitions: the partitions of the plan, in order.
        per_task: partitions per mapped task; more if there would be too many tasks.
        max_tasks: the maximum number of mapped tasks that Airflow accepts (`max_map_length`).
        concurrency: how many of them may run at once; 0 for no limit.
        max_rate: bytes per second for the whole run, which the tasks divide; None for no limit.
        gathers: whether the run gathers its rows in a stage.
    """
    count = len(partitions)
    tasks = max(1, min(-(-count // per_task), max_tasks)) if count else 0
    divisor = max(1, min(concurrency or tasks, tasks))
    rate = {} if max_rate is None else {"max_rate": max(1, max_rate // divisor)}
    bounds = [count * number // tasks for number in range(tasks + 1)] if tasks else []
    return [
        {
            "run_id": run_id,
            "mode": mode,
            "partitions": [partition.id for partition in partitions[first:end]],
            "label": _label(partitions[first:end]),
            **rate,
            **({"gathers": True} if gathers else {}),
        }
        for first, end in pairwise(bounds)
    ]


def hire(
    run_id: str,
    mode: str,
    partitions: int,
    *,
    workers: int,
    max_rate: int | None = None,
    gathers: bool = False,
) -> list[dict[str, Any]]:
    """Return the input of each mapped task that takes partitions by itself.

    Args:
        run_id: the id of the run.
        mode: the mode of the run.
        partitions: the number of partitions; there are no more tasks.
        workers: the number of mapped tasks.
        max_rate: as in `pack`.
        gathers: as in `pack`.
    """
    count = min(workers, partitions)
    rate = {} if max_rate is None else {"max_rate": max(1, max_rate // count)}
    return [
        {
            "run_id": run_id,
            "mode": mode,
            "label": f"worker {number}",
            **rate,
            **({"gathers": True} if gathers else {}),
        }
        for number in range(count)
    ]


def _label(partitions: Sequence[Partition]) -> str:
    first, last = partitions[0], partitions[-1]
    if len(partitions) == 1:
        text = f"{first.id} {first.extent}"
    else:
        text = f"{first.id} to {last.id}: {first.extent} to {last.extent}"
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
