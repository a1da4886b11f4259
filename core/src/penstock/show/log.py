"""Lines and a report for logs that somebody else keeps: those of an orchestrator."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock.events import Committed, Event, Failed, Finished, Planned, Retrying, Warned
from penstock.show.console import make_console
from penstock.show.lines import Narrator
from penstock.show.report_table import print_report
from penstock.show.tally import Tally
from penstock.show.text import error_lines

SLOWEST = 10
REPORT_WIDTH = 110


def narrate(
    events: Iterable[Event],
    say: Callable[[str], object],
    only: int = 0,
    *,
    commits: bool = True,
    warn: Callable[[str], object] | None = None,
) -> Iterator[Event]:
    """Pass events on, and say what is worth a line: what happened, and every few seconds how far
    it is.

    A failure that is not followed by another attempt is not said: it is in `Finished.failures`,
    and who raises it says it once.

    Parameters:
        say: takes a line, without its end.
        only: how many partitions were asked for, where not all of the plan's were.
        warn: takes the lines of warnings; by default `say` does.
        commits: say each partition that is committed; False where something else tells that.
    """
    narrator = Narrator(Tally(only))
    failed: dict[tuple[str, str], tuple[str, ...]] = {}
    for event in events:
        lines = narrator.lines(event)
        if isinstance(event, Failed):
            failed[event.run_id, event.partition_id] = lines
            lines = ()
        elif isinstance(event, Planned) and only:
            lines = lines[:1]  # the reasons were told where the run was planned
        elif isinstance(event, Committed) and not commits:
            lines = ()
        elif isinstance(event, Retrying):
            lines = (*failed.pop((event.run_id, event.partition_id), ()), *lines)
        tell = warn if warn is not None and isinstance(event, Warned) else say
        for line in lines:
            tell(line)
        yield event


def failure_text(finished: Finished) -> str:
    """What made an execution fail, whole: the run's error, then that of each partition.

    The first line alone says what happened: for who shows no more of it.
    """
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


def combined_report(executions: Sequence[Finished], seconds: float, degree: int) -> Finished:
    """One report of several executions of a run, in the order of their ends.

    How the run stands is what the last one says; rows, attempts and waits are summed.

    Parameters:
        seconds: from the beginning of the first to the end of the last.
        degree: how many streams there were at once.
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
        inserted=total("inserted") if changed else None,
        updated=total("updated") if changed else None,
        timings=tuple(timings[:SLOWEST]),
    )


def report_text(finished: Finished, go_on: str) -> str:
    """The end of an execution as a table: what was done, where the time went, what failed.

    Parameters:
        go_on: what to do to go on with the run, where it is not done.
    """
    file = io.StringIO()
    console = make_console(file)
    console.width = REPORT_WIDTH
    print_report(console, finished, go_on)
    return file.getvalue().rstrip()
