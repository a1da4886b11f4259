"""The command line: commands read options, call the engine and show its results."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from penstock.backends.api.imports import leave_out
from penstock.backends.shared import resources
from penstock.cli.entry import handle_signals
from penstock.cli.help import COMMANDS, CONNECTIONS, DESCRIPTION, EXAMPLES, EXIT_CODES
from penstock.cli.output import choose_log_format, flush_output, reader_closed, report_end, signals
from penstock.cli.parser import Commands, Parser
from penstock.errors import EXIT_DONE, EXIT_USAGE, Interrupted, PenstockError, UsageError
from penstock.workers import early_fork
from penstock.workers.interruptions import cause_of


class _Version(argparse.Action):
    """An action that looks up versions on demand, because that is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from penstock.cli.installed_parts import version_lines  # noqa: PLC0415 - rarely needed

        print(*version_lines(), sep="\n")
        parser.exit()


_MODULES = {
    "copy_commands": ("plan", "copy", "plan-all", "copy-all", "create"),
    "run_commands": ("resume", "status", "report", "verify", "runs"),
    "work_command": ("work",),
    "tune_command": ("tune",),
    "init_command": ("init",),
    "schema_command": ("schema",),
    "watermark_command": ("watermark",),
    "service_commands": ("hold", "release", "give-up", "control-ddl"),
    "completion_command": ("completion",),
}
"""The modules of the commands. Only those of the commands to add are imported, and none for
`penstock --help`."""


_NO_COMMAND = ("-h", "--help", "-v", "--version")


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """Create the parser of the command line.

    Args:
        command: the only command to add; an unknown name adds all of them, `--help` their names.
    """
    parser = Parser(
        prog="penstock",
        description=DESCRIPTION,
        epilog="\n".join((EXAMPLES, CONNECTIONS, EXIT_CODES)),
    )
    parser.add_argument(
        "-v",
        "--version",
        action=_Version,
        nargs=0,
        help="show the versions of Penstock and its installed parts, and exit",
    )
    commands = Commands(parser, make_parser)
    if command in _NO_COMMAND:
        commands.add_names()
        return parser
    homes = {name: module for module, names in _MODULES.items() for name in names}
    for name in (command,) if command in COMMANDS else COMMANDS:
        module = import_module(f"penstock.cli.{homes[name]}")
        getattr(module, "add_" + name.replace("-", "_"))(commands)
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
            parser = make_parser(*(words[:1] or _NO_COMMAND[:1]))
            arguments = parser.parse_args(words)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else EXIT_USAGE
        if arguments.command is None:
            parser.print_help()
            return EXIT_DONE
        choose_log_format(arguments.log_format)
        if arguments.s3_endpoint is not None:
            os.environ["AWS_ENDPOINT_URL_S3"] = arguments.s3_endpoint
        if arguments.max_memory is not None:
            os.environ[resources.VARIABLE] = arguments.max_memory
        resources.max_memory()
        _choose_values(getattr(arguments, "show_values", None))
        from penstock.spec.terms import flags  # noqa: PLC0415 - no help needs it

        with flags():
            return int(arguments.call(arguments))
    except (PenstockError, KeyboardInterrupt) as error:
        return report_end(error)
    except BrokenPipeError:
        return report_end(reader_closed())
    except Exception as error:
        return report_end(cause_of(error))
    finally:
        flush_output()


def _choose_values(choice: str | None) -> None:
    """Show values of rows only to a person at a terminal, unless the environment chooses otherwise.

    Raises:
        UsageError: the environment variable holds an unknown choice.
    """
    from penstock.model import values  # noqa: PLC0415 - no help needs it

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
