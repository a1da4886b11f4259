"""A SQL Server that somebody names, and new databases on it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

DROP_SECONDS = 30
MASTER = "master"


def connect_mssql(url: str, database: str = "") -> Any:
    """A connection of the driver's own, where each statement is a transaction.

    Parameters:
        database: in the place of the URL's.
    """
    import mssql_python  # noqa: PLC0415 - where it is not used, it need not be there

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    said = {
        "Server": f"tcp:{parts.hostname},{parts.port or 1433}",
        "Database": database or unquote(parts.path.removeprefix("/")) or MASTER,
        "UID": unquote(parts.username or ""),
        "PWD": unquote(parts.password or ""),
        "Encrypt": options.get("encrypt", "yes"),
        "TrustServerCertificate": options.get("trust_server_certificate", "no"),
    }
    # A database cannot be dropped while a pool has a session in it.
    mssql_python.pooling(enabled=False)
    braced = (f"{name}={{{value.replace('}', '}}')}}};" for name, value in said.items())
    return mssql_python.connect("".join(braced), autocommit=True)


@contextmanager
def new_mssql_database(url: str) -> Iterator[str]:
    """The URL of a new database, which is dropped afterwards.

    Parameters:
        url: of the server, as one who may make databases. The new one's name begins with that of
            its database, which need not be there.
    """
    parts = urlsplit(url)
    name = f"{unquote(parts.path.removeprefix('/')) or 'test'}_{uuid.uuid4().hex[:12]}"
    with closing(connect_mssql(url, MASTER)) as admin, closing(admin.cursor()) as cursor:
        cursor.execute(f"CREATE DATABASE [{name}]")
        try:
            yield parts._replace(path=f"/{name}").geturl()
        finally:
            _drop(cursor, name)


def _drop(cursor: Any, name: str) -> None:
    """Once nobody uses it any more: what was killed is still about to leave."""
    import mssql_python  # noqa: PLC0415

    deadline = time.monotonic() + DROP_SECONDS
    while True:
        try:
            cursor.execute(f"DROP DATABASE [{name}]")
        except mssql_python.DatabaseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return
