"""The contents of a list of text files: columns with their types, and the rows of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.files.footers import key_fields
from penstock.backends.parquet.files.listing import ListedFile, fingerprint
from penstock.backends.shared.values.arrow import schema_from_text
from penstock.backends.text.files import csv_rows, json_rows
from penstock.backends.text.files.inference import ColumnType
from penstock.backends.text.files.passing import Dialect
from penstock.backends.text.files.streams import TextStream, unpacked
from penstock.backends.text.files.values import FOLDER
from penstock.backends.text.location import CSV, TEXT, TextOptions
from penstock.errors import PlanningError

_Item = TypeVar("_Item")

_PARSED = b"penstock.parsed"


@dataclass(frozen=True, slots=True)
class TextContents:
    """The contents of some files."""

    schema: pa.Schema
    """Columns of folders come last."""
    rows: Mapping[str, int] | None
    """By path; None if the files were not read."""

    @property
    def parsed(self) -> str:
        """Why rows cannot pass through as they are; see `why_parsed`."""
        return why_parsed(self.schema)


def why_parsed(schema: pa.Schema) -> str:
    """Return why rows cannot pass through as they are; empty if they can. See `api.worker.CSV`.

    Args:
        schema: the schema of the files, also from a snapshot's token.
    """
    reason: bytes = (schema.metadata or {}).get(_PARSED, b"")
    return reason.decode()


_cache: dict[object, TextContents] = {}
"""Planning asks about the same files several times, but they are read once."""


def find(
    filesystem: fs.FileSystem, files: Sequence[ListedFile], options: TextOptions, side: str
) -> TextContents:
    """Read all files, unless all columns of CSV are to be texts.

    Args:
        filesystem: the file system with the files.
        files: the files to read, at least one.
        options: the format of the files.
        side: `source` or `target`, for error messages.

    Raises:
        PlanningError: a file has other columns than the first.
        TransientError, PermanentError: a file cannot be read; says which, and where.
    """
    key = (fingerprint(files), options)
    if key not in _cache:
        _cache.clear()
        _cache[key] = _find(filesystem, files, options, side)
    return _cache[key]


def _find(
    filesystem: fs.FileSystem, files: Sequence[ListedFile], options: TextOptions, side: str
) -> TextContents:
    if options.schema:
        return TextContents(schema_from_text(options.schema), None)
    columns: dict[str, ColumnType] = {}
    rows: dict[str, int] = {}
    counted = options.format != CSV or options.types != TEXT
    dialect = dialect_of(options, counted=counted)
    for file in files:
        with translated(side, file.path, options.noun):
            if options.format == CSV:
                names = csv_rows.names_of(lambda file=file: opened(filesystem, file.path), options)  # type: ignore[misc]
                _check_same(names, columns, file, files[0], side)
                columns = columns or {name: ColumnType() for name in names}
                if list(names) != list(columns):
                    dialect.note("their columns are in different orders")
                if counted:
                    rows[file.path] = _look_at_csv(
                        filesystem, file.path, options, names, columns, dialect
                    )
            else:
                rows[file.path] = _look_at_json(filesystem, file.path, columns)
    if not columns:
        raise PlanningError(
            f"{side}: expected columns, found none: {files[0].path}"
            + (f" and {len(files) - 1:,} others" if len(files) > 1 else "")
            + (" without a header or rows" if options.format == CSV else " without objects")
        )
    fields = [
        pa.field(name, pa.string()) if options.types == TEXT else column.field(name)
        for name, column in columns.items()
    ]
    if options.types == TEXT:
        fields = [
            pa.field(name, pa.string(), metadata=column.field(name).metadata)
            for name, column in columns.items()
        ]
    keys = [part.with_metadata(FOLDER) for part in key_fields(files) if part.name not in columns]
    if keys:
        dialect.note(f"{keys[0].name!r} is the name of a folder")
    return TextContents(schema([*fields, *keys], dialect.reason), rows if counted else None)


def schema(fields: Sequence[pa.Field], parsed: str) -> pa.Schema:
    """Return the schema of files.

    Args:
        fields: their columns, and those of folders.
        parsed: why rows cannot pass through as they are; empty if they can.
    """
    return pa.schema(fields, {_PARSED: parsed} if parsed else None)


def dialect_of(options: TextOptions, *, counted: bool) -> Dialect:
    """Return what is unusual in files, before they are read.

    Args:
        options: the format of the files.
        counted: whether they are read.
    """
    dialect = Dialect()
    if options.format != CSV:
        dialect.note("they are JSON lines")
    if options.delimiter != ",":
        dialect.note("their delimiter is not a comma")
    if not counted:
        dialect.note("?types=text does not examine their quotes")
    return dialect


def opened(
    filesystem: fs.FileSystem, path: str, look: Callable[[bytes], None] | None = None
) -> TextStream:
    """Open a file at its beginning, decompressed.

    Args:
        filesystem: the file system with the file.
        path: the file.
        look: called with each piece that is read.
    """
    stream = unpacked(filesystem.open_input_stream(path, compression=None), path)
    return TextStream(stream, look)


def _check_same(
    names: Sequence[str],
    columns: Mapping[str, Any],
    file: ListedFile,
    first: ListedFile,
    side: str,
) -> None:
    """Check that files have the same columns.

    Raises:
        PlanningError: a file has other columns than the first. Their order does not matter.
    """
    if not columns or set(names) == set(columns):
        return
    lacks = [name for name in columns if name not in names]
    has = [name for name in names if name not in columns]
    differences = [f"lacks {', '.join(map(repr, lacks))}"] * bool(lacks)
    differences += [f"adds {', '.join(map(repr, has))}"] * bool(has)
    raise PlanningError(
        f"{side}: the files have different columns: {file.path} {' and '.join(differences)}, "
        f"compared with {first.path}"
    )


def _look_at_csv(
    filesystem: fs.FileSystem,
    path: str,
    options: TextOptions,
    names: Sequence[str],
    columns: Mapping[str, ColumnType],
    dialect: Dialect,
) -> int:
    count = 0
    order = list(columns)

    def begin() -> TextStream:
        dialect.begin()
        return opened(filesystem, path, dialect.look)

    for batch in _ahead(csv_rows.batches(begin, options, names, order)):
        count += batch.num_rows
        for name, texts in zip(order, batch.columns, strict=True):
            columns[name].look(texts)
    return count


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield items while another thread parses the next one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _look_at_json(filesystem: fs.FileSystem, path: str, columns: dict[str, ColumnType]) -> int:
    count = 0
    for group in _ahead(json_rows.groups(lambda: opened(filesystem, path))):
        count += group.rows
        for name, (texts, kinds) in group.columns.items():
            column = columns.setdefault(name, ColumnType())
            column.note(kinds)
            column.look(texts)
    return count
