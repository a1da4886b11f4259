"""Options of the command line and of TOML files, generated from the fields of `CopySpec`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

from penstock.cli.output import signals
from penstock.errors import UsageError
from penstock.spec.copy_spec import CopySpec, resumed_options
from penstock.spec.groups.execution import ON_TABLE_ERROR
from penstock.spec.groups.loading import ATOMIC
from penstock.spec.groups.order import GROUPS
from penstock.spec.option_values import RULES
from penstock.spec.references import redact
from penstock.spec.toml_file import read_toml

if TYPE_CHECKING:
    from penstock.spec.batch_spec import BatchSpec

_OF_BATCH = ("target_schema", "on_table_error")
# A batch's run id is its last option, and differs from the run id of a table.
_COPY_OPTIONS = frozenset(item.name for item in fields(CopySpec)) - {"run_id"}

_CONNECTION = ("source", "target")


def add_copy_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Add the options of `CopySpec` in groups; only those on the command line reach the result.

    Args:
        parser: the parser of the command.
        without: names of options to leave out.
    """
    remaining = {item.name: item for item in fields(CopySpec) if item.name not in without}
    _add_groups(parser, remaining)


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select tables, and those that apply to all tables."""
    group = parser.add_argument_group("tables", "all other options apply to every table")
    options = {item.name: item for item in fields(CopySpec)}
    for name in _CONNECTION:
        _add(group, options.pop(name))
    add_patterns(group)
    group.add_argument(
        "--target-schema",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="the schema to write the tables to (default: the schema of each source table)",
    )
    group.add_argument(
        "--on-table-error",
        choices=ON_TABLE_ERROR,
        default=argparse.SUPPRESS,
        help="once a table fails: continue with the rest, or stop (default: continue)",
    )
    for name in ("table", "query", "target_table"):
        options.pop(name)
    _add_groups(parser, options)


def _add_groups(parser: argparse.ArgumentParser, options: Mapping[str, Field[Any]]) -> None:
    """Add options in groups, in the order in which people need them."""
    for options_of_group in GROUPS:
        group = parser.add_argument_group(options_of_group.title)
        for name in options_of_group.__annotations__:
            if name in options:
                _add(group, options[name])


def add_patterns(group: Any) -> None:
    """Add ``--tables`` and ``--exclude``."""
    patterns: dict[str, Any] = {
        "nargs": "+",
        "action": "extend",
        "metavar": "PATTERN",
        "default": argparse.SUPPRESS,
    }
    group.add_argument(
        "--tables",
        help="tables to copy, such as 'public.*' or 'sales.order_?'; a pattern without a dot "
        "matches names in the source's search path",
        **patterns,
    )
    group.add_argument(
        "--exclude",
        help="tables to leave out; a pattern without a dot matches names in any schema",
        **patterns,
    )


def add_resume_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that may change when a run is resumed."""
    group = parser.add_argument_group("changes to the run", "an omitted option keeps its value")
    options = {item.name: item for item in fields(CopySpec)}
    for name in resumed_options():
        _add(group, options[name], show_default=False)


def add_hold_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that apply to holding a run's snapshot."""
    group = parser.add_argument_group("changes to the run", "an omitted option keeps its value")
    for item in fields(CopySpec):
        if item.name in ("on_snapshot_lost", "give_way_after"):
            _add(group, item, show_default=False)


def add_connections(
    parser: argparse.ArgumentParser, *names: str, required: bool = True, schema: bool = True
) -> None:
    """Add connection options, and ``--control-schema``.

    Args:
        parser: the parser of the command.
        names: ``source``, ``target`` or both.
        required: whether the command fails without them.
        schema: whether the command reads the control tables.
    """
    group = parser.add_argument_group("connections")
    options = {item.name: item for item in fields(CopySpec)}
    for name in names:
        _add(group, options[name], required=required)
    if schema:
        _add(group, options["control_schema"])


def add_connections_of_run(parser: argparse.ArgumentParser) -> None:
    """Add the connections of a stored run, which records the reference to its source."""
    group = parser.add_argument_group(
        "connections", "without --source, the env:NAME or file:/PATH that the run records"
    )
    options = {item.name: item for item in fields(CopySpec)}
    _add(group, options["source"])
    _add(group, options["target"], required=True)
    _add(group, options["control_schema"])


def find_source(arguments: argparse.Namespace) -> None:
    """Take the source that the run records, unless the command line names one.

    Raises:
        UsageError: the run does not exist, or records no reference.
    """
    if hasattr(arguments, "source"):
        return
    from penstock.engine.listing import recorded_source  # noqa: PLC0415 - it imports the engine

    schema = getattr(arguments, "control_schema", "penstock")
    with signals():
        arguments.source = recorded_source(
            arguments.run_id, target=arguments.target, control_schema=schema
        )


def add_show_values(parser: argparse.ArgumentParser) -> None:
    """Add ``--show-values`` to a command that takes no other options of an execution."""
    options = {item.name: item for item in fields(CopySpec)}
    _add(parser, options["show_values"])


