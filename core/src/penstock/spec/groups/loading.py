"""How rows are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from penstock.spec.groups.created_tables import CreatedTables, WrittenFiles
from penstock.spec.groups.nights import Nights
from penstock.spec.groups.snapshot import SnapshotOptions
from penstock.spec.modes import MODES, RECREATE, Ending, Mode, ModeName, mode_of
from penstock.spec.option import option
from penstock.spec.source_changes import FAIL as FAIL_ON_DRIFT
from penstock.spec.source_changes import OnDrift, parse_on_drift

Indexes = Literal["keep", "defer"]
INDEXES = get_args(Indexes)
Sequences = Literal["set", "keep"]
SEQUENCES = get_args(Sequences)
Atomic = Literal["table", "batch"]
ATOMIC = get_args(Atomic)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Loading(WrittenFiles, CreatedTables, Nights, SnapshotOptions):
    """The options under "how to load it"."""

    title: ClassVar[str] = "how to load it"

    mode: ModeName = option(
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
    atomic: Atomic | None = option(
        None,
        "with upsert and replace: collect rows in a stage beside the target and apply them in "
        "one transaction, so that readers see all changes at once. table: one transaction for "
        "each table, as always with --incremental; batch: one for all tables of a batch, so "
        "that foreign keys between them hold",
        choices=ATOMIC,
        of_mode=True,
    )
    indexes: Indexes = option(
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
    sequences: Sequences = option(
        "set",
        "set: continue the sequences of the target's columns after the source's last value, or "
        "after the greatest value copied if the source has no sequence; keep: leave them "
        "unchanged",
        choices=SEQUENCES,
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

    @cached_property
    def load_mode(self) -> Mode:
        """The mode that `mode` and other options name."""
        if self.schema_only:
            return RECREATE
        return mode_of({"mode": self.mode, "atomic": self.atomic, "incremental": self.incremental})

    @cached_property
    def drift(self) -> OnDrift:
        """The parsed value of `on_drift`."""
        return parse_on_drift(self.on_drift)

    @cached_property
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
    def alters_table(self) -> bool:
        """Whether the load changes more of the target's table than its rows."""
        return self.indexes == "defer" or self.unlogged

    @property
    def loss_policy(self) -> str:
        """The value of `on_snapshot_lost`.

        By default, a copy that becomes visible only at its end starts over by itself.
        """
        return self.on_snapshot_lost or (
            "restart" if self.load_mode.ending is Ending.MERGE else "fail"
        )
