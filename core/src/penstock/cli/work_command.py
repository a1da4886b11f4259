"""`work`: copy partitions of a run together with other processes, until it is done."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse

from penstock.cli.help import WORK_EXAMPLES
from penstock.cli.options import (
    add_copy_options,
    find_source,
    lists_tables,
    plan_options,
    read_batch,
    read_overrides,
    read_spec,
)
from penstock.cli.parser import Commands, add_events
from penstock.cli.watch import fork_early, resume_words, watch
from penstock.errors import UsageError
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import AUTO, parse_degree
from penstock.spec.ids import check_run_id
from penstock.spec.option_values import flag_of
from penstock.spec.units import parse_duration


def add_work(commands: Commands) -> None:
    """Add ``work``."""
    parser = commands.add(
        "work",
        _work,
        "RUN_ID [--source URL] --target URL [--wait DURATION] [options]",
        (WORK_EXAMPLES,),
    )
    parser.add_argument("run_id", metavar="RUN_ID", nargs="?", help="the name of the run")
    parser.add_argument("--run-id", dest="named", metavar="RUN_ID", help="the same as RUN_ID")
    parser.add_argument(
        "--wait",
        metavar="DURATION",
        default="0s",
        help="wait this long for another process to plan the run (default: do not wait)",
    )
    parser.add_argument(
        "--streams",
        metavar="N",
        default=AUTO,
        help="the concurrent streams of this process: a number, or auto (default: auto)",
    )
    parser.add_argument(
        "--spec",
        metavar="FILE",
        help="a TOML file of copy or copy-all, with which the run or batch is planned if it does "
        "not exist; the options below do the same for one table",
    )
    add_copy_options(parser, without=("run_id", "degree"))
    add_events(parser)


def _work(arguments: argparse.Namespace) -> int:
    run_id = arguments.run_id = _run_id(arguments)
    wait = parse_duration(arguments.wait, "--wait")
    streams = parse_degree(arguments.streams, "--streams")
    spec = _spec(arguments)
    if spec is None:
        if not hasattr(arguments, "target"):
            raise UsageError("--target: expected the target's URL, found none")
        if wait and not hasattr(arguments, "source"):
            raise UsageError(
                "--source: expected the source's URL with --wait, found none: a run that does not "
                "exist yet records no source"
            )
        find_source(arguments)
        overrides = read_overrides(arguments)
    else:
        arguments.source, arguments.target = spec.source, spec.target
        overrides = {}
    overrides.pop("degree", None)
    source, target = arguments.source, arguments.target
    schema = (
        getattr(arguments, "control_schema", "penstock") if spec is None else spec.control_schema
    )
    fork_early(source, target)
    from penstock.engine.work import work

    events = work(
        run_id,
        source=source,
        target=target,
        spec=spec,
        control_schema=schema,
        wait=wait,
        streams=streams,
        **overrides,
    )
    go_on = resume_words(source, target, schema, command="work")
    return watch(events, arguments, title=f"run {run_id}", go_on=go_on, target=target)


def _run_id(arguments: argparse.Namespace) -> str:
    """Return the run's id, which is given with or without ``--run-id``.

    Raises:
        UsageError: no run id is given, or two different ones.
    """
    given = {name for name in (arguments.run_id, arguments.named) if name is not None}
    if len(given) != 1:
        found = " and ".join(sorted(given)) or "none"
        raise UsageError(f"RUN_ID: expected the name of one run, found {found}")
    (run_id,) = given
    check_run_id(run_id)
    return str(run_id)


def _spec(arguments: argparse.Namespace) -> CopySpec | BatchSpec | None:
    """Return the spec to plan the run or batch with; None if another process plans it.

    Raises:
        UsageError: an option of a copy is given without a table.
    """
    arguments.file = arguments.spec
    names = plan_options(arguments)
    if arguments.spec is not None and lists_tables(arguments):
        return read_batch(arguments)
    if arguments.spec is not None or {"table", "query"}.intersection(names):
        return read_spec(arguments)
    if names:
        raise UsageError(
            f"{flag_of(names[0])}: expected --table, --query or --spec as well: without a table, "
            "another process plans the run, and only options on how to run may be given"
        )
    return None
