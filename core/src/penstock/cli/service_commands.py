"""`hold`, `release`, `control-ddl`: commands that support a run and copy no rows."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
import sys

from penstock.cli.help import MANY_PROCESSES
from penstock.cli.options import add_connections, add_hold_options, read_overrides
from penstock.cli.output import results, signals
from penstock.cli.parser import Commands, add_json, add_run_id
from penstock.cli.watch import closing_events
from penstock.errors import EXIT_DONE
from penstock.show.lines import Display, JsonDisplay, PlainDisplay
from penstock.show.tally import Tally
from penstock.spec.ids import check_run_id

_DDL_EXAMPLES = """\
examples:
  penstock control-ddl --target env:DW > control.sql
  penstock control-ddl --target env:DW --control-schema ops
"""


def add_hold(commands: Commands) -> None:
    """Add ``hold``."""
    parser = commands.add(
        "hold",
        _hold,
        "hold a run's snapshot while many processes copy its partitions",
        "RUN_ID --source URL --target URL [options]",
        (MANY_PROCESSES,),
    )
    add_run_id(parser)
    add_connections(parser, "source", "target")
    add_hold_options(parser)
    add_json(parser, "events, one per line,")


def _hold(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    overrides = read_overrides(arguments)
    from penstock.run.snapshot_holder import hold, require_snapshot

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        require_snapshot(arguments.run_id, target=arguments.target, control_schema=schema)
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
    with signals(display), display, closing_events(events):
        for event in events:
            display.show(event)
    return EXIT_DONE


def add_release(commands: Commands) -> None:
    """Add ``release``."""
    parser = commands.add(
        "release",
        _release,
        "release a run's snapshot, which ends penstock hold",
        "RUN_ID --target URL [options]",
        (MANY_PROCESSES,),
    )
    add_run_id(parser)
    add_connections(parser, "target")


def _release(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.snapshot_holder import release

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        release(arguments.run_id, target=arguments.target, control_schema=schema)
    return EXIT_DONE


def add_control_ddl(commands: Commands) -> None:
    """Add ``control-ddl``."""
    parser = commands.add(
        "control-ddl",
        _control_ddl,
        "print the statements that create the control tables",
        "[--target URL] [--control-schema NAME]",
        (_DDL_EXAMPLES,),
    )
    add_connections(parser, "target", required=False)


def _control_ddl(arguments: argparse.Namespace) -> int:
    from penstock.run.api import control_ddl

    text = control_ddl(
        getattr(arguments, "target", None), getattr(arguments, "control_schema", "penstock")
    )
    with results():
        print(text.rstrip("\n"), flush=True)
    return EXIT_DONE
