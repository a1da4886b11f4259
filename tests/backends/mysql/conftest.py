"""A source with items, and a pair of databases for a test's own runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock_testkit import AnyMysqlServer

from .mysql_pair import TABLE, Pair, execute, fill


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
