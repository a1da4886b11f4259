"""The results of mapped tasks, and the report that combines them."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Finished, NightStatus, Watermark, combined_report
from penstock.events import PartitionTiming
from penstock.model.records import CommitRecord
from penstock_airflow.runs.results import (
    covered_result,
    executions,
    result_of,
    summary_of,
    taken_text,
)


def finished(partition: str, rows: int = 100, seconds: float = 2.0, **fields: Any) -> Finished:
    timing = PartitionTiming(
        partition_id=partition,
        label=f"k = {partition}",
        attempt=1,
        rows=rows,
        bytes=rows * 10,
        seconds=seconds,
        wait_source=0.5,
        wait_target=0.25,
    )
    values: dict[str, Any] = {
        "run_id": "r",
        "status": "partial",
        "partitions": 3,
        "committed": 1,
        "attempts": 1,
        "rows": rows,
        "bytes": rows * 10,
        "seconds": seconds,
        "wait_source": 0.5,
        "wait_target": 0.25,
        "busy": seconds,
        "degree": 1,
        "snapshots": 1,
        "timings": (timing,),
    }
    return Finished(**values | fields)


def test_a_result_survives_an_xcom() -> None:
    first = finished("p0")
    result = json.loads(json.dumps(result_of(first, ["p0"], tries=1)))
    assert executions([result]) == [first]
    assert result["partitions"] == ["p0"]
    assert (result["rows_per_second"], result["bytes_per_second"]) == (50.0, 500.0)


def test_tries_without_a_commit_count_as_attempts() -> None:
    assert result_of(finished("p0"), ["p0"], tries=3)["attempts"] == 3
    # For a cleared task, counting starts at the clearing; a committed partition takes no attempt.
    assert result_of(finished("p0", attempts=0), ["p0"], tries=1)["attempts"] == 0
    assert result_of(finished("p0"), ["p0"], tries=0)["attempts"] == 1


def test_a_duration_of_zero_divides_nothing() -> None:
    assert result_of(finished("p0", seconds=0.0), ["p0"], tries=1)["rows_per_second"] == 100_000.0


def test_the_report_sums_all_tasks_and_has_the_status_of_the_run() -> None:
    results = [
        result_of(finished("p0", seconds=2.0), ["p0"], tries=1),
        result_of(finished("p1", rows=50, seconds=9.0), ["p1"], tries=2),
    ]
    last = finished("-", rows=0, seconds=0.1, status="done", committed=3, attempts=0)
    last = replace(last, timings=())
    report = combined_report([*executions(results), last], seconds=11.5, degree=4)
    assert (report.status, report.committed, report.degree) == ("done", 3, 4)
    assert (report.rows, report.bytes, report.attempts) == (150, 1500, 3)
    assert report.seconds == pytest.approx(11.5)
    assert [timing.partition_id for timing in report.timings] == ["p1", "p0"]


def record(rows: int, started: str, ended: str) -> CommitRecord:
    return CommitRecord(f"p{started}", 1, rows, rows * 10, started, ended)


def status_of(*records: CommitRecord) -> Any:
    plan = SimpleNamespace(partitions=[None] * 3)
    run = SimpleNamespace(run_id="r", status="done", plan=plan)
    return SimpleNamespace(run=run, committed=records, night=None)


def test_an_ending_follows_from_the_commit_records() -> None:
    day = "2026-01-01T00:00"
    assert summary_of(
        status_of(
            record(10, f"{day}:05+00:00", f"{day}:09+00:00"),
            record(30, f"{day}:01+00:00", f"{day}:06+00:00"),
        )
    ) == {
        "run_id": "r",
        "status": "done",
        "partitions": 3,
        "rows": 40,
        "bytes": 400,
        "seconds": 8.0,
        "rows_per_second": 5.0,
        "bytes_per_second": 50.0,
        "inserted": None,
        "updated": None,
        "read_at": None,
        "night": None,
    }


def test_an_ending_has_the_merged_rows_and_the_moment() -> None:
    first, later = "2026-01-01T00:00:00+00:00", "2026-01-01T00:30:00+01:00"
    records = [
        replace(record(5, first, first), inserted=3, updated=1, read_at=first),
        replace(record(2, first, first), inserted=0, updated=2, read_at=later),
    ]
    found = summary_of(status_of(*records))
    assert (found["inserted"], found["updated"]) == (3, 3)
    # The earlier one, in any time zone.
    assert found["read_at"] == later


def test_the_summary_without_partitions() -> None:
    summary = summary_of(status_of())
    assert (summary["rows"], summary["seconds"], summary["rows_per_second"]) == (0, 0.0, 0.0)


MARK = Watermark("w", 4, "r", "2026-01-02", None, rows=90, read=7, inserted=1, updated=2, deleted=3)


def test_the_summary_of_a_night() -> None:
    status = status_of()
    status.night = NightStatus("w", "2026-01-01", "", merged=MARK)
    assert summary_of(status)["night"] == {
        "watermark": "w",
        "epoch": 4,
        "moment": "2026-01-02",
        "since": "2026-01-01",
        "full": "",
        "lower": "",
        "unproven": "",
        "read": 7,
        "inserted": 1,
        "updated": 2,
        "deleted": 3,
        "rows": 90,
    }


@pytest.mark.parametrize(("covered", "by"), [(True, "r"), (False, None)])
def test_the_summary_of_an_overtaken_night(*, covered: bool, by: str | None) -> None:
    status = status_of()
    status.night = NightStatus("w", "2026-01-01", "", overtaken_by=MARK, covered=covered)
    assert summary_of(status)["night"] == {"watermark": "w", "covered_by": by}


def test_results_of_an_overtaken_run_are_left_out_of_the_report() -> None:
    done = finished("p0")
    covered = covered_result("r", ["p1"], "other")
    assert executions([result_of(done, ["p0"], tries=1), covered]) == [done]


@pytest.mark.parametrize(
    ("partitions", "size", "text"),
    [
        (0, 0, "w: no partitions"),
        (1, 999, "w: 1 partition, 1.0 kB"),
        (41, 1_234_567, "w: 41 partitions, 1.2 MB"),
        (1041, 1_234_567_890, "w: 1,041 partitions, 1.2 GB"),
    ],
)
def test_the_label_of_a_worker_says_what_it_has_copied(
    partitions: int, size: int, text: str
) -> None:
    assert taken_text("w", partitions, size) == text
