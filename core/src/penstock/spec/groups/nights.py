"""Loads that repeat: which rows are read, merged and deleted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from penstock.spec.amounts import AtomicLimit, parse_atomic_limit
from penstock.spec.night_kinds import COLUMN, FILES, XMIN
from penstock.spec.option import option
from penstock.spec.option_values import split_names
from penstock.spec.source_changes import IGNORE, MOST_DELETED, Deletes, parse_deletes

NullCursor = Literal["refuse", "include"]
NULL_CURSORS = get_args(NullCursor)
OnTargetChanged = Literal["full", "fail"]
ON_TARGET_CHANGED = get_args(OnTargetChanged)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Nights:
    """The options under "incremental loads"."""

    title: ClassVar[str] = "incremental loads"

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
    null_cursor: NullCursor = option(
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
    on_target_changed: OnTargetChanged = option(
        "full",
        "with --incremental: if the target's table has changed since the last run (recreated, "
        "emptied, rows added or removed), read all rows (full), or fail",
        choices=ON_TARGET_CHANGED,
        execution=True,
        planned=True,
        of_mode=True,
    )
    watermark: str | None = option(
        None,
        "with --incremental: the name of the watermark, which records in the target how far the "
        "source was read (default: the names of both tables)",
        metavar="NAME",
        of_mode=True,
    )

    @cached_property
    def night_by(self) -> str:
        """The kind of night in `incremental`, see `penstock.spec.night_kinds`; empty if unset."""
        if not self.incremental:
            return ""
        return self.incremental if self.incremental in (XMIN, FILES) else COLUMN

    @cached_property
    def cursor_columns(self) -> tuple[str, ...]:
        """The columns that `incremental` names."""
        if self.night_by != COLUMN:
            return ()
        assert self.incremental is not None
        return split_names(self.incremental, "--incremental")

    @cached_property
    def deletion(self) -> Deletes:
        """The parsed value of `deletes`."""
        return parse_deletes(self.deletes)

    @cached_property
    def most_merged(self) -> AtomicLimit:
        """The parsed value of `atomic_limit`."""
        return parse_atomic_limit(self.atomic_limit)
