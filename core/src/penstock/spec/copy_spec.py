"""What a person asks for (`CopySpec`).

A `CopySpec` names its connections by URL or by reference (``env:NAME``) and can be stored: its
stored form carries no secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from penstock.errors import UsageError
from penstock.model.codec import to_json
from penstock.model.tables import (
    Located,
    Query,
    Relation,
    TableRef,
)
from penstock.spec.modes import MODES, Mode, mode_names
from penstock.spec.references import redact
from penstock.spec.strategies import ALIASES, STRATEGIES, Strategy
from penstock.spec.units import check_duration, parse_duration, parse_size
from penstock.spec.worker_spec import Patience

MAPS = ("name", "position")


INDEXES = ("keep", "defer")


SEQUENCES = ("set", "keep")


DESCENDANTS = ("include", "exclude")


SNAPSHOTS = ("shared", "none")


ON_SNAPSHOT_LOST = ("fail", "restart", "accept")


ON_ERROR = ("stop", "continue")


VERIFY = ("none", "counts", "checksums")


# application_name holds 63 bytes: "penstock:" + run id + ":" + partition + ":" + attempt.
MAX_RUN_ID = 36


MAX_PARTITION_ID = 10


_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{MAX_RUN_ID - 1}}}")


_LISTS = ("columns", "conflict_columns", "partition_by")


MOST = 2**31 - 1


MOST_BYTES = 2**62


_SIZES = ("bytes_per_partition", "file_size")


_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}


COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


_QUOTED = r'\s*"(?:[^"]|"")+"\s*'


_BARE = r'(?!\s*")[^,]*'


_NAME_OF_LIST = re.compile(rf"(?:^|(?<=,))(?:{_QUOTED}|{_BARE})(?=,|$)")


_NAMES = re.compile(rf"(?:{_QUOTED}|{_BARE})(?:,(?:{_QUOTED}|{_BARE}))*")


def option(
    default: Any,
    text: str,
    *,
    execution: bool = False,
    metavar: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of `CopySpec`: its default and its help.

    Parameters:
        execution: the option says how to run, not what to copy; it may change on resume.
        choices: the values that there are; none: any of its type.
    """
    metadata = {"help": text, "execution": execution, "metavar": metavar, "choices": choices}
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
            "help": "where rows come from: a URL, a path that begins with /, ./ or ../, or "
            "env:NAME to read it from the environment",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    target: str = field(
        repr=False,
        metadata={
            "help": "where rows go to: a URL, a path that begins with /, ./ or ../, or env:NAME to "
            "read it from the environment",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    table: str | None = option(
        None,
        "the table to read; without a schema the one that the source's search path finds; double "
        "quotes around a part that holds a dot; not needed where --source leads to the rows "
        "themselves, as with files",
        metavar="[SCHEMA.]NAME",
    )
    query: str | None = option(
        None, "read the rows of this query instead of a table's", metavar="SQL"
    )
    target_table: str | None = option(
        None,
        "the table to write; the same name as --table by default; without a schema the one that "
        "the target's search path finds, else that of --table; not needed where --target leads to "
        "files",
        metavar="[SCHEMA.]NAME",
    )
    descendants: str | None = option(
        None,
        "for a table that others inherit from: include or exclude their rows; included by default, "
        "but where they are tables of the same batch, each by itself",
        choices=DESCENDANTS,
    )
    where: str | None = option(
        None, "copy only the rows for which this SQL condition holds", metavar="SQL"
    )
    columns: tuple[str, ...] | None = option(
        None, "copy only these columns, comma separated; all by default", metavar="A,B"
    )
    map: str = option(
        "name",
        "which column goes into which: the one of the same name, or of the same position",
        choices=MAPS,
    )
    strategy: str = option(
        "auto",
        "how to cut the table; auto chooses and says why; "
        + "; ".join(f"{name} is another name for {of}" for name, of in ALIASES.items()),
        metavar=f"{{{','.join(name for name in STRATEGIES if name not in ALIASES)}}}",
        choices=tuple(STRATEGIES),
    )
    key: str | None = option(
        None,
        "the column that range, ntile and time cut by; for hash and values a column or an "
        "expression",
        metavar="COLUMN",
    )
    values_query: str | None = option(
        None,
        "a query on the source that lists the key's values, to spare a scan for them",
        metavar="SQL",
    )
    interval: str | None = option(
        None,
        "the width of one time partition, such as '1 day' or '1 month'; by default one that fits",
        metavar="INTERVAL",
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
        "; ".join(f"{mode}: {mode.help}" for mode in MODES.values()),
        choices=tuple(MODES),
    )
    conflict_columns: tuple[str, ...] | None = option(
        None,
        "for upsert, the columns of a unique key, comma separated; the primary key by default",
        metavar="A,B",
    )
    indexes: str = option(
        "keep",
        "keep: the target's indexes grow with the rows; defer: they are dropped before and built "
        "again after, side by side",
        choices=INDEXES,
    )
    unlogged: bool = option(
        False,
        "load without write-ahead log and set the table logged at the end; a crash of the target "
        "in between empties it, and the run starts over",
    )
    partitioning: bool = option(
        False, "for recreate, partition the target like the source; else it is a plain table"
    )
    allow_ddl: bool = option(
        False,
        "allow --indexes defer and --unlogged to alter a table that was there before",
    )
    sequences: str = option(
        "set",
        "set: sequences of the target's columns go on after the last value of the source's, or "
        "after the rows where the source has none; keep: they stay as they are",
        choices=SEQUENCES,
    )
    types: tuple[str, ...] | None = option(
        None,
        "types of columns in a table that the copy makes, where source and target are unlike "
        "systems, in the target's words, such as 'a=bigint, b=numeric(12,2)'; for files in "
        "Arrow's, such as 'a=int64, b=decimal128(12,2)'; ones that fit by default",
        metavar="NAME=TYPE,...",
    )
    partition_by: tuple[str, ...] | None = option(
        None,
        "for files, the columns whose values name the folders, comma separated",
        metavar="A,B",
    )
    file_size: int | None = option(
        None,
        "for files, begin another one after so many bytes, such as 256MB; by default one for each "
        "partition, of 1GB at most",
        metavar="SIZE",
    )
    row_group_size: int | None = option(
        None, "for files, rows in a row group; 122,880 by default", metavar="N"
    )
    compression: str | None = option(
        None, "for files, how they are compressed; zstd by default", choices=COMPRESSIONS
    )
    snapshot: str = option(
        "shared",
        "shared: all partitions see one moment of the source; none: each its own",
        choices=SNAPSHOTS,
    )
    on_snapshot_lost: str = option(
        "fail",
        "when the shared snapshot is lost: fail; restart the copy from nothing (not with append); "
        "accept: read what is left with a new one",
        execution=True,
        choices=ON_SNAPSHOT_LOST,
    )
    accept_moving_rows: bool = option(
        False,
        "allow blocks without a snapshot: rows that are updated meanwhile may be lost or doubled",
    )
    attempts: int = option(
        5, "how often a partition is tried when errors are transient", execution=True, metavar="N"
    )
    on_error: str = option(
        "stop",
        "after a partition has failed for good: stop starting others, or continue with them",
        execution=True,
        choices=ON_ERROR,
    )
    verify: str = option(
        "none",
        "when every partition is committed, compare both sides while the snapshot is held: counts "
        "of rows, or checksums of their values; a difference fails the run, and a swap is not done",
        execution=True,
        choices=VERIFY,
    )
    stall_timeout: float = option(
        600.0,
        "end and retry an attempt when no bytes move for so long, such as 90s or 10m; 0: never",
        execution=True,
        metavar="DURATION",
    )
    grace: float = option(
        10.0,
        "how long to wait for an older attempt of the same partition, or another session of the "
        "same run that is in the way, which makes no progress, before its session in the target is "
        "ended",
        execution=True,
        metavar="DURATION",
    )
    snapshot_warn_after: float = option(
        3600.0,
        "warn when the snapshot has been held on the source for so long; 0: never",
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
        for item in fields(self):
            value = getattr(self, item.name)
            kind = str(item.type).partition(" | ")[0]
            # What a file or a command line may give will do: a list, a text with a unit.
            if value is None and item.default is None:
                continue
            if not isinstance(value, _PYTHON_TYPES.get(kind, ())):
                if isinstance(value, tuple):
                    value = list(value)
                object.__setattr__(self, item.name, _coerce(item.name, kind, value))
        self.relation  # noqa: B018 - raises where malformed
        self.target_ref  # noqa: B018
        for item in fields(self):
            if item.metadata["choices"] and getattr(self, item.name) is not None:
                _one_of(item.name, getattr(self, item.name), item.metadata["choices"])
        for name in ("partitions", "rows_per_partition", "row_group_size"):
            _within(name, getattr(self, name), 1, MOST)
        for name in _SIZES:
            _within(name, getattr(self, name), 1, MOST_BYTES)
        _within("degree", self.degree, -MOST, MOST)
        self.column_types  # noqa: B018 - raises where malformed
        _within("attempts", self.attempts, 1, MOST)
        for name in ("stall_timeout", "grace", "snapshot_warn_after"):
            check_duration(getattr(self, name), flag_of(name))
        if self.run_id is not None:
            check_run_id(self.run_id)
        for name, what in (
            ("where", "a condition"),
            ("query", "a query"),
            ("key", "a column or an expression"),
            ("values_query", "a query"),
            ("interval", "an interval"),
            ("control_schema", "a name"),
        ):
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise UsageError(f"{flag_of(name)}: expected {what}, found an empty text")
        for option_name in _LISTS:
            names: tuple[str, ...] | None = getattr(self, option_name)
            if names is not None and (not names or not all(names)):
                flag = flag_of(option_name)
                raise UsageError(f"{flag}: expected one or more names, found an empty one")
            for name in names or ():
                if names and names.count(name) > 1:
                    flag = flag_of(option_name)
                    raise UsageError(f"{flag}: expected each name once, found {name!r} twice")
        self._check_combinations()
        self._check_loading()

    def _check_combinations(self) -> None:
        sizes = [
            flag_of(name)
            for name in ("partitions", "rows_per_partition", "bytes_per_partition")
            if getattr(self, name) is not None
        ]
        if len(sizes) > 1:
            raise UsageError(f"{' and '.join(sizes)} contradict each other: give one of them")
        strategy = self.cut_strategy
        if strategy.requires_key and self.key is None:
            raise UsageError(f"--strategy {self.strategy}: expected --key, found none")
        if not strategy.takes_key and self.key is not None:
            raise UsageError(f"--strategy {self.strategy} uses no key: leave --key out")
        if self.interval is not None and not strategy.takes_interval:
            raise UsageError(f"--interval goes with --strategy time, not {self.strategy}")
        if self.values_query is not None and not strategy.takes_values_query:
            raise UsageError(f"--values-query goes with --strategy values, not {self.strategy}")
        for name in ("interval", "values_query"):
            if getattr(self, name) is not None and self.key is None:
                raise UsageError(f"{flag_of(name)}: expected --key, found none")
        if self.on_snapshot_lost == "restart" and not self.load_mode.owns_selection:
            those = ", ".join(mode_names(lambda mode: mode.owns_selection))
            raise UsageError(
                f"--on-snapshot-lost restart: expected --mode {those}, which can take back what "
                f"was loaded; found {self.mode}"
            )

    def _check_loading(self) -> None:
        mode = self.load_mode
        if self.query is not None and self.cut_strategy.cuts_storage:
            raise UsageError(
                f"--strategy {self.strategy} reads a table's own storage, which a query does "
                "not have: expected whole, range, ntile, hash, values or time"
            )
        if self.conflict_columns is not None and not mode.merges_by_key:
            raise UsageError(f"--conflict-columns goes with --mode upsert, not {self.mode}")
        if self.partitioning and not mode.recreates:
            raise UsageError(f"--partitioning goes with --mode recreate, not {self.mode}")
        if self.unlogged and not mode.starts_empty:
            those = ", ".join(mode_names(lambda mode: mode.starts_empty))
            raise UsageError(
                f"--unlogged: expected --mode {those}: a crash of the target empties an unlogged "
                f"table, rows of other origin too; found {mode}"
            )
        if self.indexes == "defer" and mode.merges_by_key:
            raise UsageError(f"--indexes defer: --mode {mode} finds its rows by a unique index")
        needs = [
            flag
            for flag, given in (
                ("--indexes defer", self.indexes == "defer"),
                ("--unlogged", self.unlogged),
            )
            if given and not mode.loads_new_table
        ]
        if needs and not self.allow_ddl:
            raise UsageError(
                f"{' and '.join(needs)} with --mode {self.mode}: alters the target's table; "
                "expected --allow-ddl, found none"
            )

    def check_named(self, *, source: bool | None, target: bool | None) -> None:
        """
        Parameters:
            source, target: whether that end's URL leads to the rows themselves, so that no table
                is named there; None: it is not known yet.

        Raises:
            UsageError: a table is to be named, and is not; or is not to be, and is.
        """
        if source is False and self.table is None and self.query is None:
            raise UsageError("--table, --query: expected one of them, found neither")
        if source and self.table is not None:
            raise UsageError(
                f"--table: {redact(self.source)} leads to the rows themselves: leave --table out, "
                f"or name the target with --target-table; found {self.table!r}"
            )
        if target is False and self.table is None and self.target_table is None:
            raise UsageError("--target-table: expected the table to write; found none")
        if target and self.target_table is not None:
            raise UsageError(
                f"--target-table: {redact(self.target)} leads to where the rows go: leave "
                f"--target-table out; found {self.target_table!r}"
            )

    def check_replaceable(self) -> None:
        """For a target that deletes rows by the partitions' condition.

        Raises:
            UsageError: mode replace has no key to delete by.
        """
        if not self.load_mode.deletes_by_partition:
            return
        if not self.cut_strategy.takes_key:
            raise UsageError(
                f"--mode {self.mode} deletes by key, and --strategy {self.strategy} has none: "
                "expected range, time, values or hash, and --key"
            )
        if self.key is None:
            raise UsageError(
                f"--mode {self.mode}: expected --key, the column to delete by; found none"
            )

    @property
    def load_mode(self) -> Mode:
        """What `mode` names."""
        return MODES[self.mode]

    @property
    def cut_strategy(self) -> Strategy:
        """What `strategy` names."""
        return STRATEGIES[self.strategy]

    @property
    def relation(self) -> Relation:
        """What the rows are read from."""
        if self.table is not None and self.query is not None:
            raise UsageError("--table, --query: expected one of them, found both")
        if self.query is not None:
            return Query(self.query)
        if self.table is None:
            return Located()
        return replace(self.table_ref, only=self.descendants == "exclude")

    @property
    def table_ref(self) -> TableRef:
        assert self.table is not None
        return TableRef.parse(self.table, "--table")

    @property
    def target_ref(self) -> TableRef:
        """Without a schema where no table is named: then the target's URL leads to it."""
        if self.target_table is not None:
            return TableRef.parse(self.target_table, "--target-table")
        return TableRef("", "target") if self.table is None else self.table_ref

    @property
    def column_types(self) -> dict[str, str]:
        """What `types` says, by column."""
        pairs = [written.partition("=") for written in self.types or ()]
        for name, separator, kind in pairs:
            if not (name.strip() and separator and kind.strip()):
                found = name + separator + kind
                raise UsageError(f"--types: expected NAME=TYPE for each column, found {found!r}")
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    @property
    def writing(self) -> dict[str, Any]:
        """How files are written, as far as it was said."""
        found = {
            "partition_by": list(self.partition_by) if self.partition_by else None,
            "file_size": self.file_size,
            "row_group_size": self.row_group_size,
            "compression": self.compression,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def patience(self) -> Patience:
        return Patience(self.grace, self.stall_timeout)

    @property
    def source_name(self) -> str:
        """What is read, for people."""
        relation = self.relation
        return redact(self.source) if isinstance(relation, Located) else str(relation)

    @property
    def target_name(self) -> str:
        """What is written, for people. Where the target's URL leads to it, the table is but a name
        of the source's, so that both are said."""
        if self.target_table is not None:
            return str(self.target_ref)
        place = redact(self.target)
        return place if self.table is None else f"{self.table_ref} in {place}"

    def stored(self) -> dict[str, Any]:
        """The spec as the control tables keep it: no secret in it."""
        raw: dict[str, Any] = to_json(self)
        raw["source"], raw["target"] = redact(self.source), redact(self.target)
        raw["types"] = raw["types"] or None
        raw["table"] = None if self.table is None else str(self.table_ref)
        named = self.table is not None or self.target_table is not None
        raw["target_table"] = str(self.target_ref) if named else None
        return raw

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """What this spec asks to copy that a stored one does not, a line for each option."""
        mine = self.stored()
        return [
            f"{flag_of(item.name)}: the run has {stored.get(item.name)!r}, "
            f"found {mine[item.name]!r}"
            for item in fields(self)
            if not item.metadata["execution"]
            and not _is_same(item.name, mine[item.name], stored.get(item.name))
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
        options = read_options(raw, origin)
        missing = [flag_of(name) for name in ("source", "target") if not options.get(name)]
        if missing:
            raise UsageError(f"{origin}: expected {', '.join(missing)}; found none")
        return cls(**options)


def read_options(raw: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Options of `CopySpec`, by name and with values of their types.

    Raises:
        UsageError: an unknown option, or a value of the wrong type.
    """
    known = {item.name: item for item in fields(CopySpec)}
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
    return options


def _coerce(name: str, kind: str, value: Any) -> Any:
    flag = flag_of(name)
    if name in _LISTS:
        if isinstance(value, str):
            return _split_names(value, flag)
        if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
            raise UsageError(f"{flag}: expected names separated by commas, found {value!r}")
        return tuple(part.strip() for part in value)
    if name == "types":
        return _split_types(value)
    if name in _SIZES:
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
        # One that holds a secret may be in it.
        found = type(value).__name__ if name in ("source", "target") else repr(value)
        raise UsageError(f"{flag}: expected a text, found {found}")
    return value


def _split_names(text: str, flag: str) -> tuple[str, ...]:
    """``a, "b, c", "d""e"`` at the commas outside of quotes."""
    if _NAMES.fullmatch(text) is None:
        raise UsageError(
            f"{flag}: expected names separated by commas, in double quotes where there is a comma "
            f"in one; found {text!r}"
        )
    parts = [part.strip() for part in _NAME_OF_LIST.findall(text)]
    return tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts)


def _split_types(value: Any) -> tuple[str, ...]:
    """``a=numeric(12,2), b=text`` at the commas outside of parentheses; or a table or list."""
    if isinstance(value, Mapping):
        value = [f"{name}={kind}" for name, kind in value.items()]
    if isinstance(value, str):
        value = re.split(r",(?![^(]*\))", value)
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise UsageError(f"--types: expected NAME=TYPE, comma separated; found {value!r}")
    return tuple(part.strip() for part in value)


def _is_same(name: str, mine: Any, theirs: Any) -> bool:
    """Whether two values of an option ask for the same."""
    if name == "strategy":
        return STRATEGIES.get(mine) is STRATEGIES.get(theirs)
    return bool(mine == theirs)


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{flag_of(name)}: expected one of {', '.join(allowed)}; found {value!r}")


def _within(name: str, value: int | None, least: int, most: int) -> None:
    if value is None or least <= value <= most:
        return
    expected = f"{least} or more" if value < least else f"{most} at most"
    raise UsageError(f"{flag_of(name)}: expected {expected}, found {value}")


def check_run_id(run_id: str) -> None:
    """Raise `UsageError` unless the id fits into an application_name."""
    if _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f"run id: expected 1 to {MAX_RUN_ID} letters, digits or any of _.+- (the first one a "
            f"letter or digit), found {run_id!r}"
        )


def resolve_degree(degree: int, cpus: int) -> int:
    """Streams for a `degree`: 0 is one per CPU, -n is CPUs divided by n, at least one."""
    if degree > 0:
        return degree
    return max(1, cpus if degree == 0 else cpus // -degree)
