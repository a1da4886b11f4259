"""One moment of a source, and facts by which its tables are recognised later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A token for one consistent view of the source, and when it was taken."""

    token: str
    taken_at: str
    """ISO 8601, the source's clock."""

    def as_json(self) -> dict[str, str]:
        return {"token": self.token, "taken_at": self.taken_at}

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> Snapshot:
        return cls(raw["token"], raw["taken_at"])


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

    def as_json(self) -> dict[str, str]:
        return {
            "identity": self.identity,
            "layout": self.layout,
            "moment": self.moment,
            "writes": self.writes,
            "parts": self.parts,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> SourceState:
        return cls(raw["identity"], raw["layout"], raw["moment"], raw["writes"], raw["parts"])
