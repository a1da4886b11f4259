"""What a mapped task returns, and how the report uses it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from penstock import Finished, RunStatus, from_line


def result_of(finished: Finished, partitions: Sequence[str], tries: int) -> dict[str, Any]:
    """
    Parameters:
        tries: how often the task was tried since it was last cleared.
    """
    seconds = max(finished.seconds, 0.001)
    # Earlier tries committed nothing, or committed what this try has found.
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


def executions(results: Iterable[Mapping[str, Any]]) -> list[Finished]:
    """The executions whose events mapped tasks returned."""
    found = []
    for result in results:
        event = from_line(json.dumps(result["event"]))
        assert isinstance(event, Finished)
        found.append(event)
    return found


def summary_of(status: RunStatus) -> dict[str, Any]:
    """A run's result, from its commit records."""
    records = status.committed
    seconds = 0.0
    if records:
        begun = min(datetime.fromisoformat(record.started_at) for record in records)
        ended = max(datetime.fromisoformat(record.committed_at) for record in records)
        seconds = (ended - begun).total_seconds()
    rows = sum(record.rows for record in records)
    size = sum(record.bytes for record in records)
    return {
        "run_id": status.run.run_id,
        "status": status.run.status,
        "partitions": len(status.run.plan.partitions),
        "rows": rows,
        "bytes": size,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / max(seconds, 0.001), 1),
        "bytes_per_second": round(size / max(seconds, 0.001), 1),
    }
