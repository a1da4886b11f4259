"""Rows from COPY in binary form, decoded by `penstock_native`.

A column whose binary form cannot be decoded exactly travels as text within the same stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import sql

from penstock.backends.postgresql.arrow.types import arrow_type_of
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.postgresql.native import decoder
from penstock.backends.postgresql.session.statements import BINARY, copy_format
from penstock.backends.shared.values.text_values import Refused
from penstock.errors import Diagnosis, PenstockError, PermanentError
from penstock.model.tables import Column, ColumnPair

if TYPE_CHECKING:
    from penstock.backends.postgresql.connection import Connection

# The size of a batch on the wire, and its number of rows.
MOST_BYTES = 1 << 20
MOST_ROWS = 1 << 16

# Keyed by the server's name of the type; see `Kind` in core/native/src/decode/kind.rs.
_KINDS = {
    "bool": "bool",
    "int2": "int16",
    "int4": "int32",
    "int8": "int64",
    "oid": "uint32",
    "xid": "uint32",
    "cid": "uint32",
    "float4": "float32",
    "float8": "float64",
    "bytea": "bytes",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "uuid": "uuid",
    "text": "text",
    "varchar": "text",
    "name": "text",
    # Checksums use a cast to text, which drops trailing blanks.
    "bpchar": "trimmed",
    "json": "text",
    "jsonb": "jsonb",
}
# The highest and the lowest number mean infinity.
_INFINITE = {4: (1 << 31) - 1, 8: (1 << 63) - 1}


class Wire:
    """The wire form of each column of a stream, and how it is decoded.

    Args:
        columns: the source columns to read, with this server's traits.
        pairs: for each column, its counterpart in the target.
        subject: the table or query being read, for error messages.
    """

    copy_options = copy_format(BINARY)

    def __init__(
        self, columns: Sequence[Column], pairs: Sequence[ColumnPair], subject: str
    ) -> None:
        self._columns = columns
        self._subject = subject
        self._rows_before = 0
        self._types = [arrow_type_of(column) for column in columns]
        self._kinds = [
            _kind(data_type(column), type_)
            for column, type_ in zip(columns, self._types, strict=True)
        ]
        self._schema = pa.schema(
            [
                pa.field(pair.target, type_, column.nullable)
                for pair, type_, column in zip(pairs, self._types, columns, strict=True)
            ]
        )

    @property
    def select_list(self) -> sql.Composed:
        """The select list of the COPY to decode."""
        return sql.SQL(", ").join(map(_expression, self._columns, self._types, self._kinds))

    def decoder(self, connection: Connection, unanswered: bool) -> Any:
        """Return a decoder for the stream running on a connection; see `native.pump`."""
        kinds = [
            kind or "list:" * _depth(type_) + "text"
            for kind, type_ in zip(self._kinds, self._types, strict=True)
        ]
        return decoder(connection, unanswered, kinds, MOST_ROWS, MOST_BYTES)

    def batch(self, decoded: Sequence[Any]) -> pa.RecordBatch:
        """Assemble a record batch.

        Args:
            decoded: the decoder's output for each column.
        """
        arrays = list(map(_array, decoded, self._types))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._rows_before += batch.num_rows
        return batch

    def refusal(self, place: int, row: int, reason: str, content: bytes) -> PenstockError:
        """Return the error for a value that the decoder rejected.

        Args:
            place: the position of the column.
            row: the index of the row in its batch.
            reason: `form` for a stream that is not binary COPY, `dimensions` for an array;
                otherwise a value.
            content: the rejected bytes, as sent.
        """
        column, kind = self._columns[place], self._kinds[place]
        if reason == "form":
            return PermanentError(
                f"{self._subject}: expected a binary COPY, found {content.decode()}, at column "
                f"{column.name!r}, row {self._rows_before + row + 1:,} (does something between "
                "Penstock and the server change the stream?)",
                Diagnosis(side="source"),
            )
        if reason == "dimensions":
            text = f"an array of {content.decode()} dimensions"
        else:
            text = _shown((kind or "text").rpartition("list:")[2], content)
        return Refused(row, text).error(
            self._subject, column, self._types[place], self._rows_before
        )


def _kind(type_: DataType, arrow_type: pa.DataType) -> str:
    """Return how a value is sent; empty if as text."""
    bare = type_.bare
    if bare.kind == "array":
        inner = bare.components[0].bare
        kind = "text" if inner.kind == "enum" else _kind(inner, _element(arrow_type))
        return kind and "list:" * _depth(arrow_type) + kind
    if bare.kind == "enum":
        return "labels"
    if bare.kind != "base" or bare.schema != "pg_catalog":
        return ""
    if pa.types.is_decimal(arrow_type):
        return f"decimal:{arrow_type.precision}:{arrow_type.scale}"
    return _KINDS.get(bare.name, "")


def _depth(type_: pa.DataType) -> int:
    return 1 + _depth(type_.value_type) if pa.types.is_list(type_) else 0


def _element(type_: pa.DataType) -> pa.DataType:
    return _element(type_.value_type) if pa.types.is_list(type_) else type_


def _expression(column: Column, type_: pa.DataType, kind: str) -> sql.Composable:
    name = sql.Identifier(column.name)
    if kind:
        return name
    cast = "{}::pg_catalog.text[]" if pa.types.is_list(type_) else "{}::pg_catalog.text"
    return sql.SQL(cast).format(name)


def _array(decoded: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    length, nulls, valid, data, inner = decoded
    buffers = [None if valid is None else pa.py_buffer(valid), *map(pa.py_buffer, data)]
    if pa.types.is_list(type_):
        children = [_array(inner[0], type_.value_type)]
        return pa.Array.from_buffers(type_, length, buffers, nulls, children=children)
    if pa.types.is_dictionary(type_):
        labels = _array(inner[0], type_.value_type)
        return pa.DictionaryArray.from_buffers(type_, length, buffers, labels, nulls)
    if isinstance(type_, pa.BaseExtensionType):
        storage = pa.Array.from_buffers(type_.storage_type, length, buffers, nulls)
        return pa.ExtensionArray.from_storage(type_, storage)
    return pa.Array.from_buffers(type_, length, buffers, nulls)


def _shown(kind: str, value: bytes) -> str:
    """Return a rejected value as the server writes it, where that is easy to produce."""
    number = int.from_bytes(value, "big", signed=True)
    if kind in ("date", "timestamp"):
        most = _INFINITE.get(len(value), 0)
        if number in (most, -most - 1):
            return "infinity" if number > 0 else "-infinity"
        return f"{'day' if kind == 'date' else 'microsecond'} {number:,} from 2000-01-01"
    if kind == "time":
        return "24:00:00"
    if kind.startswith("decimal"):
        return _NOT_FINITE.get(value[4:6], "a number with other digits")
    return value.decode(errors="backslashreplace")


# Keyed by the sign field.
_NOT_FINITE = {b"\xc0\x00": "NaN", b"\xd0\x00": "Infinity", b"\xf0\x00": "-Infinity"}
