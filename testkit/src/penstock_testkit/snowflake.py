"""An external Snowflake account or an emulator, and new databases on it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import urlopen

from penstock_testkit.servers import HOST, free_port

EXTERNAL = "PENSTOCK_TEST_SNOWFLAKE"
"""The URL of an external account, with a user who may create databases."""
START_SECONDS = 60
DOMAIN = ".snowflakecomputing.com"


def snowflake_missing() -> str:
    """Return the reason why `any_snowflake` has no account; empty if it has one."""
    if os.environ.get(EXTERNAL) or find_spec("fakesnow"):
        return ""
    return f"no Snowflake: {EXTERNAL}=snowflake://... names none, and fakesnow is not installed"


def is_emulated(url: str) -> bool:
    return urlsplit(url).hostname == HOST


@contextmanager
def any_snowflake(log: Path | None = None) -> Iterator[str]:
    """Yield the URL of the account in PENSTOCK_TEST_SNOWFLAKE, or else of an emulator.

    Args:
        log: the file for the start and end of each COPY INTO of an emulator, in seconds since 1970.
    """
    if url := os.environ.get(EXTERNAL):
        yield url
        return
    port = free_port()
    program = [sys.executable, "-m", "penstock_testkit.snowflake_server", str(port)]
    if log is not None:
        program.append(str(log))
    with (
        tempfile.TemporaryDirectory(prefix="penstock-snowflake-") as folder,
        subprocess.Popen(
            program,
            env={**os.environ, "TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server,
    ):
        try:
            _wait_for(server, port)
            yield f"snowflake://penstock:penstock@{HOST}:{port}/test/public?protocol=http"
        finally:
            server.kill()


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urlopen(f"http://{HOST}:{port}/", timeout=5).close()
        except HTTPError as answer:
            answer.close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def connect_snowflake(url: str) -> Any:
    """Return a connection of the driver in autocommit mode."""
    import snowflake.connector  # noqa: PLC0415 - optional

    parts = urlsplit(url)
    parameters: dict[str, Any] = dict(parse_qsl(parts.query))
    if is_emulated(url):
        parameters |= {"host": parts.hostname, "port": parts.port}
    if key := parameters.pop("private_key_file", None):
        parameters |= {"private_key_file": key, "authenticator": "SNOWFLAKE_JWT"}
    database, _, schema = unquote(parts.path.removeprefix("/")).partition("/")
    return snowflake.connector.connect(
        **parameters,
        account=(parts.hostname or "").removesuffix(DOMAIN),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
        schema=schema or "PUBLIC",
        paramstyle="qmark",
        arrow_number_to_decimal=True,
        session_parameters={"TIMEZONE": "UTC"},
    )


@contextmanager
def new_snowflake_database(url: str) -> Iterator[str]:
    """Yield the URL of a new database, and drop it afterwards.

    Args:
        url: the account's URL, with a user who may create databases.
    """
    name = f"TEST_{uuid.uuid4().hex[:12].upper()}"
    with closing(connect_snowflake(url)) as admin:
        admin.cursor().execute(f"CREATE DATABASE {name}")
        try:
            admin.cursor().execute(f"CREATE SCHEMA IF NOT EXISTS {name}.PUBLIC")
            yield urlsplit(url)._replace(path=f"/{name}/PUBLIC").geturl()
        finally:
            if not is_emulated(url):  # the emulator keeps it in memory and cannot drop it
                admin.cursor().execute(f"DROP DATABASE {name}")
