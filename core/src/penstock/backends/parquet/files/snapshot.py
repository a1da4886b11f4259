"""The list of files as the moment to read as of.

Files cannot be held unchanged. So readers compare the list with the planned one, and the size and
version of each file, before and after reading its rows.
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.backends.parquet.files.listing import fingerprint, list_files
from penstock.backends.parquet.location import parse
from penstock.model.snapshots import Snapshot


class FilesSnapshot:
    """A snapshot that is a list of files."""

    def __init__(self, url: str) -> None:
        files = list_files(parse(url, "--source"))
        self.snapshot = Snapshot(fingerprint(files), datetime.now(UTC).isoformat())

    def is_alive(self) -> bool:
        """Return True: there is nothing that could end."""
        return True

    def close(self) -> None:
        pass
