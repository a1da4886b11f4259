"""Sources that can tell, without reading rows, whether a table was written to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.model.nights import Horizon
from penstock.model.snapshots import SourceState
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class TableWrites:
    """What a source knows about writes to a table."""

    mark: str
    """Another text once rows were written; it may change without a write, too."""
    text: str
    """The same for people."""


@runtime_checkable
class NoticesWrites(Protocol):
    """A `SourceCatalog` that counts writes, and knows which of them a snapshot has seen."""

    def writes(self, table: TableRef) -> TableWrites:
        """Return the writes to a table until now; the last ones may be missing for some seconds.

        Raises:
            PlanningError: the table does not exist, or the source cannot tell.
        """
        ...

    def was_all_read(self, table: TableRef, planned: SourceState, read: Horizon) -> bool:
        """Whether a run has read everything that was written to a table, as far as is known.

        Args:
            table: the table.
            planned: its state when the run was planned.
            read: the transactions that the run's snapshot has seen.
        """
        ...


@runtime_checkable
class ListsFiles(Protocol):
    """A `Backend` of files."""

    def list_files(self, url: str) -> dict[str, str]:
        """Return the version of each file that a URL refers to, by path.

        Raises:
            TransientError, PermanentError: the files cannot be listed.
        """
        ...
