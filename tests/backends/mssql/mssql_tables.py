"""Databases on a real SQL Server, and copies from and to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import mssql_python
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_testkit import connect_mssql

from ...one_copy import OneCopy


def execute(url: str, *statements: str) -> None:
    with closing(connect_mssql(url)) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement, use_prepare=False)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with closing(connect_mssql(url)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query, use_prepare=False)
        return [tuple(row) for row in cursor.fetchall()]


FREETDS = "FreeTDS"
NO_PYODBC = "pyodbc needs unixODBC, which is not installed: unixodbc of Debian brings it"


def freetds_missing() -> str:
    """Return why FreeTDS for pyodbc is missing; empty if it is installed."""
    try:
        import pyodbc  # noqa: PLC0415 - where unixODBC is not installed, it cannot be imported
    except ImportError:
        return NO_PYODBC
    if FREETDS in pyodbc.drivers():
        return ""
    return "no ODBC driver FreeTDS: tdsodbc of Debian brings it"


def over_odbc(url: str) -> str:
    """Return the URL of the same database through an installed ODBC driver."""
    if why := freetds_missing():
        pytest.skip(why)
    parts = urlsplit(url)
    # It verifies no certificate.
    options = {k: v for k, v in parse_qsl(parts.query) if k != "trust_server_certificate"}
    query = urlencode({**options, "driver": FREETDS})
    return parts._replace(scheme="mssql+pyodbc", query=query).geturl()


def missing(url: str, type_: str) -> bool:
    """Whether the server lacks a type, as Babelfish lacks some."""
    try:
        execute(url, "DROP TABLE IF EXISTS probe", f"CREATE TABLE probe (c {type_})")
    except mssql_python.DatabaseError:
        return True
    return False


def numbers(count: int) -> str:
    """Return a SELECT of one column, ``n``, counting from 1."""
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    places = range(len(str(count)))
    number = " + ".join(f"d{place}.d * {10**place}" for place in places)
    tables = " CROSS JOIN ".join(f"({digits}) AS d{place}" for place in places)
    return f"SELECT n FROM (SELECT {number} AS n FROM {tables}) AS t WHERE n BETWEEN 1 AND {count}"


def is_babelfish(url: str) -> bool:
    ((version,),) = rows(url, "SELECT @@VERSION")
    return "Babelfish" in version


class Copy(OneCopy):
    """A copy, by default of the table ``dbo.t``."""

    def __init__(self, source: str, target: str, **options: Any) -> None:
        options_of_copy: dict[str, Any] = {
            "degree": 1,
            "attempts": 1,
            "snapshot": "none",
            **options,
        }
        if "query" not in options_of_copy:
            options_of_copy.setdefault("table", "dbo.t")
        super().__init__(source=source, target=target, **options_of_copy)


def into_files(source: str, folder: Path, **options: Any) -> pa.Table:
    """Copy into Parquet files in a new folder, and return the rows."""
    copied = Copy(source, f"file://{folder}", **options)
    copied.done()
    return read_files(folder)


def read_files(folder: Path) -> pa.Table:
    found: Sequence[Path] = sorted(folder.glob("*.parquet"))
    assert found
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in found])
