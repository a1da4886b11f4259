"""Text files read as planning and workers read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.backends.parquet.files.scan import whole_file
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.files.snapshot import contents_of, listed
from penstock.backends.text.location import parse, resolve


def schema_of(url: str) -> dict[str, str]:
    """Return the inferred types, by column."""
    location = parse(resolve(url, {}, "--source"), "--source")
    found = contents_of(location, listed(location))
    return {part.name: str(part.type) for part in found.schema}


def table_of(url: str) -> pa.Table:
    location = parse(resolve(url, {}, "--source"), "--source")
    files = listed(location)
    schema = contents_of(location, files).schema
    scan = TextScan(file_system(location.files, "source"), schema, location.options)
    batches = list(scan.batches([whole_file(file) for file in files], schema.names))
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def rows_of(url: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table_of(url).to_pylist()]


def write_file(path: Path, content: str | bytes) -> str:
    """Write a file, and return its URL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return f"file://{path}"
