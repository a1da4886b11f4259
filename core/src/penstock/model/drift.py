"""Drift: how the columns of a source have changed since the target's table was made like them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.model.codec import OMITTED, JsonForm

ADD, WIDEN, RENAME = "add", "widen", "rename"
KINDS = (ADD, WIDEN, RENAME)
"""The kinds of changes that are made in the target."""
GONE = "gone"
"""A column that the source has no more: the target keeps it."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source, as a night has found it."""

    json_form = JsonForm(array=True)

    name: str
    type: str
    nullable: bool = True
    identity: str = field(default="", metadata=OMITTED)
    """See `Column`."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A change of a column of the target's table."""

    json_form = JsonForm(defaults=True)

    kind: str
    column: str
    """Its name, once all changes are made."""
    was: str = field(default="", metadata=OMITTED)
    """The name, or the type, that it has before; empty for one that is added."""
    type: str = field(default="", metadata=OMITTED)
    """The type that it has afterwards; empty where that stays."""
    text: str = field(default="", metadata=OMITTED)
    """For the target's backend: what defines the column in a statement, besides its name."""
    nullable: bool = field(default=False, metadata=OMITTED)
    """It takes NULL from then on, and did not before."""
    statement: str = field(default="", metadata=OMITTED)
    """That makes it, for people."""
    cost: str = field(default="", metadata=OMITTED)
    """What it costs, where the table is written anew; for people."""
    refused: str = field(default="", metadata=OMITTED)
    """Why it cannot be made; empty where it can."""

    def __str__(self) -> str:
        if self.kind == ADD:
            return f"add column {self.column} {self.type}".rstrip()
        if self.kind == RENAME:
            return f"rename column {self.was} to {self.column}"
        if self.kind == GONE:
            return f"column {self.column} is not in the source any more"
        to = f" from {self.was} to {self.type}" if self.type else ""
        return f"widen column {self.column}{to}{', and allow NULL' if self.nullable else ''}"


def original_names(changes: Sequence[ColumnChange]) -> Callable[[str], str | None]:
    """From the name that a column of the target will have to the one that it has; None: it has
    none yet."""
    renamed = {each.column: each.was for each in changes if each.kind == RENAME}
    added = {each.column for each in changes if each.kind == ADD}
    return lambda name: None if name in added else renamed.get(name, name)
