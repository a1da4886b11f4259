"""`status`, `report`, `resume`, `verify`: commands on an existing run."""

# ruff: noqa: PLC0415 - the engine and rich are imported by what needs them: --help is fast

from __future__ import annotations

import argparse
import secrets

from penstock.cli.help import RUN_EXAMPLES
from penstock.cli.options import (
    add_connections,
    add_resume_options,
    add_show_values,
    execution_words,
    read_overrides,
)
from penstock.cli.output import print_result, signals, write_file
from penstock.cli.parser import Commands, add_json, add_run_id
from penstock.cli.watch import command_words, fork_early, watch
from penstock.errors import EXIT_DONE, EXIT_PERMANENT, UsageError
from penstock.spec.ids import check_run_id
from penstock.spec.units import parse_duration


def add_status(commands: Commands) -> None:
    parser = commands.add(
        "status", _status, "show how far a run is", "RUN_ID --target URL [options]", (RUN_EXAMPLES,)
    )
    add_run_id(parser)
    add_connections(parser, "target")
    add_show_values(parser)
    add_json(parser, "the status")


def _status(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.api import status

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        result = status(arguments.run_id, target=arguments.target, control_schema=schema)
    from penstock.show.status_table import print_status

    print_result(arguments, result, print_status, result.as_json)
    return EXIT_DONE


def add_report(commands: Commands) -> None:
    parser = commands.add(
        "report",
        _report,
        "show where a run's time went, and what may help",
        "RUN_ID --target URL [options]",
        (RUN_EXAMPLES,),
    )
    add_run_id(parser)
    add_connections(parser, "target")
    add_show_values(parser)
    add_json(parser, "the report")
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="also write the report with charts to FILE, as one page that needs nothing else",
    )


def _report(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.reports import report

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        result = report(arguments.run_id, target=arguments.target, control_schema=schema)
    if arguments.html is not None:
        from penstock.show.html_report import run_report_html

        write_file(arguments.html, run_report_html(result), "--html")
    from penstock.show.run_report import print_run_report

    print_result(arguments, result, print_run_report)
    return EXIT_DONE


def add_resume(commands: Commands) -> None:
    parser = commands.add(
        "resume",
        _resume,
        "continue a run: copy what is not committed",
        "RUN_ID --source URL --target URL [options]",
        (RUN_EXAMPLES,),
    )
    add_run_id(parser)
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PARTITION_ID",
        help="copy these partitions and no others",
    )
    parser.add_argument(
        "--recopy",
        action="store_true",
        help="with --only: copy them again even if they are committed",
    )
    parser.add_argument(
        "--as-of-now",
        action="store_true",
        help="read the rows as they are now, whatever happened to the run's snapshot; the report "
        "says which partitions were read later",
    )
    parser.add_argument(
        "--await-snapshot",
        metavar="DURATION",
        help="read with the snapshot that penstock hold holds, and wait for it for so long; by "
        "default take one if there is none",
    )
    add_connections(parser, "source", "target")
    add_resume_options(parser)
    add_json(parser, "events, one a line,")


def _resume(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    overrides = read_overrides(arguments)
    if arguments.recopy and not arguments.only:
        raise UsageError("--recopy: expected --only with partitions, found none")
    if arguments.recopy:
        # A new name each time: repeating the command repeats the copy.
        overrides["recopy"] = f"cli-{secrets.token_hex(8)}"
    if arguments.as_of_now:
        overrides["as_of_now"] = True
    if arguments.await_snapshot is not None:
        seconds = parse_duration(arguments.await_snapshot, "--await-snapshot")
        overrides["await_snapshot"] = seconds
    fork_early(arguments.source, arguments.target)
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
    go_on = command_words("resume", arguments.source, arguments.target, schema)
    go_on += execution_words(arguments)
    if arguments.await_snapshot is not None:
        go_on += ["--await-snapshot", arguments.await_snapshot]
    if arguments.only:
        go_on += ["--only", *arguments.only]
    if arguments.as_of_now:
        go_on.append("--as-of-now")
    only = len(set(arguments.only))
    return watch(events, arguments, title="", go_on=go_on, only=only)


def add_verify(commands: Commands) -> None:
    parser = commands.add(
        "verify",
        _verify,
        "compare source, target and commit records",
        "RUN_ID --source URL --target URL [options]",
        (RUN_EXAMPLES,),
    )
    add_run_id(parser)
    parser.add_argument(
        "--checksum",
        action="store_true",
        help="compare the values of all rows, by checksums that both servers compute; by default "
        "compare row counts",
    )
    parser.add_argument(
        "--show-rows",
        action="store_true",
        help="with --checksum: list the keys of up to 20 differing rows in each partition",
    )
    add_connections(parser, "source", "target")
    add_show_values(parser)
    add_json(parser, "the verification")


def _verify(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.run.api import verify

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        result = verify(
            arguments.run_id,
            source=arguments.source,
            target=arguments.target,
            control_schema=schema,
            checksum=arguments.checksum,
            show_rows=arguments.show_rows,
            show_values=getattr(arguments, "show_values", None),
        )
    code = EXIT_DONE if result.ok else EXIT_PERMANENT
    from penstock.show.verification_table import print_verification

    print_result(arguments, result, print_verification)
    return code
