"""`CopySpec`, the user's request for a copy.

A `CopySpec` names its connections by URL or by reference (``env:NAME``, ``file:/PATH``) and can
be stored: its stored form holds no secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from penstock.errors import UsageError, did_you_mean
from penstock.model.codec import to_json
from penstock.model.tables import TableRef
from penstock.spec.amounts import parse_partitions
from penstock.spec.copy_checks import (
    check_attachable,
    check_columns,
    check_loading,
    check_partitioning,
    check_replaceable,
    check_table_names,
)
from penstock.spec.degrees import AUTO
from penstock.spec.groups.execution import FailureOptions, RunOptions, StreamOptions
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.partitioning import PartitionOptions
from penstock.spec.groups.route import Route, target_of
from penstock.spec.ids import check_run_id
from penstock.spec.option import type_of
from penstock.spec.option_values import (
    LISTS,
    MOST,
    MOST_BYTES,
    PYTHON_TYPES,
    SIZES,
    check_one_of,
    check_within,
    coerce,
    flag_of,
)
from penstock.spec.references import redact
from penstock.spec.source_changes import parse_deletes
from penstock.spec.strategies import STRATEGIES
from penstock.spec.terms import in_callers_terms
from penstock.spec.units import check_duration

_CENTURY = 36_500 * 86_400.0


def resumed_options() -> list[str]:
    """Return the names of the options that may change when a run is resumed."""
    return [item.name for item in fields(CopySpec) if item.metadata.get("resumed")]


# Fields are in the order of the last base first.
@dataclass(frozen=True, kw_only=True)
class CopySpec(RunOptions, FailureOptions, StreamOptions, Loading, PartitionOptions, Route):
    """One copy of one table.

    Raises:
        UsageError: an option is invalid, or options are incompatible.
    """

    def __post_init__(self) -> None:
        try:
            self._read_and_check()
        except UsageError as error:
            table = self.table or self.target_table
            in_callers_terms(error, table if isinstance(table, str) else None)
            raise

    def _read_and_check(self) -> None:
        for name, default, kind in _kinds():
            value = getattr(self, name)
            # Accept values as a file or a command line gives them: a list, a text with a unit.
            if value is default or isinstance(value, PYTHON_TYPES.get(kind, ())):
                continue
            if isinstance(value, tuple):
                value = list(value)
            object.__setattr__(self, name, coerce(name, kind, value))
        _check_values(self)
        check_columns(self, self)
        check_partitioning(self, self)
        check_loading(self, self, self)

    def check_table_names(self, *, source: bool | None, target: bool | None) -> None:
        """Check that tables are named at the ends that need a name, and only there.

        Args:
            source: whether the source's URL leads to the rows themselves, so that it takes no table
                name; None if unknown.
            target: whether the target's URL leads to the rows themselves; None if unknown.

        Raises:
            UsageError: a table name is missing, or is specified where none is allowed.
        """
        check_table_names(self, source=source, target=target)

    def check_replaceable(self) -> None:
        """Check the options for a target that deletes rows by the partitions' condition.

        Raises:
            UsageError: mode replace lacks a key to delete by.
        """
        check_replaceable(self, self)

    def check_attachable(self) -> None:
        """Check the options for a target that has child tables.

        Raises:
            UsageError: in mode attach, the partitions lack bounds of a key.
        """
        check_attachable(self, self)

    def stored(self) -> dict[str, Any]:
        """Return the spec as the control tables store it, without secrets."""
        raw: dict[str, Any] = to_json(self)
        raw["source"], raw["target"] = redact(self.source), redact(self.target)
        raw["types"] = raw["types"] or None
        raw["table"] = None if self.table is None else str(self.table_ref)
        has_name = self.table is not None or self.target_table is not None
        raw["target_table"] = str(self.target_ref) if has_name else None
        return raw

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """Return how this spec selects differently from a stored one, one line per option."""
        mine = self.stored()
        return [
            f"{flag_of(item.name)}: the run has {stored.get(item.name)!r}, found "
            f"{mine[item.name]!r}"
            for item in fields(self)
            if not item.metadata["execution"]
            and not _is_same(item.name, mine[item.name], stored.get(item.name))
        ]

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], source: str, target: str) -> CopySpec:
        """Return the spec of a stored form, the inverse of `stored`, with connections added.

        Args:
            stored: the stored form, as `stored` returns it; options of later versions are ignored.
            source: the source's connection, as a URL or a reference.
            target: the target's connection, as a URL or a reference.
        """
        names = {item.name for item in fields(cls)}
        raw = {name: value for name, value in stored.items() if name in names}
        return cls(**{**raw, "source": source, "target": target})

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any], origin: str) -> CopySpec:
        """Read options from a TOML file or a command line.

        Names may be written with ``-`` or ``_``; sizes and durations may carry a unit.

        Raises:
            UsageError: an unknown or missing option, or a value of the wrong type.
        """
        options = read_options(raw, origin)
        missing = [flag_of(name) for name in ("source", "target") if not options.get(name)]
        if missing:
            raise UsageError(f"{origin}: expected {', '.join(missing)}; found none")
        return cls(**options)


def stored_target(stored: Mapping[str, Any]) -> TableRef:
    """Return the target's table of a spec's stored form, whose other options are not read."""
    return target_of(stored.get("table"), stored.get("target_table"))


@cache
def _kinds() -> list[tuple[str, Any, str]]:
    """Return the name, the default and the kind of each option."""
    return [
        (item.name, item.default, type_of(item).partition(" | ")[0]) for item in fields(CopySpec)
    ]


@cache
def _choices() -> list[tuple[str, tuple[str, ...]]]:
    """Return the options with a choice of values, and these."""
    choices = ((item.name, item.metadata["choices"]) for item in fields(CopySpec))
    return [(name, allowed) for name, allowed in choices if allowed]


def read_options(raw: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return the options of `CopySpec`, by name and with values of their types.

    Raises:
        UsageError: an unknown option, or a value of the wrong type.
    """
    options_by_name = {item.name: item for item in fields(CopySpec)}
    options: dict[str, Any] = {}
    for key, value in raw.items():
        name = key.replace("-", "_")
        if name not in options_by_name:
            raise UsageError(
                f"{origin}: unknown option {key!r}"
                + (
                    did_you_mean(name, options_by_name)
                    or f"; expected one of {', '.join(sorted(options_by_name))}"
                )
            )
        try:
            options[name] = coerce(name, type_of(options_by_name[name]), value)
        except UsageError as error:
            raise UsageError(f"{origin}: {error.message}") from None
    return options


