"""Shared code for record batches: schemas as text, and casts that report the row."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.backends.shared.texts.plain_texts import has_plain_text, plain_texts
from penstock.backends.shared.values.hex_values import uuid_texts, uuids_of
from penstock.backends.shared.values.json_texts import json_texts
from penstock.errors import PermanentError, PlanningError
from penstock.model import values
from penstock.model.tables import Column

TRAIT = "arrow"


def arrow_type(column: Column) -> pa.DataType:
    """Return the type in which a column's values travel.

    Raises:
        PlanningError: the type contains a struct without fields.
    """
    type_ = column.traits[TRAIT]
    assert isinstance(type_, pa.DataType)
    if has_empty_struct(type_):
        raise PlanningError(
            f"column {column.name!r} is of type {type_}: expected a struct with fields; leave "
            "the column out with --columns"
        )
    return type_


def in_arrow(
    columns: Sequence[Column], types: Mapping[str, pa.DataType], side: str
) -> tuple[Column, ...]:
    """Return columns with the types in which their values travel, as a trait.

    Args:
        columns: the columns.
        types: by the column types that can be copied.
        side: `source` or `target`, for messages.

    Raises:
        PlanningError: a column's type is not among them.
    """
    for column in columns:
        if column.type not in types:
            raise PlanningError(
                f"{side}: column {column.name!r}: expected one of the types {', '.join(types)}; "
                f"found {column.type!r}"
            )
    return tuple(replace(c, traits={**c.traits, TRAIT: types[c.type]}) for c in columns)


def has_empty_struct(kind: pa.DataType) -> bool:
    """Whether a type contains a struct without fields, which no file can store."""
    if pt.is_struct(kind) and not kind.num_fields:
        return True
    return any(has_empty_struct(kind.field(place).type) for place in range(kind.num_fields))


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of columns that have the trait `arrow`."""
    return pa.schema([pa.field(c.name, arrow_type(c), c.nullable) for c in columns])


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows.

    Before version 26, empty arrays that pyarrow makes of Python values have other index types than
    a dictionary's.
    """
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def schema_to_text(schema: pa.Schema) -> str:
    """Return a schema as text, as in `LoadPlan.schema`."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_from_text(text: str) -> pa.Schema:
    """Return the schema from a text that `schema_to_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text in any of Arrow's layouts."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type is bytes in any of Arrow's layouts, including those of a fixed size."""
    return bool(
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list in any of Arrow's layouts, including those of a fixed size."""
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
        or pt.is_fixed_size_list(kind)
    )


