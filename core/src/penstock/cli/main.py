"""The command line. Thin: it reads options, calls the engine and shows what comes back."""

# ruff: noqa: PLC0415 - the engine and rich are imported by what needs them: --help is fast

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import indent
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.cli.options import (
    UNQUOTED,
    add_batch_options,
    add_connections,
    add_copy_options,
    add_hold_options,
    add_resume_options,
    given_batch_words,
    given_flags,
    read_batch,
    read_overrides,
    read_spec,
)
from penstock.errors import (
    EXIT_BUG,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_PERMANENT,
    EXIT_USAGE,
    Interrupted,
    PenstockError,
    RunFailed,
    RunFailedTransiently,
    TargetChanged,
    UsageError,
)
from penstock.model.codec import to_json
from penstock.show.lines import (
    Display,
    JsonDisplay,
    PlainDisplay,
    Tally,
    error_lines,
    printable,
)
from penstock.spec.copy_spec import check_run_id
from penstock.spec.references import redact
from penstock.spec.units import parse_duration

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.events import Event

_DESCRIPTION = """\
Copies big database tables in parallel partitions, each through a COPY stream
of its own, each committed exactly once. A run that was cut off goes on where
it was.
"""

# The backends' own examples of URLs stand here, once somebody asks for help.
_URLS = "    URL\n"

_CONNECTIONS = f"""\
connections:
  A URL, for instance
{_URLS}\
  env:NAME reads the URL from the environment variable NAME. It keeps a
  password out of the command line, which every user of the machine can read
  in the process list.
"""

_FILE = """\
file:
  Options may stand in a TOML file, under the same names, with - or _:
    source = "env:SHOP"
    target = "env:DW"
    table = "public.orders"
    where = "placed_at >= '${SINCE}'"
    columns = ["id", "placed_at", "total"]
    degree = 8
  ${NAME} stands for an environment variable, $${ for a literal ${.
  The command line overrides the file.
"""

_EXIT_CODES = """\
exit codes:
    0  done
   64  usage: an option is wrong
   65  a permanent error: trying again cannot help; what is committed stays
   70  a bug in Penstock
   75  a transient error: penstock resume may help
  130  interrupted; penstock resume goes on
"""

_EXAMPLES = """\
examples:
  penstock plan --source env:SHOP --target env:DW --table public.lineitem
  penstock copy --source env:SHOP --target env:DW --table public.lineitem
  penstock copy orders.toml --where "placed_at >= '2026-01-01'"
  penstock status RUN_ID --target env:DW
  penstock resume RUN_ID --source env:SHOP --target env:DW
  penstock verify RUN_ID --source env:SHOP --target env:DW

penstock COMMAND --help says more.
"""

_COPY_EXAMPLES = """\
examples:
  penstock copy --source env:SHOP --target env:DW --table public.lineitem
  penstock copy --source env:SHOP --target env:DW --table public.lineitem \\
      --strategy range --key l_orderkey --partitions 64 --mode truncate
  penstock copy --source env:SHOP --target env:DW --table public.events \\
      --strategy time --key created_at --interval '1 day' --mode replace \\
      --where "created_at >= '2026-01-01'"
  penstock copy orders.toml --degree -2
  penstock copy --source s3://lake/orders/ --target env:DW \\
      --target-table public.orders --strategy files --mode truncate
  penstock copy --source env:SHOP --table public.orders \\
      --target s3://lake/orders/ --mode replace
"""


_RUN_EXAMPLES = """\
examples:
  penstock status orders-7 --target env:DW
  penstock resume orders-7 --source env:SHOP --target env:DW --degree 4
  penstock verify orders-7 --source env:SHOP --target env:DW --checksum
  penstock verify lake-7 --source env:SHOP --target s3://lake/orders/ \\
      --checksum --show-rows
"""


_BATCH_EXAMPLES = """\
examples:
  penstock copy-all --source env:SHOP --target env:DW --tables 'public.*' --mode recreate
  penstock copy-all --source env:SHOP --target env:DW --tables 'public.*' 'sales.*' \\
      --exclude 'public.tmp_*' --target-schema shop --mode truncate --degree 8
  penstock copy-all plan.toml
"""

_BATCH_FILE = """\
FILE holds the same options, for every table, and sections for single ones:
  source = "env:SHOP"
  target = "env:DW"
  tables = ["public.*"]
  exclude = ["public.tmp_*"]
  mode = "truncate"
  [[table]]
  table = "public.orders"
  strategy = "range"
  key = "id"
"""


