"""A database on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import new_mssql_database


@pytest.fixture(scope="module")
def mssql_module(mssql_server: str) -> Iterator[str]:
    """Return the URL of a database that the tests of a module share."""
    with new_mssql_database(mssql_server) as url:
        yield url
