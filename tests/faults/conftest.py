"""Two databases for every test, and two servers that tests may restart."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from penstock_testkit import PostgresServer, Server

from ..conftest import fresh_database
from .pair import ROWS, Pair, execute, insert_items

DATABASE = "faults"


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_reaches_children() -> Iterator[None]:
    """Restore SIGINT, which a shell's background processes and their children ignore."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def loaded(source_server: Server, target_server: Server) -> Iterator[tuple[str, str]]:
    """Return the names of two databases to copy: one with items, one with a table for them."""
    with fresh_database(source_server) as source, fresh_database(target_server) as target:
        with closing(Pair(source, target)) as new_pair:
            new_pair.load()
        yield urlsplit(source).path[1:], urlsplit(target).path[1:]


@pytest.fixture
def pair(source_server: Server, target_server: Server, loaded: tuple[str, str]) -> Iterator[Pair]:
    """Return a source with items and an empty target, and start nothing yet."""
    with (
        fresh_database(source_server, loaded[0]) as source,
        fresh_database(target_server, loaded[1]) as target,
        closing(Pair(source, target)) as new_pair,
    ):
        # A copied database has no write counters yet: an insert that is rolled back leaves no
        # trace.
        execute(
            new_pair.source, f"BEGIN; {insert_items(ROWS + 1, ROWS + 1)}; ROLLBACK", "VACUUM item"
        )
        yield new_pair


@pytest.fixture
def empty_pair(source_url: str, target_url: str) -> Iterator[Pair]:
    """Return two empty databases."""
    with closing(Pair(source_url, target_url)) as new_pair:
        yield new_pair


@contextmanager
def _database(server: PostgresServer) -> Iterator[str]:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    yield server.url_for(db=DATABASE)
    # A connection of its own, because the server has been restarted in between.
    with psycopg.connect(server.url, autocommit=True) as admin:
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
        admin.execute(drop.format(sql.Identifier(DATABASE)))


@pytest.fixture(scope="module")
def restartable() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Return a source and a target that a test may restart."""
    with PostgresServer(fsync=False) as source, PostgresServer(fsync=False) as target:
        yield source, target


@pytest.fixture
def fragile(restartable: tuple[PostgresServer, PostgresServer]) -> Iterator[Pair]:
    """Return a `pair` on the restartable servers."""
    with ExitStack() as stack:
        source, target = (stack.enter_context(_database(server)) for server in restartable)
        new_pair = stack.enter_context(closing(Pair(source, target)))
        new_pair.load()
        yield new_pair
