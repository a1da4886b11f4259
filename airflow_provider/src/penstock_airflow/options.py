"""Options of a copy as arguments of operators: told apart, and checked when a DAG is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from penstock import CopySpec, UsageError, as_arguments

if TYPE_CHECKING:
    from penstock_airflow.ends import End

# How the ends are reached, and what the run is called, is the operators' affair.
_OURS = ("source", "target", "run_id")
OPTIONS = tuple(item.name for item in fields(CopySpec) if item.name not in _OURS)
_TEMPLATE = re.compile(r"\{\{|\{%")
_INTERVAL = re.compile(r"\bdata_interval_(start|end)\b")
_KINDS = {item.name: str(item.type) for item in fields(CopySpec)}
_CHOICES = {item.name: item.metadata["choices"] for item in fields(CopySpec)}
_TEXTS = {"table": "some.table", "target_table": "some.table", "types": "column=type"}
# Lists of names, which a DAG may have as tuples.
_LISTS = ("columns", "conflict_columns", "partition_by", "types")


def split(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a copy, and the rest: arguments of the task."""
    options = {name: value for name, value in arguments.items() if name in OPTIONS}
    rest = {name: value for name, value in arguments.items() if name not in OPTIONS}
    return options, rest


def check(options: Mapping[str, Any], source: End, target: End) -> None:
    """Find what cannot be right whatever the templates say.

    Raises:
        UsageError: names the argument.
    """
    known: dict[str, Any] = {}
    for name, value in options.items():
        if not _is_open(value):
            known[name] = value
        elif _KINDS[name] in ("str", "bool") and name != "control_schema":
            return  # one of a few: what goes with what depends on it
        else:
            known[name] = _stand_in(name)
    spec = make_spec(source.sample, target.sample, known)
    with _named():
        spec.check_named(source=source.located, target=target.located)
        if target.located is False:
            spec.check_replaceable()


def asks_for_interval(options: Mapping[str, Any]) -> bool:
    """Whether a template selects the rows of the DAG run's data interval, by both its ends."""
    texts = (options.get("where"), options.get("query"))
    found = [set(_INTERVAL.findall(text)) for text in texts if isinstance(text, str)]
    return {"start", "end"} in found


def check_interval(context: Any) -> None:
    """Find out in time that the interval has no rows: a copy of none would seem to have succeeded.

    Raises:
        UsageError: it begins and ends at one moment.
    """
    begin, end = context["data_interval_start"], context["data_interval_end"]
    if begin == end:
        raise UsageError(
            f"the data interval, by which rows are selected, is empty: it begins and ends at {end}."
            ' In Airflow 3 a schedule such as "@daily" has none: expected '
            'schedule=CronDataIntervalTimetable("@daily", timezone="UTC")'
        )


def _is_open(value: Any) -> bool:
    """Whether it is known at run time only: a template, or what another task returns."""
    if isinstance(value, str):
        return _TEMPLATE.search(value) is not None
    return hasattr(value, "resolve")


def _stand_in(name: str) -> str:
    """A value that the option could have."""
    if _KINDS[name].startswith(("int", "float")):
        return "1"
    if _CHOICES[name]:
        return str(_CHOICES[name][0])
    return _TEXTS.get(name, "something")


def make_spec(
    source: str, target: str, options: Mapping[str, Any], run_id: str | None = None
) -> CopySpec:
    """
    Parameters:
        source, target: URLs, with their secrets.

    Raises:
        UsageError: names the argument.
    """
    named = {**options, "source": source, "target": target, "run_id": run_id}
    given = {name: value for name, value in named.items() if value is not None}
    for name in _LISTS:
        if isinstance(given.get(name), tuple):
            given[name] = list(given[name])
    with _named():
        return CopySpec.from_mapping(given, "copy")


@contextmanager
def _named() -> Iterator[None]:
    """Errors name options as Python does."""
    try:
        yield
    except UsageError as error:
        raise UsageError(as_arguments(error.message)) from None


def execution_of(spec: CopySpec) -> dict[str, Any]:
    """The options that say how to run, as `penstock.resume` takes them."""
    ours = {*_OURS, "control_schema"}
    names = [item.name for item in fields(CopySpec) if item.metadata["execution"]]
    return {name: getattr(spec, name) for name in names if name not in ours}


def overrides(on_snapshot_lost: str | None) -> dict[str, Any]:
    """What is said in place of what the run was begun with."""
    return {} if on_snapshot_lost is None else {"on_snapshot_lost": on_snapshot_lost}
