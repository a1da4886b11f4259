"""Files that pyarrow seems to read, but that are encrypted, damaged or hold impossible values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as is_

from penstock.backends.parquet.errors import Broken
from penstock.backends.shared.values.arrow import first_failing, leaves, shown

ENCRYPTED = "the file is encrypted; expected one that is not"
# The signature of a plaintext footer in a file with encrypted columns: a nonce and a tag.
# https://github.com/apache/parquet-format/blob/master/Encryption.md
_SIGNATURE = 12 + 16
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def is_encrypted(tail: bytes) -> bool:
    """Whether the footer at a file's end is encrypted."""
    return tail.endswith(b"PARE")


def footer_length(tail: bytes) -> int:
    """Return the footer's length from a file's last 8 bytes."""
    return int.from_bytes(tail[-8:-4], "little")


def check_footer(metadata: pq.FileMetaData, tail: bytes) -> None:
    """Check a file's footer.

    Raises:
        Broken: columns are encrypted, whose metadata crashes a process that reads it; or the footer
            is inconsistent.
    """
    if footer_length(tail) - metadata.serialized_size == _SIGNATURE:
        raise Broken(ENCRYPTED)
    total = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0 or group.num_columns != metadata.num_columns:
            raise Broken(
                f"the file is damaged: row group {number} has {group.num_rows:,} rows and "
                f"{group.num_columns:,} of {metadata.num_columns:,} columns"
            )
        total += group.num_rows
    if total != metadata.num_rows:
        raise Broken(
            f"the file is damaged: its footer counts {metadata.num_rows:,} rows, its row groups "
            f"{total:,}"
        )


def check_values(batch: pa.RecordBatch, first: int) -> None:
    """Check a batch for impossible values.

    Args:
        batch: rows of one file.
        first: the number of the batch's first row, for the message.

    Raises:
        Broken: a value is invalid for its column's type.
    """
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            _check(array)
        except pa.ArrowInvalid as error:
            if is_.is_dictionary(array.type):
                # The value may belong to other rows.
                plain = array.dictionary_decode()
                check_values(pa.RecordBatch.from_arrays([plain], names=[name]), first)
                continue
            row = first_failing(array, _check)
            raise Broken(
                f"column {name!r}, row {first + row:,}: expected a value of {array.type}, found "
                f"{shown(array, row)}"
            ) from error


def _check(array: pa.Array) -> None:
    times = False
    for leaf in leaves(array):
        if is_.is_time(leaf.type):
            times = True
            ends = pc.min_max(leaf.view(pa.int32() if is_.is_time32(leaf.type) else pa.int64()))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            # Other systems allow the time 24:00:00, Arrow does not.
            if low is not None and not (low >= 0 and high <= _DAY[leaf.type.unit]):
                raise pa.ArrowInvalid("beyond a day")
    if not times:
        array.validate(full=True)
