"""Spatial values as WKB, with the number of their reference system if they have one (EWKB).

The server stores that number, the SRID, in four bytes before the WKB. EWKB, which PostGIS writes,
has a flag in the type of the geometry, and the number after the type. Both are little-endian.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

NO_SRID = 0
# Bytes: the number, and what precedes the flag of EWKB: the byte order and most of the type.
_SRID, _HEAD = 4, 4
_PLAIN, _FLAG = "00", "20"
_LITTLE_ENDIAN = "01"
# No value is longer. Without a limit, Arrow fails (pyarrow 26).
_LONGEST = 1 << 30


def with_srid(stored: pa.Array) -> pa.Array:
    """Return stored values as EWKB, or as WKB if their SRID is 0."""
    srid = pc.binary_slice(stored, 0, _SRID)
    head = pc.binary_slice(stored, _SRID, _SRID + _HEAD)
    body = pc.binary_slice(stored, _SRID + _HEAD + 1, _LONGEST)
    flag, nothing = (pa.scalar(bytes.fromhex(text), stored.type) for text in (_FLAG, ""))
    extended = pc.binary_join_element_wise(head, flag, srid, body, nothing)
    plain = pc.binary_slice(stored, _SRID, _LONGEST)
    is_plain = pc.equal(srid, pa.scalar(NO_SRID.to_bytes(_SRID, "little"), stored.type))
    return pc.if_else(is_plain, plain, extended)


def with_srid_expression(stored: str) -> str:
    """Return the hexadecimal digits of `with_srid`, as an expression over a spatial value."""
    digits = f"lower(hex({stored}))"
    srid, end = 2 * _SRID, 2 * (_SRID + _HEAD)
    return (
        f"CASE WHEN left({digits}, {srid}) = '{'0' * srid}' THEN substr({digits}, {srid + 1}) ELSE"
        f" concat(substr({digits}, {srid + 1}, {2 * _HEAD}), '{_FLAG}', left({digits}, {srid}),"
        f" substr({digits}, {end + 3})) END"
    )


def stored_digits(digits: pa.Array, srid: int) -> pa.Array:
    """Return values in the form that the server stores, which it rejects if it is malformed.

    MariaDB's own function for this returns NULL.

    Args:
        digits: WKB or EWKB, as hexadecimal digits.
        srid: the SRID of values that name none.
    """
    order, head, flag = (
        pc.utf8_slice_codeunits(digits, start, end)
        for start, end in ((0, 2), (0, 2 * _HEAD), (2 * _HEAD, 2 * _HEAD + 2))
    )
    start = 2 * (_HEAD + 1)
    own = pc.utf8_slice_codeunits(digits, start, start + 2 * _SRID)
    body = pc.utf8_slice_codeunits(digits, start + 2 * _SRID)
    default, plain, nothing = (
        pa.scalar(text, digits.type) for text in (srid.to_bytes(_SRID, "little").hex(), _PLAIN, "")
    )
    is_extended = pc.and_(
        pc.equal(order, pa.scalar(_LITTLE_ENDIAN, digits.type)),
        pc.equal(flag, pa.scalar(_FLAG, digits.type)),
    )
    extended = pc.binary_join_element_wise(own, head, plain, body, nothing)
    return pc.if_else(is_extended, extended, pc.binary_join_element_wise(default, digits, nothing))