_MANY_PROCESSES = """\
one run in many processes, on many machines:
  penstock create --source env:SHOP --target env:DW --table public.orders --run-id n7
  penstock hold n7 --source env:SHOP --target env:DW      (beside those that follow)
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s --only p0001 p0002
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s --only p0003
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s
  penstock release n7 --target env:DW
"""


class _Parser(argparse.ArgumentParser):
    """Usage errors end with the exit code that says so, not with argparse's 2."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def format_help(self) -> str:
        if self.epilog and _URLS in self.epilog:
            from penstock.backends.api.registry import url_examples

            self.epilog = self.epilog.replace(_URLS, indent(url_examples(), "    "))
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: ") and "/" in message:
            message += f"\npenstock:   {UNQUOTED}"
        self.exit(EXIT_USAGE, f"penstock: error: {message}\npenstock: see {self.prog} --help\n")


class _Version(argparse.Action):
    """Looks the version up when asked for it: that is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"penstock {version('penstock')}")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="penstock",
        description=_DESCRIPTION,
        epilog="\n".join((_EXAMPLES, _CONNECTIONS, _EXIT_CODES)),
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version number and exit"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(
        name: str, text: str, usage: str, epilog: Sequence[str] = (_CONNECTIONS, _EXIT_CODES)
    ) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            usage=f"penstock {name} {usage}",
            epilog="\n".join(epilog),
        )

    asked = "[FILE] --source URL --target URL [--table NAME] [options]"
    for name, text, examples in (
        (
            "plan",
            "show how a table would be cut, and why; changes nothing",
            (_COPY_EXAMPLES.replace("penstock copy", "penstock plan"),),
        ),
        ("create", "plan a run and store it; copies nothing", (_MANY_PROCESSES,)),
        ("copy", "copy a table", (_COPY_EXAMPLES,)),
    ):
        sub = command(name, text, asked, (*examples, _FILE, _CONNECTIONS, _EXIT_CODES))
        sub.add_argument("file", metavar="FILE", nargs="?", help="a TOML file with options")
        add_copy_options(sub)
        shown = {"plan": "the plan", "create": "the run's status"}
        _add_json(sub, shown.get(name, "events, one a line,"))

    sub = command(
        "copy-all",
        "copy many tables with one snapshot and one pool of streams",
        "[FILE] --source URL --target URL --tables PATTERN ... [options]",
        (_BATCH_EXAMPLES, _BATCH_FILE, _CONNECTIONS, _EXIT_CODES),
    )
    sub.add_argument("file", metavar="FILE", nargs="?", help="a TOML file with tables and options")
    add_batch_options(sub)
    _add_json(sub, "events, one a line,")

    run = "RUN_ID --source URL --target URL"
    sub = command(
        "status",
        "show how far a run is",
        "RUN_ID --target URL [options]",
        (_RUN_EXAMPLES, _CONNECTIONS, _EXIT_CODES),
    )
    _add_run_id(sub)
    add_connections(sub, "target")
    _add_json(sub, "the status")

    sub = command(
        "resume",
        "go on with a run: copy what is not committed",
        f"{run} [options]",
        (_RUN_EXAMPLES, _CONNECTIONS, _EXIT_CODES),
    )
    _add_run_id(sub)
    sub.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PARTITION_ID",
        help="copy these partitions and no others",
    )
    sub.add_argument(
        "--recopy",
        action="store_true",
        help="with --only: copy them again, also where they are committed",
    )
    sub.add_argument(
        "--as-of-now",
        action="store_true",
        help="read what is copied as it is now, whatever became of the run's snapshot; the report "
        "says which partitions were read later",
    )
    sub.add_argument(
        "--await-snapshot",
        metavar="DURATION",
        help="read with the snapshot that penstock hold holds, and wait for it for so long; by "
        "default one is taken where there is none",
    )
    add_connections(sub, "source", "target")
    add_resume_options(sub)
    _add_json(sub, "events, one a line,")

    sub = command(
        "hold",
        "hold the snapshot of a run that many processes execute, for as long as it is needed",
        f"{run} [options]",
        (_MANY_PROCESSES, _CONNECTIONS, _EXIT_CODES),
    )
    _add_run_id(sub)
    add_connections(sub, "source", "target")
    add_hold_options(sub)
    _add_json(sub, "events, one a line,")

    sub = command(
        "release",
        "say that nobody needs a run's snapshot any more: its holder ends",
        "RUN_ID --target URL [options]",
        (_MANY_PROCESSES, _CONNECTIONS, _EXIT_CODES),
    )
    _add_run_id(sub)
    add_connections(sub, "target")

    sub = command(
        "verify",
        "compare source, target and commit records",
        f"{run} [options]",
        (_RUN_EXAMPLES, _CONNECTIONS, _EXIT_CODES),
    )
    _add_run_id(sub)
    sub.add_argument(
        "--checksum",
        action="store_true",
        help="compare the values of all rows, by checksums that both servers compute; by default "
        "rows are counted",
    )
    sub.add_argument(
        "--show-rows",
        action="store_true",
        help="with --checksum: list the keys of up to 20 rows that differ in each partition",
    )
    add_connections(sub, "source", "target")
    _add_json(sub, "the verification")

    sub = command(
        "control-ddl",
        "print the statements that create the control tables, for an administrator",
        "[--target URL] [--control-schema NAME]",
    )
    add_connections(sub, "target", required=False)
    for sub in commands.choices.values():
        sub.add_argument(
            "--s3-endpoint",
            metavar="URL",
            help="the server of s3:// URLs that name none, as AWS_ENDPOINT_URL_S3 (default: AWS)",
        )
    return parser


