"""`plan`, `create`, `copy` and their batch forms: commands that take a source and a target."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from penstock.cli.help import (
    BATCH_EXAMPLES,
    BATCH_FILE,
    COPY_EXAMPLES,
    FILE,
    MANY_PROCESSES,
    STREAMS,
)
from penstock.cli.options import (
    add_batch_options,
    add_copy_options,
    batch_words,
    read_batch,
    read_spec,
)
from penstock.cli.output import print_json_line, print_result, signals, stdout_console
from penstock.cli.parser import Commands, add_events, add_json
from penstock.cli.watch import fork_early, resume_words, watch
from penstock.errors import EXIT_DONE, EXIT_PERMANENT, MissingTarget
from penstock.model.codec import to_json


def add_plan(commands: Commands) -> None:
    """Add ``plan``."""
    _add_for_table(
        commands,
        "plan",
        _plan,
        COPY_EXAMPLES.replace("penstock copy", "penstock plan"),
        "the plan",
    )


def _plan(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    from penstock.engine.api import plan
    from penstock.show.plan_table import print_plan

    with signals():
        try:
            result = plan(spec)
        except MissingTarget as error:
            if error.plan is not None:
                print_result(arguments, error.plan, print_plan)
            raise
    print_result(arguments, result, print_plan)
    return EXIT_DONE


def add_create(commands: Commands) -> None:
    """Add ``create``."""
    _add_for_table(
        commands,
        "create",
        _create,
        MANY_PROCESSES,
        "the run's status",
    )


def _create(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    from penstock.engine.api import create

    with signals():
        result = create(spec)
    from penstock.show.plan_table import print_created

    print_result(arguments, result.run, print_created, result.as_json)
    return EXIT_DONE


def add_copy(commands: Commands) -> None:
    """Add ``copy``."""
    examples = COPY_EXAMPLES + "\n" + STREAMS
    _add_for_table(
        commands,
        "copy",
        _copy,
        examples,
        None,
    )


def _copy(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    fork_early(spec.source, spec.target)
    from penstock.engine.api import copy

    title = spec.source_name
    if spec.target_ref != spec.relation:
        title += f" to {spec.target_name}"
    go_on = resume_words(spec.source, spec.target, spec.control_schema)
    return watch(copy(spec), arguments, title=title, go_on=go_on, target=spec.target)


def add_copy_all(commands: Commands) -> None:
    """Add ``copy-all``."""
    _add_for_tables(
        commands,
        "copy-all",
        _copy_all,
        (BATCH_EXAMPLES, BATCH_FILE, STREAMS),
        None,
    )


def add_plan_all(commands: Commands) -> None:
    """Add ``plan-all``."""
    _add_for_tables(
        commands,
        "plan-all",
        _plan_all,
        (BATCH_EXAMPLES.replace("penstock copy-all", "penstock plan-all"), BATCH_FILE),
        "the plan of each table, one per line,",
    )


def _plan_all(arguments: argparse.Namespace) -> int:
    batch = read_batch(arguments)
    from penstock.engine.batch_plan import BatchPlan, plan_all
    from penstock.show.batch_plan_table import PlanSums, print_plans

    sums, end = PlanSums(), None
    with signals():
        for item in plan_all(batch):
            if arguments.json:
                print_json_line(to_json(item))
            if isinstance(item, BatchPlan):
                end = item
            elif not arguments.json:
                sums.add(item)
    assert end is not None
    if not arguments.json:
        with stdout_console() as console:
            print_plans(console, sums, end)
    return EXIT_PERMANENT if end.failed else EXIT_DONE


def _copy_all(arguments: argparse.Namespace) -> int:
    batch = read_batch(arguments)
    fork_early(batch.source, batch.target)
    from penstock.engine.batch import copy_all

    go_on = ["penstock", "copy-all", *batch_words(arguments), "--run-id"]
    return watch(copy_all(batch), arguments, title="", go_on=go_on, target=batch.target)


def _add_for_tables(
    commands: Commands,
    name: str,
    call: Callable[[argparse.Namespace], int],
    epilog: Sequence[str],
    json_content: str | None,
) -> None:
    """Add a command on many tables; parameters as for `Commands.add` and `_add_output`."""
    usage = "[FILE] --source URL --target URL --tables PATTERN ... [options]"
    parser = commands.add(name, call, usage, epilog)
    parser.add_argument("file", metavar="FILE", nargs="?", help="a TOML file of tables and options")
    add_batch_options(parser)
    _add_output(parser, json_content)


def _add_for_table(
    commands: Commands,
    name: str,
    call: Callable[[argparse.Namespace], int],
    examples: str,
    json_content: str | None,
) -> None:
    """Add a command on one table; parameters as for `Commands.add` and `_add_output`."""
    usage = "[FILE] --source URL --target URL [--table NAME] [options]"
    parser = commands.add(name, call, usage, (examples, FILE))
    parser.add_argument("file", metavar="FILE", nargs="?", help="a TOML file of options")
    add_copy_options(parser)
    if name in ("plan", "copy"):
        parser.add_argument(
            "--tuned",
            metavar="FILE",
            help="use the degree and options that penstock tune --out wrote to FILE",
        )
    _add_output(parser, json_content)


def _add_output(parser: argparse.ArgumentParser, json_content: str | None) -> None:
    """Add the options for results.

    Args:
        parser: the parser of the command.
        json_content: what ``--json`` prints; None for the events of a copy.
    """
    if json_content is None:
        add_events(parser)
    else:
        add_json(parser, json_content)
