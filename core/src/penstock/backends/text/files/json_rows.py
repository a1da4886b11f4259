"""JSON lines as columns of texts: one object per line, with numbers as written.

msgspec finds the values of a line, which stay as they are written; Arrow turns a column into texts.
Lines that msgspec rejects are read by Python's own parser: it supports halves of surrogate
pairs, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from penstock.backends.parquet.errors import Broken
from penstock.backends.text.files.json_values import normal_json, object_of
from penstock.backends.text.files.streams import PIECE, TextStream
from penstock.model import values

BATCH_BYTES = 4 << 20
MOST_LINE_BYTES = 1 << 30

STRING, NUMBER, BOOLEAN, NESTED = "string", "number", "boolean", "nested"
"""The kinds of a column's values in JSON."""
_KINDS = {b'"': STRING, b"t": BOOLEAN, b"f": BOOLEAN, b"[": NESTED, b"{": NESTED}

Row = dict[str, msgspec.Raw]
"""An object: by key, the value's JSON."""

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


def objects(opened: Callable[[], TextStream]) -> Iterator[list[Row]]:
    """Yield the objects in groups.

    Raises:
        Broken: a line is not an object; says which.
    """
    first = 1
    with opened() as stream:
        for block in blocks(stream):
            lines = block.split(b"\n")
            lines.pop()  # after the last line break
            rows = _fast_rows(block, lines)
            if rows is None:
                numbered = enumerate(lines, first)
                rows = [_row(line, f"line {n:,}") for n, line in numbered if line.strip()]
            first += len(lines)
            if rows:
                yield rows


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


def keys_of(rows: Sequence[Row]) -> list[str]:
    """Return all keys of some objects, in the order in which they first appear."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def json_of(rows: Sequence[Row], names: Sequence[str]) -> list[pa.Array]:
    """Return some keys' values as they are written, in JSON; NULL for null and missing keys."""
    if not rows:
        return [pa.array([], pa.string()) for _ in names]
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


def kinds_of(array: pa.Array) -> set[str]:
    """Return the kinds of values.

    Args:
        array: from `json_of`.
    """
    heads = pc.unique(pc.binary_slice(array.cast(pa.binary()), 0, 1)).to_pylist()
    return {_KINDS.get(head, NUMBER) for head in heads if head is not None}


def texts_of(array: pa.Array, *, is_nested: bool = False) -> pa.Array:
    """Return values as texts: what is within the quotes of a string, and digits as written.

    Args:
        array: from `json_of`.
        is_nested: whether all values, also strings, stay JSON.
    """
    kinds = kinds_of(array)
    if is_nested or NESTED in kinds:
        return pa.array(
            [
                text if text is None or not (is_nested or text[0] in "[{") else normal_json(text)
                for text in array.to_pylist()
            ],
            pa.string(),
        )
    if STRING not in kinds:
        return array
    inner = pc.binary_slice(array.cast(pa.binary()), 1, -1).cast(pa.string())
    escapes = pc.match_substring(inner, "\\")
    if pc.any(escapes).as_py():
        if len(kinds) > 1:
            escapes = pc.and_(escapes, pc.starts_with(array, '"'))
        escapes = pc.fill_null(escapes, False)
        written = ",".join(array.filter(escapes).to_pylist())
        read = msgspec.json.decode(f"[{written}]", type=list[str])
        inner = pc.replace_with_mask(inner, escapes, pa.array(read, pa.string()))
    return inner if len(kinds) == 1 else pc.if_else(pc.starts_with(array, '"'), inner, array)


def batch(rows: Sequence[Row], columns: Sequence[str], nested: frozenset[str]) -> pa.RecordBatch:
    """Return objects as columns of texts, with NULL for missing keys.

    Args:
        rows: the objects.
        columns: the columns of the batch, in order.
        nested: columns of JSON, whose values stay JSON.
    """
    if not columns:
        return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=["row"]).select([])
    arrays = [
        texts_of(written, is_nested=name in nested)
        for name, written in zip(columns, json_of(rows, columns), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
