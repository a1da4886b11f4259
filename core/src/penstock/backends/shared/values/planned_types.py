"""Batches in the types that the plan has promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.values.arrow import no_rows
from penstock.backends.shared.values.hex_values import uuids_of
from penstock.backends.shared.values.type_table import NamedType, TypeTable
from penstock.errors import Diagnosis, PermanentError

T = TypeVar("T", bound=NamedType)


class PromisedTypes(Generic[T]):
    """A stream's batches, in the types of the plan.

    They may have one column more than `names`, which is 1 in rows with a time finer than a
    microsecond.

    Args:
        types: the server's types.
        table: the promised type for each.
        subject: the table or query, for error messages.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[T],
        table: TypeTable[T],
        subject: str,
    ) -> None:
        self._names = list(names)
        self._types = list(types)
        self._table = table
        self.subject = subject
        self._rows = 0
        self.arrow_types = [table.arrow_type(type_) or pa.null() for type_ in types]

    def empty_batch(self) -> pa.RecordBatch:
        return no_rows(pa.schema(list(zip(self._names, self.arrow_types, strict=True))))

    def as_travels(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch to the promised types.

        Raises:
            PermanentError: a value does not fit its promised type, or a time is too fine.
        """
        count = len(self._names)
        if batch.num_columns > count > 0:
            self._check_fine(batch.column(count))
        columns = [self._column(array, place) for place, array in enumerate(batch.columns[:count])]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, self._names) if columns else batch

    def _column(self, array: pa.Array, place: int) -> pa.Array:
        arrow_type = self.arrow_types[place]
        if array.type == arrow_type:
            return array
        try:
            return uuids_of(array) if arrow_type == pa.uuid() else array.cast(arrow_type)
        except pa.ArrowInvalid as error:
            raise PermanentError(
                f"{self.subject}: column {self._names[place]!r}, rows {self._rows + 1:,} to "
                f"{self._rows + len(array):,}: expected values of type {self._types[place]}, "
                f"found: {error}",
                Diagnosis(side="source"),
            ) from error

    def _check_fine(self, tested: pa.Array) -> None:
        row = pc.index(tested, pa.scalar(1, tested.type)).as_py()
        if row >= 0:
            tests = map(self._table.finer, self._names, self._types)
            names = [name for name, test in zip(self._names, tests, strict=True) if test]
            raise PermanentError(
                f"{self.subject}: column {' or '.join(map(repr, names))}, row "
                f"{self._rows + row + 1:,}: expected whole microseconds, found "
                f"{self._table.too_fine}",
                Diagnosis(side="source"),
            )
