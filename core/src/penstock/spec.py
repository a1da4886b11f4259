"""What a person asks for (`CopySpec`) and what a worker is told (`WorkerSpec`).

A `CopySpec` names its connections by URL or by reference (``env:NAME``) and can be stored: its
stored form carries no secret. A `WorkerSpec` is resolved, carries secrets, travels over a pipe
and is never stored, logged or shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from penstock.errors import UsageError
from penstock.model import Partition, TableRef

STRATEGIES = ("auto", "ctid", "range", "hash", "values", "time", "whole")
MODES = ("append", "truncate", "replace")
SNAPSHOTS = ("shared", "none")
ON_SNAPSHOT_LOST = ("fail", "restart", "accept")
ON_ERROR = ("stop", "continue")

# application_name holds 63 bytes: "penstock:" + run id + ":" + partition + ":" + attempt.
MAX_RUN_ID = 36
_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{MAX_RUN_ID - 1}}}")
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_SECRET_NAME = re.compile(r"pass|secret|token|credential|key|auth", re.IGNORECASE)


def option(default: Any, text: str, *, execution: bool = False, metavar: str = "") -> Any:
    """A field of `CopySpec`: its default and its help.

    Parameters:
        execution: the option says how to run, not what to copy; it may change on resume.
    """
    metadata = {"help": text, "execution": execution, "metavar": metavar}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """One copy of one table.

    Raises:
        UsageError: an option's value, or a combination of options, cannot be right.
    """

    source: str = field(
        repr=False,
        metadata={
            "help": "where rows come from: a URL, or env:NAME to read it from the environment",
            "execution": True,
            "metavar": "URL",
        },
    )
    target: str = field(
        repr=False,
        metadata={
            "help": "where rows go to: a URL, or env:NAME to read it from the environment",
            "execution": True,
            "metavar": "URL",
        },
    )
    table: str = field(
        metadata={
            "help": "the table to read; double quotes around a part that holds a dot",
            "execution": False,
            "metavar": "SCHEMA.NAME",
        }
    )
    target_table: str | None = option(
        None, "the table to write; the same name as --table by default", metavar="SCHEMA.NAME"
    )
    where: str | None = option(
        None, "copy only the rows for which this SQL condition holds", metavar="SQL"
    )
    columns: tuple[str, ...] | None = option(
        None, "copy only these columns, comma separated; all by default", metavar="A,B"
    )
    strategy: str = option("auto", "how to cut the table; auto chooses and says why")
    key: str | None = option(
        None,
        "the column that range and time cut by; for hash and values a column or an expression",
        metavar="COLUMN",
    )
    values_query: str | None = option(
        None,
        "a query on the source that lists the key's values, to spare a scan for them",
        metavar="SQL",
    )
    interval: str | None = option(
        None, "the width of one time partition, such as '1 day' or '1 month'", metavar="INTERVAL"
    )
    partitions: int | None = option(None, "how many partitions to aim for", metavar="N")
    rows_per_partition: int | None = option(
        None, "how many rows a partition should hold", metavar="N"
    )
    bytes_per_partition: int | None = option(
        None, "how many bytes of the source a partition should hold, such as 64MB", metavar="SIZE"
    )
    degree: int = option(
        0,
        "how many streams at once; 0: as many as CPUs, -n: CPUs divided by n",
        execution=True,
        metavar="N",
    )
    mode: str = option(
        "append",
        "append: add rows; truncate: empty the target once, then add; "
        "replace: delete what each partition selects and load it, in one transaction",
    )
    snapshot: str = option(
        "shared", "shared: all partitions see one moment of the source; none: each its own"
    )
    on_snapshot_lost: str = option(
        "fail",
        "when the shared snapshot is lost: fail; restart the copy from nothing (not with append); "
        "accept: read what is left with a new one",
        execution=True,
    )
    accept_moving_rows: bool = option(
        False,
        "allow ctid without a snapshot: rows that are updated meanwhile may be lost or doubled",
    )
    attempts: int = option(
        5, "how often a partition is tried when errors are transient", execution=True, metavar="N"
    )
    on_error: str = option(
        "stop",
        "after a partition has failed for good: stop starting others, or continue with them",
        execution=True,
    )
    stall_timeout: float = option(
        600.0,
        "end and retry an attempt when no bytes move for so long, such as 90s or 10m; 0: never",
        execution=True,
        metavar="DURATION",
    )
    grace: float = option(
        10.0,
        "how long to wait for an older attempt of the same partition that makes no progress "
        "before its session in the target is ended",
        execution=True,
        metavar="DURATION",
    )
    snapshot_warn_after: float = option(
        3600.0,
        "warn when the snapshot has held back the source's vacuum for so long; 0: never",
        execution=True,
        metavar="DURATION",
    )
    run_id: str | None = option(
        None,
        "the run's name; made up by default. The same name and options go on with that run",
        execution=True,
        metavar="RUN_ID",
    )
    control_schema: str = option(
        "penstock", "the schema in the target for run and commit records", metavar="NAME"
    )

    def __post_init__(self) -> None:
        if self.columns is not None:  # a list, from JSON or a careless caller, will do
            object.__setattr__(self, "columns", tuple(self.columns))
        self.table_ref  # noqa: B018 - raises where malformed
        self.target_ref  # noqa: B018
        _one_of("strategy", self.strategy, STRATEGIES)
        _one_of("mode", self.mode, MODES)
        _one_of("snapshot", self.snapshot, SNAPSHOTS)
        _one_of("on-snapshot-lost", self.on_snapshot_lost, ON_SNAPSHOT_LOST)
        _one_of("on-error", self.on_error, ON_ERROR)
        for name in ("partitions", "rows_per_partition", "bytes_per_partition"):
            _at_least(name, getattr(self, name), 1)
        _at_least("attempts", self.attempts, 1)
        for name in ("stall_timeout", "grace", "snapshot_warn_after"):
            _at_least(name, getattr(self, name), 0)
        if self.run_id is not None:
            check_run_id(self.run_id)
        for name, what in (
            ("where", "a condition"),
            ("key", "a column or an expression"),
            ("values_query", "a query"),
            ("interval", "an interval"),
            ("control_schema", "a name"),
        ):
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise UsageError(f"{_flag(name)}: expected {what}, found an empty text")
        if self.columns is not None and (not self.columns or not all(self.columns)):
            raise UsageError("--columns: expected one or more names, found an empty one")
        for name in self.columns or ():
            if self.columns and self.columns.count(name) > 1:
                raise UsageError(f"--columns: expected each name once, found {name!r} twice")
        self._check_combinations()

    def _check_combinations(self) -> None:
        sizes = [
            _flag(name)
            for name in ("partitions", "rows_per_partition", "bytes_per_partition")
            if getattr(self, name) is not None
        ]
        if len(sizes) > 1:
            raise UsageError(f"{' and '.join(sizes)} contradict each other: give one of them")
        if self.mode == "replace" and self.strategy in ("ctid", "whole"):
            raise UsageError(
                f"--mode replace deletes by key, and --strategy {self.strategy} has none: "
                "expected range, time, values or hash, and --key"
            )
        if self.mode == "replace" and self.key is None:
            raise UsageError("--mode replace: expected --key, the column to delete by; found none")
        if self.strategy in ("hash", "values", "time") and self.key is None:
            raise UsageError(f"--strategy {self.strategy}: expected --key, found none")
        if self.strategy in ("ctid", "whole") and self.key is not None:
            raise UsageError(f"--strategy {self.strategy} uses no key: leave --key out")
        if self.strategy == "time" and self.interval is None:
            raise UsageError("--strategy time: expected --interval, such as '1 day'; found none")
        if self.interval is not None and self.strategy not in ("time", "auto"):
            raise UsageError(f"--interval goes with --strategy time, not {self.strategy}")
        if self.values_query is not None and self.strategy not in ("values", "auto"):
            raise UsageError(f"--values-query goes with --strategy values, not {self.strategy}")
        for name in ("interval", "values_query"):
            if getattr(self, name) is not None and self.key is None:
                raise UsageError(f"{_flag(name)}: expected --key, found none")
        if self.on_snapshot_lost == "restart" and self.mode == "append":
            raise UsageError(
                "--on-snapshot-lost restart: expected --mode truncate or replace, which can take "
                "back what was loaded; found append"
            )

    @property
    def table_ref(self) -> TableRef:
        return TableRef.parse(self.table, "--table")

    @property
    def target_ref(self) -> TableRef:
        if self.target_table is None:
            return self.table_ref
        return TableRef.parse(self.target_table, "--target-table")

    def stored(self) -> dict[str, Any]:
        """The spec as the control tables keep it: no secret in it."""
        raw = {item.name: getattr(self, item.name) for item in fields(self)}
        raw["source"], raw["target"] = redact(self.source), redact(self.target)
        raw["columns"] = list(self.columns) if self.columns else None
        raw["table"], raw["target_table"] = str(self.table_ref), str(self.target_ref)
        return raw

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """What this spec asks to copy that a stored one does not, a line for each option."""
        mine = self.stored()
        return [
            f"{_flag(item.name)}: the run has {stored.get(item.name)!r}, found {mine[item.name]!r}"
            for item in fields(self)
            if not item.metadata["execution"] and mine[item.name] != stored.get(item.name)
        ]

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], source: str, target: str) -> CopySpec:
        """The inverse of `stored`, with the connections that it left out."""
        known = {item.name for item in fields(cls)}
        raw = {name: value for name, value in stored.items() if name in known}
        return cls(**{**raw, "source": source, "target": target})

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any], origin: str) -> CopySpec:
        """Read options as a TOML file or a command line gives them.

        Names may be written with ``-`` or ``_``; sizes and durations may carry a unit.

        Raises:
            UsageError: an unknown or missing option, or a value of the wrong type.
        """
        known = {item.name: item for item in fields(cls)}
        options: dict[str, Any] = {}
        for written, value in raw.items():
            name = written.replace("-", "_")
            if name not in known:
                raise UsageError(
                    f"{origin}: unknown option {written!r}; known: {', '.join(sorted(known))}"
                )
            try:
                options[name] = _coerce(name, str(known[name].type), value)
            except UsageError as error:
                raise UsageError(f"{origin}: {error.message}") from None
        missing = [_flag(name) for name in ("source", "target", "table") if not options.get(name)]
        if missing:
            raise UsageError(f"{origin}: expected {', '.join(missing)}; found none")
        return cls(**options)


def _coerce(name: str, kind: str, value: Any) -> Any:
    flag = _flag(name)
    if name == "columns":
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(part, str) for part in names):
            raise UsageError(f"{flag}: expected names separated by commas, found {value!r}")
        return tuple(part.strip() for part in names)
    if name == "bytes_per_partition":
        return parse_size(value, flag)
    if kind == "float":
        return parse_duration(value, flag)
    if kind == "bool":
        if not isinstance(value, bool):
            raise UsageError(f"{flag}: expected true or false, found {value!r}")
        return value
    if kind.startswith("int"):
        try:
            if isinstance(value, bool):
                raise ValueError
            return int(str(value))
        except ValueError:
            raise UsageError(f"{flag}: expected a whole number, found {value!r}") from None
    if not isinstance(value, str):
        raise UsageError(f"{flag}: expected a text, found {value!r}")
    return value


_SIZE_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DURATION_UNITS = {
    "": 1.0,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def parse_size(value: Any, flag: str) -> int:
    """Bytes from ``64MB``, ``1.5 GiB`` or a number; units are powers of 1024."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", str(value), re.IGNORECASE)
    if found is None:
        raise UsageError(f"{flag}: expected a size such as 64MB or 1GB, found {value!r}")
    return int(float(found[1]) * _SIZE_UNITS[found[2].upper()])


