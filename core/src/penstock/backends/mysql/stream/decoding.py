"""Rows of the text protocol as record batches, decoded by column, never value by value.

Each value is sent as its length and its text. The start of each row's first value is known, and its
length gives the start of the next. So a column of many rows takes a few operations in Arrow and
none in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.mysql.stream.geometries import with_srid
from penstock.backends.mysql.stream.rows import Rows
from penstock.backends.mysql.types import MyType, types_of
from penstock.backends.shared.values.hex_values import uuids
from penstock.backends.shared.values.text_values import Refused, checked
from penstock.model.tables import Column

DATES = ("date", "datetime", "timestamp")
# A month or day of zero.
_ZERO_DATE = "-00"
_ZERO_ADVICE = "read zero dates as NULL with zero_dates=null in the source's URL, "

# By a value's first byte: 251 is NULL, and above it the following bytes contain the length.
# https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html
_NULL = 251
_LONGER = {252: 2, 253: 3, 254: 8}
_SHORT = pa.array([n if n < _NULL else 0 for n in range(256)], pa.int64())
_BEFORE = pa.array([1 + _LONGER.get(n, 0) for n in range(256)], pa.int64())
# Bytes of a length to read: the upper four of eight are zero.
_MOST = 4
_MASK = pa.array([(1 << 8 * min(_LONGER.get(n, 0), _MOST)) - 1 for n in range(256)], pa.int64())


class RowDecoder:
    """A decoder that turns the rows of one stream into record batches.

    Args:
        columns: the names and types of the source's columns.
        names: the columns' names in the batches.
        subject: the table or query being read, for error messages.
        options: the options in the source's URL.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, MyType]],
        names: Sequence[str],
        subject: str,
        options: Mapping[str, str],
    ) -> None:
        self._columns = columns
        self._names = names
        self._subject = subject
        self._zero_dates_null = options.get("zero_dates") == "null"
        types = types_of(options)
        self._arrow = [types.arrow_type(type_) for _, type_ in columns]
        self._even = pa.array([], pa.int32())
        self._rows_before = 0

    def decode(self, rows: Rows) -> pa.RecordBatch:
        """Decode some rows.

        Raises:
            PermanentError: Arrow cannot hold a value; names the column, the row (counted from 1 in
                the stream) and the value.
        """
        count = len(rows.starts)
        data = pa.py_buffer(rows.data)
        octets = pa.Array.from_buffers(pa.uint8(), data.size, [None, data])
        starts = pa.py_buffer(rows.starts)
        positions = pa.Array.from_buffers(pa.int64(), count, [None, starts])
        if count > len(self._even):
            self._even = pa.array(range(0, 2 * count, 2), pa.int32())
        even = self._even.slice(0, count)
        arrays = []
        for place, type_ in enumerate(self._arrow):
            if count:
                texts, positions = _values(octets, positions, even)
                arrays.append(self._converted(texts, place))
            else:
                arrays.append(pa.nulls(0, type_))
        self._rows_before += count
        return pa.RecordBatch.from_arrays(arrays, self._names)

    def _converted(self, texts: pa.Array, place: int) -> pa.Array:
        (name, type_), arrow_type = self._columns[place], self._arrow[place]
        dates = type_.name in DATES
        try:
            return _parsed(texts, type_, arrow_type)
        except (ValueError, pa.ArrowException):
            if dates and self._zero_dates_null:
                zero = pc.match_substring(texts, _ZERO_DATE)
                texts = pc.if_else(zero, pa.scalar(None, texts.type), texts)
        try:
            return checked(texts, lambda part: _parsed(part, type_, arrow_type))
        except Refused as refused:
            advice = _ZERO_ADVICE if dates and _ZERO_DATE in refused.text else ""
            column = Column(name, str(type_))
            raise refused.error(
                self._subject, column, arrow_type, self._rows_before, advice
            ) from None


def _values(octets: pa.Array, positions: pa.Array, even: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the values that begin at some positions, as a binary array, and their ends.

    Args:
        octets: the bytes of the rows, as an array of uint8.
        positions: where the values' lengths begin.
        even: 0, 2, 4 and so on, one for each position.
    """
    first = pc.take(octets, positions, boundscheck=False)
    longest = pc.max(first).as_py()
    if longest < _NULL:
        starts = pc.add(positions, pa.scalar(1, pa.int64()))
        ends = pc.add(starts, first.cast(pa.int64()))
    else:
        even = pc.if_else(pc.equal(first, pa.scalar(_NULL, pa.uint8())), None, even)
        starts = pc.add(positions, _BEFORE.take(first))
        ends = pc.add(starts, _SHORT.take(first))
        if longest > _NULL:
            lengths = _number(octets, positions, min(_LONGER[longest], _MOST))
            ends = pc.add(ends, pc.bit_wise_and(lengths, _MASK.take(first)))
    # Used as an array's offsets: the start and end of each value alternate, two of 32 bits in each
    # 64. Every other element is a value; those in between are the rest of the rows.
    offsets = pc.bit_wise_or(starts, pc.shift_left(ends, pa.scalar(32, pa.int64())))
    buffers = [None, offsets.buffers()[1], octets.buffers()[1]]
    values = pa.Array.from_buffers(pa.binary(), 2 * len(first) - 1, buffers)
    return pc.take(values, even, boundscheck=False), ends


def _number(octets: pa.Array, positions: pa.Array, count: int) -> pa.Array:
    """Return little-endian numbers of some bytes after each position."""
    numbers = pa.repeat(pa.scalar(0, pa.int64()), len(positions))
    for place in range(count):
        after = pc.add(positions, pa.scalar(place + 1, pa.int64()))
        octet = pc.take(octets, after, boundscheck=False)
        shifted = pc.shift_left(octet.cast(pa.int64()), pa.scalar(8 * place, pa.int64()))
        numbers = pc.bit_wise_or(numbers, shifted)
    return numbers


def _parsed(texts: pa.Array, type_: MyType, arrow_type: pa.DataType) -> pa.Array:
    """Parse texts of a column.

    Raises:
        ValueError: a value does not fit. This includes `pyarrow.ArrowInvalid`.
    """
    if type_.name == "geometry":
        return with_srid(texts)
    if pa.types.is_binary(arrow_type):
        return texts
    if pa.types.is_string(arrow_type):
        return texts.cast(arrow_type)
    # Only a text would have to be checked for UTF-8.
    strings = pa.Array.from_buffers(
        pa.string(), len(texts), texts.buffers(), texts.null_count, texts.offset
    )
    if arrow_type == pa.uuid():
        return uuids(pc.replace_substring(strings, "-", ""))
    if pa.types.is_time(arrow_type):
        # Parsed as a moment within a day, because Arrow cannot parse times.
        strings = pc.binary_join_element_wise("1970-01-01", strings, " ")
        return strings.cast(pa.timestamp("us")).cast(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        # The session's time zone is UTC.
        return strings.cast(pa.timestamp("us")).view(arrow_type)
    return strings.cast(arrow_type)
