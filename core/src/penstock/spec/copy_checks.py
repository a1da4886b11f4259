"""Checks of combinations of options."""

from __future__ import annotations

from penstock.errors import UsageError
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.partitioning import PartitionOptions
from penstock.spec.groups.route import Route
from penstock.spec.masks import DIGESTS
from penstock.spec.modes import MODES, Ending, Entry, Table, mode_names
from penstock.spec.night_kinds import FILES, check_lookback, required_lookback
from penstock.spec.option_values import flag_of
from penstock.spec.references import redact


def check_columns(route: Route, loading: Loading) -> None:
    """Check which columns are copied, and how.

    Raises:
        UsageError: options are incompatible.
    """
    expressions, masks = route.expressions, route.masks
    if route.columns and route.exclude_columns:
        raise UsageError(
            "--columns, --exclude-columns: found both; pass either --columns or --exclude-columns"
        )
    for name in expressions:
        if route.exclude_columns and route.excludes(name):
            raise UsageError(f"--set {name}: --exclude-columns leaves this column out")
        if route.mask_of(name) is not None:
            raise UsageError(
                f"--set {name}: --mask names the same column: pass one of them, since a mask "
                "applies to the values of the source"
            )
    computed = "--set" if expressions else "--mask" if masks else ""
    if computed and route.map == "position":
        raise UsageError(f"{computed}: expected --map name, found position")
    changed = computed or ("--exclude-columns" if route.exclude_columns else "")
    if changed and loading.partitioning:
        raise UsageError(
            f"--partitioning creates the target's table exactly like the source's: omit {changed}"
        )
    for name in loading.cursor_columns:
        if route.mask_of(name) is not None:
            raise UsageError(
                f"--incremental {name}: --mask hides this column, but the watermark in the "
                "target would show its values: use another column"
            )
    if loading.conflict_columns:
        for name in loading.conflict_columns:
            mask = route.mask_of(name)
            if mask is not None and mask.kind not in DIGESTS:
                raise UsageError(
                    f"--conflict-columns {name}: --mask {mask} gives different rows the "
                    "same key: use hash or hmac"
                )


def check_partitioning(options: PartitionOptions, loading: Loading) -> None:
    """Check how the rows are partitioned.

    Raises:
        UsageError: options are incompatible.
    """
    strategy = options.partition_strategy
    if strategy.requires_key and options.key is None:
        raise UsageError(f"--strategy {options.strategy}: expected --key, found none")
    if not strategy.takes_key and options.key is not None:
        raise UsageError(
            f"--strategy {options.strategy} uses no key: omit --key, or use a strategy that "
            "partitions by one (auto, range, ntile, hash, values, time)"
        )
    if options.interval is not None and not strategy.takes_interval:
        raise UsageError(f"--interval: expected --strategy time, found {options.strategy}")
    if options.values_query is not None and not strategy.takes_values_query:
        raise UsageError(f"--values-query: expected --strategy values, found {options.strategy}")
    for name in ("interval", "values_query"):
        if getattr(options, name) is not None and options.key is None:
            raise UsageError(f"{flag_of(name)}: expected --key, found none")
    if loading.on_snapshot_lost == "restart" and not loading.load_mode.owns_selection:
        modes = ", ".join(mode_names(lambda mode: mode.owns_selection))
        raise UsageError(
            f"--on-snapshot-lost restart: expected --mode {modes}, which can remove loaded rows; "
            f"found {loading.mode}"
        )


