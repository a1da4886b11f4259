"""An external ClickHouse server, or chdb behind a small HTTP front, and databases on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

EXTERNAL = "PENSTOCK_TEST_CLICKHOUSE"
"""The URL of an external server, with a user who may create databases."""
HOST = "127.0.0.1"
START_SECONDS = 60


def clickhouse_missing() -> str:
    """Return the reason why `any_clickhouse_server` has no server; empty if it has one."""
    if os.environ.get(EXTERNAL) or find_spec("chdb") is not None:
        return ""
    return f"no ClickHouse: {EXTERNAL}=clickhouse://... names none, and chdb is not installed"


@contextmanager
def any_clickhouse_server() -> Iterator[str]:
    """Yield the URL of a ClickHouse server.

    It is the server in PENSTOCK_TEST_CLICKHOUSE, or else chdb's engine in its own process, behind a
    front that speaks a part of ClickHouse's HTTP.
    """
    if url := os.environ.get(EXTERNAL):
        yield url
        return
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="penstock-clickhouse-") as folder:
        words = [sys.executable, "-m", "penstock_testkit.clickhouse_front", folder, str(port)]
        process = subprocess.Popen(words)
        try:
            _wait_for(process, port)
            yield f"clickhouse://default:@{HOST}:{port}/default"
        finally:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/ping", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("chdb behind its front did not start") from None
            time.sleep(0.05)


def connect_clickhouse(url: str) -> Any:
    """Return a client of ClickHouse's own library, whose default database is the URL's."""
    import clickhouse_connect  # noqa: PLC0415 - slow, and rarely needed

    parts = urlsplit(url)
    return clickhouse_connect.get_client(
        host=parts.hostname,
        port=parts.port or 8123,
        username=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/") or "default",
        autogenerate_session_id=False,
        compress=False,
        # Closing it closes its sockets.
        dedicated_pool=True,
    )


@contextmanager
def new_clickhouse_database(server: str, name: str = "") -> Iterator[str]:
    """Yield the URL of a new database, and drop it afterwards.

    Args:
        server: the server's URL.
        name: the name of a database that does not exist; by default a random one.
    """
    name = name or f"t_{uuid.uuid4().hex[:10]}"
    with closing(connect_clickhouse(server)) as client:
        client.command(f"CREATE DATABASE {name}")
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            client.command(f"DROP DATABASE {name} SYNC")
