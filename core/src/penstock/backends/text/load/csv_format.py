"""CSV as read by PostgreSQL, DuckDB, pandas and spreadsheets: NULL is empty, texts are quoted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as is_
from pyarrow import csv

from penstock.backends.shared.texts.plain_texts import has_plain_text, is_usual
from penstock.backends.shared.values.arrow import is_bytes
from penstock.backends.shared.values.json_texts import json_texts
from penstock.backends.text.load.texts import is_nested, texts
from penstock.backends.text.location import TextOptions


def _flat(array: pa.Array) -> pa.Array:
    kind = array.type
    if is_nested(kind):
        return json_texts(array)
    if isinstance(array, pa.ExtensionArray) or is_bytes(kind) or is_.is_dictionary(kind):
        return texts(array)
    if has_plain_text(kind) and not is_usual(array):
        return texts(array)
    return array.cast(pa.float32()) if is_.is_float16(kind) else array


def header(schema: pa.Schema, options: TextOptions) -> bytes:
    """Return the line with the names of the columns; empty if the format has none."""
    if not options.header:
        return b""
    names = pa.table({name: pa.array([], pa.string()) for name in schema.names})
    return _csv_bytes(names, options, header=True)


def rows(table: pa.Table, options: TextOptions) -> bytes:
    """Return rows as CSV."""
    arrays = [_flat(column.combine_chunks()) for column in table.columns]
    return _csv_bytes(pa.table(arrays, table.schema.names), options, header=False)


def _csv_bytes(table: pa.Table, options: TextOptions, *, header: bool) -> bytes:
    sink = pa.BufferOutputStream()
    csv.write_csv(
        table,
        sink,
        csv.WriteOptions(
            include_header=header, delimiter=options.delimiter, quoting_style="needed"
        ),
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content
