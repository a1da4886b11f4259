"""A source that consists of files, each read by one night only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.backends.api.facts import SourceFile
from penstock.model.tables import Relation


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a source."""

    place: str
    """The files' location."""
    files: Sequence[SourceFile]


@runtime_checkable
class ReadsByFile(Protocol):
    """A `SourceCatalog` of files."""

    def source_files(self, relation: Relation) -> SourceFiles:
        """Return the files as of the adopted snapshot, or now if there is none.

        Raises:
            PlanningError: the relation is a query, whose rows do not belong to single files.
        """
        ...
