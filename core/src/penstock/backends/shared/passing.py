"""Record batches of a driver as they travel: of the types that the plan has promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.hex_values import uuids_of
from penstock.errors import Diagnosis, PermanentError


class Passing:
    """
    Parameters:
        names: of the columns; a batch may have one more, of which 1 says that a time is too fine.
        types: as the server has them, for errors.
        fine: the columns whose times may be.
        loss: what is then found, and what helps, for errors.
        subject: for errors.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[Any],
        wanted: Sequence[pa.DataType],
        fine: Sequence[str],
        loss: str,
        subject: str,
    ) -> None:
        self._names = list(names)
        self._types = types
        self.wanted = list(wanted)
        self._fine = fine
        self._loss = loss
        self._subject = subject
        self._rows = 0

    def as_travels(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_columns > len(self._names) and self._names:
            self._check_fine(batch.column(len(self._names)))
        columns = [
            self._column(array, place)
            for place, array in enumerate(batch.columns[: len(self._names)])
        ]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, self._names) if columns else batch

    def _column(self, array: pa.Array, place: int) -> pa.Array:
        wanted = self.wanted[place]
        if array.type == wanted:
            return array
        try:
            return uuids_of(array) if wanted == pa.uuid() else array.cast(wanted)
        except pa.ArrowInvalid as error:
            raise PermanentError(
                f"{self._subject}: column {self._names[place]!r}, rows {self._rows + 1:,} to "
                f"{self._rows + len(array):,}: expected values of type {self._types[place]}, "
                f"found: {error}",
                Diagnosis(side="source"),
            ) from error

    def _check_fine(self, tested: pa.Array) -> None:
        """
        Raises:
            PermanentError: a time of less than a microsecond.
        """
        row = pc.index(tested, pa.scalar(1, tested.type)).as_py()
        if row >= 0:
            raise PermanentError(
                f"{self._subject}: column {' or '.join(map(repr, self._fine))}, row "
                f"{self._rows + row + 1:,}: expected whole microseconds, found a time of "
                f"{self._loss}",
                Diagnosis(side="source"),
            )
