"""The output in orchestrators: lines of an execution, and one report of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock import combined_report, failure_text, narrate, report_text
from penstock.events import (
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    OtherProcess,
    PartitionFailure,
    PartitionTiming,
    Planned,
    Progress,
    Retrying,
    SnapshotChanged,
    StepChanged,
    Waiting,
    Warned,
)
from penstock.model.tables import NotCopied
from penstock.show import lines as show_lines

RUN = "orders-1"
MOVED: Mapping[str, Any] = {
    "rows": 10,
    "bytes": 1_000,
    "seconds": 2.0,
    "wait_source": 0.5,
    "wait_target": 1.0,
}
LOST = {"error": "TransientError", "message": "the connection was lost", "transient": True}
BAD = {"error": "PermanentError", "message": "a bad row", "transient": False, "code": "22P02"}


def planned() -> Planned:
    return Planned(
        run_id=RUN,
        strategy="ctid",
        reasons=("because of this",),
        partitions=2,
        committed=0,
        rows=20,
        bytes=2_000,
        fingerprint="f",
        degree=1,
        seconds=0.1,
    )


def of_attempt(attempt: int) -> Mapping[str, Any]:
    return {"run_id": RUN, "partition_id": "p0001", "attempt": attempt, "pid": 1}


def finished(**values: Any) -> Finished:
    event = Finished(
        run_id=RUN,
        status="partial",
        partitions=2,
        committed=1,
        attempts=1,
        rows=10,
        bytes=1_000,
        seconds=2.5,
        wait_source=0.5,
        wait_target=1.0,
        busy=2.0,
        degree=1,
        snapshots=1,
        timings=(PartitionTiming(partition_id="p0001", label="blocks [0, 1)", attempt=1, **MOVED),),
    )
    return replace(event, **values)


def lines(*events: Event, only: int = 0) -> list[str]:
    output: list[str] = []
    assert tuple(narrate(events, output.append, only)) == events
    return output


def test_a_retried_failure_is_reported_with_the_retry() -> None:
    output = lines(
        planned(),
        Opened(**of_attempt(1), label="blocks [0, 1)"),
        Failed(**of_attempt(1), error=LOST),
        Retrying(run_id=RUN, partition_id="p0001", attempt=2, delay=1.0),
        Opened(**of_attempt(2), label="blocks [0, 1)"),
        Committed(**of_attempt(2), **MOVED),
    )
    assert output[1] == "    because of this"
    assert [line.split(":")[0].strip() for line in output[2:]] == [
        "failed",
        "the connection was lost",
        "retrying",
        "committed",
    ]


def by_level(*events: Event) -> tuple[list[str], list[str]]:
    """Return the lines of warnings and of failures."""
    warned: list[str] = []
    failures: list[str] = []
    list(narrate(events, lambda _: None, warn=warned.append, fail=failures.append))
    return warned, failures


def test_a_failure_that_is_not_retried_is_logged_as_soon_as_others_go_on() -> None:
    other = {**of_attempt(1), "partition_id": "p0002"}
    for error in (BAD, LOST):
        events = (
            planned(),
            Opened(**of_attempt(1), label="blocks [0, 1)"),
            Opened(**other, label="blocks [1, 2)"),
            Failed(**of_attempt(1), error=error),
            Committed(**other, **MOVED),
        )
        warned, failures = by_level(*events)
        assert failures[0] == "failed: p0001 (blocks [0, 1)), attempt 1"
        assert str(error["message"]) in failures[1]
        assert not warned


def test_a_retried_failure_is_a_warning() -> None:
    retried = Retrying(run_id=RUN, partition_id="p0001", attempt=2, delay=1.0)
    warned, failures = by_level(planned(), Failed(**of_attempt(1), error=LOST), retried)
    assert [line.split(":")[0].strip() for line in warned] == [
        "failed",
        "the connection was lost",
        "retrying",
    ]
    assert not failures
    assert by_level(planned(), Failed(**of_attempt(1), error=BAD), finished()) == ([], [])


def test_failed_steps_and_tables_are_logged_as_failures() -> None:
    step = StepChanged(
        run_id=RUN, state="failed", step_id="i", step="build i", message="full", seconds=0.0
    )
    table = Warned(run_id=RUN, message="b.orders: no such table", error=BAD)
    harmless = Warned(run_id=RUN, message="rows may be missing")
    warned, failures = by_level(planned(), step, table, harmless)
    assert failures == ["failed: build i: full", "b.orders: no such table"]
    assert warned == ["warning: rows may be missing"]


def test_progress_counts_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show_lines, "_PROGRESS_EVERY", 0.0)
    other = {**of_attempt(1), "partition_id": "p0002"}
    output = lines(
        planned(),
        Failed(**of_attempt(1), error=LOST),
        Opened(**other, label=""),
        Progress(**other, **MOVED),
        Retrying(run_id=RUN, partition_id="p0001", attempt=2, delay=1.0),
        Progress(**other, **MOVED),
    )
    progress = [line for line in output if line.startswith("progress")]
    assert "0 of 2 partitions, 1 failed, " in progress[0]
    assert "failed" not in progress[1]


def test_the_last_failure_is_left_to_the_exception() -> None:
    output = lines(planned(), Opened(**of_attempt(1), label=""), Failed(**of_attempt(1), error=BAD))
    assert not [line for line in output if "bad row" in line]


def test_reasons_are_shown_when_the_plan_is_created() -> None:
    assert len(lines(planned(), only=1)) == 1
    assert len(lines(planned())) == 2


def test_the_text_of_a_failure_names_the_partition_once() -> None:
    failure = PartitionFailure(partition_id="p0002", label="blocks [1, 2)", attempts=1, error=BAD)
    text = failure_text(finished(status="failed", failures=(failure,)))
    assert text.startswith("partition p0002 (blocks [1, 2)): [22P02]")
    assert text.count("a bad row") == 1
    assert failure_text(finished(error=LOST)) == "the connection was lost"


def test_the_first_line_of_many_failures_has_the_cause() -> None:
    failures = tuple(
        PartitionFailure(partition_id=f"p000{number}", label="x", attempts=1, error=BAD)
        for number in (1, 2, 3)
    )
    first, *rest = failure_text(finished(status="failed", failures=failures)).splitlines()
    assert "3 partitions failed, the first of them p0001: [22P02]" in first
    assert "a bad row" in first
    assert [line[:15] for line in rest if line.startswith("partition")] == [
        "partition p0001",
        "partition p0002",
        "partition p0003",
    ]
    assert failure_text(finished()) == ""


def test_executions_are_summed_and_the_last_one_has_the_status() -> None:
    slow = PartitionTiming(partition_id="p0002", label="", attempt=3, **{**MOVED, "seconds": 9.0})
    last = finished(status="done", committed=2, attempts=0, rows=0, bytes=0, timings=())
    whole = combined_report(
        [finished(), finished(attempts=3, timings=(slow,)), last], seconds=7.0, degree=2
    )
    assert (whole.status, whole.committed, whole.degree, whole.seconds) == ("done", 2, 2, 7.0)
    assert (whole.attempts, whole.rows, whole.bytes) == (4, 20, 2_000)
    assert (whole.wait_source, whole.wait_target, whole.busy) == (1.5, 3.0, 6.0)
    assert [timing.partition_id for timing in whole.timings] == ["p0002", "p0001"]
    assert whole.inserted is None
    upsert = combined_report([finished(inserted=3, updated=2), finished()], seconds=1.0, degree=1)
    assert (upsert.inserted, upsert.updated) == (3, 2)


def test_a_report_has_advice_only_if_the_run_is_unfinished() -> None:
    text = report_text(finished(), "clear what failed")
    assert "1 of 2 committed" in text
    assert "clear what failed" in text
    assert "clear what failed" not in report_text(finished(status="done", committed=2), "clear")


def test_a_task_with_some_partitions_counts_only_those() -> None:
    committed = (Opened(**of_attempt(1), label=""), Committed(**of_attempt(1), **MOVED))
    assert lines(planned(), *committed)[-1].endswith("(1 of 2)")
    assert lines(planned(), *committed, only=1)[-1].endswith("(1 of 1)")


def test_warnings_of_a_plan_are_logged_as_warnings() -> None:
    said: list[str] = []
    warned: list[str] = []
    event = replace(
        planned(),
        warnings=("the name is taken",),
        not_copied=(NotCopied("triggers", "t"),),
    )
    lost = SnapshotChanged(run_id=RUN, state="lost", taken_at="", message="its session has ended")
    taken = SnapshotChanged(run_id=RUN, state="taken", taken_at="", message="")
    failed = Failed(**of_attempt(1), error=LOST)
    retried = Retrying(run_id=RUN, partition_id="p0001", attempt=2, delay=1.0)
    list(narrate((taken, event, lost, failed, retried), said.append, warn=warned.append))
    assert warned[0] == "warning: the name is taken"
    assert warned[1].startswith("snapshot lost")
    assert [line.split(":")[0].strip() for line in warned[2:]] == [
        "failed",
        "the connection was lost",
        "retrying",
    ]
    assert said[0].startswith("snapshot taken")
    assert any("not copied: triggers (1)" in line for line in said)


def other(pid: int, what: str, *partition_ids: str) -> OtherProcess:
    since = "2026-11-30T10:20:30+00:00"
    return OtherProcess(host="copy-2", pid=pid, what=what, since=since, partition_ids=partition_ids)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (
            (other(7, "finishing"),),
            [
                "waiting for PID 7 on copy-2 (finishing, since 10:20:30Z)",
                "    if it hangs, kill it there (kill -9 PID): another process takes over",
            ],
        ),
        (
            (other(7, "copying", "p0003", "p0005"), other(8, "copying", "p0004")),
            [
                "waiting for PID 7 on copy-2 (copying p0003, p0005, since 10:20:30Z); PID 8 on "
                "copy-2 (copying p0004, since 10:20:30Z)",
                "    if one of them hangs, kill it there (kill -9 PID): another process takes over",
            ],
        ),
        (
            (),
            [
                "waiting for another process",
                "    see penstock status orders-1 --target URL",
            ],
        ),
    ],
)
def test_a_process_says_for_whom_it_waits(
    others: tuple[OtherProcess, ...], expected: list[str]
) -> None:
    assert lines(planned(), Waiting(run_id=RUN, others=others))[-2:] == expected
    assert by_level(Waiting(run_id=RUN, others=others))[1] == []
