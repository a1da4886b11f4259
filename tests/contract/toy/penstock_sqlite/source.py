"""Tables, views and queries of an SQLite file, as a source."""

from __future__ import annotations

from penstock.backends.sql.one_file.source import FileSource

from .dialect import ARROW_TYPES
from .session import connect
from .snapshot import VERSIONS


class SqliteSource(FileSource):
    versions = VERSIONS
    arrow_types = ARROW_TYPES

    def __init__(self, path: str) -> None:
        super().__init__(path, connect(path, "source", "ro"))


open_source = SqliteSource
