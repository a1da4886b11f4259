"""The parsers of commands, all in the same form."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from textwrap import indent
from typing import Any, NoReturn

from penstock.cli.help import CONNECTIONS, EXIT_CODES, URLS
from penstock.cli.options import UNQUOTED
from penstock.errors import EXIT_USAGE


class Parser(argparse.ArgumentParser):
    """Usage errors end with our own exit code, not with argparse's 2."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def format_help(self) -> str:
        if self.epilog and URLS in self.epilog:
            from penstock.backends.api.registry import url_examples  # noqa: PLC0415 - for help alone

            self.epilog = self.epilog.replace(URLS, indent(url_examples(), "    "))
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: ") and "/" in message:
            message += f"\npenstock:   {UNQUOTED}"
        self.exit(EXIT_USAGE, f"penstock: error: {message}\npenstock: see {self.prog} --help\n")


class Commands:
    """Adds commands to a parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(
        self,
        name: str,
        call: Callable[[argparse.Namespace], int],
        text: str,
        usage: str,
        epilog: Sequence[str] = (),
    ) -> argparse.ArgumentParser:
        """
        Parameters:
            call: runs the command and returns the exit code; stored as `arguments.call`.
            text: what it does.
            usage: what follows its name.
            epilog: examples, and other text before connections and exit codes.
        """
        parser: argparse.ArgumentParser = self._parsers.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            usage=f"penstock {name} {usage}",
            epilog="\n".join((*epilog, CONNECTIONS, EXIT_CODES)),
        )
        parser.set_defaults(call=call)
        return parser

    def add_common_options(self) -> None:
        """Add the options that every command takes."""
        for parser in self._parsers.choices.values():
            parser.add_argument(
                "--s3-endpoint",
                metavar="URL",
                help="the server for s3:// URLs that name none, like AWS_ENDPOINT_URL_S3 "
                "(default: AWS)",
            )


def add_run_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN_ID", help="the run's name, as shown by copy")


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--json", action="store_true", help=f"write {what} as JSON to standard output"
    )