def _add_run_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN_ID", help="the run's name, as copy shows it")


def _add_json(parser: argparse.ArgumentParser, what: str) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--json", action="store_true", help=f"write {what} as JSON to standard output"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters:
        argv: the arguments, without the program's name; those of the process by default.

    Returns: the exit code.
    """
    try:
        try:
            arguments = make_parser().parse_args(argv)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else EXIT_USAGE
        if arguments.s3_endpoint is not None:
            os.environ["AWS_ENDPOINT_URL_S3"] = arguments.s3_endpoint
        return _COMMANDS[arguments.command](arguments)
    except (PenstockError, KeyboardInterrupt) as error:
        return _tell(error)
    except BrokenPipeError:
        _discard(sys.stdout)
        return _tell(Interrupted("interrupted: whoever read the output has gone"))
    except Exception as error:
        return _tell(error)
    finally:
        _flush()


def _plan(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    from penstock.run.api import plan

    with _signals():
        result = plan(spec)
    if arguments.json:
        _print_json(to_json(result))
        return EXIT_DONE
    from penstock.show.tables import print_plan

    with _stdout_console() as console:
        print_plan(console, result)
    return EXIT_DONE


def _create(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    from penstock.run.api import create

    with _signals():
        result = create(spec)
    if arguments.json:
        _print_json(to_json(result))
        return EXIT_DONE
    from penstock.show.tables import print_plan

    with _stdout_console() as console:
        print_plan(console, result.run.plan)
        console.print(f"run {result.run.run_id}", highlight=False)
    return EXIT_DONE


def _hold(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    overrides = read_overrides(arguments)
    from penstock.run.snapshot_holder import hold, take_up

    schema = getattr(arguments, "control_schema", "penstock")
    with _signals():
        take_up(arguments.run_id, target=arguments.target, control_schema=schema)
    events = hold(
        arguments.run_id,
        source=arguments.source,
        target=arguments.target,
        control_schema=schema,
        **overrides,
    )
    tally = Tally()
    display: Display = PlainDisplay(tally, sys.stderr)
    if arguments.json:
        display = JsonDisplay(tally, sys.stdout)
    with _signals(display), display, _closing(events):
        for event in events:
            display.show(event)
    return EXIT_DONE


def _release(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.snapshot_holder import release

    schema = getattr(arguments, "control_schema", "penstock")
    with _signals():
        release(arguments.run_id, target=arguments.target, control_schema=schema)
    return EXIT_DONE


def _copy(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    from penstock.run.api import copy

    title = spec.source_name
    if spec.target_ref != spec.relation:
        title += f" to {spec.target_name}"
    go_on = _command("resume", spec.source, spec.target, spec.control_schema)
    return _watch(copy(spec), arguments, title=title, go_on=go_on)


def _copy_all(arguments: argparse.Namespace) -> int:
    batch = read_batch(arguments)
    from penstock.run.batch import copy_all

    go_on = ["penstock", "copy-all", *given_batch_words(arguments), "--run-id"]
    return _watch(copy_all(batch), arguments, title="", go_on=go_on)


def _resume(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    overrides = read_overrides(arguments)
    if arguments.recopy and not arguments.only:
        raise UsageError("--recopy: expected --only with partitions, found none")
    if arguments.recopy:
        # A name of its own: whoever says it twice means it twice.
        overrides["recopy"] = f"cli-{secrets.token_hex(8)}"
    if arguments.as_of_now:
        overrides["as_of_now"] = True
    if arguments.await_snapshot is not None:
        seconds = parse_duration(arguments.await_snapshot, "--await-snapshot")
        overrides["await_snapshot"] = seconds
    from penstock.run.api import resume

    schema = getattr(arguments, "control_schema", "penstock")
    events = resume(
        arguments.run_id,
        source=arguments.source,
        target=arguments.target,
        only=arguments.only,
        control_schema=schema,
        **overrides,
    )
    go_on = _command("resume", arguments.source, arguments.target, schema)
    go_on += given_flags(arguments)
    if arguments.await_snapshot is not None:
        go_on += ["--await-snapshot", arguments.await_snapshot]
    if arguments.only:
        go_on += ["--only", *arguments.only]
    if arguments.as_of_now:
        go_on.append("--as-of-now")
    only = len(set(arguments.only))
    return _watch(events, arguments, title="", go_on=go_on, only=only)


def _watch(
    events: Iterator[Event],
    arguments: argparse.Namespace,
    *,
    title: str,
    go_on: list[str],
    only: int = 0,
) -> int:
    """Show a run's events to their end, and its report.

    Parameters:
        go_on: the words of the command that goes on with the run, the run's id still missing.
        only: how many partitions were asked for, where not all of the plan's were.
    """
    display = _open_display(json=arguments.json, title=title, only=only)
    failure: BaseException | None = None
    try:
        with _signals(display), display, _closing(events):
            for event in events:
                display.show(event)
    except BrokenPipeError:
        _discard(sys.stdout)
        failure = Interrupted("interrupted: whoever read the output has gone")
    except (Exception, KeyboardInterrupt) as error:
        failure = error

    tally = display.tally
    finished = tally.finished
    if finished is not None and finished.status == "partial" and "--only" in go_on:
        # Those are done: what is left is the others.
        go_on = go_on[: go_on.index("--only")]
    # What was done to a table that was changed cannot be had back: only a new run helps.
    command = "" if isinstance(failure, TargetChanged) else _shown(go_on, tally.run_id)
    if tally.is_batch:
        return _end_batch(tally, failure, shlex.join([*go_on, tally.run_id]), json=arguments.json)
    if finished is not None and not arguments.json:
        from penstock.show.tables import print_report

        with _stdout_console() as console:
            before = tally.planned.committed if tally.planned else 0
            print_report(console, finished, command, before)
    complete = finished is not None and finished.status in ("done", "partial")
    if complete and isinstance(failure, Interrupted | KeyboardInterrupt):
        # The signal came after the end.
        failure = None
    if failure is None:
        return EXIT_DONE
    if finished is not None and isinstance(failure, RunFailed | RunFailedTransiently):
        # The report has said it all.
        _say(f"error: {failure.message}".partition("\n")[0])
        code = failure.exit_code
    else:
        code = _tell(failure)
    if finished is not None and not arguments.json:
        return code
    if tally.run_id and command:
        # The engine says nothing before the run is in the target.
        _say(f"go on with: {command}")
    return code


def _end_batch(tally: Tally, failure: BaseException | None, go_on: str, *, json: bool) -> int:
    """Show the end of a batch. Returns the exit code."""
    finished = tally.batch_finished
    if finished is not None and not json:
        from penstock.show.tables import print_batch

        with _stdout_console() as console:
            print_batch(console, finished)
    if failure is None:
        return EXIT_DONE
    code = _tell(failure)
    _say(f"go on with: {go_on}")
    return code


def _open_display(*, json: bool, title: str, only: int) -> Display:
    """JSON to stdout where asked for; else to stderr, live where that is a terminal."""
    tally = Tally(only)
    if json:
        return JsonDisplay(tally, sys.stdout)
    if sys.stderr.isatty():
        from penstock.show.live import LiveDisplay
        from penstock.show.tables import make_console

        console = make_console(sys.stderr)
        if console.is_terminal and not console.is_dumb_terminal:
            return LiveDisplay(tally, console, title)
    return PlainDisplay(tally, sys.stderr)


def _status(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.api import status

    schema = getattr(arguments, "control_schema", "penstock")
    with _signals():
        result = status(arguments.run_id, target=arguments.target, control_schema=schema)
    if arguments.json:
        _print_json(result.as_json())
        return EXIT_DONE
    from penstock.show.tables import print_status

    with _stdout_console() as console:
        print_status(console, result)
    return EXIT_DONE


def _verify(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.api import verify

    schema = getattr(arguments, "control_schema", "penstock")
    with _signals():
        result = verify(
            arguments.run_id,
            source=arguments.source,
            target=arguments.target,
            control_schema=schema,
            checksum=arguments.checksum,
            show_rows=arguments.show_rows,
        )
    code = EXIT_DONE if result.ok else EXIT_PERMANENT
    if arguments.json:
        _print_json(to_json(result))
        return code
    from penstock.show.tables import print_verification

    with _stdout_console() as console:
        print_verification(console, result)
    return code


def _control_ddl(arguments: argparse.Namespace) -> int:
    from penstock.run.api import control_ddl

    text = control_ddl(
        getattr(arguments, "target", None), getattr(arguments, "control_schema", "penstock")
    )
    with _results():
        print(text.rstrip("\n"), flush=True)
    return EXIT_DONE


_COMMANDS = {
    "plan": _plan,
    "create": _create,
    "copy": _copy,
    "copy-all": _copy_all,
    "status": _status,
    "resume": _resume,
    "hold": _hold,
    "release": _release,
    "verify": _verify,
    "control-ddl": _control_ddl,
}


def _command(name: str, source: str, target: str, control_schema: str) -> list[str]:
    """The words of a command on a run, its id still missing, without secrets."""
    words = ["penstock", name, "--source", redact(source), "--target", redact(target)]
    return words if control_schema == "penstock" else [*words, "--control-schema", control_schema]


def _shown(words: Sequence[str], run_id: str) -> str:
    return shlex.join([*words[:2], run_id, *words[2:]])


@contextmanager
def _closing(events: Iterator[Event]) -> Iterator[None]:
    """Close the generator: an exception of the display's has not passed through it."""
    try:
        yield
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()


