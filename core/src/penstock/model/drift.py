"""Drift: changes of a source's columns since the target's table was created from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.model.codec import OMITTED, JsonForm

ADD, WIDEN, RENAME = "add", "widen", "rename"
KINDS = (ADD, WIDEN, RENAME)
"""The kinds of changes that can be made in the target."""
GONE = "gone"
"""A column that the source no longer has: the target keeps it."""
RECOMPUTE = "recompute"
"""A column that both sides compute, each by another expression: only the user can change it."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A change of a column of the target's table."""

    json_form = JsonForm(defaults=True)

    kind: str
    column: str
    """The column's name after all changes."""
    was: str = field(default="", metadata=OMITTED)
    """The old name, type or expression; empty for an added column."""
    type: str = field(default="", metadata=OMITTED)
    """The new type or expression; empty if it does not change."""
    text: str = field(default="", metadata=OMITTED)
    """For the target's backend: the column's definition in a statement, without its name."""
    nullable: bool = field(default=False, metadata=OMITTED)
    """Whether the column takes NULL from now on, and did not before."""
    statement: str = field(default="", metadata=OMITTED)
    """The statement that makes the change, as messages show it."""
    cost: str = field(default="", metadata=OMITTED)
    """Describes the cost of the change if the table is rewritten."""
    refused: str = field(default="", metadata=OMITTED)
    """The reason why the change is rejected; empty if it can be made."""

    def __str__(self) -> str:
        if self.kind == ADD:
            return f"add column {self.column} {self.type}".rstrip()
        if self.kind == RENAME:
            return f"rename column {self.was} to {self.column}"
        if self.kind == GONE:
            return f"column {self.column} is no longer in the source"
        if self.kind == RECOMPUTE:
            return f"compute column {self.column} as {self.type}, no longer as {self.was}"
        to = f" from {self.was} to {self.type}" if self.type else ""
        return f"widen column {self.column}{to}{', and allow NULL' if self.nullable else ''}"


def original_names(changes: Sequence[ColumnChange]) -> Callable[[str], str | None]:
    """Return a function from the future name of a target column to its current one.

    The function returns None if the column does not exist yet.
    """
    renamed = {each.column: each.was for each in changes if each.kind == RENAME}
    added = {each.column for each in changes if each.kind == ADD}
    return lambda name: None if name in added else renamed.get(name, name)
