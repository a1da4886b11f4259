"""The output for people: numbers, the tally, the plain and the live display, tables."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from penstock.engine.report import Report
from penstock.events import (
    Committed,
    DegreeChanged,
    Event,
    Failed,
    Finished,
    Opened,
    OtherProcess,
    PartitionFailure,
    PartitionTiming,
    Planned,
    Prepared,
    Progress,
    Retrying,
    SnapshotChanged,
    TurnTaken,
    Waiting,
    Warned,
    from_line,
)
from penstock.figures.execution_end import end_of
from penstock.model.extents import Bound, Key, KeyRange
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import Column, ColumnPair, NotCopied, TableRef
from penstock.show.console import make_console
from penstock.show.lines import JsonDisplay, PlainDisplay
from penstock.show.live import Bar, LiveDisplay
from penstock.show.plan_table import print_plan
from penstock.show.run_report import print_run_report
from penstock.show.status_table import print_status
from penstock.show.tally import Tally
from penstock.show.text import (
    cells,
    duration,
    error_lines,
    megabytes,
    not_copied_lines,
    number,
    one_line,
    percent,
    printable,
    shorten,
    size,
)
from penstock.show.verification_table import print_verification
from penstock.verification.result import DIFFERENT, RowDifference

RUN = "20260714-101500-ab12"
LABEL = "l_orderkey [1200000, 1800000)"
REFUSED: Mapping[str, Any] = {
    "error": "PermanentError",
    "message": 'null value in column "c"',
    "transient": False,
    "side": "target",
    "code": "23502",
    "detail": "Failing row contains (7, null).",
    "context": "COPY lineitem, line 1000123",
}
LOST: Mapping[str, Any] = {
    "error": "TransientError",
    "message": "connection lost",
    "transient": True,
    "code": "57P01",
}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def planned(**changes: Any) -> Planned:
    values: dict[str, Any] = {
        "run_id": RUN,
        "at": "2026-07-14T10:15:00.123+00:00",
        "strategy": "range",
        "reasons": ("equal-count bounds from statistics",),
        "partitions": 4,
        "committed": 0,
        "rows": 4_000_000,
        "bytes": 400_000_000,
        "fingerprint": "f",
        "degree": 2,
        "seconds": 0.1,
    }
    return Planned(**{**values, **changes})


def opened(partition_id: str, attempt: int = 1, label: str = LABEL) -> Opened:
    return Opened(run_id=RUN, partition_id=partition_id, attempt=attempt, pid=1, label=label)


def progress(
    kind: type[Progress] | type[Committed],
    partition_id: str,
    rows: int,
    seconds: float = 1.0,
    attempt: int = 1,
    **more: Any,
) -> Progress | Committed:
    return kind(
        run_id=RUN,
        at="2026-07-14T10:15:09.000+00:00",
        partition_id=partition_id,
        attempt=attempt,
        pid=1,
        rows=rows,
        bytes=rows * 100,
        seconds=seconds,
        wait_source=0.0,
        wait_target=0.0,
        **more,
    )


def failed(partition_id: str, error: Mapping[str, Any], attempt: int = 1) -> Failed:
    return Failed(run_id=RUN, partition_id=partition_id, attempt=attempt, pid=1, error=error)


def finished(**changes: Any) -> Finished:
    values: dict[str, Any] = {
        "run_id": RUN,
        "status": "done",
        "partitions": 4,
        "committed": 4,
        "attempts": 5,
        "rows": 4_000_000,
        "bytes": 400_000_000,
        "seconds": 8.0,
        "wait_source": 3.0,
        "wait_target": 9.0,
        "busy": 15.0,
        "degree": 2,
        "snapshots": 1,
    }
    return Finished(**{**values, **changes})


def timing(number: int, seconds: float, label: str = LABEL) -> PartitionTiming:
    return PartitionTiming(
        partition_id=f"p{number}",
        label=label,
        attempt=1,
        rows=1_000_000,
        bytes=100_000_000,
        seconds=seconds,
        wait_source=seconds / 4,
        wait_target=seconds / 2,
    )


def console(width: int = 80, height: int = 24, terminal: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        height=height,
        force_terminal=terminal,
        color_system=None,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={"TERM": "xterm"},
    )


def text_of(shown: object) -> str:
    return cast(io.StringIO, cast(Any, shown).file).getvalue()


# Numbers and texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(1234567), "1,234,567"),
        (number(None), "?"),
        (number(0.4), "0"),
        (size(None), "?"),
        (size(0), "0 B"),
        (size(99_999), "99,999 B"),
        (size(1_234_567_890), "1,234.6 MB"),
        (size(1_234_567_890_000), "1,234.6 GB"),
        (megabytes(12_345_678), "12.3"),
        (duration(0), "0.0 s"),
        (duration(59.9), "59.9 s"),
        (duration(59.97), "1:00"),
        (duration(61), "1:01"),
        (duration(3599.9), "1:00:00"),
        (duration(3_661), "1:01:01"),
        (percent(0.999), "99%"),
        (percent(1.0), "100%"),
    ],
)
def test_numbers_are_formatted(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize("width", range(12))
def test_shortened_text_fits_the_width(width: int) -> None:
    for text in ("l_orderkey [12, 23)", "größe ≥ 日本語日本語", "é" * 20):
        assert cells(shorten(text, width)) <= width


def test_shortening_keeps_both_ends() -> None:
    assert shorten("abcdefghij", 5) == "ab…ij"
    assert shorten("abcde", 5) == "abcde"


def test_data_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[31m\r\nb") == "a\\x1b[31m\\r\nb"
    assert one_line("a\n\x07b\u202e") == "a \\x07b\\u202e"
    assert error_lines({"message": "no\x1b]0;x\x07", "detail": "one\ntwo"}) == [
        "no\\x1b]0;x\\x07",
        "detail: one",
        "two",
    ]


def test_an_error_has_its_place_and_the_servers_whole_message() -> None:
    assert error_lines(REFUSED) == [
        '[target 23502] null value in column "c"',
        "detail: Failing row contains (7, null).",
        "context: COPY lineitem, line 1000123",
    ]
    assert error_lines({"error": "WorkerLost"}) == ["WorkerLost"]
    lost = {"message": "target: connection lost", "side": "target", "code": "57P01"}
    assert error_lines(lost) == ["[57P01] target: connection lost"]


# The tally


def test_tally_adds_up_committed_and_moving_rows() -> None:
    clock = Clock()
    tally = Tally(clock=clock)
    for event in (planned(), opened("p1"), opened("p2")):
        tally.add(event)
    clock.now += 2
    tally.add(progress(Progress, "p1", 500_000, 2))
    tally.add(progress(Committed, "p2", 1_000_000, 2))
    assert (tally.rows, tally.bytes) == (1_500_000, 150_000_000)
    assert (tally.committed, tally.partitions) == (1, 4)
    assert list(tally.streams) == ["p1"]
    assert tally.rate() == (750_000, 75_000_000)
    assert tally.streams["p1"].rate() == (250_000, 25_000_000)
    assert tally.share() == pytest.approx(1_500_000 / 4_000_000)


def test_a_failed_attempts_rows_count_only_for_the_rate() -> None:
    clock = Clock()
    tally = Tally(clock=clock)
    for event in (planned(), opened("p1")):
        tally.add(event)
    clock.now += 1
    tally.add(progress(Progress, "p1", 600_000))
    tally.add(failed("p1", LOST))
    assert tally.rows == 0
    assert tally.share() == 0
    assert tally.rate()[0] == 600_000
    tally.add(opened("p1", 2))
    # The first attempt's last event arrives late.
    tally.add(progress(Progress, "p1", 700_000, attempt=1))
    assert tally.rows == 0


def test_an_already_committed_partition_counts_without_rows() -> None:
    clock = Clock()
    tally = Tally(clock=clock)
    tally.add(planned())
    tally.add(opened("p1", 2))
    clock.now += 1
    tally.add(progress(Committed, "p1", 1_000_000, attempt=2, already=True))
    assert tally.committed == 1
    assert tally.rate() == (0, 0)
    assert tally.share() == 0.25


def test_time_left_follows_from_the_share() -> None:
    clock = Clock()
    tally = Tally(clock=clock)
    tally.add(planned())
    tally.add(opened("p1"))
    assert tally.seconds_left() is None
    clock.now += 10
    tally.add(progress(Progress, "p1", 800_000, 10))
    assert tally.seconds_left() == pytest.approx(40)


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        ({"rows": None, "bytes": 400_000_000}, 100 / 400),
        ({"rows": None, "bytes": None}, 1 / 4),
        # The estimate is far too low: the share of partitions is more accurate.
        ({"rows": 1_000, "bytes": 1}, 1 / 4),
        # Twice too high: committed partitions pull it towards the truth, 1/4.
        ({"rows": 8_000_000}, 1_000_000 / (0.75 * 8_000_000 + 1_000_000)),
    ],
)
def test_share_uses_the_best_estimate(estimates: dict[str, Any], expected: float) -> None:
    tally = Tally()
    tally.add(planned(**estimates))
    tally.add(opened("p1"))
    tally.add(progress(Committed, "p1", 1_000_000))
    assert tally.share() == pytest.approx(expected)


def test_share_of_a_resumed_run_covers_the_remaining_partitions() -> None:
    tally = Tally()
    tally.add(planned(committed=2))
    assert tally.share() == 0
    assert tally.committed == 2
    tally.add(opened("p3"))
    tally.add(progress(Progress, "p3", 500_000))
    assert tally.share() == pytest.approx(0.25)


def test_share_of_selected_partitions_reaches_the_end() -> None:
    tally = Tally(only=1)
    tally.add(planned())
    tally.add(opened("p3"))
    tally.add(progress(Progress, "p3", 500_000))
    assert tally.share() == pytest.approx(0.5)
    tally.add(progress(Committed, "p3", 1_000_000))
    assert tally.share() == 1
    assert tally.committed == 1


def test_a_run_that_starts_over_forgets_its_commits() -> None:
    tally = Tally()
    lost = SnapshotChanged(run_id=RUN, state="lost", taken_at="", message="")
    for event in (planned(committed=1), opened("p1"), progress(Committed, "p1", 10), opened("p2")):
        tally.add(event)
    assert (tally.committed, list(tally.streams)) == (2, ["p2"])
    tally.add(lost)
    assert (tally.committed, list(tally.streams)) == (2, [])
    # Another snapshot is accepted.
    tally.add(Prepared(run_id=RUN, mode="truncate", already=True))
    assert tally.committed == 2
    tally.add(Prepared(run_id=RUN, mode="truncate", already=False))
    assert (tally.committed, tally.rows, tally.share()) == (0, 0, 0)


# Plain lines


def script() -> Iterator[Event]:
    """Return the events of a run with every kind of event that is shown."""
    yield planned()
    yield Prepared(run_id=RUN, mode="truncate", already=False)
    yield SnapshotChanged(run_id=RUN, state="taken", taken_at="2026-07-14T10:15:00Z", message="")
    yield opened("p1")
    yield opened("p2")
    yield progress(Progress, "p1", 500_000)
    yield failed("p1", LOST)
    yield Retrying(run_id=RUN, partition_id="p1", attempt=2, delay=1.5)
    yield DegreeChanged(run_id=RUN, degree=1, message="too many clients")
    yield Warned(run_id=RUN, message="the snapshot is old")
    yield failed("p2", REFUSED)
    yield opened("p1", 2)
    yield progress(Committed, "p1", 1_000_000, 2.5, attempt=2)


EVERYTHING = [
    "planned: 4 partitions by range, about 4,000,000 rows and 400.0 MB in the source; 2 streams",
    "    equal-count bounds from statistics",
    "target prepared (truncate)",
    "snapshot taken, of 2026-07-14T10:15:00Z",
    f"failed: p1 ({LABEL}), attempt 1",
    "    [57P01] connection lost",
    "retrying: p1, in 1.5 s",
    "degree lowered to 1: too many clients",
    "warning: the snapshot is old",
    f"failed: p2 ({LABEL}), attempt 1",
    '    [target 23502] null value in column "c"',
    "    detail: Failing row contains (7, null).",
    "    context: COPY lineitem, line 1000123",
]


def test_plain_lines_report_every_event() -> None:
    file = io.StringIO()
    with PlainDisplay(Tally(clock=Clock()), file, Clock()) as display:
        for event in script():
            display.show(event)
    lines = file.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\dZ  ", line) for line in lines)
    assert [line[11:] for line in lines] == [
        *EVERYTHING,
        "committed: p1, 1,000,000 rows, 100.0 MB in 2.5 s (1 of 4)",
    ]
    assert lines[0].startswith("10:15:00Z")


def test_plain_progress_is_limited_to_every_few_seconds() -> None:
    clock = Clock()
    file = io.StringIO()
    display = PlainDisplay(Tally(clock=clock), file, clock)
    display.show(planned())
    display.show(opened("p1"))
    file.truncate(0)
    file.seek(0)
    for second in range(1, 12):
        clock.now += 1
        display.show(progress(Progress, "p1", second * 100_000, second))
    assert [line[11:] for line in file.getvalue().splitlines()] == [
        "progress: 12%, 0 of 4 partitions, 500,000 rows, 100,000 rows/s, 10.0 MB/s, "
        "about 35.0 s left",
        "progress: 25%, 0 of 4 partitions, 1,000,000 rows, 100,000 rows/s, 10.0 MB/s, "
        "about 30.0 s left",
    ]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            planned(committed=3, rows=None, bytes=None, degree=1),
            "planned: 4 partitions by range, 3 of them already committed; 1 stream",
        ),
        (
            Prepared(run_id=RUN, mode="append", already=True),
            "target was prepared before (append)",
        ),
        (
            SnapshotChanged(run_id=RUN, state="lost", taken_at="", message="holder\nis gone"),
            "snapshot lost: holder is gone",
        ),
        (
            progress(Committed, "p1", 5, already=True),
            "committed: p1, by another attempt (0 of 0)",
        ),
    ],
)
def test_each_event_has_its_plain_line(event: Event, expected: str) -> None:
    file = io.StringIO()
    PlainDisplay(Tally(), file).show(event)
    assert file.getvalue().splitlines()[0][11:] == expected


def test_json_lines_are_the_events() -> None:
    file = io.StringIO()
    events = [*script(), finished(failures=(), timings=(timing(1, 1.0),))]
    with JsonDisplay(Tally(), file) as display:
        for event in events:
            display.show(event)
    assert [from_line(line) for line in file.getvalue().splitlines()] == events


# The live display


def live(width: int = 80, height: int = 24) -> tuple[LiveDisplay, Console, Clock]:
    clock = Clock()
    shown = console(width, height, terminal=True)
    return LiveDisplay(Tally(clock=clock), shown, "public.lineitem"), shown, clock


def rendered(display: LiveDisplay, width: int = 80, height: int = 24) -> list[str]:
    # Without a terminal: plain text of the requested width.
    shown = console(width, height)
    shown.print(display.render())
    return [line.rstrip() for line in text_of(shown).splitlines()]


def test_live_lines_show_the_total_and_every_stream() -> None:
    display, _, clock = live()
    for event in (planned(), opened("p1"), opened("p2", 3, "l_orderkey < 7")):
        display.show(event)
    clock.now += 10
    display.show(progress(Progress, "p2", 1_000_000, 10.0, attempt=3))
    display.show(progress(Progress, "p1", 200_000, 10.0))
    title, bar, figures, empty, heading, first, second, *_ = rendered(display)
    assert title == f"public.lineitem  run {RUN}"
    assert bar.endswith(" 30% 0/4 partitions")
    assert figures.split("   ") == [
        "1,200,000 rows",
        "120,000 rows/s",
        "12.0 MB/s",
        "about 23.3 s left",
        "10.0 s elapsed",
    ]
    assert empty == ""
    assert heading.split("  ")[0] == "partition"
    assert first.split() == ["p1", *LABEL.split(), "200,000", "20,000", "2.0"]
    assert second.split()[:5] == ["p2", "#3", "l_orderkey", "<", "7"]


def test_live_names_partitions_that_failed_until_they_are_tried_again() -> None:
    display, _, _ = live(height=12)
    display.show(planned(partitions=30))
    for index in range(12):
        display.show(opened(f"p{index}"))
        display.show(failed(f"p{index}", LOST if index == 3 else REFUSED))
    display.show(Retrying(run_id=RUN, partition_id="p3", attempt=2, delay=1.0))
    names = "p0, p1, p2, p4, p5, p6, p7, p8, p9, p10"
    assert rendered(display)[3] == f"failed: 11 partitions: {names}, ..."
    for index in range(1, 12):
        display.show(opened(f"p{index}", 2))
    assert rendered(display)[3] == "failed: 1 partition: p0"
    assert len(rendered(display, height=12)) < 12
    display.show(opened("p0", 2))
    assert rendered(display)[3] == ""


def test_live_shows_for_whom_a_process_waits_until_it_does_something() -> None:
    display, _, _ = live(width=100)
    display.show(planned())
    other = OtherProcess(host="copy-2", pid=7, what="finishing", since="2026-11-30T10:20:30+00:00")
    display.show(Waiting(run_id=RUN, others=(other,)))
    text = "waiting for PID 7 on copy-2 (finishing, since 10:20:30Z)"
    assert rendered(display, width=100)[4] == text
    display.show(TurnTaken(run_id=RUN, what="finishing", run_ids=(RUN,)))
    assert text not in rendered(display, width=100)


@pytest.mark.parametrize(("share", "bar"), [(0.0, "─" * 10), (0.39, "━━━───────"), (1.0, "━" * 10)])
def test_live_shows_the_share_without_colours(share: float, bar: str) -> None:
    shown = console(10)
    shown.print(Bar(share))
    assert text_of(shown) == f"{bar}\n"


def test_live_shows_a_stalled_stream() -> None:
    display, _, clock = live()
    display.show(planned())
    display.show(opened("p1"))
    clock.now += 4
    assert "idle" not in "\n".join(rendered(display))
    clock.now += 8.5
    assert "idle 12.5 s" in rendered(display)[5]


@pytest.mark.parametrize("width", [10, 20, 30, 36, 40, 48, 59, 60, 80, 200])
def test_live_never_exceeds_the_width_or_cuts_a_number(width: int) -> None:
    display, _, clock = live(width)
    display.show(planned(partitions=100_000, rows=10**11))
    display.show(opened("p1", label="größe [日本語日本語日本語日本語, 日本語日本語日本語日本語)"))
    clock.now += 10
    display.show(progress(Progress, "p1", 1_234_567, 10.0))
    lines = rendered(display, width)
    assert max(cells(line) for line in lines) <= width
    if width >= 30:
        assert "1,234,567" in lines[5]
    assert len(lines) <= 7


def test_live_never_exceeds_the_height() -> None:
    display, _, _ = live(height=12)
    display.show(planned(partitions=64, degree=64))
    for index in range(64):
        display.show(opened(f"p{index}"))
    lines = rendered(display, height=12)
    assert len(lines) < 12
    assert "and 60 more streams" in lines


def test_live_before_planning_and_while_ending() -> None:
    display, _, _ = live()
    assert rendered(display)[0] == "public.lineitem  connecting"
    assert rendered(display)[1].endswith("planning")
    display.tally.cancelling = True
    assert rendered(display)[0] == "interrupted: ending the streams"


def test_live_keeps_notes_above_and_restores_the_screen() -> None:
    display, shown, _ = live(width=100)
    with display:
        for event in script():
            display.show(event)
    out = text_of(shown)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out)
    lines = [line.rstrip() for line in plain.replace("\r", "\n").splitlines()]
    assert [line for line in lines if line in EVERYTHING] == EVERYTHING
    assert out.count("\x1b[?25l") == out.count("\x1b[?25h") == 1


def test_live_ends_cleanly_on_an_exception() -> None:
    display, shown, _ = live()
    with pytest.raises(ZeroDivisionError), display:
        raise ZeroDivisionError
    assert text_of(shown).count("\x1b[?25h") == 1


# Tables


def report(event: Finished, width: int = 80, before: int = 0) -> list[str]:
    shown = console(width)
    go_on = f"penstock resume {RUN} --source env:A --target env:B"
    print_run_report(shown, end_of(event, before), go_on)
    return [line.rstrip() for line in text_of(shown).splitlines()]


def test_report_of_a_completed_run() -> None:
    lines = report(finished(timings=tuple(timing(i, 9.0 - i) for i in range(8))))
    assert lines[:7] == [
        f"run {RUN} done",
        "  partitions  4 of 4 committed",
        "  attempts    5, 1 of them failed",
        "  rows        4,000,000",
        "  bytes       400.0 MB",
        "  time        8.0 s, 2 streams",
        "  rate        500,000 rows/s, 50.0 MB/s",
    ]
    table = {line[2:20]: line[20:].split() for line in lines}
    assert table["waiting for source"] == ["3.0", "20.0%"]
    assert table["waiting for target"] == ["9.0", "60.0%"]
    assert next(line for line in lines if line.startswith("  moving")).split() == [
        "moving",
        "3.0",
        "20.0%",
    ]
    slow = [line.split() for line in lines if line.startswith("  p") and "%" in line]
    assert [words[0] for words in slow] == ["p0", "p1", "p2", "p3", "p4"]
    assert slow[0][-5:] == ["1,000,000", "9.0", "11.1", "25%", "50%"]
    assert not any("resume" in line or "snapshots" in line for line in lines)


def test_time_lost_in_failed_attempts_is_not_penstocks_own_work() -> None:
    lines = report(finished(lost=2.0))
    assert "  attempts    5, 1 of them failed, 2.0 s lost in them" in lines
    table = {line[2:20].strip(): line[20:].split() for line in lines}
    assert table["moving"] == ["1.0", "6.7%"]
    assert table["failed attempts"] == ["2.0", "13.3%"]


def test_report_of_a_failed_run_has_the_cause_and_the_command_to_continue() -> None:
    failure = PartitionFailure(partition_id="p2", label=LABEL, attempts=3, error=REFUSED)
    lines = report(finished(status="failed", committed=3, failures=(failure,)), before=1)
    assert lines[0] == f"run {RUN} failed"
    assert lines[1].endswith("3 of 4 committed, 1 of them before this execution")
    start = lines.index("failures")
    assert lines[start + 1 :] == [
        f"  p2 ({LABEL}), 3 attempts",
        '    [target 23502] null value in column "c"',
        "    detail: Failing row contains (7, null).",
        "    context: COPY lineitem, line 1000123",
        "",
        "continue with",
        f"  penstock resume {RUN} --source env:A --target env:B",
    ]


def test_report_warns_of_several_snapshots() -> None:
    assert "  snapshots   2: not all rows were read as of the same moment" in report(
        finished(snapshots=2)
    )


def test_shares_of_the_streams_time_stay_within_the_whole() -> None:
    gathered = Report(RUN)
    gathered.add(opened("p1"))
    gathered.add(progress(Committed, "p1", 1_000, 2.0))
    end = gathered.finish(
        "interrupted",
        partitions=2,
        committed=1,
        degree=1,
        snapshots=(),
        records=(),
        not_copied=(),
    )
    assert end.busy >= 2.0


def test_live_says_nothing_of_the_time_left_once_all_is_committed() -> None:
    display, _, clock = live()
    display.show(planned(partitions=1))
    display.show(opened("p1"))
    clock.now += 10
    display.show(progress(Progress, "p1", 2_000_000, 10.0))
    assert "left" in rendered(display)[2]
    display.show(progress(Committed, "p1", 4_000_000, 10.0))
    assert "left" not in rendered(display)[2]


def test_report_without_rows_divides_by_nothing() -> None:
    lines = report(finished(rows=0, bytes=0, seconds=0.0, busy=0.0, attempts=0))
    assert "  rate        0 rows/s, 0.0 MB/s" in lines
    assert not any("time went" in line for line in lines)


@pytest.mark.parametrize("width", [30, 40, 50, 60, 76, 80, 120])
def test_tables_fit_the_width_without_cutting_numbers(width: int) -> None:
    wide = "größe [日本語日本語日本語日本語, 日本語日本語日本語日本語)" * 2
    lines = report(finished(timings=(timing(1, 1234.5, wide), timing(2, 1, wide))), width)
    table = lines[next(i for i, line in enumerate(lines) if "slowest" in line) :]
    rows = [line for line in table if re.match(r"  p\d", line)]
    assert len(rows) == 2
    assert max(cells(line) for line in rows) <= width
    assert "1,234.5" in rows[0]
    assert ("1,000,000" in rows[0]) == (width >= 36)


def test_a_terminal_wraps_a_message_below_its_beginning() -> None:
    error = {"message": "word " * 40}
    failure = PartitionFailure(partition_id="p2", label=LABEL, attempts=1, error=error)
    shown = console(60, terminal=True)
    event = finished(status="failed", committed=3, failures=(failure,))
    print_run_report(shown, end_of(event), "penstock")
    lines = [line for line in text_of(shown).splitlines() if "word" in line]
    assert len(lines) == 4
    assert all(line.startswith("    word") for line in lines)


def plan_of(count: int, rows: int | None = 1_000_000) -> PartitionPlan:
    key = Key("id")
    return PartitionPlan(
        strategy="range",
        reasons=("because [bold]it[/bold] is so",),
        warnings=("last analyzed long ago",),
        columns=(Column("id", "bigint"),),
        pairs=(ColumnPair("id", "id"),),
        format="binary",
        load=LoadPlan(TableRef("public", "t")),
        rows=rows and rows * count,
        bytes=None,
        partitions=tuple(
            Partition(
                f"p{index:04}",
                KeyRange(key, Bound("int8", str(index)), Bound("int8", str(index + 1))),
                rows,
                100_000_000,
            )
            for index in range(count)
        ),
    )


def plan_lines(plan: PartitionPlan, width: int = 80) -> list[str]:
    shown = console(width)
    print_plan(shown, plan)
    return [line.rstrip() for line in text_of(shown).splitlines()]


def test_a_plan_shows_its_partitions_and_reasons() -> None:
    lines = plan_lines(plan_of(2))
    assert lines[:5] == [
        "2 partitions by range",
        "  because [bold]it[/bold] is so",
        "warning: last analyzed long ago",
        "  estimated rows   2,000,000",
        "  estimated bytes  unknown",
    ]
    assert lines[-2].split() == ["p0000", "id", "[0,", "1)", "1,000,000", "100.0", "MB"]


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (40, 40), (41, 30), (1234, 30)])
def test_a_long_plan_is_shortened_in_the_middle(count: int, shown: int) -> None:
    plan = plan_of(count, rows=None)
    lines = plan_lines(plan)
    ids = [line.split()[0] for line in lines if re.match(r"p\d{4}", line)]
    known = [partition.id for partition in plan.partitions]
    if shown == count:
        assert ids == known
        assert "left out" not in "\n".join(lines)
    else:
        assert ids == known[:20] + known[-10:]
        assert lines[-1] == (
            f"30 of {count:,} partitions shown, {count - 30:,} left out: --json shows all of them"
        )


def run_status(**changes: Any) -> Any:
    spec = {
        "source": "postgresql://me@src/shop",
        "target": "env:DW",
        "table": "public.lineitem",
        "target_table": "dw.lineitem",
        "mode": "truncate",
        "key": "id",
        "where": "id > 0",
        "columns": None,
    }
    values: dict[str, Any] = {
        "run_id": RUN,
        "spec": spec,
        "plan": plan_of(40),
        "source_state": SourceState("", "", "", ""),
        "snapshots": (Snapshot("t", "2026"),),
        "status": "running",
        "created_at": "2026-07-14T10:15:00Z",
        "prepared_at": None,
        "finished_at": None,
        "failures": ({"partition_id": "p0007", "label": LABEL, "attempts": 3, "error": REFUSED},),
    }
    running = SimpleNamespace(
        partition_id="p0003", attempt=2, state="COPY", since="2026-07-14", bytes=None
    )
    return SimpleNamespace(
        run=SimpleNamespace(**{**values, **changes}),
        unrestored=(),
        committed=tuple(
            CommitRecord(f"p{index:04}", 1, 1_000_000, 100_000_000, "", "") for index in (0, 1, 5)
        ),
        running=(running,),
        at_work=True,
        executions=(),
        night=None,
    )


def test_status_shows_the_progress_of_a_run() -> None:
    shown = console()
    print_status(shown, run_status())
    lines = [line.rstrip() for line in text_of(shown).splitlines()]
    facts = {line[2:12].strip(): line[12:].strip() for line in lines if line.startswith("  ")}
    assert lines[0] == f"run {RUN} running"
    assert facts["table"] == "public.lineitem to dw.lineitem"
    assert facts["strategy"] == "range of id"
    assert facts["where"] == "id > 0"
    assert facts["partitions"] == "3 of 40 committed"
    assert facts["rows"] == "3,000,000"
    assert facts["bytes"] == "300.0 MB"
    assert facts["pending"] == "36: p0002, p0004, p0006 to p0039"
    running = lines[lines.index("running attempts") + 2]
    assert running.split() == ["p0003", "2", "?", "COPY", "2026-07-14"]
    assert f"  p0007 ({LABEL}), 3 attempts" in lines
    assert "    context: COPY lineitem, line 1000123" in lines


def test_status_of_files() -> None:
    status = run_status()
    status.run.spec = {**status.run.spec, "table": None, "query": "SELECT 1"}
    shown = console()
    print_status(shown, status)
    lines = [" ".join(line.split()) for line in text_of(shown).splitlines()]
    assert "table dw.lineitem" in lines
    assert "query SELECT 1" in lines


def test_status_shortens_the_list_of_pending_partitions() -> None:
    status = run_status()
    every_other = [CommitRecord(f"p{index:04}", 1, 1, 1, "", "") for index in range(0, 40, 2)]
    status.committed = tuple(every_other)
    status.running = ()
    shown = console(200)
    print_status(shown, status)
    pending = next(line for line in text_of(shown).splitlines() if "pending" in line)
    assert pending.split("pending")[1].strip() == (
        "20: " + ", ".join(f"p{index:04}" for index in range(1, 25, 2)) + " and 8 more"
    )


def check(index: int | None, ok: bool = True, note: str = "") -> Any:
    return SimpleNamespace(
        partition_id=None if index is None else f"p{index:04}",
        label="whole run" if index is None else LABEL,
        committed=1_000,
        source=None,
        target=1_000 if ok else 999,
        ok=ok,
        note=note,
        rows=(RowDifference("42", DIFFERENT),) if note and index else (),
    )


def verification_lines(checks: list[Any], ok: bool) -> list[str]:
    shown = console()
    verification = SimpleNamespace(run_id=RUN, ok=ok, checks=tuple(checks), notes=("counted",))
    print_verification(shown, cast(Any, verification))
    return [line.rstrip() for line in text_of(shown).splitlines()]


def test_verification_shows_the_comparison() -> None:
    lines = verification_lines([check(None), check(1), check(2, False, "one row is gone")], False)
    assert lines[:2] == [f"run {RUN} NOT verified", "  counted"]
    rows = [line.split() for line in lines]
    assert ["all", "whole", "run", "1,000", "1,000", "ok"] in rows
    assert ["p0002", *LABEL.split(), "1,000", "999", "WRONG"] in rows
    assert lines[-1] == "  p0002: one row is gone"
    assert "  p0002 42: different" in lines


def test_a_long_verification_keeps_all_differences() -> None:
    checks = [check(None), *(check(index, ok=index not in (50, 70)) for index in range(80))]
    lines = verification_lines(checks, False)
    ids = [line.split()[0] for line in lines if re.match(r"p\d{4}", line)]
    assert ids == [*(f"p{index:04}" for index in range(20)), "p0050", "p0070"]
    assert sum(line.startswith("all  ") for line in lines) == 1
    assert lines[-1] == "58 checks that agree left out: --json shows all"
    assert verification_lines([check(1)], True)[0] == f"run {RUN} verified"


def test_colour_is_limited_to_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")

    def report_text() -> str:
        shown = make_console(io.StringIO())
        print_run_report(shown, end_of(finished()))
        return text_of(shown)

    green = "\x1b[1;32mdone"
    assert green in report_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "done" in report_text()
    assert green not in report_text()


def test_markup_in_data_is_shown_as_text() -> None:
    shown = make_console(io.StringIO())
    error = {"message": "[red]x[/red] :smile:"}
    failure = PartitionFailure(partition_id="[b]", label="[/]", attempts=1, error=error)
    print_run_report(shown, end_of(finished(failures=(failure,))))
    assert "[b] ([/]), 1 attempt" in text_of(shown)
    assert "[red]x[/red] :smile:" in text_of(shown)


class TestWhatIsNotCopied:
    def test_lists_kinds_with_the_statements_that_create_them(self) -> None:
        assert not_copied_lines(
            [
                NotCopied("grants", "SELECT to bob", "GRANT SELECT ON t TO bob;", "t"),
                NotCopied("views", "v", "CREATE VIEW v AS\n SELECT 1; -- one"),
                NotCopied("grants", "SELECT to eve", "GRANT SELECT ON t TO eve;", "t"),
                NotCopied("defaults", "a\x1b[2J", table="t"),
                NotCopied("policies", "p", "CREATE POLICY p ON t;", "t", dropped=True),
            ]
        ) == [
            "not copied",
            "  grants (2)",
            "    GRANT SELECT ON t TO bob;",
            "    GRANT SELECT ON t TO eve;",
            "  views (1)",
            "    CREATE VIEW v AS",
            "     SELECT 1; -- one",
            "  defaults (1)",
            "    a\\x1b[2J of t",
            "dropped with the target's old table",
            "  policies (1)",
            "    CREATE POLICY p ON t;",
        ]

    def test_shortens_long_lists_and_names_the_full_one(self) -> None:
        lines = not_copied_lines(
            [
                NotCopied("functions", "f", "\n".join("x" * 40)),
                *(NotCopied("views", f"v{i}") for i in range(30)),
            ]
        )
        assert lines[2] == "    f: a statement of 40 lines, which --json shows"
        assert lines[-2:] == ["    v19", "    and 10 more: --json lists all of them"]

    def test_appears_in_full_in_the_report(self) -> None:
        grant = f"GRANT SELECT ON {'t' * 300} TO bob;"
        lines = report(finished(not_copied=(NotCopied("grants", "g", grant),)))
        assert lines[-3:] == ["not copied", "  grants (1)", f"    {grant}"]
