"""Sessions, over any driver: their settings, and what they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.backends.mssql.catalog.canonical import UTF8
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.drivers.opening import open_driver
from penstock.backends.mssql.drivers.urls import server_of_url
from penstock.backends.mssql.errors import translated
from penstock.backends.mssql.types import MsType
from penstock.backends.shared.values.growing_batches import growing
from penstock.errors import Diagnosis, PermanentError

# SQL Server 2016.
OLDEST = 13
_COUNTED = ("INSERT", "UPDATE", "DELETE")
# Names are quoted and NULL is no value, as the standard has it: the driver's own defaults, which a
# server's options may change.
# Nobody waits for a lock for ever, which is the server's own default.
LOCK_TIMEOUT = "SET LOCK_TIMEOUT 600000"
_SETTINGS = (
    "SET DATEFORMAT ymd",
    LOCK_TIMEOUT,
    "SET NOCOUNT ON",
    "SET TEXTSIZE 2147483647",
    "SET XACT_ABORT ON",
)


class Connection:
    """A session. What it is asked raises `DriverError`."""

    def __init__(self, url: str, side: str) -> None:
        self.side = side
        self._url = url
        self.driver = open_driver(url, side)
        self.utf8 = False
        """Whether there are collations of UTF-8."""
        self.babelfish = False
        """Whether it is PostgreSQL that speaks as SQL Server does."""
        self.edition = 0
        """Of the engine; see `SERVERPROPERTY`."""
        self.product = ""
        """The edition's name."""
        self.home = ""
        """The database in which the session began."""
        self.inside = ""
        """The snapshot of it in which the session reads."""

    def use(self, snapshot: str) -> None:
        """
        Parameters:
            snapshot: empty for none.
        """
        self.change(f"USE {MSSQL.ident(snapshot or self.home)}")
        self.inside = snapshot

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Those of the first result that has columns."""
        self.driver.execute(query, values)
        return self.driver.rows()

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Returns: how many rows the statement has changed, not counting what triggers did."""
        if statement.lstrip()[:6].upper() in _COUNTED:
            ((count,),) = self.rows(f"{statement};\nSELECT ROWCOUNT_BIG()", values)
            return int(count)
        self.driver.execute(statement, values)
        return 0

    def stream(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, so many at once, over a session of its own: this one may be asked
        other questions meanwhile, and its transaction survives an error of the query."""
        other = connect(self._url, self.side)
        try:
            if self.inside:
                other.use(self.inside)
            other.driver.execute(query)
            while found := other.driver.some(count):
                yield found
        finally:
            other.close()

    def batches(
        self, query: str, most: int, size: int, types: Sequence[pa.DataType] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a query as record batches; the first one comes even if it has no rows.

        Parameters:
            most, size: see `growing`.
            types: see `Driver.batch`.
        """
        self.driver.execute(query)
        return growing(lambda rows: self.driver.batch(rows, types), most, size)

    def load(
        self, table: str, columns: Mapping[str, MsType], batches: Iterator[pa.RecordBatch]
    ) -> int:
        """See `Driver.load`."""
        return self.driver.load(table, columns, batches)

    def interrupt(self) -> None:
        """End what another thread is waiting for."""
        self.driver.interrupt()

    def close(self) -> None:
        self.driver.close()


def connect(url: str, side: str) -> Connection:
    """
    Parameters:
        side: `source` or `target`, for errors.

    Raises:
        TransientError, PermanentError: no connection.
    """
    where = server_of_url(url)
    try:
        with translated(side, where):
            connection = Connection(url, side)
    except (ValueError, RuntimeError) as error:  # the driver's own, before it connects
        message = f"{side}: {where}: {type(error).__name__} of the driver"
        raise PermanentError(message, Diagnosis(side=side)) from None
    with translated(side, where):
        connection.change("; ".join(_SETTINGS))
        ((version, edition, product, home, babelfish, page),) = connection.rows(
            "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),"
            " CAST(SERVERPROPERTY('EngineEdition') AS int),"
            " CAST(SERVERPROPERTY('Edition') AS nvarchar(128)), DB_NAME(),"
            " CAST(SERVERPROPERTY('Babelfish') AS int),"
            f" CAST(COLLATIONPROPERTY('{UTF8}', 'CodePage') AS int)"
        )
    connection.utf8 = page is not None
    connection.babelfish = bool(babelfish)
    connection.edition, connection.product, connection.home = int(edition), product, home
    major = int(version.partition(".")[0])
    if edition not in _AZURE and not babelfish and major < OLDEST:
        connection.close()
        raise PermanentError(
            f"{side}: expected SQL Server 2016 (13.0) or later, found {version}",
            Diagnosis(side=side),
        )
    return connection


# https://learn.microsoft.com/en-us/sql/t-sql/functions/serverproperty-transact-sql
_AZURE = (5, 8)
