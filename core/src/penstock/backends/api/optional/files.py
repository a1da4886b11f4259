"""A source that consists of files, each of which a night reads once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.backends.api.facts import SourceFile
from penstock.model.tables import Relation


@dataclass(frozen=True, slots=True)
class FilesNow:
    """The files of a source."""

    place: str
    """Where they are."""
    files: Sequence[SourceFile]


@runtime_checkable
class ReadsByFile(Protocol):
    """A `SourceCatalog` of files."""

    def files_now(self, relation: Relation) -> FilesNow:
        """As of the snapshot that was adopted, if one was.

        Raises:
            PlanningError: it is a query, whose rows are of no one file.
        """
        ...
