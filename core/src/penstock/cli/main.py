"""The command line: commands read options, call the engine and show its results."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from penstock.backends.api.imports import leave_out
from penstock.cli.completion_command import add_completion
from penstock.cli.copy_commands import (
    add_copy,
    add_copy_all,
    add_create,
    add_plan,
    add_plan_all,
)
from penstock.cli.entry import handle_signals
from penstock.cli.help import CONNECTIONS, DESCRIPTION, EXAMPLES, EXIT_CODES
from penstock.cli.init_command import add_init
from penstock.cli.output import flush_output, reader_closed, report_end, signals
from penstock.cli.parser import Commands, Parser
from penstock.cli.run_commands import add_report, add_resume, add_runs, add_status, add_verify
from penstock.cli.schema_command import add_schema
from penstock.cli.service_commands import add_control_ddl, add_give_up, add_hold, add_release
from penstock.cli.tune_command import add_tune
from penstock.cli.watermark_command import add_watermark
from penstock.errors import EXIT_USAGE, Interrupted, PenstockError, UsageError
from penstock.model import values
from penstock.spec.terms import flags
from penstock.workers import early_fork


class _Version(argparse.Action):
    """An action that looks up versions on demand, because that is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from penstock.cli.installed_parts import version_lines  # noqa: PLC0415 - rarely needed

        print(*version_lines(), sep="\n")
        parser.exit()


_COMMANDS = {
    "plan": add_plan,
    "copy": add_copy,
    "resume": add_resume,
    "status": add_status,
    "report": add_report,
    "verify": add_verify,
    "runs": add_runs,
    "tune": add_tune,
    "init": add_init,
    "plan-all": add_plan_all,
    "copy-all": add_copy_all,
    "schema": add_schema,
    "watermark": add_watermark,
    "create": add_create,
    "hold": add_hold,
    "release": add_release,
    "give-up": add_give_up,
    "control-ddl": add_control_ddl,
    "completion": add_completion,
}
"""Commands in the order of `penstock --help`: one table, many tables, special needs."""


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """Create the parser of the command line.

    Args:
        command: the only command to add; an unknown name adds all of them.
    """
    parser = Parser(
        prog="penstock",
        description=DESCRIPTION,
        epilog="\n".join((EXAMPLES, CONNECTIONS, EXIT_CODES)),
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="show the versions of Penstock and its installed parts, and exit",
    )
    commands = Commands(parser, make_parser)
    for add in (_COMMANDS[command],) if command in _COMMANDS else _COMMANDS.values():
        add(commands)
    commands.add_common_options()
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the arguments without the program's name; by default those of the process.

    Returns: the exit code.
    """
    try:
        try:
            words = sys.argv[1:] if argv is None else argv
            arguments = make_parser(*words[:1]).parse_args(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else EXIT_USAGE
        if arguments.s3_endpoint is not None:
            os.environ["AWS_ENDPOINT_URL_S3"] = arguments.s3_endpoint
        _choose_values(getattr(arguments, "show_values", None))
        with flags():
            return int(arguments.call(arguments))
    except (PenstockError, KeyboardInterrupt) as error:
        return report_end(error)
    except BrokenPipeError:
        return report_end(reader_closed())
    except Exception as error:
        return report_end(error)
    finally:
        flush_output()


def _choose_values(choice: str | None) -> None:
    """Show values of rows only to a person at a terminal, unless the environment chooses otherwise.

    Raises:
        UsageError: the environment variable holds an unknown choice.
    """
    setting = os.environ.get(values.VARIABLE)
    if setting and setting not in values.SHOW_VALUES:
        raise UsageError(
            f"{values.VARIABLE}: expected one of {', '.join(values.SHOW_VALUES)}; found {setting!r}"
        )
    if choice is None and not setting and sys.stderr.isatty() and sys.stdout.isatty():
        choice = values.ERRORS
    values.choose_for_process(choice)


def run() -> NoReturn:
    """Run a command, and end the process with its exit code."""
    # Imports create many objects and hardly any cycles.
    gc.set_threshold(100_000, 50, 50)
    early_fork.allow()
    leave_out()
    handle_signals()
    code: int | None = None
    try:
        with signals():
            code = main()
    except Interrupted as error:  # raised before the command began, or after it ended
        code = report_end(error) if code is None else code
    early_fork.discard()
    # Skip the clean-up of C libraries: a thread that still waits for a server could crash in it.
    os._exit(code)


if __name__ == "__main__":
    run()
