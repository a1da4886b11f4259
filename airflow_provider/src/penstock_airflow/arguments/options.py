"""Options of a copy as arguments of operators, checked when a DAG is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from penstock import CopySpec, PlanningError, UsageError, as_arguments, check_request

if TYPE_CHECKING:
    from penstock_airflow.arguments.endpoint import Endpoint

# The operators set the connections, the run id, and who continues the run.
_SET_BY_OPERATORS = ("source", "target", "run_id", "claim")
OPTIONS = tuple(item.name for item in fields(CopySpec) if item.name not in _SET_BY_OPERATORS)
ORIGIN = "copy"
"""The origin that the core puts before messages; errors about arguments drop it."""
_TEMPLATE = re.compile(r"\{\{|\{%")
_INTERVAL = re.compile(r"\bdata_interval_(start|end)\b")
_DEFAULTS = {item.name: item.default for item in fields(CopySpec)}
_TYPES = {
    item.name: "str" if item.metadata["choices"] and item.default else str(item.type)
    for item in fields(CopySpec)
}
_CHOICES = {item.name: item.metadata["choices"] for item in fields(CopySpec)}
_PLACEHOLDERS = {"table": "some.table", "target_table": "some.table", "types": "column=type"}
# Options that are lists of names, which a DAG may pass as tuples.
_LISTS = (
    "columns",
    "exclude_columns",
    "set",
    "mask",
    "conflict_columns",
    "order_by",
    "partition_by",
    "types",
)


def options_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the arguments of a call, from its `locals()`.

    They are named parameters, because Airflow applies `default_args` only to those.
    """
    return {name: arguments[name] for name in OPTIONS if name in arguments}


def non_default_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    return {
        name: value
        for name, value in options.items()
        if value is not None
        and not (type(value) is type(_DEFAULTS[name]) and value == _DEFAULTS[name])
    }


@contextmanager
def table_in_errors(options: Mapping[str, Any], group: str = "") -> Iterator[None]:
    """Begin error messages with the table, because a DAG may copy many.

    Args:
        options: options of the copy by name.
        group: the id of the task group; empty if there is none.
    """
    table = options.get("target_table") or options.get("table")
    try:
        yield
    except (PlanningError, UsageError) as error:
        message = error.message
        if isinstance(table, str):
            message = message.removeprefix(f"{table}: ")
        # Not if the name itself is wrong.
        named = isinstance(table, str) and not message.startswith(("table:", "target_table:"))
        places = [str(table)] * named + [f"group {group}"] * bool(group)
        raise type(error)(
            ": ".join([", ".join(places), message] if places else [message])
        ) from None


def check_options(options: Mapping[str, Any], source: Endpoint, target: Endpoint) -> None:
    """Find mistakes that do not depend on templates.

    Args:
        options: options of the copy by name.
        source: where the copy reads.
        target: where the copy writes.

    Raises:
        PlanningError: the source or target does not support the argument in the message.
        UsageError: the argument in the message is wrong.
    """
    static_options: dict[str, Any] = {}
    for name, value in options.items():
        if not is_dynamic(value):
            static_options[name] = value
        elif _TYPES[name] in ("str", "bool") and name != "control_schema":
            return  # the other checks depend on this choice
        else:
            static_options[name] = _placeholder(name)
    spec = build_spec(source.sample, target.sample, static_options)
    with arguments_in_errors():
        spec.check_table_names(source=source.located, target=target.located)
        if target.located is False:
            spec.check_replaceable()
        if not any(map(is_dynamic, options.values())):
            check_request(spec)


def uses_interval(options: Mapping[str, Any]) -> bool:
    """Whether templates select rows by the start and end of the DAG run's data interval."""
    texts = (options.get("where"), options.get("query"))
    bounds = [set(_INTERVAL.findall(text)) for text in texts if isinstance(text, str)]
    return {"start", "end"} in bounds


def check_interval(context: Any) -> None:
    """Reject an empty interval, because a copy of no rows would look like a success.

    Raises:
        UsageError: the interval is empty.
    """
    begin, end = context["data_interval_start"], context["data_interval_end"]
    if begin == end:
        raise UsageError(
            f"the data interval selects the rows, and is empty: it starts and ends at {end}."
            ' In Airflow 3 a schedule such as "@daily" has no interval; use '
            'schedule=CronDataIntervalTimetable("@daily", timezone="UTC")'
        )


def is_dynamic(value: Any) -> bool:
    """Whether a value is known only at run time: a template, or another task's output."""
    if isinstance(value, str):
        return _TEMPLATE.search(value) is not None
    return hasattr(value, "resolve")


def _placeholder(name: str) -> str:
    """Return a valid value of an option."""
    if _TYPES[name].startswith(("int", "float")):
        return "1"
    if _CHOICES[name]:
        return str(_CHOICES[name][0])
    return _PLACEHOLDERS.get(name, "something")


def build_spec(
    source: str,
    target: str,
    options: Mapping[str, Any],
    run_id: str | None = None,
    claim: str | None = None,
) -> CopySpec:
    """Create the spec of a copy.

    Args:
        source: the source's URL, with its secrets.
        target: the target's URL, with its secrets.
        options: options of the copy by name; None for a default.
        run_id: the id of the run; None for a random one.
        claim: who continues the run; None if no one does.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    arguments = {**options, "source": source, "target": target, "run_id": run_id, "claim": claim}
    values = {
        name: value for name, value in tuples_as_lists(arguments).items() if value is not None
    }
    with arguments_in_errors():
        return CopySpec.from_mapping(values, ORIGIN)


def tuples_as_lists(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with lists instead of tuples, as in a file."""
    return {
        name: list(value) if name in _LISTS and isinstance(value, tuple) else value
        for name, value in options.items()
    }


@contextmanager
def arguments_in_errors() -> Iterator[None]:
    """Write options in errors as Python arguments."""
    try:
        yield
    except (PlanningError, UsageError) as error:
        message = as_arguments(error.message).removeprefix(f"{ORIGIN}: ")
        raise type(error)(message) from None


def execution_options(spec: CopySpec) -> dict[str, Any]:
    """Return the execution options, as `penstock.resume` takes them."""
    excluded = {*_SET_BY_OPERATORS, "control_schema"}
    names = [item.name for item in fields(CopySpec) if item.metadata.get("resumed")]
    return {name: getattr(spec, name) for name in names if name not in excluded}


def overrides(on_snapshot_lost: str | None, max_rate: int | None = None) -> dict[str, Any]:
    """Return the options that override the run's own; None keeps the run's."""
    values = {"on_snapshot_lost": on_snapshot_lost, "max_rate": max_rate}
    return {name: value for name, value in values.items() if value is not None}
