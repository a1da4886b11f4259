"""JSON lines as columns of texts: one object per line, with numbers as written.

`penstock_native` does all of it if it is installed, in a seventh of the CPU time. Otherwise msgspec
finds the values of a line, and Arrow turns a column into texts. Lines that either rejects are read
by Python's own parser: it supports halves of surrogate pairs, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from penstock.backends.parquet.errors import Broken
from penstock.backends.shared.native import native
from penstock.backends.text.files.json_values import normal_json, object_of
from penstock.backends.text.files.streams import PIECE, TextStream
from penstock.model import values

BATCH_BYTES = 4 << 20
MOST_LINE_BYTES = 1 << 30

STRING, NUMBER, BOOLEAN, NESTED = "string", "number", "boolean", "nested"
"""The kinds of a column's values in JSON."""
_KINDS = {b'"': STRING, b"t": BOOLEAN, b"f": BOOLEAN, b"[": NESTED, b"{": NESTED}
_NATIVE_KINDS = (STRING, NUMBER, BOOLEAN, NESTED)
"""By bit, from the lowest; see core/native/src/json_lines.rs."""
_NOT_FINITE = pa.array(["NaN", "Infinity", "-Infinity"])

Row = dict[str, msgspec.Raw]
"""An object: by key, the value's JSON."""
Values = tuple[pa.Array, set[str]]
"""Texts, with NULL for null and missing keys, and the kinds of the others in JSON."""
Choice = Mapping[str, bool]
"""Columns, and whether all values of one, also strings, stay JSON."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some objects."""

    rows: int
    columns: dict[str, Values]
    """The chosen ones in order, or all in the order in which they first appear."""


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode_lines = msgspec.json.Encoder().encode_lines
# Before msgspec 0.21, its errors are no ValueError.
_REJECTED = (ValueError, msgspec.DecodeError)
_NULL = msgspec.Raw(b"null")


def blocks(stream: TextStream) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at once.

    Raises:
        Broken: a line is too long.
    """
    pieces: list[bytes] = []
    number, length = 1, 0
    while piece := stream.read(max(PIECE, BATCH_BYTES)):
        end = piece.rfind(b"\n") + 1
        if not end:
            pieces.append(piece)
            length += len(piece)
            if length > MOST_LINE_BYTES:
                raise Broken(
                    f"line {number:,}: expected at most {MOST_LINE_BYTES:,} bytes, found more"
                )
            continue
        block = b"".join([*pieces, piece[:end]])
        number += block.count(b"\n")
        pieces, length = [piece[end:]], len(piece) - end
        yield block


def groups(opened: Callable[[], TextStream], chosen: Choice | None = None) -> Iterator[Group]:
    """Yield the objects in groups.

    Args:
        opened: opens a file at its beginning.
        chosen: the columns to return; None for all.

    Raises:
        Broken: a line is not an object; says which.
    """
    first = 1
    with opened() as stream:
        for block in blocks(stream):
            group = _native_group(block, chosen) or _group(_rows(block, first), chosen)
            first += block.count(b"\n")
            if group.rows:
                yield group


def _native_group(block: bytes, chosen: Choice | None) -> Group | None:
    """Return the objects of lines; None if something is unusual, or the package is missing."""
    module = native()
    if module is None:
        return None
    names = None if chosen is None else list(chosen)
    found = module.json_columns(block, names, [] if chosen is None else list(chosen.values()))
    if found is None:
        return None
    rows, columns = found
    nested = chosen or {}
    return Group(
        rows,
        {
            name: _native_values(kinds, parts, is_nested=nested.get(name, False))
            for name, kinds, parts in columns
        },
    )


def _native_values(kinds: int, parts: Sequence[Any], *, is_nested: bool) -> Values:
    length, nulls, valid, data, _ = parts
    buffers = [None if valid is None else pa.py_buffer(valid), *map(pa.py_buffer, data)]
    texts = pa.Array.from_buffers(pa.string(), length, buffers, nulls)
    found = {kind for bit, kind in enumerate(_NATIVE_KINDS) if kinds >> bit & 1}
    return _normal(texts) if is_nested else texts, found


def _rows(block: bytes, first: int) -> list[Row]:
    lines = block.split(b"\n")
    lines.pop()  # after the last line break
    rows = _fast_rows(block, lines)
    if rows is None:
        numbered = enumerate(lines, first)
        rows = [_row(line, f"line {n:,}") for n, line in numbered if line.strip()]
    return rows


def _group(rows: Sequence[Row], chosen: Choice | None) -> Group:
    names = list(dict.fromkeys(chain.from_iterable(rows))) if chosen is None else list(chosen)
    nested = chosen or {}
    return Group(
        len(rows),
        {
            name: _values_of(array, is_nested=nested.get(name, False))
            for name, array in zip(names, _json_of(rows, names), strict=True)
        },
    )


def _fast_rows(block: bytes, lines: Sequence[bytes]) -> list[Row] | None:
    """Return the objects of lines; None if one of them is not plain JSON in UTF-8."""
    try:
        if not block.isascii():
            block.decode()
        rows: list[Row] = list(map(_decode, filter(None, lines)))
    except (*_REJECTED, RecursionError):
        return None
    if b'""' in block and any("" in row for row in rows):
        return None
    return rows


def _row(line: bytes, place: str) -> Row:
    """Return the object of a line.

    Raises:
        Broken: the line is not an object, or has a text that UTF-8 cannot represent.
    """
    try:
        text = line.decode()
        try:
            row: Row = _decode(line)
        except (*_REJECTED, RecursionError):
            row = {name: msgspec.Raw(json) for name, json in object_of(text, place).items()}
    except UnicodeDecodeError:
        raise Broken(f"{place}: expected UTF-8, found other bytes") from None
    except ValueError as error:
        if isinstance(error, Broken):
            raise
        raise Broken(
            f"{place}: expected a JSON object: {values.server_message(str(error))}"
        ) from None
    if "" in row:
        raise Broken(f"{place}: a key is empty; expected a column name")
    return row


def _json_of(rows: Sequence[Row], names: Sequence[str]) -> list[pa.Array]:
    """Return some keys' values as they are written, in JSON; NULL for null and missing keys."""
    if not any(rows):
        return [pa.nulls(len(rows), pa.string()) for _ in names]
    keys = tuple(rows[0])
    if set(map(tuple, rows)) != {keys} or 2 * len(names) < len(keys):
        return [_split([row.get(name, _NULL) for row in rows]) for name in names]
    # All at once, which takes two thirds of the time.
    cells = _split(chain.from_iterable(map(dict.values, rows)))
    firsts = pa.array(range(0, len(cells), len(keys)), pa.int32())
    missing = pa.nulls(len(rows), pa.string())
    return [
        cells.take(pc.add(firsts, keys.index(name))) if name in keys else missing for name in names
    ]


