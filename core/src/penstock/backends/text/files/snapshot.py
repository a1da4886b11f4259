"""The list of files, with the types of their columns, as the moment to read as of.

The types are found by reading all rows, which workers need not repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from penstock.backends.parquet.files.listing import ListedFile, fingerprint, list_files
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.shared.values.arrow import schema_from_text, schema_to_text
from penstock.backends.text.files.contents import TextContents, find, schema
from penstock.backends.text.files.given_types import given_types
from penstock.backends.text.location import CSV, TextLocation, given, is_text_file, parse
from penstock.errors import PlanningError, SnapshotLost
from penstock.model.snapshots import Snapshot

# Between the fingerprint of the files and the schema.
_AND = ":"


def token_of(files: tuple[ListedFile, ...], schema: pa.Schema) -> str:
    """Return the token of a snapshot: the files' fingerprint, and the types of their columns."""
    return f"{fingerprint(files)}{_AND}{schema_to_text(schema)}"


def schema_of(token: str) -> pa.Schema:
    """Return the types of columns from a snapshot's token."""
    return schema_from_text(token.partition(_AND)[2])


def listed(location: TextLocation, token: str | None = None) -> tuple[ListedFile, ...]:
    """Return the files of a location; in a folder, those with the format's suffix.

    Args:
        location: where the files are.
        token: the snapshot that the files must match; None for the current files.

    Raises:
        SnapshotLost: the files have changed.
        PlanningError: no file has the format's suffix.
    """
    all_files = list_files(location.files)
    with_suffix = tuple(
        file for file in all_files if is_text_file(file.path, location.options.format)
    )
    # If the URL names a single file or the format, the suffix does not matter.
    files = with_suffix or (all_files if len(all_files) == 1 else ())
    if not files:
        raise PlanningError(
            f"source: {location}: expected files that end in .{location.options.extension}, found "
            f"{len(all_files):,} others, such as {all_files[0].path}"
        )
    if token is not None and fingerprint(files) != token.partition(_AND)[0]:
        raise SnapshotLost(
            f"source: the files of {location} have changed since planning: some were added, "
            "removed or rewritten"
        )
    return files


def contents_of(location: TextLocation, files: tuple[ListedFile, ...]) -> TextContents:
    """Return the contents of a source's files."""
    return find(file_system(location.files, "source"), files, location.options, "source")


def with_types(
    url: str, types: Sequence[tuple[str, pa.DataType | None]], *, by_position: bool
) -> str:
    """Return a URL with given types; see `TakesTypes.with_types`."""
    location = parse(url, "--source")
    options = location.options
    if options.format != CSV or options.types:
        return url
    files = listed(location)
    if any(file.keys for file in files):
        return url
    filesystem = file_system(location.files, "source")
    found = given_types(filesystem, files, options, types, by_position=by_position)
    if found is None:
        return url
    kinds, parsed = found
    fields = [pa.field(name, kind) for name, kind in kinds.items()]
    return given(url, schema_to_text(schema(fields, parsed)))


class TextSnapshot:
    """A snapshot that is a list of files, with the types of their columns."""

    def __init__(self, url: str) -> None:
        location = parse(url, "--source")
        files = listed(location)
        contents = contents_of(location, files)
        self.snapshot = Snapshot(token_of(files, contents.schema), datetime.now(UTC).isoformat())

    def is_alive(self) -> bool:
        """Return True: there is nothing that could end."""
        return True

    def close(self) -> None:
        pass
