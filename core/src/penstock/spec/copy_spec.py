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
from penstock.spec.atomic_limits import AtomicLimit, parse_atomic_limit
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
    parse_deletes,
)
from penstock.spec.drift import FAIL as FAIL_ON_DRIFT
from penstock.spec.drift import OnDrift, parse_on_drift
from penstock.spec.masks import Mask, parse_expressions, parse_masks
from penstock.spec.modes import MODES, Mode, mode_of
from penstock.spec.night_kinds import COLUMN, FILES, XMIN
from penstock.spec.option_values import PYTHON_TYPES, coerce, flag_of, split_names
from penstock.spec.partition_sizes import PartitionSize, parse_partitions
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
    limited: bool = False,
    metavar: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """Define a field of `CopySpec`: its default and its help.

    Args:
        default: the default value.
        text: the help text.
        execution: the option says how to run, not what to copy; it may change on resume.
        planned: the option takes effect during planning, so it cannot change on resume either.
        of_mode: the option belongs to some modes; see `table_sections.layer_options`.
        limited: a limit follows the value's first comma, and may change on resume.
        metavar: the name of the value in the help.
        choices: the allowed values; empty for any value of the type.
    """
    metadata = {
        "help": text,
        "execution": execution,
        "resumed": limited or (execution and not planned),
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
            "help": "the source: a URL, a path that starts with /, ./ or ../, or env:NAME for "
            "an environment variable that holds one",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    target: str = field(
        repr=False,
        metadata={
            "help": "the target: a URL, a path that starts with /, ./ or ../, or env:NAME for "
            "an environment variable that holds one",
            "execution": True,
            "metavar": "URL",
            "choices": (),
        },
    )
    table: str | None = option(
        None,
        "the table to read; without a schema, the first match in the source's search path. Put "
        "a name that contains a dot in double quotes. Not needed if --source points to the rows "
        "themselves, as with files",
        metavar="[SCHEMA.]NAME",
    )
    query: str | None = option(
        None, "read the result of this query instead of a table", metavar="SQL"
    )
    target_table: str | None = option(
        None,
        "the table to write (default: the name of --table); without a schema, the first match "
        "in the target's search path, else the schema of --table. Not needed if --target points "
        "to files",
        metavar="[SCHEMA.]NAME",
    )
    descendants: str | None = option(
        None,
        "whether to read the rows of tables that inherit from the table (default: include, "
        "unless the same batch copies those tables)",
        choices=DESCENDANTS,
    )
    where: str | None = option(
        None, "copy only rows that satisfy this SQL condition", metavar="SQL"
    )
    columns: tuple[str, ...] | None = option(
        None, "copy only these columns, separated by commas (default: all)", metavar="A,B"
    )
    exclude_columns: tuple[str, ...] | None = option(
        None,
        "copy all columns except these, separated by commas; a name may be a pattern ('tmp_*')",
        metavar="A,B",
    )
    set: tuple[str, ...] | None = option(
        None,
        "compute a column on the source with an SQL expression, such as 'email=lower(email)'; "
        "the source need not have the column; repeatable",
        metavar="COLUMN=SQL",
    )
    mask: tuple[str, ...] | None = option(
        None,
        "mask a column on the source, so that its plain values never leave it: hash (SHA-256), "
        "hmac:env:NAME (HMAC-SHA-256 with the key in that environment variable), null, last4 "
        "(all but the last four characters become *), year (January 1 of the year); a column "
        "may be a pattern ('*email'); repeatable",
        metavar="COLUMN=MASK",
    )
    map: str = option(
        "name",
        "match source and target columns by name or by position",
        choices=MAPS,
    )
    strategy: str = option(
        "auto",
        "how to partition the table; auto chooses a strategy and says why; "
        + "; ".join(f"{name} is an alias of {of}" for name, of in ALIASES.items()),
        metavar=f"{{{','.join(name for name in STRATEGIES if name not in ALIASES)}}}",
        choices=tuple(STRATEGIES),
    )
    key: str | None = option(
        None,
        "the column to partition by; for hash and values, a column or an expression",
        metavar="COLUMN",
    )
    values_query: str | None = option(
        None,
        "a query on the source that returns the values of the key, which saves a scan of the table",
        metavar="SQL",
    )
    interval: str | None = option(
        None,
        "with strategy time: the width of a partition, such as '1 day' or '1 month' (default: "
        "chosen automatically)",
        metavar="INTERVAL",
    )
    partitions: int | str | None = option(
        None,
        "aim for this many partitions (16), or for this many rows ('500000 rows') or bytes of the "
        "source (64MB) in each (default: chosen by size)",
        metavar="{N,N rows,SIZE}",
    )
    degree: int | str = option(
        AUTO,
        "the number of concurrent streams: auto (one per CPU within a second, then adjusted "
        "while more bytes move), 0 (one per CPU), or -N (CPUs divided by N)",
        execution=True,
        metavar="N",
    )
    max_rate: int | None = option(
        None,
        "cap the combined rate of all streams, in bytes per second, such as 50MB",
        execution=True,
        metavar="SIZE",
    )
    max_lag: float | None = option(
        None,
        "use fewer streams, and finally none, while replication lags by more than this, such as "
        "30s; for a source that has standbys or is one",
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
        "with upsert: the columns of a unique key, separated by commas (default: the primary key)",
        metavar="A,B",
        of_mode=True,
    )
    incremental: str | None = option(
        None,
        "with upsert: read only rows that may have changed since the last successful run. xmin: "
        "by row version, which misses no change; COLUMN: by a column that grows with each "
        "change, such as updated_at, with --lookback (a second column counts where the first is "
        "NULL); files: only new files. The first run reads all rows. With truncate, recreate "
        "and swap, which always read all rows: record how far the source was read, for the next "
        "upsert to continue from; if a record exists, they update it even without this option",
        metavar="{xmin,files,COLUMN[,COLUMN]}",
        of_mode=True,
    )
    lookback: str | None = option(
        None,
        "with --incremental COLUMN: also read rows whose column is up to this far below the "
        "last run's greatest value: a duration such as 10m or 2d, or a number for a column of "
        "numbers. Choose more than the longest transaction that writes the table takes; 0 is "
        "safe if the plan says that the column is proven",
        metavar="DURATION",
        of_mode=True,
    )
    null_cursor: str = option(
        "refuse",
        "with --incremental COLUMN: reject rows whose column is NULL (refuse), or read them in "
        "every run (include)",
        choices=NULL_CURSORS,
        of_mode=True,
    )
    max_ahead: float = option(
        86_400.0,
        "with --incremental COLUMN: fail if a time is further ahead of the source's clock than "
        "this; 0 allows any time, and every run reads such rows again",
        metavar="DURATION",
        execution=True,
        planned=True,
        of_mode=True,
    )
    atomic: str | None = option(
        None,
        "with upsert and replace: collect rows in a stage beside the target and apply them in "
        "one transaction, so that readers see all changes at once. table: one transaction for "
        "each table, as always with --incremental; batch: one for all tables of a batch, so "
        "that foreign keys between them hold",
        choices=ATOMIC,
        of_mode=True,
    )
    atomic_limit: str | None = option(
        None,
        "with upsert and --incremental: do not merge more rows (such as 50000000) or bytes of "
        "the source (such as 20GiB) than this in one transaction: load all rows into a new table "
        "that replaces the target's, or fail with ',fail' after the limit",
        metavar="LIMIT[,fail]",
        execution=True,
        planned=True,
        of_mode=True,
    )
    deletes: str = option(
        IGNORE,
        "with --incremental or --atomic: keep rows that the source no longer has (ignore), "
        "delete them (hard), or set a timestamp column, deleted_at by default, which is cleared "
        "if the row comes back (soft). Fail without changing anything if more than a share of the "
        f"target's rows would be deleted, and more than a number of rows: {MOST_DELETED}, unless "
        "others follow, as in hard,5%,100",
        metavar="{ignore,hard,soft[:COLUMN]}[,SHARE[,ROWS]]",
        of_mode=True,
        limited=True,
    )
    full_every: float | None = option(
        None,
        "with --incremental: read all rows if the last full read is older than this, such as 7d",
        metavar="DURATION",
        execution=True,
        planned=True,
        of_mode=True,
    )
    on_target_changed: str = option(
        "full",
        "with --incremental: if the target's table has changed since the last run (recreated, "
        "emptied, rows added or removed), read all rows (full), or fail",
        choices=ON_TARGET_CHANGED,
        execution=True,
        planned=True,
        of_mode=True,
    )
    on_drift: str = option(
        FAIL_ON_DRIFT,
        "if the columns of the source and of an existing target have diverged: fail; copy only "
        "the columns that both have (ignore); or apply these changes to the target, such as "
        "add,widen,rename",
        metavar="fail|ignore|LIST",
        execution=True,
        planned=True,
    )
    watermark: str | None = option(
        None,
        "with --incremental: the name of the watermark, which records in the target how far the "
        "source was read (default: the names of both tables)",
        metavar="NAME",
        of_mode=True,
    )
    schema_only: bool = option(
        False,
        "create the target's table like the source's, with keys, indexes and the like, and copy "
        "no rows; an existing table is kept and is an error, unless --mode recreate drops it",
    )
    data_only: bool = option(
        False,
        "copy rows into existing tables and create none; foreign keys between the tables of a "
        "batch are dropped before the first row and restored after the last",
    )
    indexes: str = option(
        "keep",
        "keep: maintain the target's indexes during the load; defer: drop them before the load "
        "and rebuild them in parallel after it",
        choices=INDEXES,
        of_mode=True,
    )
    unlogged: bool = option(
        False,
        "load without write-ahead log, and make the table logged at the end; if the target "
        "crashes in between, the table is emptied and the run starts over",
        of_mode=True,
    )
    partitioning: bool = option(
        False,
        "with recreate: partition the target like the source, instead of creating a plain table",
        of_mode=True,
    )
    sequences: str = option(
        "set",
        "set: continue the sequences of the target's columns after the source's last value, or "
        "after the greatest value copied if the source has no sequence; keep: leave them "
        "unchanged",
        choices=SEQUENCES,
    )
    types: tuple[str, ...] | None = option(
        None,
        "types for the columns of a table created on another kind of system, in the target's "
        "notation ('a=bigint, b=numeric(12,2)'), for files in Arrow's ('a=int64, "
        "b=decimal128(12,2)'); by default types that fit. A name may be a pattern ('*_at'), or "
        "a type of the source ('source:tinyint(1)')",
        metavar="NAME=TYPE,...",
    )
    arrays: str = option(
        "refuse",
        "array columns of a table created on a system without arrays: fail before anything is "
        "created (refuse), or write them as JSON (json)",
        choices=ARRAYS,
    )
    enums: str = option(
        "check",
        "enum columns of a table created on another kind of system: the target's own enum if it "
        "is declared with the column, else text with a check constraint (check); a separate "
        "enum type if the target has them (type); or unconstrained text (text)",
        choices=ENUMS,
    )
    order_by: tuple[str, ...] | None = option(
        None,
        "the columns by which a created table keeps its rows sorted, separated by commas "
        "(default: the source's primary key)",
        metavar="A,B",
    )
    partition_by: tuple[str, ...] | None = option(
        None,
        "for files: the columns whose values name the folders, separated by commas",
        metavar="A,B",
    )
    file_size: int | None = option(
        None,
        "for files: start a new file after this many bytes, such as 256MB (default: one for "
        "each partition, up to 1GB)",
        metavar="SIZE",
    )
    row_group_size: int | None = option(
        None, "for files: the number of rows in a row group (default: 122,880)", metavar="N"
    )
    compression: str | None = option(
        None, "for files: the compression codec (default: zstd)", choices=COMPRESSIONS
    )
    snapshot: str = option(
        "shared",
        "shared: read all partitions as of the same moment; none: each as of its own",
        choices=SNAPSHOTS,
    )
    on_snapshot_lost: str | None = option(
        None,
        "if the shared snapshot is lost: fail; start the copy over (restart; not with append); "
        "or read the remaining partitions with a new snapshot (accept). By default restart if "
        "rows are merged at the end (--incremental, --atomic), else fail",
        execution=True,
        choices=ON_SNAPSHOT_LOST,
    )
    attempts: int = option(
        5,
        "how many times to try a partition whose errors are transient",
        execution=True,
        metavar="N",
    )
    on_error: str = option(
        "stop",
        "once a partition fails permanently: stop, or continue with the rest",
        execution=True,
        choices=ON_ERROR,
    )
    verify: str = option(
        "none",
        "once every partition is committed, compare source and target while the snapshot is "
        "held, by row counts or by checksums of the values; a difference fails the run, and "
        "prevents a swap",
        execution=True,
        choices=VERIFY,
    )
    stall_timeout: float = option(
        600.0,
        "retry an attempt when no bytes have moved for this long, such as 90s or 10m; 0: never",
        execution=True,
        metavar="DURATION",
    )
    grace: float = option(
        10.0,
        "how long to wait for an older attempt or another session of the run that is in the way "
        "and makes no progress, before ending its session in the target",
        execution=True,
        metavar="DURATION",
    )
    give_way_after: float | None = option(
        None,
        "stop the run, to be resumed later, once another session's statement (ALTER TABLE, "
        "DROP) has waited this long for the snapshot to release the source's table, such as 60s "
        "(default: report who waits, and continue)",
        execution=True,
        metavar="DURATION",
    )
    show_values: str | None = option(
        None,
        "whether messages show values of rows, and partition bounds that are texts: never, or "
        "errors (show them). By default as PENSTOCK_SHOW_VALUES says, else errors on a terminal "
        "and never elsewhere",
        execution=True,
        choices=SHOW_VALUES,
    )
    claim: str | None = option(
        None,
        "who continues the run if it stops, such as a scheduler. Until the run is done or "
        "given up (penstock give-up), no other run may empty, drop or replace its table. Airflow "
        "and Dagster claim the runs that they start",
        execution=True,
        planned=True,
        metavar="TEXT",
    )
    stale_after: float = option(
        86400.0,
        "modes truncate, recreate and swap: take over a table from a claimed run that has made no "
        "progress for this long, such as 12h",
        execution=True,
        metavar="DURATION",
    )
    run_id: str | None = option(
        None,
        "the run's name (default: generated); repeating a command with the same name and "
        "options continues that run",
        execution=True,
        planned=True,
        metavar="RUN_ID",
    )
    control_schema: str = option(
        "penstock", "the target's schema for runs and commit records", metavar="NAME"
    )

    def __post_init__(self) -> None:
        try:
            self._read_and_check()
        except UsageError as error:
            table = self.table or self.target_table
            in_callers_terms(error, table if isinstance(table, str) else None)
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
        check_replaceable(self)

    def check_attachable(self) -> None:
        """Check the options for a target that has child tables.

        Raises:
            UsageError: in mode attach, the partitions lack bounds of a key.
        """
        check_attachable(self)

    @property
    def route(self) -> Route:
        """The source's and the target's table, and the rows to copy."""
        return part_of(Route, self)

    @property
    def cutting(self) -> Cutting:
        """The options that partition the table."""
        return part_of(Cutting, self)

    @property
    def loading(self) -> Loading:
        """The options that load the target."""
        return part_of(Loading, self)

    @property
    def nightly(self) -> Nightly:
        """The options of incremental loads."""
        return part_of(Nightly, self)

    @property
    def rows_may_move(self) -> bool:
        """Whether a row updated during the copy may move to another block unnoticed."""
        return self.snapshot == "none"

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
        """The value of `on_snapshot_lost`.

        By default, a copy that becomes visible only at its end starts over by itself.
        """
        return self.on_snapshot_lost or ("restart" if self.load_mode.merges_at_end else "fail")

    @property
    def deletion(self) -> Deletes:
        """The parsed value of `deletes`."""
        return parse_deletes(self.deletes)

    @property
    def drift(self) -> OnDrift:
        """The parsed value of `on_drift`."""
        return parse_on_drift(self.on_drift)

    @property
    def partition_size(self) -> PartitionSize:
        """The parsed value of `partitions`."""
        return parse_partitions(self.partitions)

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
        """The source's table, which must be named."""
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
        pairs = [rule.partition("=") for rule in self.types or ()]
        for name, separator, kind in pairs:
            if not (name.strip() and separator and kind.strip()):
                pair = name + separator + kind
                raise UsageError(f"--types: expected NAME=TYPE for each column, found {pair!r}")
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    @property
    def writing(self) -> dict[str, Any]:
        """The options that are set for writing files and for creating the table."""
        options = {
            "order_by": list(self.order_by) if self.order_by else None,
            "partition_by": list(self.partition_by) if self.partition_by else None,
            "file_size": self.file_size,
            "row_group_size": self.row_group_size,
            "compression": self.compression,
        }
        return {name: value for name, value in options.items() if value is not None}

    @property
    def patience(self) -> Patience:
        """The time to wait for sessions that block, or make no progress."""
        return Patience(self.grace, self.stall_timeout)

    @property
    def source_name(self) -> str:
        """A human-readable description of what is read."""
        relation = self.relation
        return redact(self.source) if isinstance(relation, Located) else str(relation)

    @property
    def target_name(self) -> str:
        """A human-readable description of what is written.

        If the target's URL leads to the rows themselves, the table is only the source's name for
        them, so this shows both.
        """
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
                f"{origin}: unknown option {key!r}; expected one of "
                f"{', '.join(sorted(options_by_name))}"
            )
        try:
            options[name] = coerce(name, str(options_by_name[name].type), value)
        except UsageError as error:
            raise UsageError(f"{origin}: {error.message}") from None
    return options


def _is_same(name: str, mine: Any, theirs: Any) -> bool:
    """Whether two values of an option mean the same."""
    if name == "strategy":
        return STRATEGIES.get(mine) is STRATEGIES.get(theirs)
    if name == "partitions":
        return parse_partitions(mine) == parse_partitions(theirs)
    if name == "deletes":  # the limit may change
        return parse_deletes(mine).what == parse_deletes(theirs).what
    return bool(mine == theirs)
