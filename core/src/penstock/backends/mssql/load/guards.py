"""Values that a column would change: drivers and servers cut, round, fill up and replace them, and
say nothing, or not which one it is."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.mssql.catalog.tables import CODE_PAGE
from penstock.backends.mssql.types import FRACTIONS, MAX, MICROS, MsType
from penstock.backends.shared.arrow import shown
from penstock.backends.sql.relations import TYPE
from penstock.errors import Diagnosis, PermanentError
from penstock.model.tables import Column

_UTF8 = 65001
_MINUTE = 60_000_000
_TEXTS = ("char", "varchar", "nchar", "nvarchar")
# The first and the last day of a type.
# https://learn.microsoft.com/en-us/sql/t-sql/data-types/date-and-time-types
_DAYS = {
    "datetime": (date(1753, 1, 1), date(9999, 12, 31)),
    "smalldatetime": (date(1900, 1, 1), date(2079, 6, 6)),
}
# A tick is a third of a hundredth of a second, written with three digits.
_TICKS = pa.array([0, 3, 7, -3, -7], pa.int64())

Changed = Callable[[pa.Array], pa.Array]
"""Tells of each value whether it would be another one."""


def check_exact(batch: pa.RecordBatch, columns: list[Column], subject: str, passed: int) -> None:
    """
    Parameters:
        columns: the target's, in the batch's order.
        subject: what is copied, for errors.
        passed: rows of the stream before this batch.

    Raises:
        PermanentError: names the column, the row, counted from 1 in the stream, and the value.
    """
    for column, array in zip(columns, batch.columns, strict=True):
        for expected, changed in _tests(column):
            row = pc.index(changed(array).fill_null(False), True).as_py()
            if row >= 0:
                raise PermanentError(
                    f"{subject}: column {column.name!r}, row {passed + row + 1:,}: expected "
                    f"{expected}, found {shown(array, row)}",
                    Diagnosis(side="target"),
                )


def _tests(column: Column) -> Iterator[tuple[str, Changed]]:
    type_: MsType = column.traits[TYPE]
    if type_.name in _TEXTS and type_.length != MAX:
        yield f"a value of {type_}", lambda array: pc.greater(pc.utf8_length(array), type_.length)
    if page := code_page(column):
        advice = "make the column nvarchar, or give it a collation of UTF-8"
        yield f"characters of code page {page} ({advice})", lambda array: unknown(array, page)
    if type_.name == "varbinary" and type_.length != MAX:
        yield f"a value of {type_}", lambda array: pc.greater(pc.binary_length(array), type_.length)
    if type_.name == "binary":
        yield (
            f"{type_.length} bytes, as {type_} has them",
            lambda array: pc.not_equal(pc.binary_length(array), type_.length),
        )
    if type_.name in _DAYS:
        first, last = _DAYS[type_.name]
        yield (
            f"a day from {first} to {last}, as {type_} has them",
            lambda array: pc.or_(pc.less(_days(array), first), pc.greater(_days(array), last)),
        )
    if type_.name == "datetime":
        yield "a time in its ticks (.000, .003, .007 s), or a column of datetime2", _off_tick
    step = _step(type_)
    if step > 1:
        yield (
            f"a time without more digits than {type_} has",
            lambda array: _rest(_micros(array), step),
        )


def _step(type_: MsType) -> int:
    """Microseconds from one value of a type of times to the next one."""
    if type_.name == "smalldatetime":
        return _MINUTE
    return int(10 ** max(0, MICROS - type_.length)) if type_.name in FRACTIONS else 1


def _micros(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64())


def _days(array: pa.Array) -> pa.Array:
    return array.cast(pa.date32(), safe=False)  # without the time of the day


def _rest(numbers: pa.Array, step: int) -> pa.Array:
    return pc.not_equal(pc.multiply(pc.divide(numbers, step), step), numbers)


def _off_tick(array: pa.Array) -> pa.Array:
    micros = _micros(array)
    millis = pc.divide(micros, 1000)
    last = pc.subtract(millis, pc.multiply(pc.divide(millis, 10), 10))
    on_tick = pc.is_in(last, _TICKS)
    return pc.or_(_rest(micros, 1000), pc.and_(pc.invert(on_tick), pc.is_valid(array)))


def code_page(column: Column) -> int:
    """0 where a column holds any character."""
    page = int(column.traits[CODE_PAGE])
    return 0 if page == _UTF8 else page


def unknown(texts: pa.Array, page: int) -> pa.Array:
    """Which values have a character that a code page does not have."""
    odd = pc.invert(pc.string_is_ascii(texts)).fill_null(False)
    if not pc.any(odd).as_py():
        return odd
    codec = _codec(page)
    if not _lacks(codec, "".join(texts.filter(odd).to_pylist())):
        return pc.and_(odd, False)
    return pa.array(
        [value is not None and _lacks(codec, value) for value in texts.to_pylist()], pa.bool_()
    )


def _lacks(codec: str, value: str) -> bool:
    try:
        value.encode(codec)
    except UnicodeEncodeError:
        return True
    return False


def _codec(page: int) -> str:
    """Where there is none, only what all of them have is known to arrive."""
    try:
        return codecs.lookup(f"cp{page}").name
    except LookupError:
        return "ascii"
