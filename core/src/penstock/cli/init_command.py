"""`init`: write a first file of many tables from the tables of a source."""

# ruff: noqa: PLC0415 - import the engine only on use, so that --help is fast

from __future__ import annotations

import argparse
import os
import shlex
import sys

from penstock.cli.options import add_connections, add_patterns
from penstock.cli.output import say, signals, write_file
from penstock.cli.parser import Commands
from penstock.errors import EXIT_DONE, UsageError
from penstock.spec.batch_spec import TABLES_FILE

_EXAMPLES = """\
examples:
  penstock init --source env:SHOP --target env:DW
  penstock init shop.toml --source env:SHOP --exclude 'tmp_*'
next:
  penstock plan-all
  penstock copy-all
"""


def add_init(commands: Commands) -> None:
    """Add ``init``."""
    parser = commands.add(
        "init",
        _init,
        "[FILE] --source URL [--target URL] [--tables PATTERN ...] [--force]",
        (_EXAMPLES,),
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default=TABLES_FILE,
        help=f"the file to write, or - for standard output (default: {TABLES_FILE})",
    )
    add_connections(parser, "source", schema=False)
    add_connections(parser, "target", required=False, schema=False)
    add_patterns(parser.add_argument_group("tables"))
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def _init(arguments: argparse.Namespace) -> int:
    path = arguments.file
    if path != "-" and os.path.exists(path) and not arguments.force:
        raise UsageError(
            f"{path} already exists; pass --force to overwrite it, or name another file"
        )
    from penstock.engine.survey import survey
    from penstock.show.tables_file_text import tables_file_text

    target = getattr(arguments, "target", None)
    with signals():
        tables = survey(
            arguments.source,
            target,
            tables=getattr(arguments, "tables", ["*"]),
            exclude=getattr(arguments, "exclude", ()),
        )
    file_argument = "" if path in ("-", TABLES_FILE) else f" {shlex.quote(path)}"
    text = tables_file_text(
        tables,
        _shown(arguments.source, "SOURCE"),
        _shown(target or "env:TARGET", "TARGET"),
        file_argument,
    )
    if path == "-":
        sys.stdout.write(text)
        return EXIT_DONE
    write_file(path, text, "FILE")
    count = len(tables.tables)
    if arguments.quiet:
        return EXIT_DONE
    say(f"{path}: {count} table{'s' * (count != 1)}; next: penstock plan-all{file_argument}")
    return EXIT_DONE


def _shown(url: str, variable: str) -> str:
    """Return a connection as the file shows it; a variable's name replaces one with a secret."""
    from penstock.engine.connections import holds_secret

    if not holds_secret(url):
        return url
    say(
        f"the URL contains a secret, so the file refers to env:{variable}; set {variable} to "
        "the URL"
    )
    return f"env:{variable}"
