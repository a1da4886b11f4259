"""Databases of every backend; the toy and the killer are on the path as if installed."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock_testkit import Server, new_mssql_database, new_snowflake_database

from ..conftest import fresh_clickhouse, fresh_database, fresh_mysql
from .copying import Pair
from .database import Database, Places
from .databases import DATABASES, PLACES

HERE = Path(__file__).parent
# Each folder looks like the result of `pip install --target`.
INSTALLED = [str(HERE / name) for name in ("toy", "killing", "counting")]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Skip tests that are not worth their time on some databases, before any server starts."""
    names = item.name.partition("[")[2].rstrip("]").split("-")
    for name in names:
        if name in DATABASES and (why := DATABASES[name].left_out(item.name)):
            item.add_marker(pytest.mark.skip(why))


@pytest.fixture(autouse=True, scope="module")
def _installed() -> Iterator[None]:
    """Make the packages visible to this process and to workers.

    Tests in other folders do not see them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, *INSTALLED])
        before = os.environ.get("PYTHONPATH")
        paths = [*([before] if before else []), *INSTALLED]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield


@pytest.fixture
def open_database(
    request: pytest.FixtureRequest, tmp_path: Path, source_server: Server
) -> Iterator[Callable[[str], Database]]:
    """Return a function that opens a new database of a backend."""
    with ExitStack() as stack:

        def opened(name: str) -> Database:
            places = Places(
                tmp_path / uuid.uuid4().hex[:8],
                lambda: fresh_database(source_server),
                lambda: fresh_mysql(request.getfixturevalue("mysql_server")),
                lambda: new_mssql_database(request.getfixturevalue("mssql_server")),
                lambda: fresh_clickhouse(request.getfixturevalue("clickhouse_server")),
                lambda: new_snowflake_database(request.getfixturevalue("snowflake_account")),
                lambda: request.getfixturevalue("s3_server"),
            )
            return stack.enter_context(PLACES[name].opened(places))

        yield opened


@pytest.fixture(params=DATABASES)
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of each backend in turn."""
    found: str = request.param
    return found


@pytest.fixture
def pair(name: str, open_database: Callable[[str], Database]) -> Pair:
    """Return two databases of one backend, for each backend in turn."""
    return Pair(open_database(name), open_database(name))


@pytest.fixture
def outward(name: str, open_database: Callable[[str], Database]) -> Pair:
    """Return a pair from each backend to another that accepts all types."""
    return Pair(open_database(name), open_database("duckdb" if name == "parquet" else "parquet"))


@pytest.fixture
def inward(name: str, open_database: Callable[[str], Database]) -> Pair:
    """Return a pair from another backend to each."""
    other = "duckdb" if name == "postgresql" else "postgresql"
    return Pair(open_database(other), open_database(name))