def value_mistakes(options: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the values of options, each on its own.

    Args:
        options: known options by name. Whether they fit together is for `CopySpec` to say.
    """
    return [mistake for name, value in options.items() if (mistake := _value_mistake(name, value))]


def _value_mistake(name: str, value: Any) -> str:
    named = {} if name in ("table", "query") else {"table": "some.table"}
    try:
        values = {item.name: item.default for item in fields(CopySpec)}
        values |= named | read_options({name: value}, "")
        spec = object.__new__(CopySpec)
        for key, each in values.items():
            object.__setattr__(spec, key, each)
        _check_values(spec)
    except UsageError as error:
        return error.message.removeprefix(": ")
    return ""


def _is_same(name: str, mine: Any, theirs: Any) -> bool:
    """Whether two values of an option mean the same."""
    if name == "strategy":
        return STRATEGIES.get(mine) is STRATEGIES.get(theirs)
    if name == "partitions":
        return parse_partitions(mine) == parse_partitions(theirs)
    if name == "deletes":  # the limit may change
        return parse_deletes(mine).what == parse_deletes(theirs).what
    return bool(mine == theirs)


def _check_values(spec: CopySpec) -> None:
    spec.relation  # noqa: B018 - raises if malformed
    spec.target_ref  # noqa: B018
    for name, allowed in _choices():
        if getattr(spec, name) is not None:
            check_one_of(name, getattr(spec, name), allowed)
    check_within("row_group_size", spec.row_group_size, 1, MOST)
    spec.partition_size  # noqa: B018 - raises if malformed
    for name in SIZES:
        check_within(name, getattr(spec, name), 1, MOST_BYTES)
    if spec.degree != AUTO:
        check_within("degree", int(spec.degree), -MOST, MOST)
    spec.column_types  # noqa: B018 - raises if malformed
    check_within("attempts", spec.attempts, 1, MOST)
    for name in ("stall_timeout", "grace"):
        check_duration(getattr(spec, name), flag_of(name))
    if spec.give_way_after is not None:
        check_duration(spec.give_way_after, "--give-way-after")
    if spec.full_every is not None:
        check_duration(spec.full_every, "--full-every", longest=_CENTURY)
    check_duration(spec.max_ahead, "--max-ahead", longest=_CENTURY)
    if spec.max_lag is not None:
        check_duration(spec.max_lag, "--max-lag")
        if not spec.max_lag:
            raise UsageError("--max-lag: expected more than 0 s, found 0 s")
    if spec.run_id is not None:
        check_run_id(spec.run_id)
    for name, what in (
        ("where", "a condition"),
        ("query", "a query"),
        ("key", "a column or an expression"),
        ("values_query", "a query"),
        ("interval", "an interval"),
        ("control_schema", "a name"),
    ):
        value = getattr(spec, name)
        if value is not None and not value.strip():
            raise UsageError(f"{flag_of(name)}: expected {what}, found an empty string")
    for option_name in LISTS:
        names: tuple[str, ...] | None = getattr(spec, option_name)
        if names is not None and (not names or not all(names)):
            flag = flag_of(option_name)
            raise UsageError(f"{flag}: expected one or more names, found an empty one")
        for name in names or ():
            if names and names.count(name) > 1:
                flag = flag_of(option_name)
                raise UsageError(f"{flag}: expected each name once, found {name!r} twice")
