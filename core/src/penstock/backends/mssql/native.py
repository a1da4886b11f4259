"""Microsoft's own driver for Python, which has its ODBC driver in the wheel, and record batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import mssql_python
import pyarrow as pa
from mssql_python.exceptions import Exception as NativeError

from penstock.backends.mssql.errors import DriverError
from penstock.backends.mssql.location import CONNECT_SECONDS, URLS, connection_string
from penstock.backends.mssql.types import MsType, travelling

# It words an SQLSTATE, and does not keep it.
_STATES = {
    "Disconnect error": "01002",
    "Client unable to establish connection": "08001",
    "Connection not open": "08003",
    "Server rejected the connection": "08004",
    "Connection failure during transaction": "08007",
    "Communication link failure": "08S01",
    "Transaction is rolled back": "25S03",
    "Serialization failure": "40001",
    "Statement completion unknown": "40003",
    "Operation canceled": "HY008",
    "Timeout expired": "HYT00",
    "Connection timeout expired": "HYT01",
}


def told(error: NativeError) -> DriverError:
    state = _STATES.get(error.driver_error, "")
    return DriverError(state, error.ddbc_error or error.driver_error)


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except NativeError as error:
        raise told(error) from error


class NativeDriver:
    """See `Driver`."""

    notes: tuple[str, ...] = ()
    travelling = staticmethod(travelling)

    @_telling()
    def __init__(self, url: str) -> None:
        seconds = int(URLS.parse(url).options.get("connect_timeout", CONNECT_SECONDS))
        # A session of a pool would keep what the last one had set.
        mssql_python.pooling(enabled=False)
        self._connection = mssql_python.connect(
            connection_string(url), autocommit=True, timeout=seconds, native_uuid=False
        )
        self._cursor = self._connection.cursor()

    @_telling()
    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        if values:
            self._cursor.execute(statement, *values)
        else:
            self._cursor.execute(statement, use_prepare=False)

    @_telling()
    def rows(self) -> list[tuple[Any, ...]]:
        while self._cursor.description is None:
            if not self._cursor.nextset():
                return []
        return [tuple(row) for row in self._cursor.fetchall()]

    @_telling()
    def some(self, count: int) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._cursor.fetchmany(count)]

    @_telling()
    def batch(self, count: int, types: Sequence[pa.DataType]) -> pa.RecordBatch:
        return self._cursor.arrow_batch(count)

    @_telling()
    def load(self, table: str, types: Sequence[MsType], batches: Iterator[pa.RecordBatch]) -> int:
        with self._connection.cursor() as cursor:
            found = cursor.bulkcopy_arrow(
                table, batches, timeout=0, table_lock=True, keep_nulls=True
            )
        return int(found["rows_copied"])

    def interrupt(self) -> None:
        with contextlib.suppress(Exception):
            # The one call of the driver's that another thread may make; it has no public name.
            self._cursor.hstmt._cancel()  # type: ignore[union-attr]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()
