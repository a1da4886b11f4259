"""Two real servers for the session, and a fresh database on each for every test."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from penstock_testkit import ExternalServer, PostgresServer, Server

# Started in the background, we would ignore SIGINT, and so would every command under test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Connection = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def server_for(role: str) -> Iterator[Server]:
    """The server that PENSTOCK_TEST_<ROLE> names, or else one of our own."""
    if url := os.environ.get(f"PENSTOCK_TEST_{role}"):
        yield ExternalServer(url)
        return
    # No test takes the machine's power away, so fsync would buy nothing.
    with PostgresServer(fsync=False) as server:
        yield server


@contextmanager
def fresh_database(server: Server) -> Iterator[str]:
    """The URL of a new database, which is dropped afterwards, whoever is still connected."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if admin.info.server_version >= 150000:
            # Half the time of copying it through the log, which is the default.
            create += sql.SQL(" STRATEGY file_copy")
        admin.execute(create)
    try:
        yield server.url_for(db=name)
    finally:
        # A connection of its own: the test may have restarted the server in between.
        with psycopg.connect(server.url, autocommit=True) as admin:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            admin.execute(drop.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def source_server() -> Iterator[Server]:
    with server_for("SOURCE") as server:
        yield server


@pytest.fixture(scope="session")
def target_server() -> Iterator[Server]:
    with server_for("TARGET") as server:
        yield server


@pytest.fixture
def source_url(source_server: Server) -> Iterator[str]:
    with fresh_database(source_server) as url:
        yield url


@pytest.fixture
def target_url(target_server: Server) -> Iterator[str]:
    with fresh_database(target_server) as url:
        yield url


@pytest.fixture
def source(source_url: str) -> Iterator[Connection]:
    with psycopg.connect(source_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def target(target_url: str) -> Iterator[Connection]:
    with psycopg.connect(target_url, autocommit=True) as connection:
        yield connection
