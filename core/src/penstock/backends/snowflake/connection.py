"""Sessions: their settings and questions."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import snowflake.connector
from snowflake.connector.errors import Error

from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.location import URLS, login, place
from penstock.errors import Diagnosis, PermanentError

CONNECT_SECONDS = 30
# For a request without an answer; the result of a longer query is requested repeatedly.
NETWORK_SECONDS = 120
LOCK_SECONDS = 600
# How long an interrupted statement may take to return before it is abandoned.
CANCEL_SECONDS = 2.0
_MICROS = "YYYY-MM-DD HH24:MI:SS.FF6"
_SETTINGS = {
    "TIMEZONE": "UTC",
    "QUERY_TAG": "penstock",
    "DATE_OUTPUT_FORMAT": "YYYY-MM-DD",
    "TIME_OUTPUT_FORMAT": "HH24:MI:SS.FF6",
    "TIMESTAMP_NTZ_OUTPUT_FORMAT": _MICROS,
    "TIMESTAMP_TZ_OUTPUT_FORMAT": f"{_MICROS} TZHTZM",
    "BINARY_OUTPUT_FORMAT": "HEX",
    "BINARY_INPUT_FORMAT": "HEX",
    # A quoted name is the name, a result has all its rows, and new columns no collation.
    "QUOTED_IDENTIFIERS_IGNORE_CASE": False,
    "ROWS_PER_RESULTSET": 0,
    "DEFAULT_DDL_COLLATION": "",
    "ERROR_ON_NONDETERMINISTIC_MERGE": True,
    # Weeks begin on Mondays.
    "WEEK_START": 0,
    "LOCK_TIMEOUT": LOCK_SECONDS,
    "CLIENT_TELEMETRY_ENABLED": False,
}
# Otherwise, at each login, it would query the metadata services of three clouds, AWS with any keys
# it finds, and report the result to Snowflake.
os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
# It logs every attempt to connect.
logging.getLogger("snowflake.connector").setLevel(logging.CRITICAL)


_BROWSING = threading.Lock()


@contextmanager
def _apart_from_results(authenticator: str) -> Iterator[None]:
    """Keep the messages of a browser login out of the results.

    It prints where its window is. Threads share the standard output, so it is redirected for
    nothing else, and by one login at a time.
    """
    if authenticator != "browser":
        yield
        return
    with _BROWSING, redirect_stdout(sys.stderr):
        yield


class Connection:
    """A session that raises the driver's errors."""

    def __init__(self, url: str, side: str) -> None:
        location = URLS.parse(url)
        self.side = side
        self.host = location.host
        self._url = url
        with _apart_from_results(location.options.get("authenticator", "")):
            self._driver = snowflake.connector.connect(
                **place(location),
                **login(location),
                paramstyle="qmark",
                autocommit=True,
                arrow_number_to_decimal=True,
                session_parameters=_SETTINGS,
                application="Penstock",
                login_timeout=int(location.options.get("connect_timeout", CONNECT_SECONDS)),
                network_timeout=NETWORK_SECONDS,
                client_prefetch_threads=1,
            )
        self.database = ""
        self.schema = ""

    def _executed(self, statement: str, values: Sequence[Any] = ()) -> Any:
        cursor = self._driver.cursor()
        cursor.execute(statement, tuple(values) or None)
        return cursor

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._executed(query, values) as cursor:
            return list(cursor.fetchall())

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it changed."""
        with self._executed(statement, values) as cursor:
            return int(cursor.rowcount or 0)

    def stream(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, a number at a time, over a separate session.

        An error in it does not affect this one's transaction.
        """
        separate = connect(self._url, self.side)
        try:
            with separate._executed(query) as cursor:
                while rows := cursor.fetchmany(count):
                    yield rows
        finally:
            separate.close()

    def tables(self, query: str) -> Iterator[pa.Table]:
        """Yield the rows of a query in the parts in which the server sends them."""
        with self._executed(query) as cursor:
            for part in cursor.get_result_batches() or ():
                if part.rowcount:
                    yield part.to_arrow(self._driver, force_microsecond_precision=True)

    def described(self, query: str) -> list[Any]:
        """Return the columns of a query without running it."""
        with self._driver.cursor() as cursor:
            return list(cursor.describe(query))

    def put(self, file: Path, folder: str) -> None:
        """Upload a file unchanged.

        Args:
            file: the local file.
            folder: the folder of a stage, as in statements.
        """
        self.rows(
            f"PUT 'file://{file}' {folder} AUTO_COMPRESS = FALSE"
            " SOURCE_COMPRESSION = NONE OVERWRITE = TRUE"
        )

    def interrupt(self) -> None:
        """Cancel the statement that another thread waits for, if the server does so in time."""
        ending = threading.Thread(target=self._cancel, daemon=True)
        ending.start()
        ending.join(CANCEL_SECONDS)

    def _cancel(self) -> None:
        with suppress(Exception):
            separate = connect(self._url, self.side)
            separate.rows(f"SELECT SYSTEM$CANCEL_ALL_QUERIES({int(self._driver.session_id)})")
            separate.close()

    def close(self) -> None:
        """Disconnect; changes of an open transaction are undone."""
        with suppress(Exception):
            self._driver.close(retry=False)


def connect(url: str, side: str) -> Connection:
    """Open a session.

    Args:
        url: the account's URL, with its secrets.
        side: `source` or `target`, for error messages.

    Raises:
        TransientError, PermanentError: the connection failed.
    """
    where = URLS.parse(url).host
    try:
        with translated(side, where):
            connection = Connection(url, side)
    except (OSError, TypeError, ValueError) as error:  # of a key that cannot be read
        file = URLS.parse(url).options.get("private_key_file")
        cause = (
            error.strerror
            if isinstance(error, OSError)
            else "another kind of file, or a wrong passphrase"
        )
        raise PermanentError(
            f"{side}: {where}: expected a private key in {file}, in PEM format (PKCS 8), and its "
            f"passphrase as the password; found {cause}",
            Diagnosis(side=side),
        ) from None
    try:
        with translated(side, where):
            ((database, schema),) = connection.rows("SELECT CURRENT_DATABASE(), CURRENT_SCHEMA()")
    except BaseException:
        connection.close()
        raise
    if not database:
        connection.close()
        raise PermanentError(
            f"{side}: {where}: the database in the URL does not exist, or the role has no "
            "privilege on it; add ?role=NAME to the URL, or grant USAGE on the database",
            Diagnosis(side=side),
        )
    connection.database, connection.schema = database, schema or ""
    return connection


__all__ = ["Connection", "Error", "connect"]
