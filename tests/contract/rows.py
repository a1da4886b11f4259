"""Tables for the contract suite: Python values in, Python values out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from ..plain_rows import plain
from ..types.type_files import lines

Row = tuple[Any, ...]

LAST_MICROSECOND = "1969-12-31 23:59:59.999999"


@dataclass(frozen=True)
class Kind:
    """A kind of value: its usual type in record batches, and extreme values."""

    arrow: pa.DataType
    values: tuple[Any, ...]


KINDS: Mapping[str, Kind] = {
    "boolean": Kind(pa.bool_(), (True, False)),
    "smallint": Kind(pa.int16(), (-32768, 0, 32767)),
    "integer": Kind(pa.int32(), (-(2**31), 0, 2**31 - 1)),
    "bigint": Kind(pa.int64(), (-(2**63), 0, 2**63 - 1)),
    "real": Kind(pa.float32(), (1.5, -0.25)),
    "special real": Kind(pa.float32(), (math.inf, -math.inf, math.nan)),
    "double": Kind(pa.float64(), (0.1, 1e15, 1e16, 1e-7, 5e-324, 1.7976931348623157e308)),
    "infinite double": Kind(pa.float64(), (math.inf, -math.inf)),
    "special double": Kind(pa.float64(), (math.nan, -0.0)),
    "decimal": Kind(
        pa.decimal128(38, 10),
        (
            Decimal("0"),
            Decimal("-1.5"),
            Decimal("1200.0000000001"),
            Decimal("9" * 28 + "." + "9" * 10),
        ),
    ),
    "money": Kind(pa.decimal128(15, 2), (Decimal("-0.01"), 10)),
    "text": Kind(pa.string(), ("", " a ", 'é"\n\t\\N,;{}', "🐘" * 10, "NULL", "\\")),
    "bytes": Kind(pa.binary(), (b"", b"\x00\xff'\\", bytes(range(256)))),
    "date": Kind(pa.date32(), (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31))),
    "time": Kind(pa.time64("us"), (time(0), time(23, 59, 59, 999999))),
    "timestamp": Kind(
        pa.timestamp("us"),
        tuple(map(datetime.fromisoformat, ("0001-01-01", LAST_MICROSECOND, "9999-12-31"))),
    ),
    "timestamptz": Kind(
        pa.timestamp("us", "UTC"),
        (
            datetime(2024, 1, 31, 23, 59, 59, 123456, UTC),
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            datetime(2038, 1, 19, 3, 14, 7, 999999, UTC),
        ),
    ),
    "old timestamptz": Kind(pa.timestamp("us", "UTC"), (datetime(1900, 1, 1, tzinfo=UTC),)),
    "uuid": Kind(pa.uuid(), (UUID(int=0), UUID(int=2**128 - 1))),
    "integers": Kind(pa.list_(pa.int32()), ([], [1, None, -(2**31)], [None])),
    "texts": Kind(pa.list_(pa.string()), ([], ["", "a,b", '"', "NULL", None, "{}"])),
}


@dataclass(frozen=True)
class Type:
    """A system's type for a kind of value, from a line of `kinds.txt` in `tests/types/`."""

    name: str
    """The system's name for the type, as in CREATE TABLE."""
    arrow: str
    """The type of its values in record batches."""
    new_column: str
    """The type of a column that Penstock creates for it; empty if it creates no tables."""
    canonical: str
    """The form in which values are compared."""


def read_types(name: str) -> dict[str, Type]:
    """Return the types of a system by kind."""
    return {kind: Type(*rest) for kind, *rest in lines(f"{name}/kinds")}


@dataclass(frozen=True)
class Rows:
    """A table: the kinds of its columns by name, and its rows."""

    columns: Mapping[str, str]
    rows: Sequence[Row]

    @property
    def plain(self) -> list[Row]:
        return sorted((plain(row) for row in self.rows), key=repr)

    def arrow(self) -> pa.Table:
        arrays = []
        for place, kind in enumerate(self.columns.values()):
            arrow_type = KINDS[kind].arrow
            values = [row[place] for row in self.rows]
            if kind == "uuid":
                values = [None if value is None else value.bytes for value in values]
                storage = pa.array(values, arrow_type.storage_type)
                arrays.append(pa.ExtensionArray.from_storage(arrow_type, storage))
            else:
                arrays.append(pa.array(values, arrow_type))
        return pa.table(arrays, names=list(self.columns))


def every_kind(kinds: Iterable[str] = KINDS) -> Rows:
    """Return a table with a column of each kind, and each value and NULL in some row."""
    named = {name: KINDS[name].values for name in kinds}
    height = max(map(len, named.values())) + 1
    rows = [
        (
            number,
            *(values[number] if number < len(values) else None for values in named.values()),
        )
        for number in range(height)
    ]
    columns = {f"c_{name.replace(' ', '_')}": name for name in named}
    return Rows({"id": "bigint", **columns}, rows)


def numbered(count: int) -> Rows:
    """Return rows that every strategy can partition."""
    return Rows(
        {"id": "bigint", "day": "date", "amount": "double", "grp": "text"},
        [
            (
                number,
                date.fromordinal(date(2024, 1, 1).toordinal() + number % 30),
                number / 4,
                None if number % 11 == 0 else f"g{number % 2}",
            )
            for number in range(count)
        ],
    )
