"""Commit records: what makes a partition done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from penstock.model.codec import NOT_STORED, OMITTED


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the time of an attempt went, up to its commit. Seconds."""

    seconds: float
    """From its begin on."""
    source: float
    """Spent waiting for bytes from the source."""
    target: float
    """Spent waiting for the target to take bytes, or to answer."""
    paced: float = field(default=0.0, metadata=OMITTED)
    """Spent keeping to a rate."""


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
    """In mode upsert, rows that were not there before; None in other modes."""
    updated: int | None = None
    """In mode upsert, rows that were there and differed."""
    transaction: str = field(default="", metadata=NOT_STORED)
    """The target's name for the transaction that loaded the rows; empty if it has none."""
    files: tuple[str, ...] = ()
    """If the target consists of files: those with the rows, relative to the target."""
    read_at: str = ""
    """When the snapshot was taken with which the rows were read; empty if there was none."""
    spent: Spent | None = None
    """None if it was committed by an earlier version, or into control tables of one."""


def read_later(records: Iterable[CommitRecord]) -> dict[str, tuple[str, ...]]:
    """Partitions that were read as of a later moment than the first ones, by moment."""
    moments: dict[str, list[str]] = {}
    for record in records:
        if record.read_at:
            moments.setdefault(record.read_at, []).append(record.partition_id)
    _, *later = sorted(moments, key=datetime.fromisoformat) or [""]
    return {moment: tuple(sorted(moments[moment])) for moment in later}
