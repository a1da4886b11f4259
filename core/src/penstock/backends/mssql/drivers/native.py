"""Microsoft's own driver for Python, whose wheel includes the ODBC driver, with record batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import mssql_python
import pyarrow as pa
from mssql_python.exceptions import Exception as NativeError

from penstock.backends.mssql.drivers.driver import CLOSE_SECONDS
from penstock.backends.mssql.errors import INTEGRITY, DriverError
from penstock.backends.mssql.location import CONNECT_SECONDS, URLS, connection_string
from penstock.backends.mssql.types import TYPES, MsType
from penstock.backends.shared.in_use import InUse

# The driver translates an SQLSTATE to words, without keeping it.
_STATES = {
    "Disconnect error": "01002",
    "Client unable to establish connection": "08001",
    "Connection not open": "08003",
    "Server rejected the connection": "08004",
    "Connection failure during transaction": "08007",
    "Communication link failure": "08S01",
    "Transaction is rolled back": "25S03",
    "Integrity constraint violation": INTEGRITY,
    "Serialization failure": "40001",
    "Statement completion unknown": "40003",
    "Operation canceled": "HY008",
    "Timeout expired": "HYT00",
    "Connection timeout expired": "HYT01",
}


def driver_error(error: NativeError) -> DriverError:
    """Convert an error of the driver."""
    state = _STATES.get(error.driver_error, "")
    return DriverError(state, error.ddbc_error or error.driver_error)


# Its wheel includes Microsoft's ODBC driver, but not the system library that the driver loads:
# https://github.com/microsoft/mssql-python#installation
_NOT_LOADED = "Failed to load the driver"


class NativeDriver:
    """See `Driver`."""

    notes: tuple[str, ...] = ()
    travelling = staticmethod(TYPES.travelling)

    def __init__(self, url: str) -> None:
        self._in_use = InUse(self._free)
        with self._call():
            self._connect(url)

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        with self._in_use:
            try:
                yield
            except NativeError as error:
                raise driver_error(error) from error

    def _connect(self, url: str) -> None:
        seconds = int(URLS.parse(url).options.get("connect_timeout", CONNECT_SECONDS))
        # A pooled session would keep the settings of the last one.
        mssql_python.pooling(enabled=False)
        try:
            self._connection = mssql_python.connect(
                connection_string(url), autocommit=True, timeout=seconds, native_uuid=False
            )
        except NativeError as error:
            if _NOT_LOADED not in error.ddbc_error:
                raise
            raise ImportError(error.ddbc_error) from error
        self._cursor = self._connection.cursor()
        # A load uses a connection of its own, opened with the parameters of this one.
        self._loader = self._connection.cursor()
        self._idle_loader: Any = None

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        with self._call():
            if values:
                self._cursor.execute(statement, *values)
            else:
                self._cursor.execute(statement, use_prepare=False)

    def rows(self) -> list[tuple[Any, ...]]:
        with self._call():
            while self._cursor.description is None:
                if not self._cursor.nextset():
                    return []
            return [tuple(row) for row in self._cursor.fetchall()]

    def next_rows(self, count: int) -> list[tuple[Any, ...]]:
        with self._call():
            return [tuple(row) for row in self._cursor.fetchmany(count)]

    def batch(self, count: int, types: Sequence[pa.DataType]) -> pa.RecordBatch:
        with self._call():
            return self._cursor.arrow_batch(count)

    def load(
        self, table: str, columns: Mapping[str, MsType], batches: Iterator[pa.RecordBatch]
    ) -> int:
        # One that has failed, or still waits for rows, is not reused.
        connection, self._idle_loader = self._idle_loader or self._connected_loader(), None
        try:
            loader = connection.cursor() if connection else self._loader
            result = loader.bulkcopy_arrow(
                table,
                batches,
                timeout=0,
                # By name: unmodified Babelfish tells the driver only about the last column, which
                # would be matched by position and get the first one's values.
                column_mappings=list(columns),
                table_lock=True,
                keep_nulls=True,
            )
        except NativeError as error:
            raise driver_error(error) from error
        self._idle_loader = connection
        return int(result["rows_copied"])

    def _connected_loader(self) -> Any:
        """Return the driver's connection for loads, which is kept for the next table.

        None if the driver does not keep it where this looks; it then opens one per load.
        """
        try:
            connection = import_module("mssql_py_core").PyCoreConnection
            how = self._loader._build_pycore_context()
        except (ImportError, AttributeError):
            return None
        try:
            return connection(how)
        finally:
            how.clear()  # it contains a password

    def interrupt(self) -> None:
        with contextlib.suppress(Exception):
            # The only driver call that another thread may make; it has no public name.
            self._cursor.hstmt._cancel()  # type: ignore[union-attr]

    def close(self) -> None:
        self._idle_loader = None
        self._in_use.free(CLOSE_SECONDS)

    def _free(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()
