"""Arrays in the binary form of COPY, encoded by `penstock_native` if it is installed, else by pgpq.

On TPC-H lineitem, `penstock_native` needs two thirds of pgpq's CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol

import pyarrow as pa

from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.shared.native import native

# https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"

# Keyed by Arrow type; see `Kind` in core/native/src/encode.rs. The number is the server's object id
# for the type of an array's elements, from pg_type.dat.
_KINDS: dict[pa.DataType, tuple[str, int | None]] = {
    pa.bool_(): ("bool", 16),
    pa.int16(): ("bytes2", 21),
    pa.int32(): ("bytes4", 23),
    pa.int64(): ("bytes8", 20),
    pa.float32(): ("bytes4", 700),
    pa.float64(): ("bytes8", 701),
    pa.string(): ("text", 25),
    pa.binary(): ("bytes", 17),
    pa.date32(): ("date", 1082),
    pa.timestamp("us"): ("timestamp", 1114),
    pa.timestamp("us", "UTC"): ("timestamp", None),
    pa.time64("us"): ("bytes8", None),
    pa.duration("us"): ("duration", None),
    pa.binary(16): ("uuid", None),
}


class ArrayEncoder(Protocol):
    """The encoder of one stream."""

    def encode(self, arrays: Sequence[pa.Array]) -> bytes | memoryview:
        """Encode one batch of rows.

        Args:
            arrays: one per column, all of the same length.

        Raises:
            ValueError: a value has no binary form, or a text is not in UTF-8.
        """
        ...

    def finish(self) -> bytes:
        """Return the bytes that end the stream."""
        ...


def array_encoder(forms: Sequence[pa.DataType], targets: Sequence[DataType]) -> ArrayEncoder:
    """Return an encoder for one stream.

    Args:
        forms: the form of each column, from `encoder.binary_form`.
        targets: the types of the server's columns.
    """
    module = native()
    return (
        _PgpqEncoder(forms, targets) if module is None else _NativeEncoder(module, forms, targets)
    )


def _is_jsonb(target: DataType) -> bool:
    return target.bare.identity == "pg_catalog.jsonb"


class _NativeEncoder:
    def __init__(
        self, module: ModuleType, forms: Sequence[pa.DataType], targets: Sequence[DataType]
    ) -> None:
        kinds = [
            ("jsonb", None) if _is_jsonb(target) else _kind(form)
            for form, target in zip(forms, targets, strict=True)
        ]
        self._encoder = module.Encoder(kinds)
        self._head = _HEAD

    def encode(self, arrays: Sequence[pa.Array]) -> memoryview:
        head, self._head = self._head, b""
        return memoryview(self._encoder.encode(head, len(arrays[0]), list(map(_buffers, arrays))))

    def finish(self) -> bytes:
        return self._head + _END


def _kind(form: pa.DataType) -> tuple[str, int | None]:
    if pa.types.is_list(form):
        return _KINDS[form.value_type]
    if pa.types.is_decimal128(form):
        return f"decimal:{form.scale}", None
    return _KINDS[form][0], None


def _buffers(array: pa.Array) -> tuple[Any, ...]:
    if pa.types.is_list(array.type):
        return array.offset, array.buffers()[:2], [_buffers(array.values)]
    return array.offset, array.buffers(), []


class _PgpqEncoder:
    def __init__(self, forms: Sequence[pa.DataType], targets: Sequence[DataType]) -> None:
        import pgpq  # noqa: PLC0415 - only where it is used

        # Named by position, because pgpq identifies columns by name.
        self._schema = pa.schema([(str(place), form) for place, form in enumerate(forms)])
        builders = {
            field.name: _jsonb(field)
            if _is_jsonb(target)
            else pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field)
            for field, target in zip(self._schema, targets, strict=True)
        }
        self._encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(self._schema, builders)
        self._head = self._encoder.write_header()

    def encode(self, arrays: Sequence[pa.Array]) -> bytes:
        for array in arrays:
            if pa.types.is_string(array.type):
                array.validate(full=True)
        batch = pa.RecordBatch.from_arrays(list(arrays), schema=self._schema)
        rows = self._encoder.write_batch(batch)
        head, self._head = self._head, b""
        return bytes(head + rows) if head else rows

    def finish(self) -> bytes:
        head, self._head = self._head, b""
        return bytes(head + self._encoder.finish())


def _jsonb(field: pa.Field) -> Any:
    from pgpq.encoders import StringEncoderBuilder  # noqa: PLC0415
    from pgpq.schema import Jsonb  # noqa: PLC0415

    return StringEncoderBuilder.new_with_output(field, Jsonb())
