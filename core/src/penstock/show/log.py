"""Lines and reports for other programs' logs, such as those of orchestrators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock.events import (
    BatchFinished,
    BatchStarted,
    Committed,
    DegreeChanged,
    Event,
    Failed,
    Finished,
    PartitionsChecked,
    Planned,
    Retrying,
    SnapshotChanged,
    StepChanged,
    Verified,
    Warned,
)
from penstock.figures.execution_end import end_of
from penstock.figures.run_report import RunReport
from penstock.model.plans import MOST_NAMED
from penstock.show.folding import FEW, folded_lines
from penstock.show.lines import Narrator
from penstock.show.notes import warning_lines
from penstock.show.run_report import failure_line, run_report_text
from penstock.show.tally import Tally
from penstock.show.text import error_lines, not_copied_lines, one_line

SLOWEST = 10

# The levels of notes that are logged as displayed. The number of streams changes for many reasons,
# most of them harmless.
_GRAVE = (Retrying, SnapshotChanged, StepChanged, Warned, Verified, PartitionsChecked)
Say = Callable[[str], object]


def narrate(
    events: Iterable[Event],
    say: Say,
    only: int = 0,
    *,
    commits: bool = True,
    warn: Say | None = None,
    fail: Say | None = None,
) -> Iterator[Event]:
    """Pass events on, and log important ones, with the progress every few seconds.

    What ends a single run is not logged here: it is in `Finished.failures`, and the caller that
    raises it logs it. A partition or table that fails while others go on is.

    Args:
        events: the events of an execution.
        say: receives a line, without a line break.
        only: how many partitions were requested; 0 for the whole plan.
        commits: log each committed partition; False if another component reports them.
        warn: receives the lines of warnings, including those of plans; by default `say`.
        fail: receives the lines of partitions, tables and steps that failed; by default `warn`.
    """
    warn = warn or say
    levels = {"warning": warn, "error": fail or warn}
    narrator = Narrator(Tally(only))
    failed: tuple[Failed, tuple[str, ...]] | None = None
    """A failed attempt whose next event tells whether another attempt follows."""
    for event in events:
        if failed is not None:
            lost, lines = failed
            failed = None
            if _goes_on(event, lost):
                _tell(warn, lines)
            elif narrator.tally.is_batch or not isinstance(event, Finished):
                _tell(levels["error"], lines)
        lines = narrator.lines(event)
        if isinstance(event, Failed):
            failed, lines = (event, lines), ()
        elif isinstance(event, Planned) and only:
            lines = lines[:1]  # the reasons were logged when the run was planned
        elif isinstance(event, Committed) and not commits:
            lines = ()
        warned = set(warning_lines(event.warnings)) if isinstance(event, Planned) else ()
        style = narrator.style(event) if isinstance(event, _GRAVE) else "plain"
        if isinstance(event, BatchStarted):
            # Below the first line are the tables that cannot be copied.
            say(lines[0])
            style, lines = "error", lines[1:]
        for line in lines:
            if line not in warned:
                levels.get(style, say)(line)
            else:  # a log may show it without the line above, which names the table
                table = narrator.tally.table(event.run_id) if narrator.tally.is_batch else ""
                warn(f"{one_line(table)}: {line.strip()}" if table else line.strip())
        yield event


def _goes_on(event: Event, failed: Failed) -> bool:
    """Whether the event after a failed attempt says that its partition is tried again."""
    if isinstance(event, Retrying):
        return (event.run_id, event.partition_id) == (failed.run_id, failed.partition_id)
    return isinstance(event, DegreeChanged | SnapshotChanged)


def _tell(log: Say, lines: Iterable[str]) -> None:
    for line in lines:
        log(line)


def failure_text(finished: Finished | BatchFinished) -> str:
    """Return why an execution failed: the run's error, then each partition's or table's.

    The first line is a summary, for places that show only one line.
    """
    if isinstance(finished, BatchFinished):
        return "\n".join(_batch_failure(finished))
    lines = error_lines(finished.error) if finished.error else []
    if not lines and len(finished.failures) > 1:
        one = finished.failures[0]
        lines = [
            f"run {finished.run_id}: {len(finished.failures):,} partitions failed, the first of "
            f"them {one.partition_id}: {error_lines(one.error)[0]}"
        ]
    for failure in finished.failures:
        first, *rest = error_lines(failure.error)
        label = f" ({failure.label})" if failure.label else ""
        lines += [f"partition {failure.partition_id}{label}: {first}", *rest]
    return "\n".join(lines)


def _batch_failure(finished: BatchFinished) -> Iterator[str]:
    runs = end_of(finished).runs
    failed = [(run, run.end) for run in runs if run.end and run.status != "done"]
    names = ", ".join(one_line(run.what) for run, _ in failed[:MOST_NAMED])
    more = ", ..." if len(failed) > MOST_NAMED else ""
    yield (
        f"batch {finished.run_id}: {len(failed):,} of {len(finished.tables):,} tables are not "
        f"done: {names}{more}"
    )
    if len(failed) > FEW:
        yield from folded_lines([(run.what, failure_line(run)) for run, _ in failed])
        return
    for run, end in failed:
        if end.error:
            first, *rest = error_lines(end.error)
            yield f"{one_line(run.what)}: {first}"
            yield from rest
        for failure in end.failures:
            first, *rest = error_lines(failure.error)
            yield f"{one_line(run.what)}, partition {failure.partition_id}: {first}"
            yield from rest


def combined_report(executions: Sequence[Finished], seconds: float, degree: int) -> Finished:
    """Combine the reports of several executions of a run, in the order in which they ended.

    The status is that of the last one; rows, attempts and waits are summed.

    Args:
        executions: the last event of each execution, at least one.
        seconds: from the start of the first execution to the end of the last.
        degree: the number of concurrent streams.
    """
    last = executions[-1]
    timings = sorted(
        (timing for each in executions for timing in each.timings),
        key=lambda timing: -timing.seconds,
    )
    changed = [each for each in executions if each.inserted is not None]

    def total(name: str) -> Any:
        return sum(getattr(each, name) or 0 for each in executions)

    return replace(
        last,
        attempts=total("attempts"),
        rows=total("rows"),
        bytes=total("bytes"),
        seconds=round(seconds, 3),
        degree=degree,
        wait_source=round(total("wait_source"), 3),
        wait_target=round(total("wait_target"), 3),
        busy=round(total("busy"), 3),
        paced=round(total("paced"), 3),
        lost=round(total("lost"), 3),
        inserted=total("inserted") if changed else None,
        updated=total("updated") if changed else None,
        timings=tuple(timings[:SLOWEST]),
    )


def whole_report_text(report: RunReport, finished: Finished | BatchFinished) -> str:
    """Return the report of a run or batch as text, with what only its last execution tells.

    Args:
        report: the report of all executions, from the target.
        finished: the last event of the last execution.
    """
    end = end_of(finished).end
    assert end is not None
    if report.runs:
        text = run_report_text(report)
        return "\n".join(
            [text, *(["", *not_copied_lines(end.not_copied)] if end.not_copied else [])]
        )
    return run_report_text(replace(report, end=replace(end, before=0)))


def report_text(finished: Finished | BatchFinished, go_on: str) -> str:
    """Return the report of an execution as text: what was done, where the time went, what failed.

    Args:
        finished: the last event of the execution.
        go_on: how to continue the run if it is not done.
    """
    batch = isinstance(finished, BatchFinished)
    return run_report_text(end_of(finished), "" if batch else go_on)