def check_loading(loading: Loading, route: Route, options: PartitionOptions) -> None:
    """Check how the rows are loaded.

    Raises:
        UsageError: options are incompatible.
    """
    mode = loading.load_mode
    if route.query is not None and options.partition_strategy.by_storage:
        raise UsageError(
            f"--strategy {options.strategy} partitions a table by its storage, which a query does "
            "not have: use whole, range, ntile, hash, values or time"
        )
    if loading.incremental and (mode.entry is Entry.REPLACE or not mode.starts_empty):
        modes = ", ".join(mode_names(lambda mode: mode.starts_empty))
        raise UsageError(
            "--incremental: expected --mode upsert, which may read rows again, or a mode that "
            f"reloads the whole table ({modes}); found {loading.mode}"
        )
    if loading.atomic and mode.ending is not Ending.MERGE:
        raise UsageError(
            "--atomic: expected --mode upsert or replace, which keep other rows; found "
            f"{loading.mode}"
        )
    if loading.incremental and route.query is not None:
        raise UsageError(
            "--incremental: expected --table, found --query: the rows of a query have no "
            "versions, and its table may change between runs; create a view of the query"
            if loading.cursor_columns
            else "--incremental: expected --table, found --query: the rows of a query have no "
            "versions"
        )
    _check_cursor(loading, options)
    if loading.incremental and loading.schema_only:
        raise UsageError(
            "--incremental: found --schema-only, which copies no rows: pass one of them"
        )
    if loading.incremental and loading.snapshot == "none" and not loading.cursor_columns:
        raise UsageError("--incremental: expected --snapshot shared, found none")
    loading.deletion  # noqa: B018 - raises if malformed
    loading.most_merged  # noqa: B018
    if loading.atomic_limit is not None and not (
        loading.incremental and mode.ending is Ending.MERGE
    ):
        raise UsageError("--atomic-limit: expected --mode upsert with --incremental")
    if loading.deletion.is_enabled and mode.entry is Entry.REPLACE:
        raise UsageError(
            f"--deletes {loading.deletes}: expected --mode upsert, found {loading.mode}, which "
            "deletes all rows that its partitions select"
        )
    if loading.deletion.is_enabled and mode.ending is not Ending.MERGE:
        raise UsageError(
            f"--deletes {loading.deletes}: expected --incremental or --atomic, which delete rows "
            "in the transaction that merges the others; found neither"
        )
    if loading.deletion.is_enabled and loading.snapshot == "none":
        raise UsageError(f"--deletes {loading.deletes}: expected --snapshot shared, found none")
    for name in ("watermark", "full_every"):
        if getattr(loading, name) is not None and not loading.incremental:
            raise UsageError(f"{flag_of(name)}: expected --incremental, found none")
    if loading.full_every is not None and mode.ending is not Ending.MERGE:
        raise UsageError(
            f"--full-every: expected --mode upsert, found {loading.mode}, which always reads all "
            "rows"
        )
    if loading.conflict_columns is not None and mode.entry is not Entry.BY_KEY:
        raise UsageError(f"--conflict-columns: expected --mode upsert, found {loading.mode}")
    if loading.schema_only and loading.data_only:
        raise UsageError(
            "--schema-only, --data-only: found both; pass either --schema-only or --data-only"
        )
    requested = MODES[loading.mode]
    if loading.schema_only and not (requested.only_adds or requested.table is Table.RECREATED):
        raise UsageError(
            "--schema-only copies no rows: expected --mode recreate or no mode, found "
            f"{loading.mode}"
        )
    if loading.data_only and mode.table is Table.RECREATED:
        raise UsageError(
            "--data-only creates no tables: expected a mode that loads an existing table, such "
            f"as truncate; found {loading.mode}"
        )
    if loading.partitioning and mode.table is not Table.RECREATED:
        raise UsageError(f"--partitioning: expected --mode recreate, found {loading.mode}")
    if loading.unlogged and not mode.starts_empty:
        modes = ", ".join(mode_names(lambda mode: mode.starts_empty))
        raise UsageError(
            f"--unlogged: expected --mode {modes}, found {mode}: if the target crashes, an "
            "unlogged table is emptied, with rows from elsewhere"
        )
    if loading.indexes == "defer" and mode.of_partitions.entry is Entry.BY_KEY:
        raise UsageError(
            f"--indexes defer: --mode {mode} needs a unique index to find rows; use --indexes keep"
        )


def _by_files(options: PartitionOptions) -> bool:
    return options.partition_strategy.chooses or options.partition_strategy.by_files


def _check_cursor(loading: Loading, options: PartitionOptions) -> None:
    """Check the options of a load by column."""
    columns = loading.cursor_columns
    if loading.night_by == FILES and (options.key is not None or not _by_files(options)):
        raise UsageError(
            "--incremental files reads new files whole: expected --strategy auto or files, "
            f"found --strategy {options.strategy}" + (" and --key" if options.key else "")
        )
    if loading.night_by == FILES and loading.atomic_limit is not None:
        raise UsageError("--atomic-limit: expected --incremental xmin or COLUMN, found files")
    if not columns:
        for name, default in (("lookback", None), ("null_cursor", "refuse")):
            if getattr(loading, name) != default:
                raise UsageError(f"{flag_of(name)}: expected --incremental COLUMN")
        return
    if not all(columns) or len(set(columns)) != len(columns):
        raise UsageError(
            "--incremental: expected xmin, files, or one or more distinct columns; found "
            f"{loading.incremental!r}"
        )
    if loading.lookback is None:
        raise required_lookback(loading.incremental or "")
    check_lookback(loading.lookback)


def check_table_names(route: Route, *, source: bool | None, target: bool | None) -> None:
    """Check that tables are named at the ends that need a name; see `CopySpec.check_table_names`.

    Args:
        route: the options of the copy.
        source: whether the source's URL leads to the rows themselves; None if unknown.
        target: whether the target's URL leads to the rows themselves; None if unknown.

    Raises:
        UsageError: a table name is missing, or is specified where none is allowed.
    """
    if source is False and route.table is None and route.query is None:
        raise UsageError("--table, --query: found neither; pass either --table or --query")
    if source and route.table is not None:
        raise UsageError(
            f"--table: {redact(route.source)} points to the rows themselves: omit --table, or "
            f"name the target's table with --target-table; found {route.table!r}"
        )
    if target is False and route.table is None and route.target_table is None:
        raise UsageError("--target-table: expected the table to write, found none")
    if target and route.target_table is not None:
        raise UsageError(
            f"--target-table: {redact(route.target)} points to where the rows go: omit "
            f"--target-table; found {route.target_table!r}"
        )


def check_replaceable(loading: Loading, options: PartitionOptions) -> None:
    """See `CopySpec.check_replaceable`."""
    if loading.load_mode.entry is not Entry.REPLACE:
        return
    if not options.partition_strategy.takes_key:
        raise UsageError(
            f"--mode {loading.mode} deletes rows by a key, which --strategy {options.strategy} "
            "does not have: expected range, time, values or hash, with --key"
        )
    if options.key is None:
        raise UsageError(
            f"--mode {loading.mode}: expected --key, the column to delete by; found none"
        )


def check_attachable(loading: Loading, options: PartitionOptions) -> None:
    """See `CopySpec.check_attachable`."""
    if loading.load_mode.entry is not Entry.ATTACH:
        return
    strategy = options.partition_strategy
    if not strategy.takes_key or strategy.hashes:
        raise UsageError(
            f"--mode {loading.mode}: child tables need key bounds, which the partitions of "
            f"--strategy {options.strategy} do not have: expected time, values or range, with --key"
        )
    if options.key is None:
        raise UsageError(
            f"--mode {loading.mode}: expected --key, the column that the target is partitioned by; "
            "found none"
        )
