"""The list of files as the moment to read as of.

Files cannot be held unchanged. So readers compare the list with the planned one, and the size and
version of each file, before and after reading its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from penstock.backends.parquet.files.footers import common_schema, footers_of, widened_columns
from penstock.backends.parquet.files.listing import ListedFile, fingerprint, list_files
from penstock.backends.parquet.location import parse
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.shared.values.arrow import schema_from_text, schema_to_text
from penstock.model.snapshots import Snapshot

# Between the fingerprint of the files and the schema.
_AND = ":"


def token_of(files: Sequence[ListedFile], schema: pa.Schema | None) -> str:
    """Return the token of a snapshot.

    Args:
        files: the files.
        schema: the types of their columns; None if each file shows them.
    """
    return fingerprint(files) + ("" if schema is None else _AND + schema_to_text(schema))


def fingerprint_of(token: str) -> str:
    """Return the files' fingerprint from a snapshot's token."""
    return token.partition(_AND)[0]


def schema_of(token: str) -> pa.Schema | None:
    """Return the types of columns from a snapshot's token; None if each file shows them."""
    text = token.partition(_AND)[2]
    return schema_from_text(text) if text else None


class FilesSnapshot:
    """A snapshot that is a list of files."""

    def __init__(self, url: str) -> None:
        location = parse(url, "--source")
        files = list_files(location)
        footers = footers_of(file_system(location, "source"), files)
        schema = common_schema(footers)
        token = token_of(files, schema if widened_columns(footers, schema) else None)
        self.snapshot = Snapshot(token, datetime.now(UTC).isoformat())

    def is_alive(self) -> bool:
        """Return True: there is nothing that could end."""
        return True

    def close(self) -> None:
        pass
