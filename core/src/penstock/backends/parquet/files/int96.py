"""`INT96` timestamps: a 32-bit day and a time of day in nanoseconds.

They travel as 64-bit microseconds, which cannot hold all years or the last three digits; pyarrow
silently changes such values. So they are read twice more: in seconds, which hold every year, and in
nanoseconds, whose digits are right even where the years are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.backends.parquet.errors import Broken
from penstock.backends.shared.values.arrow import first_failing, leaves

UNITS = ("s", "ns")
_MOST = (1 << 63) // 1_000_000 - 1
_REMEDY = "; leave the column out with --columns, or have it rewritten as TIMESTAMP"


def columns_of(metadata: pq.FileMetaData, columns: Sequence[str]) -> list[str]:
    """Return the columns that are or contain such timestamps."""
    schema = metadata.schema
    paths = [
        schema.column(place).path
        for place in range(metadata.num_columns)
        if schema.column(place).physical_type == "INT96"
    ]
    return [
        name
        for name in columns
        if any(path == name or path.startswith(name + ".") for path in paths)
    ]


def check(
    read: Callable[[str], Iterator[pa.RecordBatch]], first: int, stopped: Callable[[], bool]
) -> None:
    """Check the timestamps of a row group.

    Args:
        read: reads these columns of the row group in a unit.
        first: the number of its first row, for the message.
        stopped: asked between two batches.

    Raises:
        Broken: a value changes in microseconds.
    """
    for seconds, nanoseconds in zip(read("s"), read("ns"), strict=True):
        if stopped():
            return
        for name, coarse, fine in zip(
            seconds.schema.names, seconds.columns, nanoseconds.columns, strict=True
        ):
            both = pa.StructArray.from_arrays([coarse, fine], UNITS)
            try:
                _check(both)
            except pa.ArrowInvalid as error:
                row = first_failing(both, _check)
                raise Broken(f"column {name!r}, row {first + row:,}: {error}{_REMEDY}") from error
        first += seconds.num_rows


def _check(both: pa.StructArray) -> None:
    coarse, fine = both.flatten()
    for seconds, nanoseconds in zip(leaves(coarse), leaves(fine), strict=True):
        seconds_since, nanoseconds_since = seconds.view(pa.int64()), nanoseconds.view(pa.int64())
        ends = pc.min_max(seconds_since)
        for end in (ends["min"].as_py(), ends["max"].as_py()):
            if end is not None and abs(end) > _MOST:
                raise pa.ArrowInvalid(
                    "expected a timestamp from year -290,307 to 294,246, the range of "
                    "microseconds in 64 bits; found one outside"
                )
        # Both wrap around in the same way, which leaves the fraction of a second.
        fraction = pc.subtract(nanoseconds_since, pc.multiply(seconds_since, 1_000_000_000))
        remainder = pc.subtract(fraction, pc.multiply(pc.divide(fraction, 1000), 1000))
        most = pc.max(remainder).as_py()
        if most:
            raise pa.ArrowInvalid(
                "expected a timestamp in whole microseconds, "
                f"found {most} ns beyond the microsecond"
            )
