"""A server that the environment names, with a database for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .mssql_tables import EXTERNAL, new_database


@pytest.fixture(scope="session")
def _server() -> None:
    if not os.environ.get(EXTERNAL):
        pytest.skip(
            f"no SQL Server: {EXTERNAL}=mssql://... names one, as one who may make databases"
        )


@pytest.fixture(scope="module")
def mssql_module(_server: None) -> Iterator[str]:
    """The URL of a database that the tests of a module share."""
    with new_database() as url:
        yield url


@pytest.fixture
def mssql_url(_server: None) -> Iterator[str]:
    """The URL of a test's own database."""
    with new_database() as url:
        yield url
