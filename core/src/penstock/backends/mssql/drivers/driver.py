"""The interface of a driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.backends.mssql.types import MsType

CLOSE_SECONDS = 5.0
"""For how long a call that was interrupted may go on, before its connection is left to it."""


class Driver(Protocol):
    """A connection with one statement at a time. What it is asked raises `DriverError`."""

    notes: tuple[str, ...]
    """What it costs to use this driver, for people; none for the one that is meant to be used."""

    def travelling(self, value: str, of: MsType) -> str:
        """What is selected, so that the driver has a value that can be one of a record batch."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None: ...

    def rows(self) -> list[tuple[Any, ...]]:
        """Those of the first result that has columns: others may come before it."""

    def some(self, count: int) -> list[tuple[Any, ...]]:
        """The next rows; none at the end."""

    def batch(self, count: int, types: Sequence[pa.DataType]) -> pa.RecordBatch:
        """The next rows as a record batch, which has none at the end.

        Parameters:
            types: of the first columns, as they are to travel; the driver's may differ, if they
                can be cast. Others are whole numbers.
        """

    def load(
        self, table: str, columns: Mapping[str, MsType], batches: Iterator[pa.RecordBatch]
    ) -> int:
        """Load rows in bulk, over a connection of its own. Returns: how many.

        Parameters:
            columns: names and types of the table's, as they come in the batches.
        """

    def interrupt(self) -> None:
        """End what another thread is waiting for."""

    def close(self) -> None:
        """From any thread; a call that another one makes is to be interrupted before."""
