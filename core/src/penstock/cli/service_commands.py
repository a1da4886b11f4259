"""`hold`, `release`, `give-up`, `control-ddl`: commands about a run that copy no rows."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
import sys

from penstock.cli.help import MANY_PROCESSES
from penstock.cli.options import (
    add_connections,
    add_connections_of_run,
    add_hold_options,
    find_source,
    read_overrides,
)
from penstock.cli.output import results, signals
from penstock.cli.parser import Commands, add_json, add_run_id
from penstock.cli.watch import closing_events
from penstock.errors import EXIT_DONE, UsageError
from penstock.show.lines import Display, JsonDisplay, PlainDisplay
from penstock.show.tally import Tally
from penstock.spec.ids import check_run_id

_DDL_EXAMPLES = """\
examples:
  penstock control-ddl --target env:DW > control.sql
  penstock control-ddl --target env:DW --control-schema ops
"""

_GIVE_UP_EXAMPLES = """\
examples:
  penstock give-up orders-7 --target env:DW
  penstock runs --target env:DW --status failed interrupted killed partial
"""


def add_hold(commands: Commands) -> None:
    """Add ``hold``."""
    parser = commands.add(
        "hold",
        _hold,
        "RUN_ID [--source URL] --target URL [options]",
        (MANY_PROCESSES,),
    )
    add_run_id(parser)
    add_connections_of_run(parser)
    add_hold_options(parser)
    add_json(parser, "events, one per line,")


def _hold(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    overrides = read_overrides(arguments)
    find_source(arguments)
    from penstock.engine.snapshot_holder import hold, require_snapshot

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
    elif arguments.log_format == "json":
        from penstock.show.json_log import JsonLog

        display = JsonLog(tally, sys.stderr)
    with signals(display), display, closing_events(events):
        for event in events:
            display.show(event)
    return EXIT_DONE


def add_release(commands: Commands) -> None:
    """Add ``release``."""
    parser = commands.add(
        "release",
        _release,
        "RUN_ID --target URL [options]",
        (MANY_PROCESSES,),
    )
    add_run_id(parser)
    add_connections(parser, "target")


def _release(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.engine.snapshot_holder import release

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        release(arguments.run_id, target=arguments.target, control_schema=schema)
    return EXIT_DONE


def add_give_up(commands: Commands) -> None:
    """Add ``give-up``."""
    parser = commands.add(
        "give-up",
        _give_up,
        "RUN_ID --target URL [options]",
        (_GIVE_UP_EXAMPLES,),
    )
    add_run_id(parser, batch=True)
    add_connections(parser, "target")


def _give_up(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.engine.giving_up import give_up
    from penstock.engine.listing import batch_runs

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        try:
            give_up(arguments.run_id, target=arguments.target, control_schema=schema)
        except UsageError:
            entries = batch_runs(arguments.run_id, target=arguments.target, control_schema=schema)
            if not entries:
                raise
            run_ids = [entry.run_id for entry in entries]
            give_up(run_ids, target=arguments.target, control_schema=schema)
    return EXIT_DONE


def add_control_ddl(commands: Commands) -> None:
    """Add ``control-ddl``."""
    parser = commands.add(
        "control-ddl",
        _control_ddl,
        "[--target URL] [--control-schema NAME]",
        (_DDL_EXAMPLES,),
    )
    add_connections(parser, "target", required=False)


def _control_ddl(arguments: argparse.Namespace) -> int:
    from penstock.engine.api import control_ddl

    text = control_ddl(
        getattr(arguments, "target", None), getattr(arguments, "control_schema", "penstock")
    )
    with results():
        print(text.rstrip("\n"), flush=True)
    return EXIT_DONE
