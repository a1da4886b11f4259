"""Show an execution on the command line while it runs, and report its end."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.cli.output import reader_closed, report_end, say, signals, stdout_console
from penstock.errors import (
    EXIT_DONE,
    Interrupted,
    RunFailed,
    RunFailedTransiently,
    TargetChanged,
)
from penstock.model.awaited import LOG
from penstock.show.lines import Display, JsonDisplay, PlainDisplay
from penstock.show.tally import Tally
from penstock.spec.references import redact
from penstock.workers import early_fork
from penstock.workers.interruptions import cause_of

if TYPE_CHECKING:
    from penstock.events import BatchFinished, Event, Finished


def fork_early(source: str, target: str) -> None:
    """Fork the process that starts workers, while this process has neither threads nor connections.

    Raises:
        UsageError: the source or the target cannot be resolved.
    """
    if not early_fork.is_possible():
        return
    from penstock.engine.connections import connect

    with signals():
        connect(source, target).fork_early()


def watch(
    events: Iterator[Event],
    arguments: argparse.Namespace,
    *,
    title: str,
    go_on: list[str],
    only: int = 0,
    target: str = "",
) -> int:
    """Show a run's events until its end, then its report.

    Args:
        events: the events of the run, which is executed as they are read.
        arguments: the parsed command line, with `json`.
        title: the title of the live display.
        go_on: the command that continues the run, without the run's id.
        only: the number of requested partitions; 0 for the whole plan.
        target: the target's connection.

    Raises:
        UsageError: the file of metrics cannot be written.
    """
    if (path := getattr(arguments, "metrics_file", None)) is not None:
        from penstock.watching.metrics_file import check_metrics_file, write_metrics

        check_metrics_file(path)
        events = write_metrics(events, path, redact(target))
    if os.environ.get("OTEL_TRACES_EXPORTER") or "opentelemetry.trace" in sys.modules:
        from penstock.watching.exporting import exported

        events = exported(events)
    display = _open_display(arguments, title=title, only=only)
    failure: BaseException | None = None
    try:
        with (
            signals(display),
            display,
            closing_events(events),
            _long_calls(display) as one_at_a_time,
        ):
            for event in events:
                with one_at_a_time:
                    display.show(event)
    except BrokenPipeError:
        failure = reader_closed()
    except (Exception, KeyboardInterrupt) as error:
        failure = cause_of(error)

    tally = display.tally
    run = {"run_id": tally.run_id}
    finished = tally.finished
    if finished is not None and finished.status == "partial" and "--only" in go_on:
        # The requested partitions are done; only others remain.
        go_on = go_on[: go_on.index("--only")]
    # If the target's table has been changed, only a new run helps.
    command = "" if isinstance(failure, TargetChanged) else _with_run_id(go_on, tally.run_id)
    if tally.is_batch:
        if go_on[1] != "resume":
            command = shlex.join([*go_on, tally.run_id])
        return _end_batch(tally, failure, command, arguments)
    _end(finished, tally, arguments, command)
    complete = finished is not None and finished.status in ("done", "partial")
    if complete and isinstance(failure, Interrupted | KeyboardInterrupt):
        # The signal arrived after the end.
        failure = None
    if failure is None:
        return EXIT_DONE
    if finished is not None and isinstance(failure, RunFailed | RunFailedTransiently):
        # The report has already shown the rest.
        say(f"error: {failure.message}".partition("\n")[0], level="error", facts=run)
        code = failure.exit_code
    else:
        code = report_end(failure, tally.run_id)
    if finished is not None and not arguments.json and arguments.log_format == "text":
        return code
    if tally.run_id and command:
        # There are no events until the run is stored in the target.
        say(f"continue with: {command}", facts=run)
    return code


@contextmanager
def _long_calls(display: Display) -> Iterator[threading.RLock]:
    """Show calls to servers that take long, while this thread waits for them.

    Yields the lock with which events are shown.
    """
    from penstock.events import Warned

    lock = threading.RLock()

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with lock, suppress(OSError):
                display.show(Warned(run_id=display.tally.run_id, message=record.getMessage()))

    handler = Shown()
    LOG.addHandler(handler)
    LOG.propagate = False
    try:
        yield lock
    finally:
        LOG.removeHandler(handler)
        LOG.propagate = True


def _goes_without_saying(tally: Tally, arguments: argparse.Namespace) -> bool:
    """Whether a report would say nothing that was asked for, or that a note has not said."""
    finished = tally.batch_finished if tally.is_batch else tally.finished
    return (
        finished is not None and finished.status == "done" and (arguments.quiet or tally.was_done)
    )


def _end_batch(
    tally: Tally, failure: BaseException | None, go_on: str, arguments: argparse.Namespace
) -> int:
    """Show the end of a batch, and return the exit code."""
    finished = tally.batch_finished
    _end(finished, tally, arguments)
    if failure is None:
        return EXIT_DONE
    code = report_end(failure, tally.run_id)
    say(f"continue with: {go_on}", facts={"run_id": tally.run_id})
    return code


def _end(
    finished: Finished | BatchFinished | None,
    tally: Tally,
    arguments: argparse.Namespace,
    go_on: str = "",
) -> None:
    """Print the report, unless events or a JSON log have told the end."""
    if finished is None or arguments.json:
        return
    if arguments.log_format == "json":
        from penstock.show.notes import created_lines

        for line in filter(None, created_lines(tally)):
            say(line, level="warning", facts={"run_id": tally.run_id})
    elif not _goes_without_saying(tally, arguments):
        _print_end(finished, tally, go_on)


def _print_end(finished: Finished | BatchFinished, tally: Tally, go_on: str = "") -> None:
    from penstock.figures.execution_end import end_of
    from penstock.show.console import STYLES, Text, print_line
    from penstock.show.notes import created_lines
    from penstock.show.run_report import print_run_report

    with stdout_console() as console:
        print_run_report(console, end_of(finished, tally.before), go_on)
        for line in created_lines(tally):
            print_line(console, Text(line, style=STYLES["warning"]))


def _open_display(arguments: argparse.Namespace, *, title: str, only: int) -> Display:
    """Return a display: events on stdout if requested, otherwise a log on stderr.

    On a terminal it is live, unless the log is in JSON.
    """
    tally = Tally(only)
    if arguments.json:
        return JsonDisplay(tally, sys.stdout)
    if arguments.log_format == "json":
        from penstock.show.json_log import JsonLog

        return JsonLog(tally, sys.stderr, only_warnings=arguments.quiet)
    if arguments.quiet:
        return PlainDisplay(tally, sys.stderr, only_warnings=True)
    if sys.stderr.isatty() and not arguments.verbose:
        from penstock.show.console import rich_console
        from penstock.show.live import LiveDisplay

        console = rich_console(sys.stderr)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveDisplay(tally, console, title)
    return PlainDisplay(tally, sys.stderr)


def resume_words(
    source: str, target: str, control_schema: str, command: str = "resume"
) -> list[str]:
    """Return the words of the command that resumes a run, without the run's id and secrets.

    Args:
        source: the source's connection.
        target: the target's connection.
        control_schema: the schema of the control tables; the default is left out.
        command: the command, if it is another one than ``resume``.
    """
    words = ["penstock", command, "--source", redact(source), "--target", redact(target)]
    return words if control_schema == "penstock" else [*words, "--control-schema", control_schema]


def _with_run_id(words: Sequence[str], run_id: str) -> str:
    return shlex.join([*words[:2], run_id, *words[2:]])


@contextmanager
def closing_events(events: Iterator[Event]) -> Iterator[None]:
    """Close the generator on exit, because an error in the display does not reach it."""
    try:
        yield
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
