"""Record batches in COPY's format: binary if all columns allow it, else text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.postgresql.arrow.array_encoders import array_encoder
from penstock.backends.postgresql.arrow.families import family, family_of, unwrap
from penstock.backends.postgresql.arrow.texts import simplify, texts
from penstock.backends.postgresql.arrow.types import DECIMAL128
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.postgresql.session.statements import BINARY, TEXT
from penstock.backends.shared.values.arrow import exactly, first_failing, is_list, shown, too_fine
from penstock.errors import Diagnosis, PermanentError
from penstock.model.tables import Column

# For these types pgpq writes the server's binary form, also for array elements.
_ELEMENT_FORMS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_COLUMN_FORMS: dict[str, pa.DataType] = {
    **_ELEMENT_FORMS,
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "json": pa.string(),
    "jsonb": pa.string(),
    "time": pa.time64("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.duration("us"),
    "uuid": pa.binary(16),
}
# Holds every integer type of Arrow.
_WHOLE = pa.decimal128(20, 0)
# The server counts from 2000-01-01, and its lowest number of days or microseconds means -infinity.
_NO_DAY = -(1 << 31) + 10_957
_NO_MOMENT = -(1 << 63) + 10_957 * 86_400_000_000
_STRUCTURE = "[\\\\\\n\\r\\t\\x00]"
_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def binary_form(type_: pa.DataType, target: DataType) -> pa.DataType | None:
    """Return the Arrow type that encodes to the target's binary form; None without one.

    Args:
        type_: the Arrow type of the batches' column.
        target: the type of the server's column.
    """
    bare = target.bare
    mine, theirs = family(type_), family_of(target)
    if bare.kind == "enum":
        return pa.string() if mine in ("text", "null") else None
    if bare.kind == "array":
        element = bare.components[0].bare
        inner = unwrap(type_).value_type if is_list(unwrap(type_)) else None
        if inner is None or element.schema != "pg_catalog" or element.name not in _ELEMENT_FORMS:
            return None
        wire = _ELEMENT_FORMS[element.name]
        return pa.list_(wire) if family(inner) == family(wire) else None
    if bare.identity == "extension:citext.citext":
        return pa.string()
    if bare.schema != "pg_catalog" or bare.kind != "base":
        return None
    if bare.name == "numeric":
        if mine == "decimal" and not pa.types.is_decimal256(unwrap(type_)):
            return _decimal128(unwrap(type_))
        return _WHOLE if mine == "integer" else None
    if mine == "null":
        return _COLUMN_FORMS.get(bare.name)
    as_text = theirs in ("text", "json")
    if mine == "interval" or (mine == "text" and not as_text):
        return None
    return _COLUMN_FORMS.get(bare.name)


def _decimal128(type_: pa.DataType) -> pa.DataType | None:
    precision, scale = type_.precision, type_.scale
    if scale < 0:
        precision, scale = precision - scale, 0
    return pa.decimal128(precision, scale) if precision <= DECIMAL128 else None


class Encoder:
    """An encoder that turns the batches of one stream into COPY data.

    Args:
        schema: the schema of the batches.
        columns: the target columns to load, with this server's traits.
        all_send: whether binary COPY can load the table.
        subject: the table being loaded, for error messages.
    """

    def __init__(
        self, schema: pa.Schema, columns: Sequence[Column], subject: str, *, all_send: bool
    ) -> None:
        self._columns = columns
        self._targets = [data_type(column) for column in columns]
        self._subject = subject
        self._rows_before = 0
        forms = [
            binary_form(field.type, target)
            for field, target in zip(schema, self._targets, strict=True)
        ]
        self.format = BINARY if all_send and None not in forms else TEXT
        self._forms = forms
        if self.format == BINARY:
            self._binary = array_encoder(forms, self._targets)

    def encode(self, batch: pa.RecordBatch) -> bytes | memoryview:
        """Encode one batch.

        Raises:
            PermanentError: a value does not fit; names the column, the row (counted from 1 in the
                stream) and the value.
        """
        data = self._encode_binary(batch) if self.format == BINARY else self._encode_text(batch)
        self._rows_before += batch.num_rows
        return data

    def finish(self) -> bytes:
        """Return the bytes that end the stream."""
        return b"" if self.format == TEXT else self._binary.finish()

    def _encode_binary(self, batch: pa.RecordBatch) -> bytes | memoryview:
        arrays = [
            self._convert(place, array, partial(_cast, form=form, target=target))
            for place, (array, form, target) in enumerate(
                zip(batch.columns, self._forms, self._targets, strict=True)
            )
        ]
        try:
            return self._binary.encode(arrays)
        except ValueError:
            for place, array in enumerate(arrays):
                self._convert(place, array, partial(self._encode_alone, place=place))
            raise

    def _encode_alone(self, array: pa.Array, place: int) -> pa.Array:
        array_encoder(self._forms[place : place + 1], self._targets[place : place + 1]).encode(
            [array]
        )
        return array

    def _encode_text(self, batch: pa.RecordBatch) -> memoryview:
        """Write each row as one line.

        Texts with line breaks are escaped, so the line count of the server equals the row count.
        """
        if not batch.num_rows:
            return memoryview(b"")
        columns = [
            self._convert(place, array, partial(_escape, form=form, target=target))
            for place, (array, form, target) in enumerate(
                zip(batch.columns, self._forms, self._targets, strict=True)
            )
        ]
        rows = pc.binary_join_element_wise(
            *(column.cast(pa.large_string()) for column in columns),
            pa.scalar("\t", pa.large_string()),
            null_handling="replace",
            null_replacement="\\N",
        )
        lines = pc.binary_join_element_wise(
            rows, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())
        )
        return memoryview(lines.buffers()[2])

    def _convert(
        self, place: int, array: pa.Array, attempt: Callable[[pa.Array], pa.Array]
    ) -> pa.Array:
        """Apply a conversion to a column.

        Raises:
            PermanentError: the conversion fails; names the first value for which it does.
        """
        try:
            return attempt(array)
        except (ValueError, pa.ArrowException) as error:
            index = first_failing(array, attempt)
            column = self._columns[place]
            raise PermanentError(
                f"{self._subject}: column {column.name!r}, row {self._rows_before + index + 1:,}: "
                f"expected a value that fits into {column.type}, found {shown(array, index)}"
                f"{too_fine(array, index)}",
                Diagnosis(side="target"),
            ) from error


def _cast(array: pa.Array, form: pa.DataType, target: DataType) -> pa.Array:
    """Cast an array without loss.

    Raises:
        ValueError: a value does not fit. This includes `pyarrow.ArrowInvalid`.
    """
    if pa.types.is_string(form):
        # The encoder checks their UTF-8.
        return array if array.type.equals(form) else texts(array, target).cast(form)
    values = simplify(array)
    if pa.types.is_date32(form) and pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit))
    if pa.types.is_boolean(form) and pa.types.is_integer(values.type):
        _check_truths(values)
    cast = exactly(values, form)
    _check_finite(cast)
    return cast


def _check_truths(array: pa.Array) -> None:
    """Check numbers that become booleans.

    Raises:
        ValueError: a number is neither 0 nor 1. A cast would turn any other number into true.
    """
    if not pc.all(pc.is_in(array, pa.array([0, 1, None], array.type))).as_py():
        raise ValueError("neither 0 nor 1")


def _check_finite(array: pa.Array) -> None:
    """Check dates and timestamps for the number that the server reserves.

    Raises:
        ValueError: a value has the number that the server reads as -infinity.
    """
    if pa.types.is_list(array.type):
        _check_finite(array.values)
    elif pa.types.is_date32(array.type):
        _check_all_after(array.view(pa.int32()), _NO_DAY)
    elif pa.types.is_timestamp(array.type):
        _check_all_after(array.view(pa.int64()), _NO_MOMENT)


def _check_all_after(numbers: pa.Array, last: int) -> None:
    least = pc.min(numbers).as_py()
    if least is not None and least <= last:
        raise ValueError("before the server's first date")


def _escape(array: pa.Array, form: pa.DataType | None, target: DataType) -> pa.Array:
    """Return an array as escaped text for COPY.

    https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.2

    Raises:
        ValueError: a text contains a zero byte, which the server's texts cannot.
    """
    # Whether a value fits must not depend on the other columns.
    array = texts(array if form is None else _cast(array, form, target), target)
    if not pc.any(pc.match_substring_regex(array, _STRUCTURE)).as_py():
        return array
    if pc.any(pc.match_substring(array, "\0")).as_py():
        raise ValueError("a zero byte")
    for character, escape in _ESCAPES:
        array = pc.replace_substring(array, character, escape)
    return array
