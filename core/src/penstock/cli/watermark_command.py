"""`watermark`: show how far nights have read their sources, and where the next one begins."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse

from penstock.cli.help import WATERMARK_EXAMPLES
from penstock.cli.options import add_connections
from penstock.cli.output import print_result, signals
from penstock.cli.parser import Commands, add_json
from penstock.errors import EXIT_DONE, UsageError
from penstock.spec.option_values import coerce

_WITH_NAME = ("show", "set", "reset")


def add_watermark(commands: Commands) -> None:
    """Add ``watermark``."""
    parser = commands.add(
        "watermark",
        _watermark,
        "list|show|set|reset [NAME] --target URL [options]",
        (WATERMARK_EXAMPLES,),
    )
    parser.add_argument(
        "action",
        choices=("list", *_WITH_NAME),
        help="list: show all watermarks; show: show a watermark's history; set: go back to an "
        "earlier epoch, so that the next run reads what has changed since; reset: make the next "
        "run read all rows",
    )
    parser.add_argument(
        "name",
        nargs="*",
        metavar="NAME",
        help="the name of the watermark, as list shows it, or of its table",
    )
    add_connections(parser, "target")
    group = parser.add_argument_group("position")
    group.add_argument(
        "--epoch", metavar="N", help="with set: the epoch to go back to, as show lists it"
    )
    add_json(parser, "the watermarks")


def _watermark(arguments: argparse.Namespace) -> int:
    action, name = arguments.action, " ".join(arguments.name)
    if bool(name) != (action in _WITH_NAME):
        expected = "a NAME" if action in _WITH_NAME else "no NAME"
        raise UsageError(f"watermark {action}: expected {expected}, found {name or 'none'}")
    if (arguments.epoch is not None) != (action == "set"):
        required = "requires" if action == "set" else "does not take"
        raise UsageError(f"watermark {action} {required} --epoch N")
    from penstock.engine import watermarks as api
    from penstock.show.watermark_table import print_history, print_watermarks

    schema = str(getattr(arguments, "control_schema", "penstock"))
    with signals():
        if action == "list":
            marks = api.watermarks(target=arguments.target, control_schema=schema)
            print_result(arguments, marks, print_watermarks)
            return EXIT_DONE
        if action == "set":
            epoch = int(coerce("epoch", "int", arguments.epoch))
            api.set_watermark(name, epoch=epoch, target=arguments.target, control_schema=schema)
        elif action == "reset":
            api.reset_watermark(name, target=arguments.target, control_schema=schema)
        history = api.watermark_history(name, target=arguments.target, control_schema=schema)
    print_result(arguments, history, print_history)
    return EXIT_DONE