def _split(cells: Iterable[msgspec.Raw]) -> pa.Array:
    """Return values of JSON as an array; NULL for null.

    Arrow's parser of CSV finds lines faster than its functions on texts. No value contains a line
    feed, and a carriage return only stands between tokens.
    """
    content = _encode_lines(list(cells)).replace(b"\r", b" ")
    reader = csv.open_csv(
        pa.BufferReader(content),
        csv.ReadOptions(column_names=["json"], use_threads=False, block_size=len(content) + 1),
        csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types={"json": pa.string()},
            strings_can_be_null=True,
            null_values=["null"],
            check_utf8=False,
        ),
    )
    return reader.read_next_batch().column(0)


def _kinds_of(array: pa.Array) -> set[str]:
    """Return the kinds of values from `_json_of`."""
    heads = pc.unique(pc.binary_slice(array.cast(pa.binary()), 0, 1)).to_pylist()
    return {_KINDS.get(head, NUMBER) for head in heads if head is not None}


def _values_of(array: pa.Array, *, is_nested: bool) -> Values:
    """Return values as texts: what is within the quotes of a string, and digits as written.

    Args:
        array: from `_json_of`.
        is_nested: whether all values, also strings, stay JSON.
    """
    kinds = _kinds_of(array)
    if is_nested:
        return _normal(array), kinds
    if NESTED in kinds:  # although it was not to be
        is_json = pc.match_substring_regex(array, r"^[\[{]")
        return pc.if_else(is_json, _normal(array), array), kinds
    if STRING not in kinds:
        return array, kinds
    inner = pc.binary_slice(array.cast(pa.binary()), 1, -1).cast(pa.string())
    escapes = pc.match_substring(inner, "\\")
    is_string = None if kinds == {STRING} else pc.starts_with(array, '"')
    if pc.any(escapes).as_py():
        if is_string is not None:
            escapes = pc.and_(escapes, is_string)
        escapes = pc.fill_null(escapes, False)
        written = ",".join(array.filter(escapes).to_pylist())
        read = msgspec.json.decode(f"[{written}]", type=list[str])
        inner = pc.replace_with_mask(inner, escapes, pa.array(read, pa.string()))
    strings = inner.drop_null() if is_string is None else inner.filter(is_string)
    # Mostly the first shows that they are texts.
    if all(pc.all(pc.is_in(some, _NOT_FINITE)).as_py() for some in (strings[:1], strings)):
        kinds = kinds - {STRING} | {NUMBER}
    return inner if is_string is None else pc.if_else(is_string, inner, array), kinds


def _normal(array: pa.Array) -> pa.Array:
    """Return values as JSON in its usual form."""
    texts = array.to_pylist()
    return pa.array([None if text is None else normal_json(text) for text in texts], pa.string())


def batch(group: Group) -> pa.RecordBatch:
    """Return objects as columns of texts, with NULL for missing keys."""
    if not group.columns:
        return pa.RecordBatch.from_arrays([pa.nulls(group.rows)], names=["row"]).select([])
    arrays = [texts for texts, _ in group.columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(group.columns))
