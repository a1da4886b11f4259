"""128-bit numbers at misaligned addresses, which streams may contain and the loader rejects."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.backends.mssql.load.stage import ALIGNMENT, align

DECIMALS = pa.array([Decimal("1.25"), None, Decimal("-9.75"), Decimal(0)], pa.decimal128(9, 2))
TEXTS = pa.array(["a", None, "ccc", ""])


def misaligned(array: pa.Array, by: int) -> pa.Array:
    """Return an equal array whose buffers are some bytes off their alignment."""
    buffers = []
    for buffer in array.buffers():
        room = pa.allocate_buffer(buffer.size + by)
        memoryview(room)[by:] = memoryview(buffer)
        buffers.append(room.slice(by))
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


@pytest.mark.parametrize("array", [DECIMALS, DECIMALS[1:3], TEXTS, TEXTS[2:]])
@pytest.mark.parametrize("by", [1, 8])
def test_misaligned_buffers_are_moved(array: pa.Array, by: int) -> None:
    odd = misaligned(array, by)
    assert any(buffer.address % ALIGNMENT for buffer in odd.buffers())
    found = align(odd)
    assert not any(buffer.address % ALIGNMENT for buffer in found.buffers())
    found.validate(full=True)
    assert found.equals(array)


def test_aligned_buffers_are_not_copied() -> None:
    assert align(DECIMALS) is DECIMALS
