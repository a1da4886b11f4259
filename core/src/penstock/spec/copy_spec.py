"""`CopySpec`, the user's request for a copy.

A `CopySpec` names its connections by URL or by reference (``env:NAME``) and can be stored: its
stored form holds no secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from penstock.errors import UsageError
from penstock.model.codec import to_json
from penstock.model.tables import Located, Query, Relation, TableRef
from penstock.model.values import SHOW_VALUES
from penstock.spec.atomic_limits import (
    ABOVE_ATOMIC_LIMIT,
    SWAP,
    AtomicLimit,
    parse_atomic_limit,
)
from penstock.spec.copy_checks import (
    check_attachable,
    check_options,
    check_replaceable,
    check_table_names,
)
from penstock.spec.degrees import AUTO
from penstock.spec.deletes import (
    IGNORE,
    MOST_DELETED,
    Deletes,
    MostDeleted,
    parse_deletes,
    parse_most_deleted,
)
from penstock.spec.drift import FAIL as FAIL_ON_DRIFT
from penstock.spec.drift import OnDrift, parse_on_drift
from penstock.spec.masks import Mask, parse_expressions, parse_masks
from penstock.spec.modes import MODES, Mode, mode_of
from penstock.spec.night_kinds import COLUMN, FILES, XMIN
from penstock.spec.option_values import PYTHON_TYPES, coerce, flag_of, split_names
from penstock.spec.parts import Cutting, Loading, Nightly, Route, part_of
from penstock.spec.references import redact
from penstock.spec.strategies import ALIASES, STRATEGIES, Strategy
from penstock.spec.terms import in_callers_terms
from penstock.spec.worker_spec import Patience

MAPS = ("name", "position")
INDEXES = ("keep", "defer")
SEQUENCES = ("set", "keep")
ARRAYS = ("refuse", "json")
ENUMS = ("check", "type", "text")
DESCENDANTS = ("include", "exclude")
SNAPSHOTS = ("shared", "none")
ON_SNAPSHOT_LOST = ("fail", "restart", "accept")
ON_ERROR = ("stop", "continue")
NULL_CURSORS = ("refuse", "include")
ATOMIC = ("table", "batch")
ON_TARGET_CHANGED = ("full", "fail")
VERIFY = ("none", "counts", "checksums")
CHECK_PARTITIONS = ("auto", "always", "never")
UNNAMED = "target"
"""The name shown for a target's table if the target's URL leads to the rows."""
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")


def option(
    default: Any,
    text: str,
    *,
    execution: bool = False,
    planned: bool = False,
    of_mode: bool = False,
    metavar: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """Define a field of `CopySpec`: its default and its help.

    Parameters:
        default: the default value.
        text: the help text.
        execution: the option says how to run, not what to copy; it may change on resume.
        planned: the option takes effect during planning, so it cannot change on resume either.
        of_mode: the option belongs to some modes; see `table_sections.layered`.
        metavar: the name of the value in the help.
        choices: the allowed values; empty for any value of the type.
    """
    metadata = {
        "help": text,
        "execution": execution,
        "resumed": execution and not planned,
        "of_mode": of_mode,
        "metavar": metavar,
        "choices": choices,
    }
    return field(default=default, metadata=metadata)


def resumed_options() -> list[str]:
    """Return the names of the options that may change when a run is resumed."""
    return [item.name for item in fields(CopySpec) if item.metadata.get("resumed")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpec:
    """One copy of one table.

    Raises:
        UsageError: an option is invalid, or options are incompatible.
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
            "help": "where rows go: a URL, a path that begins with /, ./ or ../, or env:NAME to "
            "read it from the environment",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    table: str | None = option(
        None,
        "the table to read; without a schema, the first in the source's search path; put a part "
        "with a dot in double quotes; leave it out if --source leads to the rows themselves, as "
        "with files",
        metavar="[SCHEMA.]NAME",
    )
    query: str | None = option(
        None, "read the rows of this query instead of a table's", metavar="SQL"
    )
    target_table: str | None = option(
        None,
        "the table to write; by default named as --table; without a schema, the first in the "
        "target's search path, otherwise in the schema of --table; leave it out if --target leads "
        "to files",
        metavar="[SCHEMA.]NAME",
    )
    descendants: str | None = option(
        None,
        "for a table that others inherit from: include or exclude their rows; included by default, "
        "unless the same batch copies them by themselves",
        choices=DESCENDANTS,
    )
    where: str | None = option(
        None, "copy only the rows for which this SQL condition holds", metavar="SQL"
    )
    columns: tuple[str, ...] | None = option(
        None, "copy only these columns, comma separated; all by default", metavar="A,B"
    )
    exclude_columns: tuple[str, ...] | None = option(
        None,
        "copy all columns but these, comma separated; a name may be a pattern ('tmp_*')",
        metavar="A,B",
    )
    set: tuple[str, ...] | None = option(
        None,
        "columns that the source computes, by expressions in its own SQL, such as "
        "'email=lower(email)'; the source need not have a column of that name; may be repeated",
        metavar="COLUMN=SQL",
    )
    mask: tuple[str, ...] | None = option(
        None,
        "columns whose plain values do not leave the source: hash: their SHA-256; hmac:env:NAME: "
        "their HMAC-SHA-256 with the key in that environment variable; null; last4: all but the "
        "last four characters as *; year: the first of January. A name may be a pattern "
        "('*email'); may be repeated",
        metavar="COLUMN=MASK",
    )
    map: str = option(
        "name",
        "match columns of source and target by name or by position",
        choices=MAPS,
    )
    strategy: str = option(
        "auto",
        "how to cut the table; auto chooses, and says why; "
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
        "a query on the source that lists the key's values, which saves a scan for them",
        metavar="SQL",
    )
    interval: str | None = option(
        None,
        "the width of one time partition, such as '1 day' or '1 month'; chosen by default",
        metavar="INTERVAL",
    )
    partitions: int | None = option(None, "how many partitions to aim for", metavar="N")
    rows_per_partition: int | None = option(
        None, "how many rows a partition should hold", metavar="N"
    )
    bytes_per_partition: int | None = option(
        None, "how many bytes of the source a partition should hold, such as 64MB", metavar="SIZE"
    )
    degree: int | str = option(
        AUTO,
        "how many streams at once; auto: soon one per CPU, then changed while that pays; "
        "0: one per CPU, -n: CPUs divided by n",
        execution=True,
        metavar="N",
    )
    max_rate: int | None = option(
        None,
        "move at most so many bytes a second, over all streams, such as 50MB",
        execution=True,
        metavar="SIZE",
    )
    max_lag: float | None = option(
        None,
        "for a source with standbys, or one that is a standby: use fewer streams, and then none, "
        "while it lags longer than this, such as 30s",
        execution=True,
        metavar="DURATION",
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
        of_mode=True,
    )
    incremental: str | None = option(
        None,
        "with upsert: read only the rows that may have changed since the last run that ended well: "
        "by row versions (xmin), which loses none, so that the target equals the source as of one "
        "moment; or by a column that grows with each change, such as updated_at (of two, the "
        "second counts where the first is NULL), with --lookback; or, of a source that is files, "
        "those that were not there before (files). The first run reads all rows. "
        "With truncate, recreate and swap, which read all rows: note in the target how far the "
        "source was read, so that the next upsert reads only what has changed since; where that is "
        "noted already, they do so without this option",
        metavar="{xmin,files,COLUMN[,COLUMN]}",
        of_mode=True,
    )
    lookback: str | None = option(
        None,
        "with --incremental COLUMN: also read rows whose column is this much less than the last "
        "run's greatest value: a duration such as 10m or 2d, for numbers a number. Longer than any "
        "transaction lasts that writes the table; 0 where the plan says that the column is proven",
        metavar="DURATION",
        of_mode=True,
    )
    null_cursor: str = option(
        "refuse",
        "with --incremental COLUMN: rows without a value are an error (refuse), or read by each "
        "run (include)",
        choices=NULL_CURSORS,
        of_mode=True,
    )
    max_ahead: float = option(
        86_400.0,
        "with --incremental COLUMN: a time further ahead of the source's clock than this is an "
        "error; 0 allows any: such rows are read by each run",
        metavar="DURATION",
        execution=True,
        planned=True,
        of_mode=True,
    )
    atomic: str | None = option(
        None,
        "with upsert and replace: gather the rows in a stage beside the target, and merge all of "
        "them, or put them in the place of those that the partitions select, in one transaction, "
        "so that readers see the target as before or as after, and nothing between: those of a "
        "table, as --incremental does in any case; or those of all tables of a batch, all or none, "
        "so that foreign keys between them hold",
        choices=ATOMIC,
        of_mode=True,
    )
    atomic_limit: str | None = option(
        None,
        "with upsert and --incremental: above this many rows, such as 50000000, or bytes of the "
        "source, such as 20GiB, do not gather and merge",
        metavar="LIMIT",
        execution=True,
        planned=True,
        of_mode=True,
    )
    above_atomic_limit: str = option(
        SWAP,
        "above --atomic-limit: swap reads all rows into a table beside the target, which then "
        "takes its place; fail",
        choices=ABOVE_ATOMIC_LIMIT,
        execution=True,
        planned=True,
        of_mode=True,
    )
    deletes: str = option(
        IGNORE,
        "with --incremental or --atomic: rows that the source has no more stay (ignore), are "
        "deleted (hard), or get the time in a column (soft, deleted_at by default), which is "
        "cleared when they come back",
        metavar="{ignore,hard,soft[:COLUMN]}",
        of_mode=True,
    )
    max_deletes: str = option(
        MOST_DELETED,
        "with --deletes: fail, and change nothing, if more than this share of the target's rows "
        "would go, and more rows than the number after the comma",
        metavar="SHARE[,ROWS]",
        execution=True,
        of_mode=True,
    )
    full_every: float | None = option(
        None,
        "with --incremental: read all rows if that was last done longer ago than this, such as 7d",
        metavar="DURATION",
        execution=True,
        planned=True,
        of_mode=True,
    )
    on_target_changed: str = option(
        "full",
        "with --incremental, if the target's table is not what the last run left (made anew, "
        "emptied, more or fewer rows): full reads all rows; fail",
        choices=ON_TARGET_CHANGED,
        execution=True,
        planned=True,
        of_mode=True,
    )
    on_drift: str = option(
        FAIL_ON_DRIFT,
        "if the columns of the source and of a target's table that is there have parted: fail; "
        "ignore, which copies those that both have; or the changes that may be made in the target, "
        "such as add,widen,rename",
        metavar="fail|ignore|LIST",
        execution=True,
        planned=True,
    )
    watermark: str | None = option(
        None,
        "with --incremental: the name under which the target keeps how far the source was read; by "
        "default the names of both tables",
        metavar="NAME",
        of_mode=True,
    )
    schema_only: bool = option(
        False,
        "make the target's table as the source's is, with keys, indexes and what else surrounds "
        "rows, and copy no rows; one that is there is kept, and an error, unless --mode recreate "
        "drops it",
    )
    data_only: bool = option(
        False,
        "copy rows into tables that are there, and make none; foreign keys between tables of the "
        "batch are dropped before the first row and restored after the last one",
    )
    indexes: str = option(
        "keep",
        "keep: the target's indexes grow with the rows; defer: drop them before the load and build "
        "them again after it, side by side",
        choices=INDEXES,
        of_mode=True,
    )
    unlogged: bool = option(
        False,
        "load without write-ahead log, and set the table logged at the end; a crash of the target "
        "in between empties it, and the run starts over",
        of_mode=True,
    )
    partitioning: bool = option(
        False,
        "for recreate, partition the target like the source; otherwise it is a plain table",
        of_mode=True,
    )
    allow_ddl: bool = option(
        False,
        "allow --indexes defer and --unlogged to alter an existing table",
    )
    sequences: str = option(
        "set",
        "set: sequences of the target's columns continue after the source's last value, or after "
        "the rows if the source has no sequence; keep: leave them as they are",
        choices=SEQUENCES,
    )
    types: tuple[str, ...] | None = option(
        None,
        "column types of a table that the copy creates between unlike systems, in the target's "
        "own notation, such as 'a=bigint, b=numeric(12,2)', for files in Arrow's, such as "
        "'a=int64, b=decimal128(12,2)'; by default types that fit. A name may be a pattern "
        "('*_at'), or 'source:' and a type of the source's ('source:tinyint(1)')",
        metavar="NAME=TYPE,...",
    )
    arrays: str = option(
        "refuse",
        "array columns of a table that the copy creates in a system without arrays: refuse: an "
        "error before anything is made; json: write them as JSON",
        choices=ARRAYS,
    )
    enums: str = option(
        "check",
        "columns of an enum type in a table that the copy creates in another system: check: the "
        "target's own form of enums where types are written with the column, else a text with a "
        "check; type: an enum type where the target has those; text: a text that takes any value",
        choices=ENUMS,
    )
    order_by: tuple[str, ...] | None = option(
        None,
        "columns by which a table that the copy creates keeps its rows ordered, comma separated; "
        "by default the source's primary key",
        metavar="A,B",
    )
    partition_by: tuple[str, ...] | None = option(
        None,
        "for files, the columns whose values name the folders, comma separated",
        metavar="A,B",
    )
    file_size: int | None = option(
        None,
        "for files, start a new one after so many bytes, such as 256MB; by default one for each "
        "partition, up to 1GB",
        metavar="SIZE",
    )
    row_group_size: int | None = option(
        None, "for files, rows in a row group; 122,880 by default", metavar="N"
    )
    compression: str | None = option(
        None, "for files, the compression; zstd by default", choices=COMPRESSIONS
    )
    snapshot: str = option(
        "shared",
        "shared: all partitions are read as of the same moment; none: each as of its own",
        choices=SNAPSHOTS,
    )
    on_snapshot_lost: str | None = option(
        None,
        "when the shared snapshot is lost: fail; restart the copy from scratch (not with append); "
        "accept: read the rest with a new one; by default restart where rows are merged at the "
        "end (--incremental, --atomic), else fail",
        execution=True,
        choices=ON_SNAPSHOT_LOST,
    )
    accept_moving_rows: bool = option(
        False,
        "allow blocks without a snapshot: rows updated meanwhile may be lost or doubled",
    )
    attempts: int = option(
        5, "how often to try a partition when errors are transient", execution=True, metavar="N"
    )
    on_error: str = option(
        "stop",
        "after a partition has failed permanently: start no others, or continue with them",
        execution=True,
        choices=ON_ERROR,
    )
    verify: str = option(
        "none",
        "once every partition is committed, compare both sides while the snapshot is held: row "
        "counts, or checksums of values; a difference fails the run, and prevents a swap",
        execution=True,
        choices=VERIFY,
    )
    check_partitions: str = option(
        "auto",
        "once every partition is committed, compare their rows with one count of all rows in the "
        "same snapshot, which finds partitions that overlap or miss rows: auto: where the key is a "
        "text, an expression, or of another type that is compared in more than one way; always; "
        "never. --verify compares them in any case",
        execution=True,
        choices=CHECK_PARTITIONS,
    )
    stall_timeout: float = option(
        600.0,
        "end and retry an attempt after so long without any bytes moving, such as 90s or 10m; "
        "0: never",
        execution=True,
        metavar="DURATION",
    )
    grace: float = option(
        10.0,
        "how long to wait for an older attempt of the same partition, or another session of the "
        "same run, that is in the way and makes no progress, before ending its session in the "
        "target",
        execution=True,
        metavar="DURATION",
    )
    snapshot_warn_after: float = option(
        3600.0,
        "warn when the snapshot has been held on the source for so long; 0: never",
        execution=True,
        metavar="DURATION",
    )
    give_way_after: float | None = option(
        None,
        "end the run, to be resumed, once somebody's statement (ALTER TABLE, DROP) has waited this "
        "long for the snapshot to let go of the source's table, such as 60s; by default the run "
        "says who waits, and carries on",
        execution=True,
        metavar="DURATION",
    )
    show_values: str | None = option(
        None,
        "values of rows in messages, and texts as bounds of partitions: never, or errors, which "
        "shows them; by default as PENSTOCK_SHOW_VALUES says, else errors on a terminal, never "
        "elsewhere",
        execution=True,
        choices=SHOW_VALUES,
    )
    run_id: str | None = option(
        None,
        "the run's name; generated by default; the same name and options continue that run",
        execution=True,
        planned=True,
        metavar="RUN_ID",
    )
    control_schema: str = option(
        "penstock", "the target's schema for run and commit records", metavar="NAME"
    )

    def __post_init__(self) -> None:
        try:
            self._read_and_check()
        except UsageError as error:
            named = self.table or self.target_table
            in_callers_terms(error, named if isinstance(named, str) else None)
            raise

    def _read_and_check(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            kind = str(item.type).partition(" | ")[0]
            # Accept values as a file or a command line gives them: a list, a text with a unit.
            if value is None and item.default is None:
                continue
            if not isinstance(value, PYTHON_TYPES.get(kind, ())):
                if isinstance(value, tuple):
                    value = list(value)
                object.__setattr__(self, item.name, coerce(item.name, kind, value))
        check_options(self)

    def check_table_names(self, *, source: bool | None, target: bool | None) -> None:
        """Check that tables are named at the ends that need a name, and only there.

        Parameters:
            source, target: whether that end's URL leads to the rows themselves, so that it takes no
                table name; None if not known yet.

        Raises:
            UsageError: a table name is missing, or is specified where none is allowed.
        """
        check_table_names(self, source=source, target=target)

    def check_replaceable(self) -> None:
        """Check the options for a target that deletes rows by the partitions' condition.

        Raises:
            UsageError: mode replace lacks a key to delete by.
        """
        check_replaceable(self)

    def check_attachable(self) -> None:
        """Check the options for a target that has child tables.

        Raises:
            UsageError: in mode attach, the partitions lack bounds of a key.
        """
        check_attachable(self)

    @property
    def route(self) -> Route:
        return part_of(Route, self)

    @property
    def cutting(self) -> Cutting:
        return part_of(Cutting, self)

    @property
    def loading(self) -> Loading:
        return part_of(Loading, self)

    @property
    def nightly(self) -> Nightly:
        return part_of(Nightly, self)

    @property
    def rows_may_move(self) -> bool:
        """Whether a row updated during the copy may move to another block unnoticed."""
        return self.snapshot == "none" and not self.accept_moving_rows

    @property
    def load_mode(self) -> Mode:
        """The mode that `mode` names, with its flags."""
        if self.schema_only:
            return MODES["recreate"]
        return mode_of({"mode": self.mode, "atomic": self.atomic, "incremental": self.incremental})

    @property
    def night_by(self) -> str:
        """The kind of night in `incremental`, see `penstock.spec.night_kinds`; empty if unset."""
        if not self.incremental:
            return ""
        return self.incremental if self.incremental in (XMIN, FILES) else COLUMN

    @property
    def cursor_columns(self) -> tuple[str, ...]:
        """The columns that `incremental` names."""
        if self.night_by != COLUMN:
            return ()
        assert self.incremental is not None
        return split_names(self.incremental, "--incremental")

    @property
    def loss_policy(self) -> str:
        """The value of `on_snapshot_lost`. By default, a copy that becomes visible only at its end
        starts over by itself."""
        return self.on_snapshot_lost or ("restart" if self.load_mode.merges_at_end else "fail")

    @property
    def gone(self) -> Deletes:
        """The parsed value of `deletes`."""
        return parse_deletes(self.deletes)

    @property
    def drift(self) -> OnDrift:
        """The parsed value of `on_drift`."""
        return parse_on_drift(self.on_drift)

    @property
    def most_deleted(self) -> MostDeleted:
        """The parsed value of `max_deletes`."""
        return parse_most_deleted(self.max_deletes)

    @property
    def most_merged(self) -> AtomicLimit:
        """The parsed value of `atomic_limit`."""
        return parse_atomic_limit(self.atomic_limit)

    @property
    def cut_strategy(self) -> Strategy:
        """The strategy that `strategy` names."""
        return STRATEGIES[self.strategy]

    @property
    def relation(self) -> Relation:
        """The table, query or location from which rows are read."""
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
        """The target's table; without a schema if the URL leads to the rows and none is named."""
        if self.target_table is not None:
            return TableRef.parse(self.target_table, "--target-table")
        return TableRef("", UNNAMED) if self.table is None else self.table_ref

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions of `set`, by column."""
        return parse_expressions(self.set)

    @property
    def masks(self) -> dict[str, Mask]:
        """The masks of `mask`, by column or pattern."""
        return parse_masks(self.mask)

    @property
    def column_types(self) -> dict[str, str]:
        """The types of `types`, by column."""
        pairs = [written.partition("=") for written in self.types or ()]
        for name, separator, kind in pairs:
            if not (name.strip() and separator and kind.strip()):
                found = name + separator + kind
                raise UsageError(f"--types: expected NAME=TYPE for each column, found {found!r}")
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    @property
    def writing(self) -> dict[str, Any]:
        """The options that are set for writing files and for creating the table."""
        found = {
            "order_by": list(self.order_by) if self.order_by else None,
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
        """A description of what is read, for people."""
        relation = self.relation
        return redact(self.source) if isinstance(relation, Located) else str(relation)

    @property
    def target_name(self) -> str:
        """A description of what is written, for people. If the target's URL leads to the rows
        themselves, the table is only the source's name for them, so this shows both."""
        if self.target_table is not None:
            return str(self.target_ref)
        place = redact(self.target)
        return place if self.table is None else f"{self.table_ref} in {place}"

    def stored(self) -> dict[str, Any]:
        """Return the spec as the control tables store it, without secrets."""
        raw: dict[str, Any] = to_json(self)
        raw["source"], raw["target"] = redact(self.source), redact(self.target)
        raw["types"] = raw["types"] or None
        raw["table"] = None if self.table is None else str(self.table_ref)
        named = self.table is not None or self.target_table is not None
        raw["target_table"] = str(self.target_ref) if named else None
        return raw

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """Return how this spec selects differently from a stored one, one line per option."""
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
        """Return the spec of a stored form, the inverse of `stored`, with connections added.

        Parameters:
            stored: the stored form.
            source, target: the connections, as URLs or references.
        """
        known = {item.name for item in fields(cls)}
        raw = {name: value for name, value in stored.items() if name in known}
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


def read_options(raw: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return the options of `CopySpec`, by name and with values of their types.

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
            options[name] = coerce(name, str(known[name].type), value)
        except UsageError as error:
            raise UsageError(f"{origin}: {error.message}") from None
    return options


def _is_same(name: str, mine: Any, theirs: Any) -> bool:
    """Whether two values of an option mean the same."""
    if name == "strategy":
        return STRATEGIES.get(mine) is STRATEGIES.get(theirs)
    return bool(mine == theirs)
