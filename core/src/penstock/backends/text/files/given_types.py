"""Types that a table gives to the columns of CSV, checked with the beginning of each file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import closing

import pyarrow as pa
from pyarrow import fs

from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.files.listing import ListedFile
from penstock.backends.shared.values.arrow import is_text
from penstock.backends.text.files import csv_rows
from penstock.backends.text.files.contents import dialect_of, opened
from penstock.backends.text.files.inference import ColumnType
from penstock.backends.text.files.passing import end_of_rows
from penstock.backends.text.files.streams import PIECE, TextStream
from penstock.backends.text.files.values import typed
from penstock.backends.text.location import TextOptions

Types = Mapping[str, pa.DataType | None]


def given_types(
    filesystem: fs.FileSystem,
    files: Sequence[ListedFile],
    options: TextOptions,
    types: Sequence[tuple[str, pa.DataType | None]],
    *,
    by_position: bool,
) -> tuple[dict[str, pa.DataType], str] | None:
    """Return the types of all columns, and why rows cannot pass through as they are.

    A column whose first values are texts for `inference` is one, whatever follows.

    Args:
        filesystem: the file system with the files.
        files: the files, at least one.
        options: their format.
        types: see `TakesTypes.with_types`.
        by_position: see there.

    Returns:
        None if reading on might show other types.
    """
    dialect, found = dialect_of(options, counted=True), {}
    first: tuple[str, ...] = ()
    columns: dict[str, ColumnType] = {}
    wanted: dict[str, pa.DataType | None] = {}
    for file in files:
        with translated("source", file.path, options.noun):
            content = _beginning(filesystem, file.path)
            names = csv_rows.names_of(lambda content=content: _stream(content), options)  # type: ignore[misc]
            if not first:
                first = names
                columns = {name: ColumnType() for name in names}
                if by_position and len(names) != len(types):
                    return None
                wanted = (
                    dict(zip(names, (type_ for _, type_ in types), strict=True))
                    if by_position
                    else dict(types)
                )
            if names != first or not set(names) <= set(wanted):
                return None
            dialect.begin()
            dialect.look(content)
            for batch in csv_rows.batches(
                lambda content=content: _stream(content),  # type: ignore[misc]
                options,
                names,
                names,
            ):
                for name, texts in zip(names, batch.columns, strict=True):
                    kind = wanted[name]
                    if kind is None or not is_text(kind):
                        columns[name].look(texts)
                        if kind is not None and not _are_of(texts, kind):
                            wanted[name] = None
    for name, column in columns.items():
        kind = pa.string() if column.is_certainly_text else wanted[name]
        if kind is None:
            return None
        found[name] = kind
    return found, dialect.reason


def _beginning(filesystem: fs.FileSystem, path: str) -> bytes:
    """Return the whole rows in a file's first piece; empty if it has none."""
    with closing(opened(filesystem, path)) as stream:
        content, is_whole = stream.read(PIECE), not stream.read(2)
    return content if is_whole else content[: end_of_rows(content)]


def _stream(content: bytes) -> TextStream:
    return TextStream(pa.PythonFile(io.BytesIO(content), mode="r"))


def _are_of(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        typed(texts, kind)
    except (pa.ArrowException, ValueError):
        return False
    return True
