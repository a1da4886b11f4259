"""The list of files as the moment to read as of.

Nobody can hold files as they are. So who reads compares: the list with the one that was planned,
and of each file its size and version, before its rows are read and after.
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.backends.parquet.files.listing import fingerprint, list_files
from penstock.backends.parquet.location import parse
from penstock.model.snapshots import Snapshot


class FilesSnapshot:
    def __init__(self, url: str) -> None:
        files = list_files(parse(url, "--source"))
        self.snapshot = Snapshot(fingerprint(files), datetime.now(UTC).isoformat())

    def alive(self) -> bool:
        """There is nothing that could end."""
        return True

    def close(self) -> None:
        pass
