"""`tune`: measure which degree and which options copy a table fast."""

# ruff: noqa: PLC0415 - import the engine and rich only on use, so that --help is fast

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING, Any

from penstock.cli.help import FILE, TUNE, TUNE_EXAMPLES
from penstock.cli.options import add_copy_options, read_spec
from penstock.cli.output import check_writable, print_result, say, signals, write_file
from penstock.cli.parser import Commands, add_json
from penstock.errors import EXIT_DONE, UsageError
from penstock.spec.units import parse_size

if TYPE_CHECKING:
    from penstock.spec.copy_spec import CopySpec

# Options that `--degrees` or tune itself sets, or that have no meaning for a sample.
_NOT_HERE = ("degree", "run_id", "verify", "control_schema", "sequences")


def add_tune(commands: Commands) -> None:
    """Add ``tune``."""
    parser = commands.add(
        "tune",
        _tune,
        "[FILE] --source URL --target URL [--table NAME] [options]",
        (TUNE_EXAMPLES, TUNE, FILE),
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a TOML file of options")
    group = parser.add_argument_group("settings to try")
    group.add_argument(
        "--degrees",
        metavar="N,N,...",
        default="1,2,4,8",
        help="the numbers of streams to try (default: 1,2,4,8)",
    )
    group.add_argument(
        "--with",
        dest="options",
        metavar="OPTION,...",
        default="",
        help="also try each degree with --unlogged (unlogged), with --indexes defer (deferred), "
        "or, if both are named, with each and with both",
    )
    group.add_argument(
        "--sample",
        metavar="SIZE",
        default="1GB",
        help="how much of the source to copy with each setting (default: 1GB)",
    )
    group.add_argument(
        "--repeat",
        metavar="N",
        type=int,
        default=1,
        help="how many times to try each setting; 3 shows how much times vary (default: 1)",
    )
    group.add_argument(
        "--plan",
        action="store_true",
        help="only show what would be copied, how many times, and how many bytes",
    )
    add_copy_options(parser, without=_NOT_HERE)
    add_json(parser, "the measurements, or the plan with --plan,")
    group = parser.add_argument_group("files")
    group.add_argument(
        "--out",
        metavar="FILE",
        help="write the recommended settings to FILE, for copy --tuned FILE",
    )
    group.add_argument(
        "--html",
        metavar="FILE",
        help="also write the measurements, with charts, to FILE as a self-contained page",
    )


def _tune(arguments: argparse.Namespace) -> int:
    spec = read_spec(arguments)
    sweep: dict[str, Any] = {
        "degrees": _numbers(arguments.degrees, "--degrees"),
        "options": _names(arguments.options),
        "sample": parse_size(arguments.sample, "--sample"),
        "repeat": arguments.repeat,
    }
    # Check this before the measurements, which may take an hour.
    for flag in ("--out", "--html"):
        check_writable(getattr(arguments, flag[2:]), flag)
    return _plan(arguments, spec, sweep) if arguments.plan else _measure(arguments, spec, sweep)


def _plan(arguments: argparse.Namespace, spec: CopySpec, options: dict[str, Any]) -> int:
    from penstock.tuning.sweep import plan_sweep

    with signals():
        sweep = plan_sweep(spec, **options)
    from penstock.show.tuning_table import print_sweep

    print_result(arguments, sweep, print_sweep, sweep.as_json)
    return EXIT_DONE


def _measure(arguments: argparse.Namespace, spec: CopySpec, options: dict[str, Any]) -> int:
    from penstock.show.tuning_table import line_of, print_tuning
    from penstock.tuning.measurements import Tuning
    from penstock.tuning.sweep import tune

    result = None
    with signals(), closing(tune(spec, **options)) as items:
        for each in items:
            if isinstance(each, Tuning):
                result = each
            else:
                say(line_of(each))
    assert result is not None
    if arguments.html is not None:
        from penstock.show.tuning_html import tuning_html

        write_file(arguments.html, tuning_html(result), "--html")
    if arguments.out is not None:
        from penstock.tuning.tuned_file import toml_text

        write_file(arguments.out, toml_text(result), "--out")
    print_result(arguments, result, print_tuning)
    return EXIT_DONE


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _numbers(text: str, flag: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{flag}: expected whole numbers separated by commas, found {text!r}"
        ) from None
