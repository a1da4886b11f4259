"""One moment of a source, and facts by which its tables are recognised later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A token for one consistent view of the source, and when it was taken."""

    token: str
    taken_at: str
    """ISO 8601, the source's clock."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """Facts by which a source's table can be recognised later."""

    identity: str
    """Equal: the very same table, while its server runs."""
    layout: str
    """Equal: the rows' storage was not rewritten."""
    moment: str
    """Equal: no transaction at all has written to the source in between."""
    writes: str
    """Equal: as far as the source's statistics tell, nobody wrote to the table in between. They
    may lag behind. Empty: the source cannot tell."""
    parts: str = ""
    """Equal: it consists of the same tables."""
