"""Any ODBC driver through pyodbc: FreeTDS or Microsoft's.

Drivers represent SQL Server's own types differently, so the server converts all values to numbers,
texts and bytes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.types as pt
import pyodbc

from penstock.backends.mssql.catalog.canonical import units_since_epoch
from penstock.backends.mssql.drivers.driver import CLOSE_SECONDS
from penstock.backends.mssql.drivers.odbc_location import ODBC_URLS, odbc_string
from penstock.backends.mssql.drivers.row_texts import READS_JSON, inserts
from penstock.backends.mssql.errors import DriverError
from penstock.backends.mssql.location import CONNECT_SECONDS
from penstock.backends.mssql.types import TYPES, MsType
from penstock.backends.shared.in_use import InUse
from penstock.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")

# Whatever a data source sets: the driver's defaults, under which a text that is too long is an
# error.
_SETTINGS = (
    "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON"
)
_COST = "Python creates every value, which takes several times the CPU time of mssql://"
_STATE = re.compile(r"^\[\w{5}\] *")
# Who reported the error in which call, and further errors.
_REST = re.compile(r" \((-?\d+)\) \(SQL\w+\).*|; \[\w{5}\].*", re.S)
# FreeTDS has its own numbers for errors without an SQLSTATE: no answer in time, and connection
# lost.
_NUMBERS = {20003: "HYT00", 20004: "08S01", 20006: "08S01", 20009: "08001", 20017: "08S01"}


def driver_error(error: pyodbc.Error) -> DriverError:
    """Convert an error of pyodbc, without the call that reported it."""
    state, words = (*map(str, error.args), "", "")[:2]
    origin = _REST.search(words)
    number = int(origin[1] or 0) if origin else 0
    return DriverError(_NUMBERS.get(number, state), _REST.sub("", _STATE.sub("", words)))


def _call(
    method: Callable[Concatenate[OdbcDriver, P], T],
) -> Callable[Concatenate[OdbcDriver, P], T]:
    """Wrap a method that calls the driver."""

    @wraps(method)
    def called(self: OdbcDriver, /, *args: P.args, **options: P.kwargs) -> T:
        with self._in_use:
            try:
                return method(self, *args, **options)
            except pyodbc.Error as error:
                raise driver_error(error) from error

    return called


class OdbcDriver:
    """See `Driver`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loader: OdbcDriver | None = None
        self._in_use = InUse(self._free)
        self._connect(url)

    @_call
    def _connect(self, url: str) -> None:
        options = ODBC_URLS.parse(url).options
        name = options.get("driver", "")
        if name:
            _check_installed(name, pyodbc.drivers(), "ODBC driver")
        else:
            sources = pyodbc.dataSources()
            _check_installed(options["dsn"], list(sources), "ODBC data source")
            name = sources.get(options["dsn"], "")
        self.notes: tuple[str, ...] = (f"through {name or options['dsn']} and pyodbc: {_COST}",)
        # A pooled session would keep the settings of the last one.
        pyodbc.pooling = False
        self._connection = pyodbc.connect(
            odbc_string(url, name),
            autocommit=True,
            timeout=int(options.get("connect_timeout", CONNECT_SECONDS)),
        )
        # Otherwise single-byte texts would be decoded in this process's locale.
        self._connection.setdecoding(pyodbc.SQL_CHAR, encoding="utf-16le", ctype=pyodbc.SQL_WCHAR)
        self._cursor = self._connection.cursor()
        self._cursor.execute(_SETTINGS)

    def travelling(self, value: str, of: MsType) -> str:
        match of.name:
            case "date" | "time":
                return units_since_epoch(value, of, of.name)
            case "datetime" | "datetime2" | "smalldatetime" | "datetimeoffset":
                return units_since_epoch(value, of, "timestamp")
            case "money" | "smallmoney":
                return f"CAST({value} AS decimal(19,4))"
            case "uniqueidentifier":
                return f"CAST({value} AS char(36))"
        return TYPES.travelling(value, of)

    @_call
    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._cursor.execute(statement, *values)

    @_call
    def rows(self) -> list[tuple[Any, ...]]:
        while self._cursor.description is None:
            if not self._cursor.nextset():
                return []
        return [tuple(row) for row in self._cursor.fetchall()]

    @_call
    def next_rows(self, count: int) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._cursor.fetchmany(count)]

    @_call
    def batch(self, count: int, types: Sequence[pa.DataType]) -> pa.RecordBatch:
        names = [column[0] for column in self._cursor.description]
        rows = self._cursor.fetchmany(count)
        columns: Sequence[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        arrays = [
            array_of(values, type_)
            for values, type_ in zip_longest(columns, types, fillvalue=pa.int32())
        ]
        return pa.RecordBatch.from_arrays(arrays, names)

    def load(
        self, table: str, columns: Mapping[str, MsType], batches: Iterator[pa.RecordBatch]
    ) -> int:
        self._loader = loader = OdbcDriver(self._url)
        count, types = 0, list(columns.values())
        try:
            reads_json = loader.reads_json()
            for batch in batches:
                for statement, values in inserts(table, batch, types, reads_json=reads_json):
                    loader.execute(f"{statement};\nSELECT ROWCOUNT_BIG()", values)
                    ((inserted,),) = loader.rows()
                    count += int(inserted)
        finally:
            loader.close()
        return count

    def reads_json(self) -> bool:
        try:
            self.execute(READS_JSON)
            return self.rows() == [(1,)]
        except DriverError:
            return False

    def interrupt(self) -> None:
        for each in (self, self._loader):
            with contextlib.suppress(Exception):
                if each is not None:
                    each._cursor.cancel()

    def close(self) -> None:
        self._in_use.free(CLOSE_SECONDS)

    def _free(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()


def _check_installed(name: str, installed: Sequence[str], what: str) -> None:
    """Check that a driver or data source is installed.

    Raises:
        UsageError: the driver or data source is not installed.
    """
    if name.casefold() not in map(str.casefold, installed) and not Path(name).is_file():
        raise UsageError(
            f"connection: {what} {name!r} is not installed on this machine; installed: "
            f"{', '.join(sorted(installed)) or 'none'}"
        )


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Convert values to an array.

    Raises:
        DriverError: the driver returned values of another type.
    """
    try:
        if pt.is_date(type_):
            return pa.array(values, pa.int32()).view(type_)
        if pt.is_temporal(type_):
            return pa.array(values, pa.int64()).view(type_)
        return pa.array(values, pa.string() if type_ == pa.uuid() else type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DriverError("22018", f"expected values of type {type_}: {error}") from error
