"""One moment of a source, and facts that identify its tables later."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.codec import OMITTED


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A token for one consistent view of the source, and when it was taken."""

    token: str
    taken_at: str
    """ISO 8601, by the source's clock."""
    horizon: str = field(default="", metadata=OMITTED)
    """Which transactions it sees; see `penstock.model.nights.Horizon`. Empty where the source has
    no such notion."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """Facts that identify a source's table later."""

    identity: str
    """Equal: the very same table, as long as its server runs."""
    layout: str
    """Equal: the rows' storage was not rewritten."""
    moment: str
    """Equal: no transaction has written to the source in between."""
    writes: str
    """Equal: by the source's statistics, which may lag, nobody wrote to the table in between.
    Empty: the source does not know."""
    parts: str = ""
    """Equal: the table consists of the same tables."""
