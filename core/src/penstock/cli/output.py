"""Output of commands: results to standard output, errors to standard error."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import EXIT_BUG, EXIT_INTERRUPTED, Interrupted, PenstockError, UsageError
from penstock.workers.interruptions import expect_dropped_calls, forget, interrupt, is_deferred

if TYPE_CHECKING:
    from penstock.show.console import Console
    from penstock.show.lines import Display

R = TypeVar("R")


class _CaughtSignals:
    """The signals caught since the outermost `signals` block began."""

    current: _CaughtSignals | None = None
    any = False


@contextmanager
def signals(display: Display | None = None) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into `Interrupted`, and ignore later ones.

    A second signal would interrupt the clean-up that the first one started. Blocks may be nested.
    """
    outer = _CaughtSignals.current
    caught_so_far = outer or _CaughtSignals()

    def handle(number: int, frame: FrameType | None) -> None:
        if caught_so_far.any or is_deferred(number, frame):
            return
        caught_so_far.any = True
        if display is not None:
            display.tally.cancelling = True
        expect_dropped_calls()
        interrupt(f"interrupted by {signal.Signals(number).name}")

    before: dict[signal.Signals, Any] = {}
    try:
        _CaughtSignals.current = caught_so_far
        for caught in (signal.SIGINT, signal.SIGTERM):
            # Shells start background processes with SIGINT ignored: keep it that way.
            if signal.getsignal(caught) != signal.SIG_IGN:
                before[caught] = signal.signal(caught, handle)
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
        _CaughtSignals.current = outer
        if outer is None:
            forget()


@contextmanager
def results() -> Iterator[None]:
    """Write results to stdout; a reader that closes it early (`| head`) is not an error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


@contextmanager
def stdout_console() -> Iterator[Console]:
    """Open a console for results on standard output."""
    from penstock.show.console import make_console

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A character that the terminal lacks is no reason to fail.
        reconfigure(errors="replace")
    with results():
        yield make_console(sys.stdout)


def _print_json(result: Any) -> None:
    with results():
        print(json.dumps(result, indent=2))


def print_json_line(result: Any) -> None:
    """Write a JSON line to stdout at once."""
    print(json.dumps(_shown(result), separators=(",", ":")), flush=True)


def print_result(
    arguments: argparse.Namespace,
    result: R,
    shown: Callable[[Console, R], object],
    as_json: Callable[[], Any] | None = None,
) -> None:
    """Print a result on stdout, as JSON if requested.

    Args:
        arguments: the parsed command line, with `json`.
        result: the result.
        shown: prints the human-readable result.
        as_json: returns the JSON to print instead of the whole result.
    """
    if arguments.json:
        from penstock.model.codec import to_json

        _print_json(_shown(as_json() if as_json else to_json(result)))
        return
    with stdout_console() as console:
        shown(console, result)


def _shown(result: Any) -> Any:
    """Return the result without partition bounds, unless people may see values."""
    if isinstance(result, dict):
        if result.keys() == {"type", "text"}:
            from penstock.model.extents import Bound

            return {**result, "text": str(Bound(result["type"], result["text"]))}
        return {name: _shown(item) for name, item in result.items()}
    return [_shown(item) for item in result] if isinstance(result, list) else result


def check_writable(path: str | None, flag: str) -> None:
    """Check that a file can be written.

    Raises:
        UsageError: the file's directory does not exist, or cannot be written to.
    """
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"{flag}: cannot write {path!r}")


def write_file(path: str, text: str, flag: str) -> None:
    """Write a file.

    Args:
        path: the file's path; an existing file is replaced.
        text: the content.
        flag: the option that named the file, for errors.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{flag}: cannot write {path!r}: {error.strerror}") from error


class _Log:
    """How this process writes log lines, since it was last chosen."""

    as_json = False


def choose_log_format(log_format: str) -> None:
    """Choose how `say` and `report_end` write from now on, and all loggers in JSON."""
    _Log.as_json = log_format == "json"
    if _Log.as_json:
        logging.getLogger().addHandler(_SAID)
    else:
        logging.getLogger().removeHandler(_SAID)


class _Said(logging.Handler):
    """Says what loggers, also those of drivers and exporters, report beside a display."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        say(record.getMessage(), level=level)


_SAID = _Said(logging.WARNING)


def say(text: str, *more: str, level: str = "info", facts: Mapping[str, Any] | None = None) -> None:
    """Print lines on standard error for people, or as one JSON object; it may be closed.

    Args:
        text: the first line.
        more: the lines below it.
        level: as for `log_line`.
        facts: further fields of the JSON object, which people do not see.
    """
    from penstock.show.text import printable

    lines = [printable(text), *(f"  {printable(line)}" for line in more)]
    if _Log.as_json:
        from penstock.show.json_log import log_line

        lines = [log_line(level, lines, facts=facts)]
    else:
        lines = [f"penstock: {line}" for line in lines]
    with suppress(OSError):
        print(*lines, sep="\n", file=sys.stderr, flush=True)


def report_end(error: BaseException, run_id: str = "") -> int:
    """Report on stderr why the command ended, and return the exit code.

    Args:
        error: what ended it.
        run_id: the run or batch that it ended; only a JSON log names it.
    """
    run = {"run_id": run_id}
    if isinstance(error, KeyboardInterrupt):
        say("interrupted", level="warning", facts=run)
        return EXIT_INTERRUPTED
    if isinstance(error, PenstockError):
        from penstock.show.text import error_lines

        raw = error.as_json()
        first, *details = error_lines(raw)
        if isinstance(error, Interrupted):
            say(first, *details, level="warning", facts=run | _facts(raw))
        else:
            say(f"error: {first}", *details, level="error", facts=run | _facts(raw))
        return error.exit_code
    found = _traceback(error)
    if not _Log.as_json:
        with suppress(OSError):
            print(found, end="", file=sys.stderr)
    say(
        f"error: this is a bug in Penstock ({type(error).__name__}): please report it with the "
        + ("traceback" if _Log.as_json else "lines above"),
        level="error",
        facts={**run, "error": type(error).__name__, "traceback": found},
    )
    return EXIT_BUG


def _facts(error: Mapping[str, Any]) -> dict[str, Any]:
    if not _Log.as_json:
        return {}
    from penstock.show.json_log import error_facts

    return error_facts(error)


def _traceback(error: BaseException) -> str:
    from penstock.model import values

    if values.are_shown():
        return "".join(traceback.format_exception(error))
    # The messages of causes and exceptions may quote values of rows.
    lines = traceback.format_tb(error.__traceback__)
    end = f"{type(error).__name__}: {values.server_message(str(error))}"
    return "\n".join(["Traceback (most recent call last):", *lines, end, ""])


def reader_closed() -> Interrupted:
    """Return the error of a command whose output's reader has closed the pipe."""
    discard(sys.stdout)
    return Interrupted("interrupted: the reader of the output closed the pipe")


def discard(stream: Any) -> None:
    """Discard output that is still buffered for a reader that has closed the pipe."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def flush_output() -> None:
    """Flush both output streams; discard output whose reader has closed the pipe."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            discard(stream)