@contextmanager
def _signals(display: Display | None = None) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into `Interrupted`, and ignore those that follow.

    A second one would break the clean-up that the first one started.
    """
    raised = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal raised
        if not raised:
            raised = True
            if display is not None:
                display.tally.cancelling = True
            raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    before: dict[signal.Signals, Any] = {}
    try:
        for caught in (signal.SIGINT, signal.SIGTERM):
            # Started to ignore SIGINT, as a shell's background processes are: it stays so.
            if signal.getsignal(caught) != signal.SIG_IGN:
                before[caught] = signal.signal(caught, handle)
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


@contextmanager
def _results() -> Iterator[None]:
    """Write results to stdout; a reader that goes away early (`| head`) is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)


@contextmanager
def _stdout_console() -> Iterator[Console]:
    from penstock.show.tables import make_console

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A terminal that cannot show a letter is no reason to fail.
        reconfigure(errors="replace")
    with _results():
        yield make_console(sys.stdout)


def _print_json(result: Any) -> None:
    with _results():
        print(json.dumps(result, indent=2))


def _say(text: str) -> None:
    with suppress(OSError):
        print(f"penstock: {printable(text)}", file=sys.stderr, flush=True)


def _tell(error: BaseException) -> int:
    """Say on stderr what ended the command. Returns the exit code."""
    if isinstance(error, KeyboardInterrupt):
        _say("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, PenstockError):
        first, *rest = error_lines(error.as_json())
        _say(first if isinstance(error, Interrupted) else f"error: {first}")
        for line in rest:
            _say(f"  {line}")
        return error.exit_code
    with suppress(OSError):
        traceback.print_exception(error)
    _say(
        f"error: this is a bug in Penstock ({type(error).__name__}): please report it, with the "
        "lines above"
    )
    return EXIT_BUG


def _discard(stream: Any) -> None:
    """Let what is still buffered for a reader that is gone go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            _discard(stream)


if __name__ == "__main__":
    sys.exit(main())
