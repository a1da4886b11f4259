"""JSON lines as columns of texts: one object per line, with numbers as written.

This uses Python's own parser: others round numbers to 64 bits, or derive the columns from a sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files.streams import TextStream
from penstock.model import values

BATCH_ROWS = 16_384

STRING, NUMBER, BOOLEAN, NESTED = "string", "number", "boolean", "nested"
"""The kinds of a column's values in JSON."""


class Number(str):
    """The digits of a number."""

    __slots__ = ()


def _constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}; expected a text, in quotes")


_parse = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_constant).decode


def lines(stream: TextStream) -> Iterator[bytes]:
    """Yield the lines without their line breaks."""
    partial = b""
    while piece := stream.read():
        *complete, partial = (partial + piece).split(b"\n") if partial else piece.split(b"\n")
        yield from complete


def objects(opened: Callable[[], TextStream]) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects in groups.

    Raises:
        Broken: a line is not an object; says which.
    """
    rows: list[dict[str, Any]] = []
    with opened() as stream:
        for number, line in enumerate(lines(stream), 1):
            if not line or line.isspace():
                continue
            try:
                row = _parse(line.decode())
            except UnicodeDecodeError:
                raise Broken(f"line {number:,}: expected UTF-8, found other bytes") from None
            except (ValueError, RecursionError) as error:
                raise Broken(
                    f"line {number:,}: expected a JSON object: {values.server_message(str(error))}"
                ) from None
            if type(row) is not dict:
                raise Broken(
                    f"line {number:,}: expected a JSON object, {{...}}; found another value (if "
                    "the file is one array, convert it with jq -c '.[]')"
                )
            rows.append(row)
            if len(rows) == BATCH_ROWS:
                yield rows
                rows = []
    if rows:
        yield rows


def kind(value: Any) -> str:
    """Return the kind of a value.

    Args:
        value: from `objects`; not None.
    """
    of = type(value)
    if of is str:
        return STRING
    if of is Number:
        return NUMBER
    return BOOLEAN if of is bool else NESTED


def text(value: Any) -> str | None:
    """Return the text of a value; for a nested one, its JSON."""
    of = type(value)
    if value is None or of is str:
        return value  # type: ignore[no-any-return]
    if of is Number:
        return str(value)
    if of is bool:
        return "true" if value else "false"
    return json_text(value)


def json_text(value: Any) -> str:
    """Return a value as JSON, with numbers as they were written."""
    of = type(value)
    if of is Number:
        return str(value)
    if of is dict:
        pairs = (f"{json.dumps(k, ensure_ascii=False)}: {json_text(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if of is list:
        return f"[{', '.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


def batch(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], nested: frozenset[str]
) -> pa.RecordBatch:
    """Return objects as columns of texts, with NULL for missing keys.

    Args:
        rows: the objects.
        columns: the columns of the batch, in order.
        nested: columns of JSON, whose values stay JSON.
    """
    arrays = []
    for name in columns:
        cells = (row.get(name) for row in rows)
        if name in nested:
            texts = [None if value is None else json_text(value) for value in cells]
        else:
            texts = [text(value) for value in cells]
        arrays.append(pa.array(texts, pa.string()))
    if not columns:
        return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=["row"]).select([])
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
