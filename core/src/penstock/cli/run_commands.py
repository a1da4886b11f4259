"""`runs`, `status`, `report`, `resume`, `verify`: commands on existing runs."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cli.help import (
    REPORT_EXAMPLES,
    RESUME_EXAMPLES,
    RUNS_EXAMPLES,
    STATUS_EXAMPLES,
    VERIFY_EXAMPLES,
)
from penstock.cli.options import (
    add_connections,
    add_connections_of_run,
    add_resume_options,
    add_show_values,
    execution_words,
    find_source,
    read_overrides,
)
from penstock.cli.output import print_result, say, signals, write_file
from penstock.cli.parser import Commands, add_events, add_json, add_run_id
from penstock.cli.repairs import add_repair, check_alone, repair_runs
from penstock.cli.watch import fork_early, resume_words, watch
from penstock.errors import EXIT_DONE, EXIT_PERMANENT, UsageError
from penstock.model.codec import to_json
from penstock.spec.ids import check_run_id
from penstock.spec.option_values import coerce, flag_of
from penstock.spec.units import parse_duration

if TYPE_CHECKING:
    from penstock.engine.listing import RunEntry
    from penstock.events import Event
    from penstock.verification.result import Verification


# While a run is one of these, its status is shown again.
_GOING_ON = ("created", "running")


def add_runs(commands: Commands) -> None:
    """Add ``runs``."""
    parser = commands.add("runs", _runs, "--target URL [options]", (RUNS_EXAMPLES,))
    add_connections(parser, "target")
    group = parser.add_argument_group("filters")
    group.add_argument(
        "--table",
        metavar="PATTERN",
        help="only runs whose source or target table matches, such as 'public.ord*'; a pattern "
        "without a dot matches names in any schema",
    )
    group.add_argument(
        "--status",
        nargs="+",
        action="extend",
        default=[],
        metavar="STATUS",
        help="only runs with one of these: created, running, killed, done, partial, failed, "
        "interrupted, given-up",
    )
    group.add_argument(
        "--since",
        metavar="WHEN",
        help="only runs created since: a duration such as 2d, or a date such as 2026-07-14",
    )
    group.add_argument("--batch", metavar="RUN_ID", help="only the runs of this batch")
    group.add_argument(
        "--limit", metavar="N", help="show at most N runs; 0: all (default: 20)", default="20"
    )
    add_json(parser, "the runs")


def _runs(arguments: argparse.Namespace) -> int:
    limit = int(coerce("limit", "int", arguments.limit))
    if limit < 0:
        raise UsageError(f"--limit: expected 0 or more, found {limit}")
    from penstock.engine.listing import runs

    with signals():
        entries = runs(
            target=arguments.target,
            control_schema=_schema(arguments),
            table=arguments.table,
            status=arguments.status,
            since=arguments.since,
            batch=arguments.batch,
            limit=limit or None,
        )
    from penstock.show.runs_table import print_runs

    print_result(arguments, entries, print_runs)
    return EXIT_DONE


def _schema(arguments: argparse.Namespace) -> str:
    return str(getattr(arguments, "control_schema", "penstock"))


def _batch(arguments: argparse.Namespace, error: UsageError) -> tuple[RunEntry, ...]:
    """Return the runs of a batch, for a name that is not a run id.

    Raises:
        UsageError: no batch has the name.
    """
    from penstock.engine.listing import batch_runs

    schema = _schema(arguments)
    entries = batch_runs(arguments.run_id, target=arguments.target, control_schema=schema)
    if not entries:
        raise error
    return entries


def add_status(commands: Commands) -> None:
    """Add ``status``."""
    parser = commands.add(
        "status",
        _status,
        "RUN_ID --target URL [options]",
        (STATUS_EXAMPLES,),
    )
    add_run_id(parser, batch=True)
    add_connections(parser, "target")
    add_show_values(parser)
    add_json(parser, "the status")
    parser.add_argument(
        "--watch",
        nargs="?",
        const="2s",
        metavar="DURATION",
        help="show the status again and again, every 2s or DURATION, until no process is at work",
    )


def _status(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    if arguments.watch is None:
        _status_once(arguments)
        return EXIT_DONE
    pause = parse_duration(arguments.watch, "--watch")
    while True:
        _clear(arguments)
        if not _status_once(arguments):
            return EXIT_DONE
        with signals():
            time.sleep(pause)


def _clear(arguments: argparse.Namespace) -> None:
    """Clear the screen, if there is one."""
    if not arguments.json and sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="")


def _status_once(arguments: argparse.Namespace) -> bool:
    """Print the status; return whether the run, or a run of the batch, may still change it."""
    from penstock.engine.api import status
    from penstock.engine.stored_runs import shown_status

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        try:
            result = status(arguments.run_id, target=arguments.target, control_schema=schema)
        except UsageError as error:
            return _batch_status(arguments, _batch(arguments, error))
    from penstock.show.status_table import print_status

    print_result(arguments, result, print_status, result.as_json)
    return shown_status(result.run.status, result.at_work) in _GOING_ON


def _batch_status(arguments: argparse.Namespace, entries: Sequence[RunEntry]) -> bool:
    from penstock.engine.dropped_foreign_keys import unrestored_of
    from penstock.engine.listing import without_run
    from penstock.show.runs_table import batch_status, print_batch_runs

    missing = _unplanned(arguments, entries)
    note = without_run(arguments.run_id, missing) if missing else ""
    undone = [entry.run_id for entry in entries if entry.data_only and entry.status != "done"]
    dropped = (
        unrestored_of(undone, target=arguments.target, control_schema=_schema(arguments))
        if undone
        else ()
    )
    print_result(
        arguments,
        entries,
        lambda console, runs: print_batch_runs(console, arguments.run_id, runs, note, dropped),
        lambda: {
            "batch": arguments.run_id,
            "status": batch_status(entries, all_planned=not missing),
            "unplanned": missing,
            "unrestored": to_json(dropped),
            "runs": to_json(entries),
        },
    )
    return any(entry.status in _GOING_ON for entry in entries)


def _unplanned(arguments: argparse.Namespace, entries: Sequence[RunEntry]) -> int:
    from penstock.engine.listing import batch_unplanned

    return batch_unplanned(
        arguments.run_id,
        [entry.run_id for entry in entries],
        target=arguments.target,
        control_schema=_schema(arguments),
    )


def add_report(commands: Commands) -> None:
    """Add ``report``."""
    parser = commands.add(
        "report",
        _report,
        "RUN_ID --target URL [options]",
        (REPORT_EXAMPLES,),
    )
    add_run_id(parser, batch=True)
    add_connections(parser, "target")
    add_show_values(parser)
    add_json(parser, "the report")
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="also write the report, with charts, to FILE as a self-contained page",
    )


def _report(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    from penstock.engine.reports import report

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
    """Add ``resume``."""
    parser = commands.add(
        "resume",
        _resume,
        "RUN_ID [--source URL] --target URL [options]",
        (RESUME_EXAMPLES,),
    )
    add_run_id(parser, batch=True)
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="PARTITION_ID",
        help="copy only these partitions",
    )
    parser.add_argument(
        "--recopy",
        action="store_true",
        help="with --only: copy them again even if they are committed",
    )
    parser.add_argument(
        "--as-of-now",
        action="store_true",
        help="read the rows as they are now instead of as of the run's snapshot; the report "
        "lists the partitions that were read later",
    )
    parser.add_argument(
        "--await-snapshot",
        metavar="DURATION",
        help="use the snapshot of penstock hold, and wait this long for it (default: take one if "
        "there is none)",
    )
    add_connections_of_run(parser)
    add_resume_options(parser)
    add_events(parser)


def _resume(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    overrides = read_overrides(arguments)
    if arguments.recopy and not arguments.only:
        raise UsageError("--recopy: expected --only with partitions, found none")
    if arguments.recopy:
        # A new name each time, so that repeating the command repeats the copy.
        overrides["recopy"] = f"cli-{secrets.token_hex(8)}"
    if arguments.as_of_now:
        overrides["as_of_now"] = True
    if arguments.await_snapshot is not None:
        seconds = parse_duration(arguments.await_snapshot, "--await-snapshot")
        overrides["await_snapshot"] = seconds
    find_source(arguments)
    fork_early(arguments.source, arguments.target)
    from penstock.engine.api import resume

    schema = getattr(arguments, "control_schema", "penstock")
    ends = {"source": arguments.source, "target": arguments.target, "control_schema": schema}

    def resumed() -> Iterator[Event]:
        try:
            yield from resume(arguments.run_id, only=arguments.only, **ends, **overrides)
        except UsageError as error:
            _batch(arguments, error)
            _check_for_batch(arguments)
            from penstock.engine.batch import resume_all

            yield from resume_all(arguments.run_id, **ends, **overrides)

    go_on = resume_words(arguments.source, arguments.target, schema)
    go_on += execution_words(arguments)
    if arguments.await_snapshot is not None:
        go_on += ["--await-snapshot", arguments.await_snapshot]
    if arguments.only:
        go_on += ["--only", *arguments.only]
    if arguments.as_of_now:
        go_on.append("--as-of-now")
    only = len(set(arguments.only))
    target = arguments.target
    return watch(resumed(), arguments, title="", go_on=go_on, only=only, target=target)


def _check_for_batch(arguments: argparse.Namespace) -> None:
    """Check the options of a batch.

    Raises:
        UsageError: an option applies only to a single run.
    """
    for name in ("only", "as_of_now", "await_snapshot"):
        if getattr(arguments, name):
            raise UsageError(
                f"{flag_of(name)}: {arguments.run_id} is a batch; name the run of a table, as "
                "penstock status shows it"
            )


def add_verify(commands: Commands) -> None:
    """Add ``verify``."""
    parser = commands.add(
        "verify",
        _verify,
        "RUN_ID [--source URL] --target URL [options]",
        (VERIFY_EXAMPLES,),
    )
    add_run_id(parser, batch=True)
    parser.add_argument(
        "--checksum",
        action="store_true",
        help="compare the values of all rows, by checksums that both servers compute (default: "
        "compare row counts)",
    )
    parser.add_argument(
        "--show-rows",
        action="store_true",
        help="with --checksum: list the keys of up to 20 differing rows in each partition",
    )
    add_repair(parser)
    add_connections_of_run(parser)
    add_show_values(parser)
    add_json(parser, "the verification")


def _verify(arguments: argparse.Namespace) -> int:
    check_run_id(arguments.run_id)
    check_alone(arguments)
    find_source(arguments)
    if arguments.repair:
        try:
            return repair_runs(arguments, [arguments.run_id])
        except UsageError as error:
            return repair_runs(arguments, [each.run_id for each in _batch(arguments, error)])
    from penstock.engine.api import verify

    schema = getattr(arguments, "control_schema", "penstock")

    def verified(run_id: str) -> Verification:
        return verify(
            run_id,
            source=arguments.source,
            target=arguments.target,
            control_schema=schema,
            checksum=arguments.checksum,
            show_rows=arguments.show_rows,
            show_values=getattr(arguments, "show_values", None),
        )

    from penstock.show.verification_table import print_verification

    with signals():
        try:
            result = verified(arguments.run_id)
        except UsageError as error:
            entries = _batch(arguments, error)
        else:
            print_result(arguments, result, print_verification)
            return EXIT_DONE if result.ok else EXIT_PERMANENT
        results = []
        for entry in entries:
            results.append(verified(entry.run_id))
            if not arguments.json:
                print_result(arguments, results[-1], print_verification)
        missing = _unplanned(arguments, entries)
    ok = all(each.ok for each in results) and not missing
    if missing:
        from penstock.engine.listing import without_run

        say(without_run(arguments.run_id, missing), level="error")
    if arguments.json:
        document = {
            "batch": arguments.run_id,
            "ok": ok,
            "unplanned": missing,
            "runs": to_json(results),
        }
        print_result(arguments, document, lambda *_: None)
    return EXIT_DONE if ok else EXIT_PERMANENT
