"""What a session asks of a driver, and which one a URL names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.backends.mssql.location import ODBC_URLS, urls_of
from penstock.backends.mssql.types import MsType
from penstock.errors import Diagnosis, UsageError

CLOSE_SECONDS = 5.0
"""For how long a call that was interrupted may go on, before its connection is left to it."""
LIBRARIES = {
    "mssql": "apt-get install libltdl7 libgssapi-krb5-2, or dnf install libtool-ltdl krb5-libs",
    "mssql+pyodbc": "apt-get install unixodbc, or dnf install unixODBC",
}
"""How to install what each scheme's driver loads and its wheel does not bring."""


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


def open_driver(url: str, side: str) -> Driver:
    """
    Raises:
        DriverError: no connection.
        UsageError: the driver, or a library of the system that it needs, is not installed.
    """
    scheme = urls_of(url).scheme
    try:
        if urls_of(url) is ODBC_URLS:
            from penstock.backends.mssql.drivers.odbc import OdbcDriver  # noqa: PLC0415

            return OdbcDriver(url)
        from penstock.backends.mssql.drivers.native import NativeDriver  # noqa: PLC0415

        return NativeDriver(url)
    except ModuleNotFoundError as error:
        extra = "mssql-odbc" if urls_of(url) is ODBC_URLS else "mssql"
        raise UsageError(
            f"{side}: {scheme} needs the module {error.name!r}; install it with: "
            f"pip install 'penstock[{extra}]'",
            Diagnosis(side=side),
        ) from error
    except ImportError as error:  # a library of the system, which no wheel brings
        raise UsageError(
            f"{side}: {scheme} needs a library of the system that is not installed "
            f"({error}); install it with: {LIBRARIES[scheme]}",
            Diagnosis(side=side),
        ) from error
