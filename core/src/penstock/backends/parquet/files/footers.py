"""The contents of file footers: columns, and the rows and bytes of row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.backends.api.facts import SourceFile
from penstock.backends.parquet.errors import Broken, translated
from penstock.backends.parquet.files.damage import (
    ENCRYPTED,
    check_footer,
    footer_length,
    is_encrypted,
)
from penstock.backends.parquet.files.listing import ListedFile, fingerprint
from penstock.backends.parquet.files.types import in_file, key_type, travelling
from penstock.backends.parquet.files.widening import widened
from penstock.errors import PlanningError

# Reading footers mostly waits.
THREADS = 16
MOST_LINES = 40
# The first read from a file's end: few footers are longer.
TAIL = 64 << 10


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a Parquet file."""

    file: ListedFile
    schema: pa.Schema
    """The schema of the file's content; see `in_file`."""
    groups: tuple[tuple[int, int], ...]
    """The rows and stored bytes of each row group."""

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.groups)

    def as_source_file(self) -> SourceFile:
        return SourceFile(self.file.path, self.file.size, self.file.version, self.groups)


_cache: dict[str, tuple[Footer, ...]] = {}
"""The plan and its snapshot both ask about the same files."""
MOST_CACHED = 8


def footers_of(filesystem: fs.FileSystem, files: Sequence[ListedFile]) -> tuple[Footer, ...]:
    """Return the footers of a source's files, read once as long as these do not change.

    Raises:
        TransientError, PermanentError: a file cannot be read; names it.
    """
    key = fingerprint(files)
    if key in _cache:
        return _cache[key]
    footers = read_footers(filesystem, files, "source")
    while len(_cache) >= MOST_CACHED:
        _cache.pop(next(iter(_cache)), None)
    _cache[key] = footers
    return footers


def read_footers(
    filesystem: fs.FileSystem, files: Sequence[ListedFile], side: str
) -> tuple[Footer, ...]:
    """Return the footers of all files, in their order.

    Args:
        filesystem: the file system with the files.
        files: the files to read.
        side: `source` or `target`, for error messages.

    Raises:
        TransientError, PermanentError: a file cannot be read; names it.
    """
    with ThreadPoolExecutor(THREADS, "footers") as threads:
        return tuple(threads.map(lambda file: _read_footer(filesystem, file, side), files))


def _read_footer(filesystem: fs.FileSystem, file: ListedFile, side: str) -> Footer:
    with translated(side, file.path):
        with filesystem.open_input_file(file.path) as handle:
            tail = _tail(handle)
        parquet = open_file(filesystem, file.path, handle=pa.BufferReader(tail))
        metadata = parquet.metadata
        check_footer(metadata, tail)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        # Footers have stored sizes only per column, which are slow to add up, so the sizes before
        # compression give the shares.
        share = file.size / (sum(group.total_byte_size for group in groups) or 1)
        sizes = tuple((group.num_rows, round(group.total_byte_size * share)) for group in groups)
        schema = [part.with_type(in_file(part.type)) for part in parquet.schema_arrow]
        return Footer(file, pa.schema(schema).remove_metadata(), sizes)


def _tail(handle: pa.NativeFile) -> bytes:
    """Return the footer and what follows it, for code that reads no more of the file."""
    size = handle.size()
    tail = bytes(handle.read_at(min(size, TAIL), max(0, size - TAIL)))
    if is_encrypted(tail):
        raise Broken(ENCRYPTED)
    length = footer_length(tail) + 8
    if len(tail) < length <= size:
        tail = bytes(handle.read_at(length, size - length))
    return tail


