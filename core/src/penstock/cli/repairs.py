"""`verify --repair`: copy differing ranges again."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.output import print_result, say, signals
from penstock.cli.watch import fork_early, resume_words, watch
from penstock.errors import EXIT_DONE, EXIT_PERMANENT, UsageError
from penstock.model.codec import to_json

if TYPE_CHECKING:
    from penstock.engine.repair import Repair

NOTED = 100
"""Ranges between two lines of progress."""


def add_repair(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``verify --repair``."""
    group = parser.add_argument_group("repair")
    group.add_argument(
        "--repair",
        action="store_true",
        help="compare rows by ranges of the target's key, and copy the ranges that differ again, "
        "each in one transaction, as a new run; afterwards, source and target have the same rows",
    )
    group.add_argument(
        "--max-deletes",
        metavar="SHARE[,ROWS]",
        help="with --repair: fail without changing anything if more than this share of the "
        "target's rows would be deleted, and more rows than the number after the comma "
        "(default: 30%%,1000; no rows at all if the run's mode keeps rows from elsewhere)",
    )
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="with --repair: print the ranges that differ, and exit with 65 if there are any; "
        "change nothing",
    )


def check_alone(arguments: argparse.Namespace) -> None:
    """Check that the options of a repair are used together, and with no conflicting one.

    Raises:
        UsageError: an option needs `--repair`, or conflicts with it.
    """
    for flag in ("--max-deletes", "--dry-run"):
        if getattr(arguments, flag[2:].replace("-", "_")) and not arguments.repair:
            raise UsageError(f"{flag} requires --repair")
    if arguments.repair and arguments.show_rows:
        raise UsageError("--show-rows, --repair: found both; pass either --show-rows or --repair")


def repair_runs(arguments: argparse.Namespace, run_ids: Sequence[str]) -> int:
    """Repair runs one after the other.

    Returns: the exit code of the first repair that failed.
    """
    code = EXIT_DONE
    for run_id in run_ids:
        code = code or _repair(arguments, run_id)
    return code


def _repair(arguments: argparse.Namespace, run_id: str) -> int:
    schema = getattr(arguments, "control_schema", "penstock")
    if not arguments.dry_run:
        fork_early(arguments.source, arguments.target)
    from penstock.engine.repair import plan_repair, repair_run
    from penstock.show.verification_table import print_repair

    def note(compared: int, ranges: int) -> None:
        if compared % NOTED == 0 and compared < ranges:
            say(f"compared {compared:,} of {ranges:,} ranges")

    with signals():
        repair = plan_repair(
            run_id,
            source=arguments.source,
            target=arguments.target,
            control_schema=schema,
            max_deletes=arguments.max_deletes,
            note=note,
        )
    if arguments.dry_run or not (arguments.json and repair.ranges):
        print_result(arguments, repair, print_repair, lambda: _as_json(repair))
    if arguments.dry_run and repair.ranges:
        return EXIT_PERMANENT
    if not repair.ranges:
        return EXIT_DONE
    go_on = resume_words(arguments.source, arguments.target, schema)
    return watch(repair_run(repair), arguments, title=f"repair of {run_id}", go_on=go_on)


def _as_json(repair: Repair) -> dict[str, object]:
    return {
        "run_id": repair.run_id,
        "of": repair.of,
        "compared": repair.compared,
        "rows": repair.rows,
        "ranges": [
            {"extent": to_json(each.partition.extent), "source": each.source, "target": each.target}
            for each in repair.ranges
        ],
        "notes": list(repair.notes),
    }
