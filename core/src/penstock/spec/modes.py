"""Modes: how a copy treats the rows that the target has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to load a target.

    Each flag is something that the mode does; no two modes in `MODES` have the same flags, and
    append has none.
    """

    name: str
    """Its name on the command line, in stored specs and in output."""
    help: str
    truncates: bool = False
    """Empties the table before the first partition, and keeps it."""
    recreates: bool = False
    """Drops the table before the first partition, and creates it like the source's."""
    builds_beside: bool = False
    """Loads another table, which replaces the target's at the end."""
    deletes_by_partition: bool = False
    """Deletes the rows that each partition selects, in the transaction that loads it."""
    merges_by_key: bool = False
    """Finds a partition's rows by a unique key: updates existing ones, and inserts the others."""
    attaches: bool = False
    """Loads each partition into a table of its own, which becomes a child of the target's in the
    same transaction."""
    merges_at_end: bool = False
    """Collects the rows in a stage beside the target; one transaction merges them at the end."""

    def __str__(self) -> str:
        return self.name

    @property
    def empties_before(self) -> bool:
        """Removes the target's rows before the first partition."""
        return self.truncates or self.recreates

    @property
    def starts_empty(self) -> bool:
        """Loads a table that has no other rows.

        Emptying it undoes the load, and no other run may load the target at the same time.
        """
        return self.empties_before or self.builds_beside

    @property
    def loads_new_table(self) -> bool:
        """Loads a table that the run has created, so its owner need not allow changes to it."""
        return self.recreates or self.builds_beside

    @property
    def reloads_partitions(self) -> bool:
        """May load a partition again: its rows replace the existing ones."""
        return self.deletes_by_partition or self.loads_apart

    @property
    def loads_apart(self) -> bool:
        """Loads a partition's rows elsewhere before they enter the target's table.

        They are there by the end of the transaction.
        """
        return self.merges_by_key or self.attaches

    @property
    def only_adds(self) -> bool:
        """Only inserts: repeating a copy doubles its rows."""
        return not (self.starts_empty or self.reloads_partitions)

    @property
    def owns_selection(self) -> bool:
        """In the end, the run's condition selects only rows of the run.

        Whatever the table held before, the run can start over, and be verified as a whole.
        """
        return self.starts_empty or self.deletes_by_partition

    @property
    def inserts_in_place(self) -> bool:
        """Inserts into the target's table without looking for existing rows.

        If another run replaced some at the same time, they would be there twice.
        """
        return not (self.reloads_partitions or self.builds_beside)


APPEND = Mode("append", "add rows")
TRUNCATE = Mode("truncate", "empty the target, then add rows", truncates=True)
REPLACE = Mode(
    "replace",
    "delete the rows that each partition selects and load its rows, in one transaction",
    deletes_by_partition=True,
)
UPSERT = Mode("upsert", "insert new keys, and update rows that differ", merges_by_key=True)
RECREATE = Mode("recreate", "drop the target and create it like the source", recreates=True)
SWAP = Mode(
    "swap",
    "load a new table beside the target, and rename it into place at the end",
    builds_beside=True,
)
ATTACH = Mode(
    "attach",
    "load each partition into a table of its own, and attach that to the partitioned target",
    attaches=True,
)

MODES: Mapping[str, Mode] = {
    mode.name: mode for mode in (APPEND, TRUNCATE, REPLACE, UPSERT, RECREATE, SWAP, ATTACH)
}
"""By name, in the order in which help and documentation list them."""


MERGE = Mode(
    "upsert",
    "gather rows in a stage, and upsert them in one transaction",
    builds_beside=True,
    merges_at_end=True,
)
"""Mode upsert with `--atomic` or `--incremental`."""


REPLACE_AT_END = Mode(
    "replace",
    "gather rows in a stage, then replace what the partitions select in one transaction",
    builds_beside=True,
    merges_at_end=True,
    deletes_by_partition=True,
)
"""Mode replace with `--atomic`."""


def mode_of(spec: Mapping[str, Any]) -> Mode:
    """Return the mode of a stored spec."""
    mode = MODES[spec["mode"]]
    if mode is UPSERT and (spec.get("atomic") or spec.get("incremental")):
        return MERGE
    return REPLACE_AT_END if mode is REPLACE and spec.get("atomic") else mode


def mode_names(which: Callable[[Mode], bool]) -> tuple[str, ...]:
    """Return the names of the modes for which a condition holds."""
    return tuple(mode.name for mode in MODES.values() if which(mode))
