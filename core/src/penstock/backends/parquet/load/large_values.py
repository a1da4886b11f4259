"""Large values: which columns have them, and whether they fit into memory.

pyarrow keeps several copies of a value in its dictionaries and statistics. Without these, writing a
value takes about four times its size; with them eight to ten times (measured).
"""

from __future__ import annotations

from collections.abc import Set

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared import resources
from penstock.backends.shared.values.arrow import is_bytes, is_text
from penstock.errors import Diagnosis, PermanentError

LARGE_BYTES = 8 << 20
"""The size at which a value is large. Statistics of a file never hold such values."""
MEMORY_PER_BYTE = 6
"""Bytes of a worker's memory per byte of a large value, while it is read and written."""
MORE = "use a machine or container with more"
MORE_FOR_EACH = "raise --max-memory or lower --degree"
_MB = 1_000_000


def large_columns(batch: pa.RecordBatch) -> frozenset[str]:
    """Return the columns of a batch that have a large value.

    A column of lists, structs or maps counts if its rows are large on average.
    """
    return frozenset(
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column.nbytes >= LARGE_BYTES and _largest(column) >= LARGE_BYTES
    )


def _largest(column: pa.Array) -> int:
    if is_text(column.type) or is_bytes(column.type):
        return pc.max(pc.binary_length(column)).as_py() or 0
    return int(column.nbytes // max(1, len(column)))


def check_memory(batch: pa.RecordBatch, columns: Set[str], rows_before: int, subject: str) -> None:
    """Check that memory suffices for a batch's large values.

    Args:
        batch: the rows.
        columns: their columns with large values.
        rows_before: the number of rows before it in the stream.
        subject: the partition, for the message.

    Raises:
        PermanentError: a value needs more memory than there is; names its row and column.
    """
    share = resources.share()
    available = resources.memory() if share is None else share
    most = available // MEMORY_PER_BYTE
    for name in sorted(columns):
        column = batch.column(name)
        if not (is_text(column.type) or is_bytes(column.type)) or _largest(column) <= most:
            continue
        lengths = pc.binary_length(column)
        size = pc.max(lengths).as_py()
        row = rows_before + pc.index(lengths, size).as_py() + 1
        raise PermanentError(
            f"{subject}: column {name!r}, row {row:,}: expected a value of at most "
            f"{most / _MB:,.0f} MB, found one of {size / _MB:,.0f} MB: a worker needs "
            f"{MEMORY_PER_BYTE} times its size, and there are {available / _MB:,.0f} MB of "
            f"{'memory' if share is None else 'memory for each stream'}; "
            f"{MORE if share is None else MORE_FOR_EACH}, leave the column out with --columns, or "
            "shorten it in a --query",
            Diagnosis(side="target"),
        )
