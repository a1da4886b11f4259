"""JSON lines: one object per row, with every column in it.

Numbers keep all of their digits; those that JSON cannot represent are texts: ``"NaN"``.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from penstock.backends.shared.values.fitting import is_number
from penstock.backends.shared.values.json_texts import json_texts
from penstock.backends.text.files.values import JSON
from penstock.backends.text.load.texts import is_nested, texts

_SPECIAL = r'["\\\x00-\x1f]'


def rows(table: pa.Table) -> bytes:
    """Return rows as JSON lines."""
    parts: list[pa.Array | pa.Scalar] = []
    for number, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        name = json.dumps(field.name, ensure_ascii=False)
        parts.append(_constant(("{" if number == 0 else ", ") + f"{name}: "))
        parts.append(pc.fill_null(_value(column.combine_chunks(), field), "null"))
    lines = pc.binary_join_element_wise(*parts, _constant("}\n"), _constant(""))
    _, offsets, content = pa.concat_arrays([lines]).buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets])
    return bytes(memoryview(content)[: ends[-1].as_py()]) if content else b""


def _constant(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _value(array: pa.Array, field: pa.Field) -> pa.Array:
    kind = array.type
    if is_nested(kind):
        return json_texts(array)
    if field.metadata == JSON:
        # Between its tokens JSON may contain line breaks; inside texts it does not.
        return pc.replace_substring_regex(texts(array), r"[\r\n]+", " ")
    if is_.is_floating(kind):
        return _floats(array)
    if is_number(kind) or is_.is_boolean(kind):
        return texts(array)
    content = texts(array)
    if is_.is_timestamp(kind):
        content = pc.replace_substring(content, " ", "T", max_replacements=1)
    return _quoted(content)


def _floats(array: pa.Array) -> pa.Array:
    if is_.is_float16(array.type):
        array = array.cast(pa.float32())
    digits = texts(array)
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return digits
    names = pc.if_else(
        pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
    )
    return pc.if_else(pc.is_finite(array), digits, names.cast(pa.large_string()))


def _quoted(array: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(array, _SPECIAL)
    if pc.any(special).as_py():
        escaped = [
            None if text is None else json.dumps(text, ensure_ascii=False)[1:-1]
            for text in array.filter(special).to_pylist()
        ]
        array = pc.replace_with_mask(
            array, pc.fill_null(special, False), pa.array(escaped, pa.large_string())
        )
    quote = _constant('"')
    return pc.binary_join_element_wise(quote, array, quote, _constant(""))
