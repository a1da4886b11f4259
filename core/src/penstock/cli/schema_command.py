"""`schema`: print the statements that create tables in the target."""

# ruff: noqa: PLC0415 - import the engine only on use, so that --help is fast

from __future__ import annotations

import argparse
import sys

from penstock.cli.help import BATCH_FILE
from penstock.cli.options import add_batch_options, read_batch
from penstock.cli.output import print_json_line, signals
from penstock.cli.parser import Commands, add_json
from penstock.errors import EXIT_DONE, EXIT_PERMANENT
from penstock.model.codec import to_json
from penstock.show.text import printable

_EXAMPLES = """\
examples:
  penstock schema --source env:SHOP --target env:DW --tables 'shop.*' \\
      > tables.sql
to load the tables once they have been created from it:
  penstock copy-all --source env:SHOP --target env:DW --tables 'shop.*' \\
      --data-only --mode truncate
to create the tables without reviewing the statements:
  penstock copy-all --source env:SHOP --target env:DW --tables 'shop.*' \\
      --schema-only
"""


def add_schema(commands: Commands) -> None:
    """Add ``schema``."""
    parser = commands.add(
        "schema",
        _schema,
        "[FILE] --source URL --target URL --tables PATTERN ... [options]",
        (_EXAMPLES, BATCH_FILE),
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a TOML file of tables and options")
    add_batch_options(parser)
    add_json(parser, "each table, one per line,")


def _schema(arguments: argparse.Namespace) -> int:
    batch = read_batch(arguments)
    from penstock.engine.schema import SchemaEnd, schema
    from penstock.show.schema_text import end_lines, table_lines

    links: list[str] = []
    failed = 0
    with signals():
        for item in schema(batch):
            if isinstance(item, SchemaEnd):
                failed, lines = item.failed, end_lines(links, item)
            else:
                links += item.links
                lines = table_lines(item)
            if arguments.json:
                print_json_line(to_json(item))
            else:
                for line in lines:
                    print(printable(line), file=sys.stdout)
    return EXIT_PERMANENT if failed else EXIT_DONE
