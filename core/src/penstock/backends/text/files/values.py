"""Texts converted to Arrow values, and the types of a dataset's columns back to texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from penstock.backends.parquet.errors import Broken
from penstock.backends.shared.texts.plain_values import plain_values
from penstock.backends.shared.values.arrow import exactly, first_failing, is_bytes, is_text, shown
from penstock.backends.shared.values.hex_values import from_hex

JSON = {b"penstock": b"json"}
"""The metadata of a column whose texts are JSON."""
FOLDER = {b"penstock": b"folder"}
"""The metadata of a column from folder names."""
EXACT = 1 << 53
"""Below it, doubles distinguish all whole numbers."""
_ADVICE = (
    " (this is the table's type; add ?types=inferred to the file's name to infer types from all "
    "values instead, or ?types=text to leave the texts to the database)"
)
_LONG = r"^-?[0-9]{16,}$"


def typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert texts to a type; around values that are not texts, blanks mean nothing.

    Raises:
        pyarrow.ArrowException, ValueError: a text is not a value of the type.
    """
    try:
        return _typed(texts, kind)
    except (pa.ArrowException, ValueError):
        trimmed = pc.ascii_trim_whitespace(texts)
        if trimmed.equals(texts):
            raise
        return _typed(trimmed, kind)


def _typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if is_text(kind):
        return texts.cast(kind)
    if is_bytes(kind):
        if pc.all(pc.starts_with(texts, "\\x")).as_py() is False:
            raise pa.ArrowInvalid("not hexadecimal digits")
        return from_hex(pc.utf8_slice_codeunits(texts, 2)).cast(kind)
    if is_.is_floating(kind):
        numbers = texts.cast(kind)
        beyond = pc.and_(pc.is_inf(numbers), pc.match_substring_regex(texts, "[0-9]"))
        if pc.any(beyond).as_py():
            raise pa.ArrowInvalid(f"outside the range of {kind}")
        for text in texts.filter(pc.match_substring_regex(texts, _LONG)).to_pylist():
            if int(float(text)) != int(text):
                raise pa.ArrowInvalid(f"not exact as {kind}")
        return numbers
    if is_.is_time(kind):  # Arrow cannot cast text to this type
        moments = pc.binary_join_element_wise("1970-01-01", texts, " ")
        try:
            return moments.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(kind)
        except pa.ArrowInvalid:
            return plain_values(texts, kind)  # of which one may be 24:00:00
    if is_.is_date(kind) or is_.is_timestamp(kind):
        try:
            return exactly(texts, kind)
        except pa.ArrowInvalid:
            return plain_values(texts, kind)
    if is_.is_dictionary(kind):
        return typed(texts, kind.value_type)
    return exactly(texts, kind)


def typed_batch(
    batch: pa.RecordBatch, schema: pa.Schema, first: int, *, given: bool = False
) -> pa.RecordBatch:
    """Convert the columns of a batch.

    Args:
        batch: texts, in the schema's order.
        schema: the columns and their types.
        first: the number of the batch's first row in its file, for the message.
        given: whether the types are the table's.

    Raises:
        Broken: a text is not a value of its column's type; names the row.
    """
    arrays = []
    for texts, part in zip(batch.columns, schema, strict=True):
        try:
            arrays.append(typed(texts, part.type))
        except (pa.ArrowException, ValueError) as error:
            kind = part.type
            row = first_failing(texts, lambda some, kind=kind: typed(some, kind))  # type: ignore[misc]
            raise Broken(
                f"row {first + row:,}, column {part.name!r}: expected a value of {kind}, found "
                f"{shown(texts, row)}" + _ADVICE * given
            ) from error
    if not arrays:  # Rows without columns are only counted.
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