def _add(
    group: Any,  # argparse keeps the class of groups private
    item: Field[Any],
    *,
    required: bool = False,
    show_default: bool = True,
) -> None:
    text = str(item.metadata["help"])
    default = item.default
    kind = str(item.type)
    # Flags are off by default, so the help does not say it.
    if show_default and default is not MISSING and default is not None and default is not False:
        shown = f"{default:g}s" if kind == "float" else str(default)
        text += f" (default: {shown})"
    settings: dict[str, Any] = {
        "dest": item.name,
        "help": text.replace("%", "%%"),
        "default": argparse.SUPPRESS,
        "required": required,
    }
    if kind == "bool":
        settings["action"] = argparse.BooleanOptionalAction
    elif item.metadata["choices"]:
        settings["choices"] = item.metadata["choices"]
        settings["metavar"] = item.metadata["metavar"] or None
        if item.name == "atomic":  # on its own, the flag means one transaction per table
            settings |= {"nargs": "?", "const": ATOMIC[0]}
    else:
        settings["metavar"] = item.metadata["metavar"] or None
        if item.name in RULES:
            settings["action"] = "append"
    group.add_argument("--" + item.name.replace("_", "-"), **settings)


def read_spec(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> CopySpec:
    """Return the spec from the command line and, if specified, a TOML file.

    Each option on the command line overrides the file's and those of the file that `--tuned` names.
    The latter override the TOML file, too.

    Raises:
        UsageError: the file cannot be read, or an option is unknown, missing or invalid.
    """
    options, origin = _from_file(arguments, environ)
    if _is_of_many(options):
        many = "plan-all" if arguments.command == "plan" else "copy-all"
        raise UsageError(f"{origin} lists many tables; use penstock {many}")
    explicit = _explicit_options(arguments)
    if (tuned := getattr(arguments, "tuned", None)) is not None:
        from penstock.tuning.tuned_file import tuned_options  # noqa: PLC0415 - rarely needed

        raw = read_toml(tuned, environ)
        options.update(tuned_options(raw, tuned, {**options, **explicit}))
    options.update(explicit)
    return CopySpec.from_mapping(options, origin)


def read_batch(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> BatchSpec:
    """Return the batch from the command line and, if specified, a TOML file.

    Without a file or a source, read `TABLES_FILE` in the current directory.

    Raises:
        UsageError: the file cannot be read, or an option is unknown, missing or invalid.
    """
    from penstock.spec.batch_spec import TABLES_FILE, BatchSpec  # noqa: PLC0415 - only batches

    explicit = _explicit_options(arguments)
    for name in ("tables", "exclude", *_OF_BATCH):
        if hasattr(arguments, name):
            explicit[name] = getattr(arguments, name)
    is_found = False
    if arguments.file is None and "source" not in explicit and os.path.exists(TABLES_FILE):
        arguments.file, is_found = TABLES_FILE, True
    if arguments.file is None:
        return BatchSpec.from_mapping(explicit, f"penstock {arguments.command}")
    from penstock.engine.tables_file import batch_of_file, check_found_file  # noqa: PLC0415 - it imports the backends

    if is_found:
        check_found_file(arguments.file, explicit, environ)
    return batch_of_file(arguments.file, explicit, environ)


def _from_file(
    arguments: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[dict[str, Any], str]:
    """Return the options of the file, if one is specified, and their origin for error messages."""
    if arguments.file is None:
        return {}, f"penstock {arguments.command}"
    return read_toml(arguments.file, environ), arguments.file


def read_overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``resume`` by name, with typed values.

    Raises:
        UsageError: a value has the wrong type or is out of range.
    """
    overrides = _explicit_options(arguments)
    # Stand in for the stored options; this table and mode allow every execution option.
    stored = {"table": "a.b", "mode": "upsert", "atomic": "table"}
    spec = CopySpec.from_mapping({"source": "env:_", **overrides, **stored}, "penstock resume")
    return {name: getattr(spec, name) for name in overrides if name in resumed_options()}


def lists_tables(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the specified file is one of many tables.

    Raises:
        UsageError: the file cannot be read.
    """
    return _is_of_many(_from_file(arguments, environ)[0])


def _is_of_many(options: Mapping[str, Any]) -> bool:
    return bool(options.keys() & {"tables", "defaults"} or isinstance(options.get("table"), list))


def plan_options(arguments: argparse.Namespace) -> list[str]:
    """Return the given options that say what is copied, rather than how a run is executed."""
    how = {"source", "target", "control_schema", "run_id", *resumed_options()}
    return [name for name in _explicit_options(arguments) if name not in how]


def execution_words(arguments: argparse.Namespace) -> list[str]:
    """Return the execution options of a ``resume`` as typed, for the next command."""
    return [
        word
        for name in resumed_options()
        if hasattr(arguments, name)
        for word in ("--" + name.replace("_", "-"), str(getattr(arguments, name)))
    ]


def batch_words(arguments: argparse.Namespace) -> list[str]:
    """Return the arguments of a ``copy-all`` for the next one, without run name and secrets."""
    words = [arguments.file] if arguments.file else []
    for name, value in vars(arguments).items():
        flag = "--" + name.replace("_", "-")
        if name in ("source", "target"):
            words += [flag, redact(value)]
        elif name in RULES:
            words += [word for rule in value for word in (flag, rule)]
        elif isinstance(value, list):
            words += [flag, *value]
        elif name in _OF_BATCH or (name in _COPY_OPTIONS and not isinstance(value, bool)):
            words += [flag, str(value)]
        elif name in _COPY_OPTIONS:
            words.append(flag if value else "--no" + flag[1:])
    return words


def _explicit_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        item.name: getattr(arguments, item.name)
        for item in fields(CopySpec)
        if hasattr(arguments, item.name)
    }
