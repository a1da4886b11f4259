"""The interface of a driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.backends.mssql.types import MsType

CLOSE_SECONDS = 5.0
"""How long an interrupted call may continue before its connection is left to it."""


class Driver(Protocol):
    """A connection that runs one statement at a time. It raises `DriverError`."""

    notes: tuple[str, ...]
    """The drawbacks of this driver; empty for the preferred one."""

    def travelling(self, value: str, of: MsType) -> str:
        """Return what to select so that the driver has a value for a record batch."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None: ...

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the first result that has columns, which others may precede."""

    def next_rows(self, count: int) -> list[tuple[Any, ...]]:
        """Return the next rows; none at the end."""

    def batch(self, count: int, types: Sequence[pa.DataType]) -> pa.RecordBatch:
        """Return the next rows as a record batch, which is empty at the end.

        Args:
            count: the maximum number of rows.
            types: the types in which the first columns travel; the driver's may differ if they can
                be cast. Other columns are whole numbers.
        """

    def load(
        self, table: str, columns: Mapping[str, MsType], batches: Iterator[pa.RecordBatch]
    ) -> int:
        """Load rows in bulk over a connection of its own; return how many.

        Args:
            table: the table, quoted.
            columns: the names and types of the table's columns, in the order of the batches.
            batches: the rows.
        """

    def interrupt(self) -> None:
        """Cancel the statement that another thread waits for."""

    def close(self) -> None:
        """Close the connection, from any thread.

        A call made by another thread must be interrupted first.
        """
