"""The hooks of a target that commits by a record alone, and completes the load afterwards.

Rows are stored invisibly, as *pieces*. The commit record names the pieces; it is created under a
condition that only one attempt can win. From then on the partition is committed, and the next
process publishes pieces that are not published yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.backends.api.execution.attempt import Attempt, LoadStream, Standing
from penstock.backends.api.worker import Wait
from penstock.spec.worker_spec import WorkerSpec


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what an attempt has loaded: a file, or a part of a table."""

    name: str
    """Its name once it is published, unique for each attempt."""
    rows: int
    bytes: int
    pending: Mapping[str, Any] = field(default_factory=dict)
    """What the backend needs to publish it; empty once it is published."""


class RecordDocuments(Protocol):
    """Named documents that are changed under conditions, each won by one process."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a document; return False, with nothing changed, if it has other content."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """Replace a document; return False, with nothing changed, if its version differs.

        Args:
            name: the name of the document.
            content: the document.
            version: the version that the document is expected to have.
        """
        ...

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Return the content and version."""
        ...

    def read_all(self, folder: str) -> Mapping[str, tuple[bytes, str]]:
        """Return the content and version of everything in a folder, by name."""
        ...

    def find_all(self, folder: str, file: str) -> Mapping[str, tuple[bytes, str]]:
        """Return the same for documents named `file` in the subfolders of a folder."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete documents; it is no error if one does not exist."""
        ...


class Pieces(Protocol):
    """The life of pieces after their attempt. Both methods may be repeated by any process."""

    def publish(self, piece: Piece) -> bool:
        """Make a piece visible, if it is not.

        After a kill, the next process calls it again.

        Returns:
            False if the piece is not visible and cannot be made so.
        """
        ...

    def discard(self, pieces: Iterable[Piece]) -> None:
        """Take pieces back, whether they were published or not."""
        ...


class PieceStream(LoadStream, Protocol):
    """A stream that makes invisible pieces of one attempt's blocks.

    After a kill, the run's last step discards them.
    """

    def pieces(self) -> tuple[Piece, ...]:
        """Return all pieces begun; complete once the stream has ended."""
        ...

    def close(self) -> None:
        """Release the stream's resources in this process. May be called twice."""
        ...


class RollForwardHooks(Protocol):
    """A target's connection, documents and pieces, for attempts that shared code carries out."""

    def connect(self, spec: WorkerSpec) -> None:
        """Open what is needed, if it is not open."""
        ...

    def disconnect(self) -> None:
        """Drop the connection, which may be broken."""
        ...

    def documents(self) -> RecordDocuments: ...

    def store(self) -> Pieces: ...

    def standing(self, attempt: Attempt) -> Standing:
        """Return the standing of the run.

        Called after the record was read: if the generation ended since then, the record has
        changed.

        Raises:
            TargetChanged: as in `LoadedTables.check`.
        """
        ...

    def open_stream(self, attempt: Attempt, wait: Wait) -> PieceStream: ...
