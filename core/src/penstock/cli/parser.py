"""The parsers of all commands, in one form."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from textwrap import fill, indent, wrap
from typing import Any, NoReturn

from penstock.backends.shared.resources import FLAG, VARIABLE
from penstock.cli.help import COMMANDS, CONNECTIONS, EXIT_CODES, URLS
from penstock.errors import EXIT_USAGE, did_you_mean, nearest
from penstock.spec.toml_file import UNQUOTED

_WIDTH = 79


def _usage(name: str, arguments: str) -> str:
    """Return the usage of a command, whose further lines begin below its first argument."""
    head = f"penstock {name} "
    width = _WIDTH - len("usage: ")
    # A group in brackets stays on one line.
    words = re.sub(r"\[[^]]*\]", lambda group: group[0].replace(" ", "\0"), arguments)
    lines = wrap(head + words, width, subsequent_indent=" " * len(head), break_on_hyphens=False)
    return f"\n{' ' * len('usage: ')}".join(lines).replace("\0", " ")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter that never breaks a line within an option or another hyphenated word."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors end with our own exit code instead of argparse's 2."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", _HelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def format_help(self) -> str:
        """Return the help, with the URL examples of the installed backends."""
        if self.epilog and URLS in self.epilog:
            from penstock.backends.api.registry import url_examples  # noqa: PLC0415 - only help needs it

            self.epilog = self.epilog.replace(URLS, indent(url_examples(), "    "))
        return super().format_help()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line; an unknown argument ends the process with its command's usage."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            # argparse would print the usage of the whole program instead of the command's.
            getattr(arguments, "refuse", self.refuse)(unknown)
        return arguments

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End the process because of unknown arguments, and suggest the option that was meant."""
        message = f"unrecognized arguments: {' '.join(unknown)}"
        if any("/" in word for word in unknown):
            self.error(f"{message}\npenstock:   {UNQUOTED}")
        option = unknown[0].partition("=")[0]
        near = [name for name in nearest(option, self._option_string_actions) if name[:2] == "--"]
        self.error(message + "".join(f"; did you mean {name}?" for name in near[:1]))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check that a word is one of the choices, and suggest the one that was meant."""
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            raise argparse.ArgumentError(
                action,
                f"expected one of {', '.join(choices)}; found {str(value)!r}"
                + did_you_mean(str(value), choices),
            )

    def error(self, message: str) -> NoReturn:
        """End the process with exit code 64 and a message."""
        self.exit(EXIT_USAGE, f"penstock: error: {message}\npenstock: see {self.prog} --help\n")


class Commands:
    """Adds commands to a parser.

    Args:
        parser: the parser of the command line, perhaps with one of its commands only.
        whole_parser: creates the parser of all commands.
    """

    def __init__(self, parser: Parser, whole_parser: Callable[[], argparse.ArgumentParser]) -> None:
        self.whole_parser = whole_parser
        self._parsers = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(
        self,
        name: str,
        call: Callable[[argparse.Namespace], int],
        usage: str,
        epilog: Sequence[str] = (),
    ) -> argparse.ArgumentParser:
        """Add a command.

        Args:
            name: the command, as the user types it; one of `COMMANDS`.
            call: runs the command and returns the exit code; stored as `arguments.call`.
            usage: the usage line after the command's name.
            epilog: examples and other text before connections and exit codes.
        """
        text = COMMANDS[name]
        parser: Parser = self._parsers.add_parser(
            name,
            help=text,
            description=fill(text[0].upper() + text[1:] + ".", _WIDTH),
            usage=_usage(name, usage),
            epilog="\n".join((*epilog, CONNECTIONS, EXIT_CODES)),
        )
        parser.set_defaults(call=call, refuse=parser.refuse)
        return parser

    def add_names(self) -> None:
        """Add all commands without their options, as the help of the whole program shows them."""
        for name, text in COMMANDS.items():
            self._parsers.add_parser(name, help=text)

    def add_common_options(self) -> None:
        """Add the options that every command takes."""
        for parser in self._parsers.choices.values():
            parser.add_argument(
                "-q",
                "--quiet",
                action="store_true",
                help="show no progress and no report of success; warnings, errors and results stay",
            )
            parser.add_argument(
                "-v",
                "--verbose",
                action="store_true",
                help="show a line for each thing that happens, on a terminal, too",
            )
            parser.add_argument(
                "--log-format",
                choices=("text", "json"),
                default="text",
                help="what is logged on standard error: lines for people, or JSON objects for log "
                "collectors (default: text)",
            )
            parser.add_argument(
                "--s3-endpoint",
                metavar="URL",
                help="the server of s3:// URLs that name none; overrides AWS_ENDPOINT_URL_S3 "
                "(default: AWS)",
            )
            parser.add_argument(
                FLAG,
                metavar="SIZE",
                help="the most memory of this command's processes together, such as 2GB; lowers "
                f"the number of streams and their buffers (default: {VARIABLE}, else no limit but "
                "that of a container, for --degree auto)",
            )


def add_run_id(parser: argparse.ArgumentParser, *, batch: bool = False) -> None:
    """Add the argument for a run id.

    Args:
        parser: the parser of the command.
        batch: whether the id of a batch is also valid.
    """
    text = f"the name of the run{' or batch' * batch}, as penstock runs shows it"
    parser.add_argument("run_id", metavar="RUN_ID", help=text)


def add_events(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--metrics-file`` to a command that copies."""
    add_json(parser, "events, one per line,").add_argument(
        "--metrics-file",
        metavar="FILE",
        help="write metrics of the run to FILE, regularly and at the end, for Prometheus' textfile "
        "collector",
    )


def add_json(parser: argparse.ArgumentParser, what: str) -> Any:
    """Add ``--json``.

    Args:
        parser: the parser of the command.
        what: the printed objects, for the help.

    Returns: the group of options.
    """
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help=f"print {what} as JSON")
    return group
