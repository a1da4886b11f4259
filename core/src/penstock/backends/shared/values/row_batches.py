"""A driver's rows, as tuples of Python values, to record batches and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import Diagnosis, PermanentError
from penstock.model import values

Row = tuple[Any, ...]
_PYTHON: Mapping[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int,),
    pa.float64(): (float, int),
    pa.string(): (str,),
    pa.binary(): (bytes, memoryview),
}
"""The Python types accepted for an Arrow type. Arrow itself would accept more."""


class RowBatches:
    """A converter from rows to record batches.

    Args:
        schema: the schema of the batches.
        subject: the table or query being read, for error messages.
        converted: by column type, functions that convert a driver's value to one that Arrow
            accepts; never called with NULL.
    """

    def __init__(
        self,
        schema: pa.Schema,
        subject: str,
        converted: Mapping[pa.DataType, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._schema = schema
        self._subject = subject
        self._converted = converted or {}
        self._rows_before = 0

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Convert rows to a batch.

        Raises:
            PermanentError: a value does not have its column's type; names the column and the row,
                counted from 1 across all batches.
        """
        columns = zip(*rows, strict=True) if rows else [()] * len(self._schema)
        arrays = [
            self._array(list(column), field)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._rows_before += len(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, column: list[Any], field: pa.Field) -> pa.Array:
        convert, expected_type = self._converted.get(field.type), _PYTHON.get(field.type)
        for place, value in enumerate(column):
            if value is None:
                continue
            try:
                if expected_type is not None and not isinstance(value, expected_type):
                    raise TypeError
                if convert is not None:
                    column[place] = convert(value)
            except (TypeError, ValueError):
                raise PermanentError(
                    f"{self._subject}: column {field.name!r}, row "
                    f"{self._rows_before + place + 1:,}: "
                    f"expected a value of {field.type}, found {values.value(repr(value))}",
                    Diagnosis(side="source"),
                ) from None
        return pa.array(column, field.type)


def rows_of(batch: pa.RecordBatch, texts: Sequence[pa.DataType] = ()) -> list[Row]:
    """Return the rows of a batch.

    Args:
        batch: the record batch.
        texts: types whose values a driver takes as texts.
    """
    columns = [array.cast(pa.string()) if array.type in texts else array for array in batch.columns]
    return list(zip(*(array.to_pylist() for array in columns), strict=True))
