"""An external SQL Server or one in a container, and new databases on it."""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

EXTERNAL = "PENSTOCK_TEST_MSSQL"
"""The URL of an external server, with a user who may create databases."""
# Microsoft's own image of the developer edition. Running it accepts its license.
IMAGE = "mcr.microsoft.com/mssql/server:2022-latest"
ENGINE = Path("/var/run/docker.sock")
HOST = "127.0.0.1"
# The first start creates the system databases.
START_SECONDS = 120
DROP_SECONDS = 30
MASTER = "master"


def mssql_missing() -> str:
    """Return the reason why `any_mssql_server` has no server; empty if it has one."""
    if os.environ.get(EXTERNAL) or docker_answers():
        return ""
    return f"no SQL Server: {EXTERNAL}=mssql://... names none, and no Docker engine answers"


def docker_answers() -> bool:
    """Whether a container engine answers."""
    if not os.environ.get("DOCKER_HOST") and not ENGINE.exists():
        return False
    import docker  # noqa: PLC0415 - slow, and rarely needed

    try:
        with closing(docker.from_env()) as engine:
            return bool(engine.ping())
    except docker.errors.DockerException:
        return False


@contextmanager
def any_mssql_server() -> Iterator[str]:
    """Yield the URL of the server in PENSTOCK_TEST_MSSQL, or else of one in a container."""
    if url := os.environ.get(EXTERNAL):
        yield url
        return
    import docker  # noqa: PLC0415

    password = f"Aa1-{secrets.token_urlsafe(16)}"
    with closing(docker.from_env()) as engine:
        container = engine.containers.run(
            IMAGE,
            detach=True,
            remove=True,
            environment={"ACCEPT_EULA": "Y", "MSSQL_SA_PASSWORD": password},
            ports={"1433/tcp": (HOST, None)},
        )
        try:
            container.reload()
            port = container.ports["1433/tcp"][0]["HostPort"]
            url = f"mssql://sa:{password}@{HOST}:{port}/test?trust_server_certificate=yes"
            _wait_for(url)
            yield url
        finally:
            container.kill()


def _wait_for(url: str) -> None:
    import mssql_python  # noqa: PLC0415

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            connect_mssql(url, MASTER).close()
        except mssql_python.Error:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


def connect_mssql(url: str, database: str = "") -> Any:
    """Return a connection of the driver in autocommit mode.

    Args:
        url: the server's URL.
        database: replaces the URL's database.
    """
    import mssql_python  # noqa: PLC0415 - optional

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    parameters = {
        "Server": f"tcp:{parts.hostname},{parts.port or 1433}",
        "Database": database or unquote(parts.path.removeprefix("/")) or MASTER,
        "UID": unquote(parts.username or ""),
        "PWD": unquote(parts.password or ""),
        "Encrypt": options.get("encrypt", "yes"),
        "TrustServerCertificate": options.get("trust_server_certificate", "no"),
    }
    # A database cannot be dropped while a pool keeps a session in it.
    mssql_python.pooling(enabled=False)
    braced = (f"{name}={{{value.replace('}', '}}')}}};" for name, value in parameters.items())
    return mssql_python.connect("".join(braced), autocommit=True)


@contextmanager
def new_mssql_database(url: str) -> Iterator[str]:
    """Yield the URL of a new database, and drop it afterwards.

    Args:
        url: the server's URL, with a user who may create databases. The new name begins with that
            of its database, which need not exist.
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
    """Drop a database once no session uses it: killed ones may still be ending."""
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
