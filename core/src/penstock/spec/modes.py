"""Modes: how a copy treats the rows that the target has.

A mode answers four questions, and each question has a few answers. All else that differs from one
mode to another follows from the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

ModeName = Literal["append", "truncate", "replace", "upsert", "recreate", "swap", "attach"]
"""The names of modes, for type checkers; `MODES` is what they stand for."""


class Table(Enum):
    """Which table the partitions are loaded into."""

    TARGET = "target"
    """The target's, as it is. If it is missing, it is created first."""
    RECREATED = "recreated"
    """One like the source's. If the target has one, the new one is loaded beside it, and takes its
    place at the end, where the database can do that."""
    BESIDE = "beside"
    """One created beside the target's, which the end decides about."""


class Emptying(Enum):
    """Which rows the target's table loses before the first partition."""

    NOTHING = "nothing"
    TRUNCATE = "truncate"
    """All of them, by TRUNCATE or what is like it."""


class Entry(Enum):
    """How a partition's rows enter the target's table."""

    INSERT = "insert"
    """They are added, whatever else is there."""
    REPLACE = "replace"
    """The rows that the partition selects are deleted in the same transaction."""
    BY_KEY = "by key"
    """Rows are found by a unique key: existing ones are updated, the others are inserted."""
    ATTACH = "attach"
    """They are loaded into a table of their own, which becomes a child of the target's in the same
    transaction."""

    @property
    def loads_apart(self) -> bool:
        """Whether rows are loaded elsewhere first.

        They are in the target's table by the end of the transaction.
        """
        return self in (Entry.BY_KEY, Entry.ATTACH)


class Ending(Enum):
    """What happens after the last partition."""

    NOTHING = "nothing"
    EXCHANGE = "exchange"
    """The table beside the target's takes its place."""
    MERGE = "merge"
    """The table beside the target's is a stage: its rows enter the target's in one transaction."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to load a target: the answers to four questions.

    No two modes have the same answers, and append has the first of each.
    """

    name: ModeName
    """Its name on the command line, in stored specs and in output."""
    help: str
    table: Table = Table.TARGET
    emptying: Emptying = Emptying.NOTHING
    entry: Entry = Entry.INSERT
    ending: Ending = Ending.NOTHING
    options: tuple[str, ...] = ()
    """For a mode that is another one with an option: the fields of `CopySpec`, one of which is set.
    """

    def __str__(self) -> str:
        return self.name

    @property
    def answers(self) -> tuple[Enum, ...]:
        """The answers to the questions."""
        return self.table, self.emptying, self.entry, self.ending

    @property
    def of_partitions(self) -> Mode:
        """The mode in which a worker loads partitions.

        A table beside the target's starts empty and is only added to.
        """
        return SWAP if self.table is Table.BESIDE else self

    @property
    def empties_before(self) -> bool:
        """Removes the target's rows before the first partition, or loads a new table."""
        return self.emptying is not Emptying.NOTHING or self.table is Table.RECREATED

    @property
    def starts_empty(self) -> bool:
        """Loads a table that has no other rows.

        Emptying it undoes the load, and no other run may load the target at the same time.
        """
        return self.empties_before or self.table is Table.BESIDE

    @property
    def replaces_table(self) -> bool:
        """In the end, the target's table has only rows of the run."""
        return self.starts_empty and self.ending is not Ending.MERGE

    @property
    def reloads_partitions(self) -> bool:
        """May load a partition again: its rows replace the existing ones."""
        return self.of_partitions.entry is not Entry.INSERT

    @property
    def only_adds(self) -> bool:
        """Only inserts: repeating a copy doubles its rows."""
        return not self.starts_empty and self.entry is Entry.INSERT

    @property
    def owns_selection(self) -> bool:
        """In the end, the run's condition selects only rows of the run.

        Whatever the table held before, the run can start over, and be verified as a whole.
        """
        return self.starts_empty or self.entry is Entry.REPLACE

    @property
    def inserts_in_place(self) -> bool:
        """Inserts into the target's table without looking for existing rows.

        If another run replaced some at the same time, they would be there twice.
        """
        return self.entry is Entry.INSERT and self.table is not Table.BESIDE


APPEND = Mode("append", "add rows")
TRUNCATE = Mode("truncate", "empty the target, then add rows", emptying=Emptying.TRUNCATE)
REPLACE = Mode(
    "replace",
    "delete the rows that each partition selects and load its rows, in one transaction",
    entry=Entry.REPLACE,
)
UPSERT = Mode("upsert", "insert new keys, and update rows that differ", entry=Entry.BY_KEY)
RECREATE = Mode(
    "recreate",
    "replace the target with a table like the source's",
    table=Table.RECREATED,
)
SWAP = Mode(
    "swap",
    "load a new table beside the target, and rename it into place at the end",
    table=Table.BESIDE,
    ending=Ending.EXCHANGE,
)
ATTACH = Mode(
    "attach",
    "load each partition into a table of its own, and attach that to the partitioned target",
    entry=Entry.ATTACH,
)

MODES: Mapping[str, Mode] = {
    mode.name: mode for mode in (APPEND, TRUNCATE, REPLACE, UPSERT, RECREATE, SWAP, ATTACH)
}
"""By name, in the order in which help and documentation list them."""

STAGED = (
    Mode(
        UPSERT.name,
        "gather rows in a stage, and upsert them in one transaction",
        table=Table.BESIDE,
        entry=Entry.BY_KEY,
        ending=Ending.MERGE,
        options=("atomic", "incremental"),
    ),
    Mode(
        REPLACE.name,
        "gather rows in a stage, then replace what the partitions select in one transaction",
        table=Table.BESIDE,
        entry=Entry.REPLACE,
        ending=Ending.MERGE,
        options=("atomic",),
    ),
)
"""Modes that are another one with an option, and have its name."""


def mode_of(spec: Mapping[str, Any]) -> Mode:
    """Return the mode of a stored spec."""
    for mode in STAGED:
        if mode.name == spec["mode"] and any(spec.get(option) for option in mode.options):
            return mode
    return MODES[spec["mode"]]


def modes_with(answers: Collection[Enum]) -> tuple[Mode, ...]:
    """Return the modes whose answers are all among some answers.

    Args:
        answers: the answers.
    """
    return tuple(mode for mode in (*MODES.values(), *STAGED) if set(mode.answers) <= set(answers))


def mode_names(which: Callable[[Mode], bool]) -> tuple[str, ...]:
    """Return the names of the modes for which a condition holds."""
    return tuple(mode.name for mode in MODES.values() if which(mode))
