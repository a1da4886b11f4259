"""One moment of a source, and facts that identify its tables later."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.codec import OMITTED
from penstock.model.source_columns import SourceColumn


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A token for one consistent view of the source, and the time at which it was taken."""

    token: str
    taken_at: str
    """ISO 8601, by the source's clock."""
    horizon: str = field(default="", metadata=OMITTED)
    """The transactions that it sees; see `penstock.model.nights.Horizon`. Empty if the source has
    no such concept."""
    also: tuple[str, ...] = field(default=(), compare=False, metadata=OMITTED)
    """Tokens of other sessions that hold the same view, the newest last."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """Facts that identify a source's table later."""

    identity: str
    """Equal for the very same table, as long as its server runs."""
    layout: str
    """Equal as long as the rows' storage is not rewritten."""
    moment: str
    """Equal as long as no transaction writes to the source."""
    writes: str
    """Equal as long as the source's statistics, which may lag, show no writes to the table. Empty
    if the source has none."""
    parts: str = ""
    """Equal as long as the table consists of the same child tables."""
    shape: str = field(default="", metadata=OMITTED)
    """Equal as long as no DDL gives stored rows other values, such as another name for a column or
    for the label of an enum. Empty if the source cannot tell, or has no such rows."""
    columns: tuple[SourceColumn, ...] = field(default=(), metadata=OMITTED)
    """The columns of the table or query; empty if unknown."""
