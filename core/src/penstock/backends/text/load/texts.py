"""Values as texts in files, for both formats."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from penstock.backends.shared.texts.plain_texts import has_plain_text, plain_texts
from penstock.backends.shared.values.arrow import is_bytes, is_list, is_text
from penstock.backends.shared.values.hex_values import to_hex, uuid_texts


def is_nested(kind: pa.DataType) -> bool:
    """Whether a type's values become JSON: lists, structs and maps."""
    return bool(is_list(kind) or is_.is_struct(kind) or is_.is_map(kind))


def texts(array: pa.Array) -> pa.Array:
    """Return values as texts.

    Args:
        array: values that are neither numbers nor nested.
    """
    kind = array.type
    if is_text(kind):
        return array.cast(pa.large_string())
    if kind == pa.uuid():
        return uuid_texts(array)
    if isinstance(array, pa.ExtensionArray):
        return texts(array.storage)
    if is_.is_dictionary(kind):
        return texts(array.dictionary_decode())
    if is_bytes(kind):
        # In PostgreSQL's notation.
        mark, nothing = (pa.scalar(text, pa.large_string()) for text in ("\\x", ""))
        return pc.binary_join_element_wise(mark, to_hex(array), nothing)
    if has_plain_text(kind):
        return plain_texts(array).cast(pa.large_string())
    return array.cast(pa.string()).cast(pa.large_string())


def stored_as(kind: pa.DataType) -> pa.DataType:
    """See `FileFormat.stored_as`.

    Raises:
        ValueError: the type has no text form that can be parsed again.
    """
    if is_.is_duration(kind) or is_.is_interval(kind) or is_.is_union(kind):
        raise ValueError(f"{kind} has no text form that other systems read; cast it with --query")
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return stored_as(kind.value_type)
    if is_.is_null(kind) or is_text(kind):
        return pa.string()
    return pa.binary() if is_bytes(kind) else kind
