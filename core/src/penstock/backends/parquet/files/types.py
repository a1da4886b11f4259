"""The types in which values of files travel, and those in which DuckDB reads them.

Files have several notations for the same type (`string`, `large_string`, `string_view`,
dictionaries). Only one of each travels, so that targets need not support them all.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as is_

from penstock.backends.shared.values.arrow import is_list

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def travelling(type_: pa.DataType) -> pa.DataType:
    """Return the type that represents another in a stream's batches."""
    if is_.is_null(type_):
        return pa.int32()
    return _nested(in_file(type_), travelling)


def in_file(type_: pa.DataType) -> pa.DataType:
    """Return the type that represents another in comparisons of files.

    Unlike in a stream's batches, a column whose values are all NULL may have a type of its own.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return type_ if type_ == pa.uuid() else in_file(type_.storage_type)
    if is_.is_dictionary(type_) or is_.is_run_end_encoded(type_):
        return in_file(type_.value_type)
    if is_.is_large_string(type_) or is_.is_string_view(type_):
        return pa.string()
    if is_.is_large_binary(type_) or is_.is_binary_view(type_) or is_.is_fixed_size_binary(type_):
        return pa.binary()
    if is_.is_float16(type_):
        return pa.float32()
    if is_.is_decimal32(type_) or is_.is_decimal64(type_):
        return pa.decimal128(type_.precision, type_.scale)
    if is_.is_date64(type_):
        return pa.date32()
    if is_.is_time32(type_):
        return pa.time64("us")
    if is_.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC") if type_.tz != "UTC" else type_
    return _nested(type_, in_file) if is_.is_nested(type_) else type_


def engine(type_: pa.DataType) -> pa.DataType:
    """Return the type that represents a travelling type in DuckDB.

    Types that DuckDB lacks become numbers or texts.
    """
    if is_.is_decimal256(type_):
        return pa.string()
    if is_.is_duration(type_):
        return pa.int64()
    return _nested(type_, engine)


def _nested(type_: pa.DataType, of: object) -> pa.DataType:
    assert callable(of)
    if is_list(type_):
        return pa.list_(_plain(of(type_.value_type)))
    if is_.is_map(type_):
        return pa.map_(_plain(of(type_.key_type)), _plain(of(type_.item_type)))
    if is_.is_struct(type_):
        return pa.struct([pa.field(part.name, _plain(of(part.type))) for part in type_])
    return type_


def _plain(type_: pa.DataType) -> pa.DataType:
    """Remove extension types inside other types, which few readers support."""
    return pa.binary() if isinstance(type_, pa.BaseExtensionType) else type_


def converted(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert an array to a type.

    Raises:
        pyarrow.ArrowException: a value does not fit.
    """
    if array.type == type_:
        return array
    if is_.is_dictionary(array.type) and not is_.is_string(array.type.value_type):
        # Views, for example, cannot be cast.
        values = array.dictionary.cast(travelling(array.type.value_type))
        array = pa.DictionaryArray.from_arrays(array.indices, values)
    return array.cast(type_)


def key_type(texts: Iterable[str | None]) -> pa.DataType:
    """Return the type of a Hive-style folder's column: whole numbers, dates, or else texts."""
    values = {text for text in texts if text is not None}
    if values and all(_WHOLE.fullmatch(text) for text in values):
        return pa.int64()
    if values and all(_is_date(text) for text in values):
        return pa.date32()
    return pa.string()


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def key_value(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Return the value that a folder's name stands for; see `key_type`."""
    return pa.scalar(text, pa.string()).cast(type_)