def parse_duration(value: Any, flag: str) -> float:
    """Seconds from ``90s``, ``10m``, ``1h`` or a number."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value), re.IGNORECASE)
    if found is None or found[2].lower() not in _DURATION_UNITS:
        raise UsageError(f"{flag}: expected a duration such as 90s, 10m or 1h, found {value!r}")
    return float(found[1]) * _DURATION_UNITS[found[2].lower()]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{_flag(name)}: expected one of {', '.join(allowed)}; found {value!r}")


def _at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{_flag(name)}: expected {least} or more, found {value}")


def check_run_id(run_id: str) -> None:
    """Raise `UsageError` unless the id fits into an application_name."""
    if _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f"run id: expected 1 to {MAX_RUN_ID} letters, digits or any of _.+- (the first one a "
            f"letter or digit), found {run_id!r}"
        )


def redact(url: str) -> str:
    """A URL as it may be shown: without password and without parameters that look secret.

    References (``env:NAME``) are shown as they are.
    """
    if _REFERENCE.fullmatch(url):
        return url
    scheme, separator, _ = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return "***"
    try:
        parts = urlsplit(url)
        username = parts.username
    except ValueError:
        return f"{scheme}://***"
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        # A password with an unescaped / ? or # ended the host's part early: nothing of the rest
        # can be trusted to be no secret.
        return f"{scheme}://***"
    host = parts.netloc.rpartition("@")[2]
    shown = [
        f"{name}={'***' if _SECRET_NAME.search(name) else quote(value, safe='/:,')}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    user = f"{username}@" if username else ""
    return f"{scheme}://{user}{host}{parts.path}" + ("?" + "&".join(shown) if shown else "")


def resolve_reference(reference: str, environ: Mapping[str, str], flag: str) -> str:
    """The URL that a reference stands for.

    Raises:
        UsageError: ``env:NAME`` names a variable that is not set, or the URL has no scheme.
    """
    url = reference
    if reference.startswith("env:"):
        if not _REFERENCE.fullmatch(reference):
            raise UsageError(f"{flag}: expected env:NAME with the name of an environment variable")
        name = reference.removeprefix("env:")
        if not environ.get(name):
            raise UsageError(f"{flag}: environment variable {name!r} is not set")
        url = environ[name]
    if not _SCHEME.fullmatch(url.partition("://")[0]) or "://" not in url:
        raise UsageError(
            f"{flag}: expected a URL such as scheme://user@host/database, or env:NAME; "
            "found a text without a scheme"
        )
    return url


def resolve_degree(degree: int, cpus: int) -> int:
    """Streams for a `degree`: 0 is one per CPU, -n is CPUs divided by n, at least one."""
    if degree > 0:
        return degree
    return max(1, cpus if degree == 0 else cpus // -degree)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """All a worker needs to know. Carries secrets: never stored, never shown."""

    run_id: str
    generation: int
    """Of the run; attempts of another one are refused."""
    source: str = field(repr=False)
    target: str = field(repr=False)
    source_backend: str
    """``module:attribute``; spares the worker the search for it."""
    target_backend: str
    table: TableRef
    target_table: TableRef
    columns: tuple[str, ...]
    where: str | None
    mode: str
    snapshot: str | None
    stall_timeout: float
    grace: float
    control_schema: str

    def to_line(self) -> str:
        raw = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("table", "target_table"):
            raw[name] = [raw[name].schema, raw[name].name]
        return json.dumps(raw)

    @classmethod
    def from_line(cls, line: str) -> WorkerSpec:
        raw = json.loads(line)
        for name in ("table", "target_table"):
            raw[name] = TableRef(*raw[name])
        raw["columns"] = tuple(raw["columns"])
        return cls(**raw)


QUIT = json.dumps({"quit": True})
"""Tells a worker that there is nothing more to do."""


def request_line(partition: Partition, attempt: int) -> str:
    """Tells a worker to copy a partition."""
    return json.dumps({"partition": partition.as_json(), "attempt": attempt})
