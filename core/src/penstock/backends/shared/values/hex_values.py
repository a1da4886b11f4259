"""Binary values and UUIDs as hexadecimal digits, and back: one conversion per array."""

from __future__ import annotations

from binascii import unhexlify

import pyarrow as pa
import pyarrow.compute as pc

UUID_BYTES = 16
_UUID = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
_PARTS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def from_hex(texts: pa.Array) -> pa.Array:
    """Convert hexadecimal digits to binary values."""
    texts = pa.concat_arrays([texts])
    validity, offsets, digits = texts.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, offsets])
    halves = pc.shift_right(ends, pa.scalar(1, pa.int32()))
    content = unhexlify(memoryview(digits)[: ends[-1].as_py()]) if digits else b""
    return pa.Array.from_buffers(
        pa.binary(), len(texts), [validity, halves.buffers()[1], pa.py_buffer(content)]
    )


def to_hex(array: pa.Array) -> pa.Array:
    """Convert binary values to hexadecimal digits."""
    if not len(array):
        return pa.array([], pa.large_string())
    validity, offsets, content = pa.concat_arrays([array.cast(pa.large_binary())]).buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(array) + 1, [None, offsets])
    digits = memoryview(content)[: ends[-1].as_py()].hex().encode() if content else b""
    doubled = pc.shift_left(ends, pa.scalar(1, pa.int64()))
    return pa.Array.from_buffers(
        pa.large_string(), len(array), [validity, doubled.buffers()[1], pa.py_buffer(digits)]
    )


def uuids(texts: pa.Array) -> pa.Array:
    """Convert 32 hexadecimal digits each to UUIDs."""
    filled = from_hex(pc.fill_null(texts, "0" * 2 * UUID_BYTES))
    validity = pa.concat_arrays([texts]).buffers()[0]
    storage = pa.Array.from_buffers(
        pa.binary(UUID_BYTES), len(texts), [validity, filled.buffers()[2]]
    )
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def uuid_texts(array: pa.Array) -> pa.Array:
    """Return UUIDs, or their bytes, as texts with dashes, as in RFC 9562."""
    digits = to_hex(array.storage if isinstance(array, pa.ExtensionArray) else array)
    parts = (pc.utf8_slice_codeunits(digits, *part) for part in _PARTS)
    return pc.binary_join_element_wise(*parts, pa.scalar("-", pa.large_string()))


def uuids_of(texts: pa.Array) -> pa.Array:
    """Convert texts to UUIDs.

    Raises:
        pyarrow.ArrowInvalid: a text is not a UUID with dashes.
    """
    if pc.all(pc.match_substring_regex(texts, _UUID)).as_py() is False:
        raise pa.ArrowInvalid("no UUID")
    return uuids(pc.replace_substring(texts, "-", "").cast(pa.string()))
