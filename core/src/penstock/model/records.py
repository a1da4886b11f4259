"""Commit records: a partition is done once the target has its record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from penstock.model.codec import NOT_STORED, OMITTED


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of an attempt up to its commit, in seconds."""

    seconds: float
    """Seconds since the attempt began."""
    source: float
    """Seconds waiting for bytes from the source."""
    target: float
    """Seconds waiting for the target to take bytes, or to answer."""
    paced: float = field(default=0.0, metadata=OMITTED)
    """Seconds pausing, to keep to a rate."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The row in the target that makes a partition done."""

    partition_id: str
    attempt: int
    rows: int
    bytes: int
    started_at: str
    committed_at: str
    inserted: int | None = None
    """In mode upsert, rows inserted; None in other modes."""
    updated: int | None = None
    """In mode upsert, existing rows that differed, and were updated; None in other modes."""
    transaction: str = field(default="", metadata=NOT_STORED)
    """The target's name for the transaction that loaded the rows; empty if it has none."""
    files: tuple[str, ...] = ()
    """If the target consists of files: those that hold the rows, relative to the target."""
    read_at: str = ""
    """The time of the snapshot with which the rows were read; empty if there was none."""
    spent: Spent | None = None
    """Where the committed attempt spent its time; None if unknown."""


def read_later(records: Iterable[CommitRecord]) -> dict[str, tuple[str, ...]]:
    """Return the partitions read as of a later moment than the first ones, by moment."""
    moments: dict[str, list[str]] = {}
    for record in records:
        if record.read_at:
            moments.setdefault(record.read_at, []).append(record.partition_id)
    _, *later = sorted(moments, key=datetime.fromisoformat) or [""]
    return {moment: tuple(sorted(moments[moment])) for moment in later}
