"""What backends that speak record batches share: schemas as text, and casts that name the row."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.errors import PermanentError
from penstock.model import Column

TRAIT = "arrow"


def arrow_type(column: Column) -> pa.DataType:
    """The type in which a column's values travel."""
    found = column.traits[TRAIT]
    assert isinstance(found, pa.DataType)
    return found


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c), c.nullable) for c in columns])


def schema_to_text(schema: pa.Schema) -> str:
    """As `LoadPlan.schema` has it."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_from_text(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
        or pt.is_fixed_size_list(kind)
    )


def kind_of(kind: pa.DataType) -> str:
    """How values of a type are written for checksums; empty where nobody has said.

    See `ColumnPair.canonical`.
    """
    if isinstance(kind, pa.UuidType):
        return "uuid"
    if isinstance(kind, pa.BaseExtensionType):
        return kind_of(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return kind_of(kind.value_type)
    tests = (
        (pt.is_boolean, "boolean"),
        (pt.is_integer, "integer"),
        (pt.is_decimal, "decimal"),
        (pt.is_floating, "float"),
        (is_text, "text"),
        (is_bytes, "bytes"),
        (pt.is_date, "date"),
        (pt.is_time, "time"),
        (pt.is_timestamp, "timestamp"),
    )
    for test, name in tests:
        if test(kind):
            return name
    if is_list(kind):
        inner = kind_of(kind.value_type)
        return f"list:{inner}" if inner else ""
    return ""


class Caster:
    """Casts the batches of one stream to a schema, by position.

    Parameters:
        subject: what is copied, for errors.
    """

    def __init__(self, schema: pa.Schema, subject: str) -> None:
        self._schema = schema
        self._subject = subject
        self._passed = 0

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """
        Raises:
            PermanentError: a value does not fit; names the column, the row, counted from 1 in the
                stream, and the value.
        """
        arrays = [
            array if array.type == field.type else self._cast(array, field)
            for array, field in zip(batch.columns, self._schema, strict=True)
        ]
        for array, field in zip(arrays, self._schema, strict=True):
            if not field.nullable and array.null_count:
                row = next(i for i, valid in enumerate(array.is_valid()) if not valid.as_py())
                raise self._error(field.name, row, "a value", "NULL")
        self._passed += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        try:
            return exactly(array, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            row = first_refused(array, field.type)
            found = shown(array, row) if len(array) else f"type {array.type}"
            raise self._error(field.name, row, f"a value of {field.type}", found) from error

    def _error(self, column: str, row: int, expected: str, found: str) -> PermanentError:
        return PermanentError(
            f"{self._subject}: column {column!r}, row {self._passed + row + 1:,}: expected "
            f"{expected}, found {found}"
        )


def first_refused(array: pa.Array, wanted: pa.DataType) -> int:
    """The index of the first value that cannot be cast."""
    return first_failing(array, lambda part: exactly(part, wanted))


def exactly(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A cast that refuses what Arrow's own would make another value of without a word.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit.
    """
    mine = array.type
    if mine.equals(wanted):
        return array
    if pt.is_dictionary(mine):
        return exactly(array.dictionary_decode(), wanted)
    if (pt.is_list(mine) or pt.is_large_list(mine)) and is_list(wanted):
        array = own(array)
        items = exactly(array.values, wanted.value_type)
        missing = array.is_null() if array.null_count else None
        return type(array).from_arrays(array.offsets, items, mask=missing).cast(wanted)
    if pt.is_struct(mine) and pt.is_struct(wanted) and mine.names == wanted.names:
        parts = [
            exactly(part, field.type) for part, field in zip(array.flatten(), wanted, strict=True)
        ]
        missing = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=missing)
    if pt.is_decimal(mine) and pt.is_floating(wanted):
        # Arrow multiplies, and so makes 99.99 to 99.99000000000001, and NaN of 76 digits.
        return exactly(array.cast(pa.string()).cast(pa.float64()), wanted)
    if pt.is_timestamp(mine) and pt.is_date32(wanted) and mine.unit in ("s", "ms"):
        # Days beyond 32 bits would be cut. Microseconds are counted for no so many days.
        array = array.cast(pa.timestamp("us", mine.tz))
    found = array.cast(wanted)
    if pt.is_floating(mine) and pt.is_floating(wanted) and wanted.bit_width < mine.bit_width:
        over = pc.and_(pc.is_inf(found.cast(pa.float64())), pc.is_finite(array))
        if pc.any(over).as_py():
            raise pa.ArrowInvalid(f"beyond the range of {wanted}")
    return found


def own(array: pa.Array) -> pa.Array:
    """The array with buffers that hold nothing but its own values: casts of lists, for instance,
    look at all that a buffer holds."""
    return pa.concat_arrays([array])


def first_failing(array: pa.Array, attempt: Callable[[pa.Array], object]) -> int:
    """The index of the first value that an attempt fails for, by halves.

    Parameters:
        attempt: raises a ValueError or a `pyarrow.ArrowException`.
    """
    lower, upper = 0, len(array)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        try:
            attempt(own(array.slice(lower, middle - lower)))
        except (ValueError, pa.ArrowException):
            upper = middle
        else:
            lower = middle
    return lower


def shown(array: pa.Array, index: int, most: int = 100) -> str:
    """One of its values, for people."""
    try:
        if pt.is_time(array.type):
            raise ValueError("beyond a day Python makes another of it")
        text = repr(array[index].as_py())
    except (ValueError, OverflowError):  # Python does not have it, or it is no UTF-8
        text = str(array[index : index + 1].to_string(skip_new_lines=True)).strip("[] ")
    return text if len(text) <= most else text[:most] + "..."