def kind_of(kind: pa.DataType) -> str:
    """Return the canonical form of a type's values for checksums; empty if none is defined.

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


def value_kind(kind: pa.DataType) -> str:
    """Return what a column of a type holds.

    See `penstock.backends.sql.definitions.expressions`.
    """
    return "moment" if pt.is_timestamp(kind) and kind.tz else kind_of(kind)


def value_kinds(columns: Iterable[Column]) -> dict[str, str]:
    """Return what columns hold, by name."""
    return {column.name: value_kind(arrow_type(column)) for column in columns}


class Caster:
    """A caster for the batches of one stream, by column position.

    Args:
        subject: the table being copied, for error messages.
    """

    def __init__(self, schema: pa.Schema, subject: str) -> None:
        self._schema = schema
        self._subject = subject
        self._rows_before = 0

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Cast one batch.

        Raises:
            PermanentError: a value does not fit; names the column, the row (counted from 1 in the
                stream) and the value.
        """
        arrays = [
            array if array.type == field.type else self._cast(array, field)
            for array, field in zip(batch.columns, self._schema, strict=True)
        ]
        for array, field in zip(arrays, self._schema, strict=True):
            if not field.nullable and array.null_count:
                row = next(i for i, valid in enumerate(array.is_valid()) if not valid.as_py())
                raise self._error(field.name, row, "a value", "NULL")
        self._rows_before += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        try:
            return exactly(array, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            row = first_refused(array, field.type)
            actual = f"type {array.type}"
            if len(array):
                actual = shown(array, row) + too_fine(array, row)
            raise self._error(field.name, row, f"a value of {field.type}", actual) from error

    def _error(self, column: str, row: int, expected: str, actual: str) -> PermanentError:
        return PermanentError(
            f"{self._subject}: column {column!r}, row {self._rows_before + row + 1:,}: expected "
            f"{expected}, found {actual}"
        )


def first_refused(array: pa.Array, target_type: pa.DataType) -> int:
    """Return the index of the first value that cannot be cast."""
    return first_failing(array, lambda part: exactly(part, target_type))


def exactly(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Cast an array, rejecting values that Arrow's own cast would silently change.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit.
    """
    mine = array.type
    if mine.equals(target_type):
        return array
    if pt.is_dictionary(mine):
        return exactly(array.dictionary_decode(), target_type)
    if is_list(mine) and is_text(target_type):
        return json_texts(array).cast(target_type)
    if (pt.is_list(mine) or pt.is_large_list(mine)) and is_list(target_type):
        array = compacted(array)
        items = exactly(array.values, target_type.value_type)
        missing = array.is_null() if array.null_count else None
        return type(array).from_arrays(array.offsets, items, mask=missing).cast(target_type)
    if pt.is_struct(mine) and pt.is_struct(target_type) and mine.names == target_type.names:
        parts = [
            exactly(part, field.type)
            for part, field in zip(array.flatten(), target_type, strict=True)
        ]
        missing = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(target_type), mask=missing)
    if has_plain_text(mine) and is_text(target_type):
        return plain_texts(array).cast(target_type)
    if mine == pa.uuid() and pt.is_string(target_type):
        return uuid_texts(array).cast(target_type)
    if target_type == pa.uuid() and is_text(mine):
        return uuids_of(array)
    if pt.is_decimal(mine) and pt.is_floating(target_type):
        # Arrow multiplies, which turns 99.99 into 99.99000000000001, and 76 digits into NaN.
        return exactly(array.cast(pa.string()).cast(pa.float64()), target_type)
    if pt.is_timestamp(mine) and pt.is_date32(target_type) and mine.unit in ("s", "ms"):
        # Days beyond 32 bits would be truncated; microseconds never reach so many days.
        array = array.cast(pa.timestamp("us", mine.tz))
    result = array.cast(target_type)
    if (
        pt.is_floating(mine)
        and pt.is_floating(target_type)
        and target_type.bit_width < mine.bit_width
    ):
        over = pc.and_(pc.is_inf(result.cast(pa.float64())), pc.is_finite(array))
        if pc.any(over).as_py():
            raise pa.ArrowInvalid(f"beyond the range of {target_type}")
    return result


def compacted(array: pa.Array) -> pa.Array:
    """Return the array with buffers that hold only its own values.

    Casts of lists, for instance, process everything in a buffer.
    """
    return pa.concat_arrays([array])


def first_failing(array: pa.Array, attempt: Callable[[pa.Array], object]) -> int:
    """Return the index of the first value for which an attempt fails, by bisection.

    Args:
        array: the values.
        attempt: raises a ValueError or a `pyarrow.ArrowException`.
    """
    lower, upper = 0, len(array)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        try:
            attempt(compacted(array.slice(lower, middle - lower)))
        except (ValueError, pa.ArrowException):
            upper = middle
        else:
            lower = middle
    return lower


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of scalar values within an array.

    NULLs and hidden values are left out of lists and structs.
    """
    if isinstance(array, pa.ExtensionArray):
        yield from leaves(array.storage)
    elif is_list(array.type):
        yield from leaves(array.flatten())
    elif pt.is_map(array.type):
        array = compacted(array)
        yield from leaves(array.keys)
        yield from leaves(array.items)
    elif pt.is_struct(array.type):
        for part in array.flatten():
            yield from leaves(part)
    else:
        yield array


def too_fine(array: pa.Array, index: int) -> str:
    """Return advice for a value that has fractions of a microsecond, and so may not fit."""
    for leaf in leaves(compacted(array.slice(index, 1))):
        if getattr(leaf.type, "unit", "") == "ns" and any(
            part % 1000 for part in leaf.view(pa.int64()).to_pylist() if part is not None
        ):
            return ", which has nanoseconds; cast it to a type of whole microseconds in a --query"
    return ""


def shown(array: pa.Array, index: int, max_characters: int = 100) -> str:
    """Return one of the values as text, shortened.

    Args:
        array: the values.
        index: the index of the value in its array.
        max_characters: the most characters to show.
    """
    if not array[index].is_valid:
        return "NULL"
    text = values.value(_shown_value(array[index]))
    return text if len(text) <= max_characters else text[:max_characters] + "..."


def _shown_value(value: pa.Scalar) -> str:
    kind = value.type
    if not value.is_valid:
        return "NULL"
    if isinstance(value, pa.ExtensionScalar) and kind != pa.uuid():
        return _shown_value(value.value)
    if pt.is_dictionary(kind):
        return _shown_value(value.value)
    if is_list(kind):
        return f"[{', '.join(map(_shown_value, value))}]"
    if pt.is_map(kind):
        pairs = zip(value.values.field(0), value.values.field(1), strict=True)
        return (
            f"{{{', '.join(f'{_shown_value(key)}: {_shown_value(item)}' for key, item in pairs)}}}"
        )
    if pt.is_struct(kind):
        return f"{{{', '.join(f'{name}: {_shown_value(part)}' for name, part in value.items())}}}"
    if pt.is_temporal(kind):
        return _moment(value)
    if is_text(kind):
        content = value.as_buffer().to_pybytes()
        try:
            return repr(content.decode())
        except UnicodeDecodeError:
            return f"{content!r}, which is not UTF-8"
    python_value = value.as_py()
    return repr(python_value) if isinstance(python_value, bytes) else str(python_value)


def _moment(value: pa.Scalar) -> str:
    kind = value.type
    if pt.is_interval(kind):
        return str(value.as_py())
    if pt.is_duration(kind):
        return f"{value.value} {kind.unit}"
    try:
        return str(plain_texts(pa.array([value], kind))[0])
    except (ValueError, pa.ArrowException):
        pass  # it exceeds a day, or 64 bits of microseconds
    unit = "days" if pt.is_date32(kind) else "ms" if pt.is_date64(kind) else kind.unit
    return (
        f"{value.value} {unit}{' since 1970' if pt.is_date(kind) or pt.is_timestamp(kind) else ''}"
    )
