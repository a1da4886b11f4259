"""How an attempt's values are staged for DuckDB."""

from __future__ import annotations

import pyarrow as pa

from penstock.backends.duckdb.load.fitting import staged_type
from penstock.backends.duckdb.load.infinities import first_infinite
from penstock.backends.shared.attempts.file_stage import FileStage
from penstock.backends.shared.values.arrow import shown
from penstock.errors import Diagnosis, PermanentError


class DuckStage(FileStage):
    """A staged file for DuckDB."""

    staged_type = staticmethod(staged_type)

    def check_values(self, batch: pa.RecordBatch, rows_before: int) -> None:
        """Check the values of a batch.

        Raises:
            PermanentError: DuckDB would take a finite value for an infinite one.
        """
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            infinite = first_infinite(array)
            if infinite is not None:
                row, value = infinite
                raise PermanentError(
                    f"{self.subject}: column {name!r}, row {rows_before + row + 1:,}: expected a "
                    f"{value.kind} within DuckDB's range, found {shown(array, row)}",
                    Diagnosis(side="target"),
                )
