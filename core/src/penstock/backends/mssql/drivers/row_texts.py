"""Many rows as one text, for drivers without bulk loads: a JSON array, or literals.

The server parses the values, so that no driver converts any.
https://learn.microsoft.com/en-us/sql/t-sql/functions/openjson-transact-sql
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.types import BYTES, MsType
from penstock.backends.shared.values.arrow import is_bytes, is_text
from penstock.backends.shared.values.hex_values import uuid_texts

# Of a batch sent at once: its text is several times as long.
SENT_BYTES = 1 << 20
JSON_ROWS = 16_384
# The server compiles them each time, more slowly the more there are.
LITERAL_ROWS = 100
# The length in bytes from which a value becomes a parameter of its own.
LONG = 3000
# Databases with older compatibility levels lack OPENJSON, and other products may not decode
# escapes.
READS_JSON = (
    r"""SELECT CASE WHEN c0 = N'"\' AND c1 = 0x00FF THEN 1 ELSE 0 END"""
    r""" FROM OPENJSON(N'[["\"\\","AP8="]]')"""
    r""" WITH (c0 nvarchar(max) '$[0]', c1 varbinary(max) '$[1]')"""
)


def inserts(
    table: str, batch: pa.RecordBatch, types: Sequence[MsType], *, reads_json: bool
) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements with their parameters.

    Args:
        table: the table, quoted.
        batch: the rows.
        types: the types of the columns.
        reads_json: whether the server supports OPENJSON; see `READS_JSON`.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    columns = ", ".join(map(MSSQL.ident, batch.schema.names))
    insert = f"INSERT INTO {table} WITH (TABLOCK) ({columns})"
    read_as = list(map(_parsed_type, types))
    listed = ", ".join(f"c{place} {type_} '$[{place}]'" for place, type_ in enumerate(read_as))
    for part, long in parts(batch, JSON_ROWS if reads_json else LITERAL_ROWS):
        rows = _rows(part, long)
        parameters = [part.column(place)[0].as_py() for place in long]
        if not reads_json:
            yield f"{insert} VALUES {_literals(rows, read_as, long)}", parameters
            continue
        places = ", ".join(
            _parameter(type_) if place in long else f"c{place}"
            for place, type_ in enumerate(read_as)
        )
        text = json.dumps(rows, separators=(",", ":"), allow_nan=False, default=_base64)
        yield (
            f"{insert} SELECT {places} FROM OPENJSON(CAST(? AS nvarchar(max))) WITH ({listed})",
            [*parameters, text],
        )


def parts(batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, Sequence[int]]]:
    """Yield what to send at once: several rows, or one row with long values and their positions.

    Args:
        batch: the rows.
        most: the maximum number of rows.
    """
    masks = {
        place: pc.greater(pc.binary_length(array), LONG).fill_null(False)
        for place, array in enumerate(batch.columns)
        if is_text(array.type) or is_bytes(array.type)
    }
    alone = reduce(pc.or_, masks.values(), pa.repeat(False, batch.num_rows))
    short = batch.filter(pc.invert(alone))
    rows = min(most, max(1, short.num_rows * SENT_BYTES // max(1, short.nbytes)))
    for first in range(0, short.num_rows, rows):
        yield short.slice(first, rows), ()
    for row in pc.indices_nonzero(alone).to_pylist():
        yield batch.slice(row, 1), [place for place, mask in masks.items() if mask[row].as_py()]


def _parsed_type(type_: MsType) -> str:
    """Return the type in which the server parses a value; a longer value would become NULL."""
    match type_.name:
        case "decimal" | "numeric" | "bit" | "tinyint" | "smallint" | "int" | "bigint" | "date":
            return str(type_)
        case "real" | "float" | "uniqueidentifier":
            return str(type_)
        case "money" | "smallmoney":
            return "decimal(19,4)"
        case "time" | "datetimeoffset":
            return f"{type_.name}(7)"
        case "datetime" | "datetime2" | "smalldatetime":
            return "datetime2(7)"
        case "sql_variant":
            return "nvarchar(4000)"
    return "varbinary(max)" if type_.name in (*BYTES, "geometry", "geography") else "nvarchar(max)"


def _parameter(read_as: str) -> str:
    """Return a placeholder; a cast to a type with a length would truncate the value."""
    return f"CAST(? AS {read_as})" if "(max)" in read_as else "?"


def _rows(batch: pa.RecordBatch, long: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return rows of numbers, texts and bytes, without long values."""
    columns = [
        [None] * batch.num_rows if place in long else _values(array)
        for place, array in enumerate(batch.columns)
    ]
    return list(zip(*columns, strict=True))


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    if kind == pa.uuid():
        array = uuid_texts(array)
    elif pt.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    elif pt.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pt.is_timestamp(kind):
        # With a T between date and time, as in ISO 8601, whatever the session's DATEFORMAT.
        texts = array.cast(pa.timestamp(kind.unit)).cast(pa.string())
        texts = pc.binary_join_element_wise(texts, "" if kind.tz is None else "+00:00", "")
        array = pc.replace_substring(texts, " ", "T")
    elif pt.is_temporal(kind):
        array = array.cast(pa.string())
    return array.to_pylist()  # type: ignore[no-any-return]


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _literals(rows: Sequence[Sequence[Any]], read_as: Sequence[str], long: Sequence[int]) -> str:
    return ", ".join(
        "("
        + ", ".join(
            _parameter(type_) if place in long else _literal(value, type_)
            for place, (value, type_) in enumerate(zip(row, read_as, strict=True))
        )
        + ")"
        for row in rows
    )


def _literal(value: Any, read_as: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    text = MSSQL.literal(str(value))
    return text if read_as == "nvarchar(max)" else f"CAST({text} AS {read_as})"