def open_file(
    filesystem: fs.FileSystem,
    path: str,
    *,
    handle: pa.NativeFile | None = None,
    metadata: pq.FileMetaData | None = None,
    buffer_size: int = 0,
    pre_buffer: bool = False,
    few_valued: Sequence[str] = (),
    int96: str = "us",
) -> pq.ParquetFile:
    """Open a Parquet file.

    Args:
        filesystem: the file system with the file; not used if `handle` is given.
        path: the file's path.
        handle: the open file.
        metadata: its footer, if it was read before.
        buffer_size: bytes of a column read at once; 0 for the whole row group.
        pre_buffer: whether to read a row group's columns at once, in parallel.
        few_valued: columns to read as dictionaries.
        int96: the unit in which to read `INT96` timestamps. In nanoseconds, years before 1677 and
            after 2262 are silently changed; see `int96.py` for the other units.
    """
    return pq.ParquetFile(
        path if handle is None else handle,
        filesystem=filesystem if handle is None else None,
        metadata=metadata,
        buffer_size=buffer_size,
        pre_buffer=pre_buffer,
        read_dictionary=list(few_valued),
        coerce_int96_timestamp_unit=int96,
        page_checksum_verification=True,  # for pages that have one
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types that travel."""
    return pa.schema([pa.field(part.name, travelling(part.type), part.nullable) for part in schema])


def common_schema(footers: Sequence[Footer]) -> pa.Schema:
    """Return the columns that all files have, in the first file's order, then those of the folders.

    Raises:
        PlanningError: files differ; names them and the difference.
    """
    first = footers[0]
    lines = list(_differences(footers))
    if lines:
        shown = [("file", "column", "expected", "found"), *lines[:MOST_LINES]]
        widths = [max(len(line[place]) for line in shown) for place in range(4)]
        table = "\n".join("  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in shown)
        more = len(lines) - MOST_LINES
        raise PlanningError(
            "source: the files have different columns; expected those of "
            f"{first.file.path}:\n{table}" + (f"\n  and {more:,} more" if more > 0 else "")
        )
    if repeated := [name for name in first.schema.names if first.schema.names.count(name) > 1]:
        raise PlanningError(
            f"source: {first.file.path}: expected distinct column names, found {repeated[0]!r} "
            "twice"
        )
    if "" in first.schema.names:
        raise PlanningError(
            f"source: {first.file.path}: expected column names, found an empty one for column "
            f"{first.schema.names.index('') + 1:,}; rename it in the file"
        )
    nullable = {
        part.name for footer in _one_per_schema(footers) for part in footer.schema if part.nullable
    }
    keys = key_fields([footer.file for footer in footers])
    return pa.schema(
        [
            pa.field(name, travelling(type_), name in nullable)
            for name, type_ in _widened(footers).items()
            if type_ is not None
        ]
        + [field for field in keys if field.name not in first.schema.names]
    )


def _widened(footers: Sequence[Footer]) -> dict[str, pa.DataType | None]:
    """Return types that hold the values of all files; None if they are too unlike."""
    types: dict[str, pa.DataType | None] = {part.name: part.type for part in footers[0].schema}
    for footer in _one_per_schema(footers)[1:]:
        for part in footer.schema:
            type_ = types.get(part.name)
            types[part.name] = None if type_ is None else widened(type_, part.type)
    return types


def widened_columns(footers: Sequence[Footer], schema: pa.Schema) -> list[str]:
    """Return remarks on columns that some files store as another type than the one they get.

    Args:
        footers: the files' footers.
        schema: from `common_schema`.
    """
    lines = []
    for part in schema:
        others: dict[str, str] = {}
        for footer in _one_per_schema(footers):
            place = footer.schema.get_field_index(part.name)
            if place < 0:
                continue
            stored = footer.schema.field(place).type
            if travelling(stored) != part.type or (pa.types.is_null(stored) and len(footers) > 1):
                others.setdefault(str(stored), footer.file.path)
        if others and not (len(others) == 1 and "null" in others and part.type == pa.int32()):
            found = ", ".join(f"{kind} in {path}" for kind, path in others.items())
            lines.append(f"column {part.name!r} is read as {part.type}: it is {found}")
    return lines


def _one_per_schema(footers: Sequence[Footer]) -> list[Footer]:
    """Return one footer of each schema, the first file's first."""
    distinct: list[Footer] = []
    for footer in footers:
        if not any(footer.schema.equals(other.schema) for other in distinct):
            distinct.append(footer)
    return distinct


def _differences(footers: Sequence[Footer]) -> Iterator[tuple[str, str, str, str]]:
    first = footers[0]
    expected = {part.name: str(part.type) for part in first.schema}
    common = _widened(footers)
    for footer in footers[1:]:
        if not footer.schema.equals(first.schema):
            actual = {part.name: str(part.type) for part in footer.schema}
            for name in expected | actual:
                differs = expected.get(name) != actual.get(name)
                if differs and (common[name] is None or not {name} <= expected.keys() & actual):
                    yield (
                        footer.file.path,
                        name,
                        expected.get(name, "-"),
                        actual.get(name, "-"),
                    )
        folders, other_folders = list(first.file.keys), list(footer.file.keys)
        if folders != other_folders:
            shown = "/".join(f"{name}=" for name in folders) or "-"
            yield (
                footer.file.path,
                "(folder)",
                shown,
                "/".join(f"{n}=" for n in other_folders) or "-",
            )


def key_fields(files: Sequence[ListedFile]) -> list[pa.Field]:
    """Return the columns added by Hive-style folders."""
    values: dict[str, set[str | None]] = {name: set() for name in files[0].keys}
    for file in files if values else ():
        for name, value in file.keys.items():
            values.setdefault(name, set()).add(value)
    return [pa.field(name, key_type(texts), None in texts) for name, texts in values.items()]
