"""Checks of a `CopySpec`: of each option by itself, and of their combinations."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from penstock.errors import UsageError
from penstock.spec.degrees import AUTO
from penstock.spec.ids import check_run_id
from penstock.spec.masks import DIGESTS
from penstock.spec.modes import MODES, mode_names
from penstock.spec.night_kinds import FILES, check_lookback, required_lookback
from penstock.spec.option_values import (
    LISTS,
    MOST,
    MOST_BYTES,
    SIZES,
    check_one_of,
    check_within,
    flag_of,
)
from penstock.spec.references import redact
from penstock.spec.units import check_duration

_CENTURY = 36_500 * 86_400.0

if TYPE_CHECKING:
    from penstock.spec.copy_spec import CopySpec


def check_options(spec: CopySpec) -> None:
    """Check each value, then the combinations.

    Raises:
        UsageError: an option is invalid, or options are incompatible.
    """
    _check_values(spec)
    _check_cutting(spec)
    _check_loading(spec)


def _check_values(spec: CopySpec) -> None:
    spec.relation  # noqa: B018 - raises if malformed
    spec.target_ref  # noqa: B018
    for item in fields(spec):
        if item.metadata["choices"] and getattr(spec, item.name) is not None:
            check_one_of(item.name, getattr(spec, item.name), item.metadata["choices"])
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
    _check_columns(spec)
    for option_name in LISTS:
        names: tuple[str, ...] | None = getattr(spec, option_name)
        if names is not None and (not names or not all(names)):
            flag = flag_of(option_name)
            raise UsageError(f"{flag}: expected one or more names, found an empty one")
        for name in names or ():
            if names and names.count(name) > 1:
                flag = flag_of(option_name)
                raise UsageError(f"{flag}: expected each name once, found {name!r} twice")


def _check_columns(spec: CopySpec) -> None:
    expressions, masks = spec.expressions, spec.masks
    if spec.columns and spec.exclude_columns:
        raise UsageError("--columns and --exclude-columns conflict: pass one of them")
    route = spec.route
    for name in expressions:
        if spec.exclude_columns and route.excludes(name):
            raise UsageError(f"--set {name}: --exclude-columns leaves this column out")
        if route.mask_of(name) is not None:
            raise UsageError(
                f"--set {name}: --mask names the same column: pass one of them, since a mask "
                "applies to the values of the source"
            )
    computed = "--set" if expressions else "--mask" if masks else ""
    if computed and spec.map == "position":
        raise UsageError(f"{computed}: expected --map name, found position")
    changed = computed or ("--exclude-columns" if spec.exclude_columns else "")
    if changed and spec.partitioning:
        raise UsageError(
            f"--partitioning creates the target's table exactly like the source's: omit {changed}"
        )
    for name in spec.cursor_columns:
        if route.mask_of(name) is not None:
            raise UsageError(
                f"--incremental {name}: --mask hides this column, but the watermark in the "
                "target would show its values: use another column"
            )
    if spec.conflict_columns:
        for name in spec.conflict_columns:
            mask = route.mask_of(name)
            if mask is not None and mask.kind not in DIGESTS:
                raise UsageError(
                    f"--conflict-columns {name}: --mask {mask} gives different rows the "
                    "same key: use hash or hmac"
                )


def _check_cutting(spec: CopySpec) -> None:
    strategy = spec.cut_strategy
    if strategy.requires_key and spec.key is None:
        raise UsageError(f"--strategy {spec.strategy}: expected --key, found none")
    if not strategy.takes_key and spec.key is not None:
        raise UsageError(
            f"--strategy {spec.strategy} uses no key: omit --key, or use a strategy that "
            "partitions by one (auto, range, ntile, hash, values, time)"
        )
    if spec.interval is not None and not strategy.takes_interval:
        raise UsageError(f"--interval: expected --strategy time, found {spec.strategy}")
    if spec.values_query is not None and not strategy.takes_values_query:
        raise UsageError(f"--values-query: expected --strategy values, found {spec.strategy}")
    for name in ("interval", "values_query"):
        if getattr(spec, name) is not None and spec.key is None:
            raise UsageError(f"{flag_of(name)}: expected --key, found none")
    if spec.on_snapshot_lost == "restart" and not spec.load_mode.owns_selection:
        modes = ", ".join(mode_names(lambda mode: mode.owns_selection))
        raise UsageError(
            f"--on-snapshot-lost restart: expected --mode {modes}, which can remove loaded rows; "
            f"found {spec.mode}"
        )


def _check_loading(spec: CopySpec) -> None:
    mode = spec.load_mode
    if spec.query is not None and spec.cut_strategy.cuts_storage:
        raise UsageError(
            f"--strategy {spec.strategy} partitions a table by its storage, which a query does "
            "not have: use whole, range, ntile, hash, values or time"
        )
    if spec.incremental and (mode.deletes_by_partition or not mode.starts_empty):
        modes = ", ".join(mode_names(lambda mode: mode.starts_empty))
        raise UsageError(
            "--incremental: expected --mode upsert, which may read rows again, or a mode that "
            f"reloads the whole table ({modes}); found {spec.mode}"
        )
    if spec.atomic and not mode.merges_at_end:
        raise UsageError(
            f"--atomic: expected --mode upsert or replace, which keep other rows; found {spec.mode}"
        )
    if spec.incremental and spec.query is not None:
        raise UsageError(
            "--incremental: expected --table, found --query: the rows of a query have no "
            "versions, and its table may change between runs; create a view of the query"
            if spec.cursor_columns
            else "--incremental: expected --table, found --query: the rows of a query have no "
            "versions"
        )
    _check_cursor(spec)
    if spec.incremental and spec.schema_only:
        raise UsageError(
            "--incremental: found --schema-only, which copies no rows: pass one of them"
        )
    if spec.incremental and spec.snapshot == "none" and not spec.cursor_columns:
        raise UsageError("--incremental: expected --snapshot shared, found none")
    spec.deletion  # noqa: B018 - raises if malformed
    spec.most_merged  # noqa: B018
    if spec.atomic_limit is not None and not (spec.incremental and mode.merges_at_end):
        raise UsageError("--atomic-limit: expected --mode upsert with --incremental")
    if spec.deletion.is_enabled and mode.deletes_by_partition:
        raise UsageError(
            f"--deletes {spec.deletes}: expected --mode upsert, found {spec.mode}, which deletes "
            "all rows that its partitions select"
        )
    if spec.deletion.is_enabled and not mode.merges_at_end:
        raise UsageError(
            f"--deletes {spec.deletes}: expected --incremental or --atomic, which delete rows in "
            "the transaction that merges the others; found neither"
        )
    if spec.deletion.is_enabled and spec.snapshot == "none":
        raise UsageError(f"--deletes {spec.deletes}: expected --snapshot shared, found none")
    for name in ("watermark", "full_every"):
        if getattr(spec, name) is not None and not spec.incremental:
            raise UsageError(f"{flag_of(name)}: expected --incremental, found none")
    if spec.full_every is not None and not mode.merges_at_end:
        raise UsageError(
            f"--full-every: expected --mode upsert, found {spec.mode}, which always reads all rows"
        )
    by_key = mode.merges_by_key or (mode.merges_at_end and not mode.deletes_by_partition)
    if spec.conflict_columns is not None and not by_key:
        raise UsageError(f"--conflict-columns: expected --mode upsert, found {spec.mode}")
    if spec.schema_only and spec.data_only:
        raise UsageError("--schema-only, --data-only: expected one of them, found both")
    requested = MODES[spec.mode]
    if spec.schema_only and not (requested.only_adds or requested.recreates):
        raise UsageError(
            f"--schema-only copies no rows: expected --mode recreate or no mode, found {spec.mode}"
        )
    if spec.data_only and mode.recreates:
        raise UsageError(
            "--data-only creates no tables: expected a mode that loads an existing table, such "
            f"as truncate; found {spec.mode}"
        )
    if spec.partitioning and not mode.recreates:
        raise UsageError(f"--partitioning: expected --mode recreate, found {spec.mode}")
    if spec.unlogged and not mode.starts_empty:
        modes = ", ".join(mode_names(lambda mode: mode.starts_empty))
        raise UsageError(
            f"--unlogged: expected --mode {modes}, found {mode}: if the target crashes, an "
            "unlogged table is emptied, with rows from elsewhere"
        )
    if spec.indexes == "defer" and mode.merges_by_key:
        raise UsageError(
            f"--indexes defer: --mode {mode} needs a unique index to find rows; use --indexes keep"
        )


def _cuts_files(spec: CopySpec) -> bool:
    return spec.cut_strategy.chooses or spec.cut_strategy.cuts_files


def _check_cursor(spec: CopySpec) -> None:
    """Check the options of a load by column."""
    columns = spec.cursor_columns
    if spec.night_by == FILES and (spec.key is not None or not _cuts_files(spec)):
        raise UsageError(
            "--incremental files reads new files whole: expected --strategy auto or files, "
            f"found --strategy {spec.strategy}" + (" and --key" if spec.key else "")
        )
    if spec.night_by == FILES and spec.atomic_limit is not None:
        raise UsageError("--atomic-limit: expected --incremental xmin or COLUMN, found files")
    if not columns:
        for name, default in (("lookback", None), ("null_cursor", "refuse")):
            if getattr(spec, name) != default:
                raise UsageError(f"{flag_of(name)}: expected --incremental COLUMN")
        return
    if not all(columns) or len(set(columns)) != len(columns):
        raise UsageError(
            "--incremental: expected xmin, files, or one or more distinct columns; found "
            f"{spec.incremental!r}"
        )
    if spec.lookback is None:
        raise required_lookback(spec.incremental or "")
    check_lookback(spec.lookback)


def check_table_names(spec: CopySpec, *, source: bool | None, target: bool | None) -> None:
    """Check that tables are named at the ends that need a name; see `CopySpec.check_table_names`.

    Args:
        spec: the options of the copy.
        source: whether the source's URL leads to the rows themselves; None if unknown.
        target: whether the target's URL leads to the rows themselves; None if unknown.

    Raises:
        UsageError: a table name is missing, or is specified where none is allowed.
    """
    if source is False and spec.table is None and spec.query is None:
        raise UsageError("--table, --query: expected one of them, found neither")
    if source and spec.table is not None:
        raise UsageError(
            f"--table: {redact(spec.source)} points to the rows themselves: omit --table, or "
            f"name the target's table with --target-table; found {spec.table!r}"
        )
    if target is False and spec.table is None and spec.target_table is None:
        raise UsageError("--target-table: expected the table to write, found none")
    if target and spec.target_table is not None:
        raise UsageError(
            f"--target-table: {redact(spec.target)} points to where the rows go: omit "
            f"--target-table; found {spec.target_table!r}"
        )


def check_replaceable(spec: CopySpec) -> None:
    """See `CopySpec.check_replaceable`."""
    if not spec.load_mode.deletes_by_partition:
        return
    if not spec.cut_strategy.takes_key:
        raise UsageError(
            f"--mode {spec.mode} deletes rows by a key, which --strategy {spec.strategy} does "
            "not have: expected range, time, values or hash, with --key"
        )
    if spec.key is None:
        raise UsageError(f"--mode {spec.mode}: expected --key, the column to delete by; found none")


def check_attachable(spec: CopySpec) -> None:
    """See `CopySpec.check_attachable`."""
    if not spec.load_mode.attaches:
        return
    strategy = spec.cut_strategy
    if not strategy.takes_key or strategy.hashes:
        raise UsageError(
            f"--mode {spec.mode}: child tables need key bounds, which the partitions of "
            f"--strategy {spec.strategy} do not have: expected time, values or range, with --key"
        )
    if spec.key is None:
        raise UsageError(
            f"--mode {spec.mode}: expected --key, the column that the target is partitioned by; "
            "found none"
        )
