"""Data files that are written but not visible yet: those in a commit record can be published.

Local files are written next to the data and renamed into place; on S3 they are multipart uploads,
which become visible on completion. Any process may do either. To take a file back, its upload is
ended first, then the file is removed if it is already visible, so that no late process makes it
appear again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from penstock.backends.api.execution.roll_forward import Pieces
from penstock.backends.api.worker import Wait
from penstock.backends.shared.attempts.transfer import Transfer

# Up to this many files keep incomplete parts in memory; more keep them on disk.
MOST_IN_MEMORY = 4

Upload = Mapping[str, Any]
"""What is needed to publish a file, as JSON; empty if it has been published."""


class Sink(Protocol):
    """A file being written. `write` is for pyarrow, and only gathers."""

    size: int
    """The number of bytes written."""

    def write(self, data: Any) -> int: ...

    def drain(self, wait: Wait, *, crowded: bool) -> None:
        """Pass on what was gathered.

        Args:
            wait: waits until data can be sent.
            crowded: many files are open, so nothing may stay in memory.
        """
        ...

    def end(self, wait: Wait) -> None: ...

    def upload(self) -> Upload:
        """Return the upload, after the end of the file and of the transfer."""
        ...


class Uploads(Pieces, Protocol):
    """Uploads, whose pieces are files.

    Paths, and the names of pieces, are relative to the dataset's folder.
    """

    def begin(self, path: str, run_id: str, transfer: Transfer, file_size: int) -> Sink:
        """Begin a file.

        Args:
            path: the file's path within the dataset.
            run_id: the run that writes it.
            transfer: sends the parts of the attempt's files.
            file_size: the approximate maximum size of the file.
        """
        ...

    def remove(self, paths: Iterable[str]) -> None:
        """Delete visible files; it is no error if one does not exist."""
        ...

    def put(self, path: str, content: bytes) -> None:
        """Write a small file that is visible at once; repeating it has no effect."""
        ...

    def visible(self) -> Mapping[str, int]:
        """Return the sizes of the dataset's data files, by path."""
        ...

    def pending(self, run_id: str) -> Sequence[tuple[str, Upload]]:
        """Return unpublished files begun by attempts of a run, by path or file name."""
        ...

    def abandon(self, run_id: str, files: Iterable[tuple[str, Upload]]) -> None:
        """Ensure that these files of a run are never published."""
        ...


class Gathering:
    """A buffer that pyarrow writes to, and that is drained from time to time."""

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
        """Do nothing before the end of the file."""

    def _pieces(self) -> list[bytes]:
        pieces, self._gathered, self._waiting = self._gathered, [], 0
        return pieces

    def _take(self) -> bytes:
        return b"".join(self._pieces())
