"""Sessions over any driver: their settings and questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.backends.mssql.catalog.canonical import UTF8
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.drivers.selection import open_driver
from penstock.backends.mssql.drivers.urls import server_of_url
from penstock.backends.mssql.errors import translated
from penstock.backends.mssql.types import MsType
from penstock.backends.shared.values.growing_batches import growing
from penstock.errors import Diagnosis, PermanentError

# SQL Server 2016.
OLDEST = 13
_COUNTED = ("INSERT", "UPDATE", "DELETE")
# Quoted identifiers and standard NULL comparison are the driver's defaults, which a server's
# options may change. The server's own default is to wait forever for a lock.
LOCK_TIMEOUT = "SET LOCK_TIMEOUT 600000"
_SETTINGS = (
    "SET DATEFORMAT ymd",
    LOCK_TIMEOUT,
    "SET NOCOUNT ON",
    "SET TEXTSIZE 2147483647",
    "SET XACT_ABORT ON",
    # All rows are read and changed, and each statement outside a transaction is one.
    "SET ROWCOUNT 0",
    "SET IMPLICIT_TRANSACTIONS OFF",
    # As indexes on computed columns require.
    "SET ARITHABORT ON",
    "SET NUMERIC_ROUNDABORT OFF",
)


class Connection:
    """A session that raises `DriverError`."""

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
        self.database = ""
        """The database in which the session began."""
        self.snapshot = ""
        """The snapshot of it in which the session reads."""

    def use(self, snapshot: str) -> None:
        """Switch to a snapshot.

        Args:
            snapshot: its name; empty for none.
        """
        self.change(f"USE {MSSQL.ident(snapshot or self.database)}")
        self.snapshot = snapshot

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of the first result that has columns."""
        self.driver.execute(query, values)
        return self.driver.rows()

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it changed, not counting triggers."""
        if statement.lstrip()[:6].upper() in _COUNTED:
            ((count,),) = self.rows(f"{statement};\nSELECT ROWCOUNT_BIG()", values)
            return int(count)
        self.driver.execute(statement, values)
        return 0

    def stream(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, a number at a time, over a separate session.

        This session can answer other questions in between, and its transaction survives an error in
        the query.
        """
        connection = connect(self._url, self.side)
        try:
            if self.snapshot:
                connection.use(self.snapshot)
            connection.driver.execute(query)
            while rows := connection.driver.next_rows(count):
                yield rows
        finally:
            connection.close()

    def batches(
        self, query: str, most: int, size: int, types: Sequence[pa.DataType] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query as record batches.

        The first one comes even if it has no rows.

        Args:
            query: the query.
            most: the maximum number of rows per batch.
            size: the approximate number of bytes per batch.
            types: as for `Driver.batch`.
        """
        self.driver.execute(query)
        return growing(lambda rows: self.driver.batch(rows, types), most, size)

    def load(
        self, table: str, columns: Mapping[str, MsType], batches: Iterator[pa.RecordBatch]
    ) -> int:
        """Load rows in bulk over a connection of its own; return how many.

        Args:
            table: the table, quoted.
            columns: the names and types of the table's columns, in the order of the batches.
            batches: the rows.
        """
        return self.driver.load(table, columns, batches)

    def interrupt(self) -> None:
        """Cancel the statement that another thread waits for."""
        self.driver.interrupt()

    def close(self) -> None:
        self.driver.close()


def connect(url: str, side: str) -> Connection:
    """Open a session.

    Args:
        url: the server's URL, with its secrets.
        side: `source` or `target`, for error messages.

    Raises:
        TransientError, PermanentError: the connection failed.
    """
    where = server_of_url(url)
    try:
        with translated(side, where):
            connection = Connection(url, side)
    except (ValueError, RuntimeError) as error:  # raised by the driver before it connects
        message = (
            f"{side}: {where}: the driver raised {type(error).__name__} before it connected; "
            "check the parameters of the URL"
        )
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
    connection.edition, connection.product, connection.database = int(edition), product, home
    major = int(version.partition(".")[0])
    if edition not in _AZURE and not babelfish and major < OLDEST:
        connection.close()
        raise PermanentError(
            f"{side}: {where}: expected SQL Server 2016 (13.0) or later, found {version}",
            Diagnosis(side=side),
        )
    return connection


# https://learn.microsoft.com/en-us/sql/t-sql/functions/serverproperty-transact-sql
_AZURE = (5, 8)
