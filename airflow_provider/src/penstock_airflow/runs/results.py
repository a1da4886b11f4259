"""The results of mapped tasks, and their use in the report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from penstock import BatchFinished, Finished, NightStatus, RunStatus, from_line


def result_of(finished: Finished, partitions: Sequence[str], tries: int) -> dict[str, Any]:
    """Return the result of a task.

    Args:
        finished: the last event of the task's copy.
        partitions: the ids of its partitions.
        tries: how often the task was tried since it was last cleared.
    """
    seconds = max(finished.seconds, 0.001)
    # Earlier tries committed nothing, or only partitions that this try found committed.
    finished = replace(finished, attempts=finished.attempts + max(0, tries - 1))
    return {
        "run_id": finished.run_id,
        "partitions": list(partitions),
        "rows": finished.rows,
        "bytes": finished.bytes,
        "seconds": finished.seconds,
        "rows_per_second": round(finished.rows / seconds, 1),
        "bytes_per_second": round(finished.bytes / seconds, 1),
        "attempts": finished.attempts,
        "event": finished.as_json(),
    }


def taken_text(label: str, partitions: int, size: int) -> str:
    """Return what a worker has copied, as a label in the grid.

    Args:
        label: the worker's name.
        partitions: how many partitions it has committed.
        size: their bytes.
    """
    if not partitions:
        return f"{label}: no partitions"
    unit, name = (1e9, "GB") if size >= 1e9 else (1e6, "MB") if size >= 1e6 else (1e3, "kB")
    plural = "" if partitions == 1 else "s"
    return f"{label}: {partitions:,} partition{plural}, {size / unit:,.1f} {name}"


def covered_result(run_id: str, partitions: Sequence[str], by: str) -> dict[str, Any]:
    """Return the result of a task whose run was overtaken.

    Args:
        run_id: the id of the run.
        partitions: the ids of the task's partitions.
        by: the id of the run that merged the same changes.
    """
    return {"run_id": run_id, "partitions": list(partitions), "rows": 0, "covered_by": by}


def executions(results: Iterable[Mapping[str, Any]]) -> list[Finished]:
    """Return the executions whose events mapped tasks returned."""
    events = []
    for result in results:
        if "event" not in result:
            continue  # its run was overtaken
        event = from_line(json.dumps(result["event"]))
        assert isinstance(event, Finished)
        events.append(event)
    return events


def summary_of(status: RunStatus) -> dict[str, Any]:
    """Return a run's result from its commit records."""
    records = status.committed
    seconds = 0.0
    if records:
        start = min(datetime.fromisoformat(record.started_at) for record in records)
        ended = max(datetime.fromisoformat(record.committed_at) for record in records)
        seconds = (ended - start).total_seconds()
    merged = any(record.inserted is not None for record in records)
    moments = {datetime.fromisoformat(record.read_at) for record in records if record.read_at}
    return {
        "run_id": status.run.run_id,
        "status": status.run.status,
        "partitions": len(status.run.plan.partitions),
        **_throughput(
            sum(record.rows for record in records),
            sum(record.bytes for record in records),
            seconds,
        ),
        # In mode upsert, the rows that are new and the rows that differed.
        "inserted": sum(record.inserted or 0 for record in records) if merged else None,
        "updated": sum(record.updated or 0 for record in records) if merged else None,
        # The first moment, if some partitions were read later; None if each was read at its own.
        "read_at": min(moments).isoformat() if moments else None,
        "night": None if status.night is None else _night_result(status.night),
    }


def _night_result(night: NightStatus) -> dict[str, Any]:
    """Return where a night began to read, the moment that it reached, and what it merged."""
    merged = night.merged
    if merged is None:
        by = night.overtaken_by if night.covered else None
        return {"watermark": night.watermark, "covered_by": by and by.run_id}
    return {
        "watermark": night.watermark,
        "epoch": merged.epoch,
        "moment": merged.moment,
        # Empty if all rows were read, for the reason in `full`.
        "since": night.since,
        "full": night.full,
        # With a column: the condition of the rows that were read, and why it may miss some.
        "lower": night.lower,
        "unproven": night.unproven,
        "read": merged.read,
        "inserted": merged.inserted,
        "updated": merged.updated,
        "deleted": merged.deleted,
        # The rows of the target's table; None if not counted.
        "rows": merged.rows,
    }


def batch_summary_of(finished: BatchFinished, statuses: Iterable[RunStatus]) -> dict[str, Any]:
    """Return the result of a batch and of each of its tables."""
    tables = {}
    for status in statuses:
        summary = summary_of(status)
        names = ("run_id", "rows", "inserted", "updated", "bytes", "partitions", "read_at", "night")
        tables[status.run.spec["target_table"]] = {name: summary[name] for name in names}
    return {
        "run_id": finished.run_id,
        "status": finished.status,
        **_throughput(
            sum(table["rows"] for table in tables.values()),
            sum(table["bytes"] for table in tables.values()),
            finished.seconds,
        ),
        "tables": tables,
    }


def _throughput(rows: int, size: int, seconds: float) -> dict[str, Any]:
    return {
        "rows": rows,
        "bytes": size,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / max(seconds, 0.001), 1),
        "bytes_per_second": round(size / max(seconds, 0.001), 1),
    }
