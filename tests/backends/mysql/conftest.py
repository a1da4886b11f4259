"""A server of each kind, a source with items, and a pair of databases for a test's own runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock_testkit import AnyMysqlServer

from .mysql_pair import TABLE, Pair, execute, fill

BOTH = "PENSTOCK_MYSQL_SERVERS"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `both_servers`, or all if the variable says so, on MySQL and on MariaDB."""
    marked = next(metafunc.definition.iter_markers("both_servers"), None) is not None
    if "mysql_server" in metafunc.fixturenames and (marked or os.environ.get(BOTH) == "all"):
        servers = ("mariadb", "mysql")
        metafunc.parametrize("mysql_server", servers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def mysql_server(request: pytest.FixtureRequest, mysql_server: AnyMysqlServer) -> AnyMysqlServer:
    """Return MariaDB or whichever server is named or installed; in tests on both, MySQL as well."""
    if getattr(request, "param", "") != "mysql":
        return mysql_server
    real: AnyMysqlServer = request.getfixturevalue("real_mysql_server")
    return real


@pytest.fixture(scope="module")
def items(mysql_server: AnyMysqlServer) -> Iterator[str]:
    """A database with items, which no test writes to."""
    with mysql_server.new_database() as url:
        fill(url)
        yield url


@pytest.fixture
def pair(items: str, mysql_url: str) -> Iterator[Pair]:
    execute(mysql_url, TABLE)
    with closing(Pair(items, mysql_url)) as pair_of_databases:
        yield pair_of_databases
