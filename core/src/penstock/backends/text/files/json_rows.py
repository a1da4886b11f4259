"""JSON lines as columns of texts: one object per line, with numbers as written.

This uses Python's own parser: others round numbers to 64 bits, or derive the columns from a sample.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files.json_values import Raw, deep_object, escaped, half_character
from penstock.backends.text.files.streams import TextStream
from penstock.model import values

BATCH_ROWS, BATCH_BYTES = 16_384, 16 << 20
MOST_LINE_BYTES = 1 << 30
# The escape of a surrogate, in pairs or alone.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

STRING, NUMBER, BOOLEAN, NESTED = "string", "number", "boolean", "nested"
"""The kinds of a column's values in JSON."""


class Number(str):
    """The digits of a number."""

    __slots__ = ()


def _constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}; expected a text, in quotes")


_parse = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_constant).decode


def lines(stream: TextStream) -> Iterator[bytes]:
    """Yield the lines without their line breaks.

    Raises:
        Broken: a line is too long.
    """
    partial: list[bytes] = []
    number, length = 1, 0
    while piece := stream.read():
        end, *others = piece.split(b"\n")
        partial.append(end)
        length += len(end)
        if length > MOST_LINE_BYTES:
            raise Broken(f"line {number:,}: expected at most {MOST_LINE_BYTES:,} bytes, found more")
        if others:
            yield b"".join(partial)
            *complete, beginning = others
            yield from complete
            partial = [beginning]
            number, length = number + len(others), len(beginning)


def objects(opened: Callable[[], TextStream]) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects in groups.

    Raises:
        Broken: a line is not an object; says which.
    """
    rows: list[dict[str, Any]] = []
    size = 0
    with opened() as stream:
        for number, line in enumerate(lines(stream), 1):
            if not line or line.isspace():
                continue
            rows.append(_object(line, f"line {number:,}"))
            size += len(line)
            if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


def _object(line: bytes, place: str) -> dict[str, Any]:
    """Return the object of a line.

    Raises:
        Broken: the line is not an object, or has a text that UTF-8 cannot represent.
    """
    try:
        text = line.decode()
        try:
            row = _parse(text)
        except RecursionError:
            row = deep_object(text, Number)
    except UnicodeDecodeError:
        raise Broken(f"{place}: expected UTF-8, found other bytes") from None
    except ValueError as error:
        raise Broken(
            f"{place}: expected a JSON object: {values.server_message(str(error))}"
        ) from None
    if type(row) is not dict:
        raise Broken(
            f"{place}: expected a JSON object, {{...}}; found another value (if the file is one "
            "array, convert it with jq -c '.[]')"
        )
    if "" in row:
        raise Broken(f"{place}: a key is empty; expected a column name")
    if _SURROGATE.search(line):
        _check_texts(row, place)
    return row


def _check_texts(row: Mapping[str, Any], place: str) -> None:
    """Check the keys and texts of an object.

    Raises:
        Broken: one of them cannot be encoded; names the key.
    """
    for name, value in row.items():
        for text in (name, value):
            if isinstance(text, str) and (half := half_character(text)):
                raise Broken(
                    f"{place}, key {escaped(name)!r}: expected characters, found {half}, half of "
                    "a surrogate pair, which no text in UTF-8 can hold; correct the file"
                )


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
    """Return a value as JSON, with numbers as they were written.

    This does not recurse: values may be nested deeper than Python's calls.
    """
    parts: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        of = type(item)
        if of is Number or of is Raw:
            parts.append(str(item))
        elif of is dict:
            todo.append(Raw("}"))
            for place, (name, inner) in reversed(list(enumerate(item.items()))):
                todo += [inner, Raw(f"{', ' if place else ''}{_quoted(name)}: ")]
            parts.append("{")
        elif of is list:
            todo.append(Raw("]"))
            for place, inner in reversed(list(enumerate(item))):
                todo += [inner, Raw(", ")] if place else [inner]
            parts.append("[")
        else:
            parts.append(_quoted(item))
    return "".join(parts)


def _quoted(value: Any) -> str:
    # Half a surrogate pair stays an escape.
    return escaped(json.dumps(value, ensure_ascii=False))


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
