"""Data files that are written but not visible yet: what a commit record names can be published.

Local files are written beside the data and renamed into their place; on S3 they are multipart
uploads, whose completion makes them visible. Either is done by whoever comes first. To take a file
back, what would make it visible is ended first, then it is removed if it is visible already: so no
one who comes late makes it appear again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from penstock.backends.api.execution.roll_forward import Pieces
from penstock.backends.api.worker import Wait
from penstock.backends.shared.attempts.transfer import Transfer

# So many files keep what is less than a part in memory; the others keep it on disk.
MOST_IN_MEMORY = 4

Upload = Mapping[str, Any]
"""What it takes to publish a file; JSON. Empty: it was published."""


class Sink(Protocol):
    """A file that is being written. `write` is for pyarrow, and only gathers."""

    size: int
    """Bytes that were written."""

    def write(self, data: Any) -> int: ...

    def drain(self, wait: Wait, *, crowded: bool) -> None:
        """Hand on what was gathered.

        Parameters:
            crowded: many files are open: keep nothing in memory.
        """
        ...

    def end(self, wait: Wait) -> None: ...

    def upload(self) -> Upload:
        """After the end, and once the transfer is done."""
        ...


class Uploads(Pieces, Protocol):
    """Pieces are files. Paths, and the names of pieces, are relative to the dataset's folder."""

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        """
        Parameters:
            file_size: about how large the file may get.
        """
        ...

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files that are visible; one that is not there: nothing."""
        ...

    def put(self, path: str, content: bytes) -> None:
        """Write a small file that is visible at once; again with the same content: nothing."""
        ...

    def visible(self) -> Mapping[str, int]:
        """Sizes of the dataset's data files, by path."""
        ...

    def pending(self, run_id: str) -> Sequence[tuple[str, Upload]]:
        """What attempts of a run have begun, and nobody has published: by path, or file name."""
        ...

    def abandon(self, run_id: str, files: Iterable[tuple[str, Upload]]) -> None:
        """Let these of a run never be published."""
        ...


class Gathering:
    """What pyarrow writes into: keeps it until it is drained."""

    closed = False

    def __init__(self) -> None:
        self.size = 0
        self._gathered: list[bytes] = []
        self._waiting = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._gathered.append(piece)
        self._waiting += len(piece)
        self.size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nothing is to be done before the file's end."""

    def _take(self) -> bytes:
        taken = b"".join(self._gathered)
        self._gathered, self._waiting = [], 0
        return taken
