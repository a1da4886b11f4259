"""The hooks by which a backend takes part in the end of a night."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.backends.api.execution.control import RunRow
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """The row counts of a night's merge."""

    inserted: int
    updated: int
    deleted: int = 0
    rows: int | None = None
    """The current row count of the target's table; None if not counted."""
    target: str = ""
    """What identifies the target's table."""


class NightHooks(ABC):
    """What a backend does at the end of a night; only for one that gathers rows in stages."""

    merges_together = False
    """Whether `merge` accepts several runs."""

    @abstractmethod
    def merge(self, nights: Sequence[tuple[RunRow, Sequence[CommitRecord]]]) -> list[MergeCounts]:
        """Merge the stages of runs into their tables, in the transaction that records it.

        Args:
            nights: the runs, each with its commit records; several if `joins` allows it.
        """

    @abstractmethod
    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        """Drop stages that no run will merge any more, as far as possible at once."""

    @abstractmethod
    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        """See `Nights.storages`."""

    def take_deleted(self, run: RunRow) -> int:
        """Forget the keys from `record_deleted_keys`; return their number.

        Their rows go with the replaced table.
        """
        raise NotImplementedError  # it builds no nights
