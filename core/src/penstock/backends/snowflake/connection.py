"""Sessions: their settings, and what they are asked."""

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
# Of a request without an answer; a query that runs for longer is asked for again and again.
NETWORK_SECONDS = 120
LOCK_SECONDS = 600
# An interrupted statement comes back within this, or is left behind.
CANCEL_SECONDS = 2.0
_MICROS = "YYYY-MM-DD HH24:MI:SS.FF6"
_SETTINGS = {
    "TIMEZONE": "UTC",
    "QUERY_TAG": "penstock",
    "DATE_OUTPUT_FORMAT": "YYYY-MM-DD",
    "TIME_OUTPUT_FORMAT": "HH24:MI:SS.FF6",
    "TIMESTAMP_NTZ_OUTPUT_FORMAT": _MICROS,
    "BINARY_OUTPUT_FORMAT": "HEX",
    "LOCK_TIMEOUT": LOCK_SECONDS,
    "CLIENT_TELEMETRY_ENABLED": False,
}
# At each login it would ask the metadata services of three clouds, and AWS with the keys that it
# finds, where it runs, and tell Snowflake.
os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
# It tells of each try to connect.
logging.getLogger("snowflake.connector").setLevel(logging.CRITICAL)


_BROWSING = threading.Lock()


@contextmanager
def _apart_from_results(authenticator: str) -> Iterator[None]:
    """A login in a browser prints where its window is, which would be among the results. Threads
    share the standard output, so it is redirected for nothing else, and by one login at a time."""
    if authenticator != "browser":
        yield
        return
    with _BROWSING, redirect_stdout(sys.stderr):
        yield


class Connection:
    """A session. What it is asked raises the driver's errors."""

    def __init__(self, url: str, side: str) -> None:
        found = URLS.parse(url)
        self.side = side
        self.host = found.host
        self._url = url
        with _apart_from_results(found.options.get("authenticator", "")):
            self._driver = snowflake.connector.connect(
                **place(found),
                **login(found),
                paramstyle="qmark",
                autocommit=True,
                arrow_number_to_decimal=True,
                session_parameters=_SETTINGS,
                application="Penstock",
                login_timeout=int(found.options.get("connect_timeout", CONNECT_SECONDS)),
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
        """Returns: how many rows the statement has changed."""
        with self._executed(statement, values) as cursor:
            return int(cursor.rowcount or 0)

    def stream(self, query: str, count: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, so many at once, over a session of its own: an error of it changes
        nothing in this one's transaction."""
        other = connect(self._url, self.side)
        try:
            with other._executed(query) as cursor:
                while found := cursor.fetchmany(count):
                    yield found
        finally:
            other.close()

    def tables(self, query: str) -> Iterator[pa.Table]:
        """The rows of a query, as the server has cut them: one part at a time."""
        with self._executed(query) as cursor:
            for part in cursor.get_result_batches() or ():
                if part.rowcount:
                    yield part.to_arrow(self._driver, force_microsecond_precision=True)

    def described(self, query: str) -> list[Any]:
        """The columns of a query, which is not run."""
        with self._driver.cursor() as cursor:
            return list(cursor.describe(query))

    def put(self, file: Path, folder: str) -> None:
        """Upload a file as it is.

        Parameters:
            folder: of a stage, as statements have it.
        """
        self.rows(
            f"PUT 'file://{file}' {folder} AUTO_COMPRESS = FALSE"
            " SOURCE_COMPRESSION = NONE OVERWRITE = TRUE"
        )

    def interrupt(self) -> None:
        """End what another thread waits for, as far as the server does that in time."""
        ending = threading.Thread(target=self._cancel, daemon=True)
        ending.start()
        ending.join(CANCEL_SECONDS)

    def _cancel(self) -> None:
        with suppress(Exception):
            other = connect(self._url, self.side)
            other.rows(f"SELECT SYSTEM$CANCEL_ALL_QUERIES({int(self._driver.session_id)})")
            other.close()

    def close(self) -> None:
        """What its transaction has changed is undone."""
        with suppress(Exception):
            self._driver.close(retry=False)


def connect(url: str, side: str) -> Connection:
    """
    Parameters:
        side: `source` or `target`, for errors.

    Raises:
        TransientError, PermanentError: no connection.
    """
    where = URLS.parse(url).host
    try:
        with translated(side, where):
            connection = Connection(url, side)
    except (OSError, TypeError, ValueError) as error:  # of a key that cannot be read
        file = URLS.parse(url).options.get("private_key_file")
        found = error.strerror if isinstance(error, OSError) else "another file, or passphrase"
        raise PermanentError(
            f"{side}: {where}: expected a private key in PEM (PKCS 8) in {file}, and its "
            f"passphrase as the password; found: {found}",
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
            f"{side}: {where}: the database of the URL does not exist, or the role may not use it; "
            "add ?role=NAME to the URL, or grant USAGE on it",
            Diagnosis(side=side),
        )
    connection.database, connection.schema = database, schema or ""
    return connection


__all__ = ["Connection", "Error", "connect"]
