"""The hooks of a target that commits by a record alone, and completes the load after it.

Rows are brought to where nobody sees them, as *pieces*. The commit record names the pieces; it is
created under a condition, which one of many attempts wins. From that moment on the partition is
committed, and whoever comes next publishes the pieces that are not published yet.
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
    """A part of what an attempt has loaded: a file, a part of a table."""

    name: str
    """What it is called once it is published; no two attempts give the same."""
    rows: int
    bytes: int
    pending: Mapping[str, Any] = field(default_factory=dict)
    """What it takes to publish it, as the backend has it; empty once it is published."""


class RecordDocuments(Protocol):
    """Named documents that are changed under conditions; each condition is won by one process."""

    def create(self, name: str, content: bytes) -> bool:
        """False where it exists with other content: then nothing is changed."""
        ...

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """False where it is gone, or another than that version: then nothing is changed."""
        ...

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Content and version."""
        ...

    def read_all(self, folder: str) -> Mapping[str, tuple[bytes, str]]:
        """Content and version of all that are in a folder, by name."""
        ...

    def find_all(self, folder: str, file: str) -> Mapping[str, tuple[bytes, str]]:
        """The same of those called `file` in the folders of a folder."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """One that is not there: nothing."""
        ...


class Pieces(Protocol):
    """What becomes of pieces after their attempt. Both calls may be repeated, by anybody."""

    def publish(self, piece: Piece) -> bool:
        """Make a piece visible, or find that it is. Killed before or after it, the next one to
        come calls it again.

        Returns: False where it is neither visible nor can be made so.
        """
        ...

    def discard(self, pieces: Iterable[Piece]) -> None:
        """Take pieces back, whether they were published or not."""
        ...


class PieceStream(LoadStream, Protocol):
    """Makes pieces of one attempt's blocks, which nobody sees. Killed anywhere, they are left for
    the run's last step to discard."""

    def pieces(self) -> tuple[Piece, ...]:
        """All that were begun; complete once the stream has ended."""
        ...

    def close(self) -> None:
        """Let go of what the stream holds in this process. May be called twice."""
        ...


class RollForwardHooks(Protocol):
    def connect(self, spec: WorkerSpec) -> None:
        """Open what is needed, where it is not open."""
        ...

    def disconnect(self) -> None:
        """Forget it: it may be broken."""
        ...

    def documents(self) -> RecordDocuments: ...

    def store(self) -> Pieces: ...

    def standing(self, attempt: Attempt) -> Standing:
        """Of the run. Called after the record was read: a generation that has ended since then has
        changed the record.

        Raises:
            TargetChanged: see `ControlStore.check_target`.
        """
        ...

    def open_stream(self, attempt: Attempt, wait: Wait) -> PieceStream: ...
