"""Values that a server writes as texts, from and to Arrow; the message where one does not fit."""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.arrow import first_failing, own
from penstock.errors import Diagnosis, PermanentError
from penstock.model.tables import Column

UUID_BYTES = 16
_ADVICE = "leave such rows out with --where, or cast the column to text in a --query, or in a view"


class Refused(Exception):
    """Arrow cannot hold a value.

    Parameters:
        index: which of an array's.
        found: the value, as the server writes it.
    """

    def __init__(self, index: int, found: str) -> None:
        super().__init__(found)
        self.index = index
        self.found = found

    def error(
        self, subject: str, column: Column, wanted: pa.DataType, passed: int, advice: str = ""
    ) -> PermanentError:
        """
        Parameters:
            subject: what is read.
            passed: how many rows of the stream were before the array.
            advice: what else can be done, before the advice that always holds.
        """
        found = self.found if len(self.found) <= 100 else self.found[:100] + "..."
        return PermanentError(
            f"{subject}: column {column.name!r}, row {passed + self.index + 1:,}: expected a "
            f"{column.type} that fits into Arrow's {wanted}, found {found!r}; {advice}{_ADVICE}",
            Diagnosis(side="source"),
        )


def checked(texts: pa.Array, read: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """
    Parameters:
        texts: of type binary.
        read: what makes values of them. Raises a ValueError or a `pyarrow.ArrowException`.

    Raises:
        Refused: the first of them that cannot be read.
    """
    try:
        return read(texts)
    except (ValueError, pa.ArrowException):
        index = first_failing(texts, read)
        raise Refused(index, texts[index].as_py().decode(errors="backslashreplace")) from None


def from_hex(texts: pa.Array) -> pa.Array:
    """Bytes from hexadecimal digits: one conversion for all of them."""
    texts = own(texts)
    validity, offsets, digits = texts.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(texts) + 1, [None, offsets])
    halves = pc.shift_right(ends, pa.scalar(1, pa.int32()))
    content = unhexlify(memoryview(digits)[: ends[-1].as_py()]) if digits else b""
    return pa.Array.from_buffers(
        pa.binary(), len(texts), [validity, halves.buffers()[1], pa.py_buffer(content)]
    )


def to_hex(array: pa.Array) -> pa.Array:
    """Bytes as hexadecimal digits: one conversion for all of them."""
    if not len(array):
        return pa.array([], pa.large_string())
    validity, offsets, content = own(array.cast(pa.large_binary())).buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(array) + 1, [None, offsets])
    digits = memoryview(content)[: ends[-1].as_py()].hex().encode() if content else b""
    doubled = pc.shift_left(ends, pa.scalar(1, pa.int64()))
    return pa.Array.from_buffers(
        pa.large_string(), len(array), [validity, doubled.buffers()[1], pa.py_buffer(digits)]
    )


def uuids(texts: pa.Array) -> pa.Array:
    """From 32 hexadecimal digits each."""
    filled = from_hex(pc.fill_null(texts, "0" * 2 * UUID_BYTES))
    validity = own(texts).buffers()[0]
    storage = pa.Array.from_buffers(
        pa.binary(UUID_BYTES), len(texts), [validity, filled.buffers()[2]]
    )
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)
