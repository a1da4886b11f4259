"""`?auth=command:...`: tokens that a command prints, for each session of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import conninfo

from penstock import CopySpec, UsageError, copy, holds_secret, place_of
from penstock.backends.shared.tokens import MARK, current_password
from penstock.engine.connections import added_secrets, resolve
from penstock.errors import PermanentError, TransientError
from penstock.events import Committed, Finished
from penstock.spec.references import redact
from penstock_testkit import PostgresServer

from ...cli import run_cli

PASSWORD = "Zz9 first"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password=PASSWORD) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 10000) AS id")
        yield server


class Command:
    """A command that prints a token, and notes each call.

    Args:
        folder: where it keeps its files.
        body: Python statements, which may use `token`.
    """

    def __init__(self, folder: Path, body: str = "print(token)") -> None:
        self._calls, self._token = folder / "calls", folder / "token"
        self.pause = folder / "pause"
        """While this file exists, the command waits."""
        self.give(PASSWORD)
        script = folder / "command.py"
        script.write_text(
            "import json, os, sys, time\n"
            f"while os.path.exists({str(self.pause)!r}): time.sleep(0.01)\n"
            f"open({str(self._calls)!r}, 'a').write('x')\n"
            f"token = open({str(self._token)!r}).read()\n{body}\n"
        )
        self.words = f"{sys.executable} {script}"

    def give(self, token: str) -> None:
        self._token.write_text(token)

    @property
    def calls(self) -> int:
        return len(self._calls.read_text()) if self._calls.exists() else 0

    def url(self, server: PostgresServer, user: str = "postgres") -> str:
        place = f"postgresql://{user}@127.0.0.1:{server.port}/postgres"
        return f"{place}?auth=command:{quote(self.words)}"


EXPIRED = (
    "print(json.dumps({'status': 'done', 'accessToken': token, 'expires_on': int(time.time())}))"
)
LASTING = """
status = {'token': token, 'expirationTimestamp': '2099-01-01T00:00:00Z'}
print(json.dumps({'kind': 'ExecCredential', 'status': status}))
"""


def table(server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
        connection.execute("DROP TABLE IF EXISTS copied")
        connection.execute("CREATE TABLE copied (id int)")


def spec(url: str) -> CopySpec:
    return CopySpec(
        source=url,
        target=url,
        table="public.t",
        target_table="public.copied",
        partitions=6,
        strategy="ctid",
        degree=2,
    )


@pytest.mark.parametrize(
    ("body", "least", "most"),
    [("print(token)", 1, 1), (LASTING, 1, 1), (EXPIRED, 5, 1000)],
    ids=["text", "lasting", "expired"],
)
def test_one_token_serves_all_sessions_until_it_expires(
    server: PostgresServer, tmp_path: Path, body: str, least: int, most: int
) -> None:
    table(server)
    command = Command(tmp_path, body)
    *_, end = copy(spec(command.url(server)))
    assert isinstance(end, Finished)
    assert end.rows == 10_000
    # Two workers have two sessions each, beside those that plan and record.
    assert least <= command.calls <= most


def test_workers_that_connect_again_get_the_token_of_the_moment(
    server: PostgresServer, tmp_path: Path
) -> None:
    table(server)
    command = Command(tmp_path, EXPIRED)
    changed = False
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE renewed SUPERUSER LOGIN PASSWORD 'Zz9 first'")
        for event in copy(spec(command.url(server, "renewed"))):
            if isinstance(event, Committed) and not changed:
                changed = True
                command.pause.touch()
                time.sleep(0.5)  # sessions that have got a token log in by it
                admin.execute("ALTER ROLE renewed PASSWORD 'Zz9 second'")
                command.give("Zz9 second")
                command.pause.unlink()
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE usename = 'renewed' AND application_name LIKE 'penstock:%:p%'"
                )
        assert isinstance(event, Finished)
        assert admin.execute("SELECT count(*) FROM copied").fetchone() == (10_000,)


@pytest.mark.parametrize(
    ("body", "code", "problem"),
    [
        ("print(token); sys.exit('no ticket')", 75, "ended with 1: no ticket"),
        ("", 65, "expected a token on one line"),
        ("print(token); print(token)", 65, "expected a token on one line"),
        ("print('{' + token)", 65, "expected a token on one line"),
        ("print(json.dumps({'secret': token}))", 65, "or JSON with one of token"),
        ("print(json.dumps({'token': token, 'expires_on': [token]}))", 65, "or JSON with one of"),
        ("print(json.dumps({'token': token, 'expires_on': '0001-01-01'}))", 65, "or JSON with"),
        ("print(json.dumps({'token': [token]}))", 65, "or JSON with one of token"),
    ],
)
def test_a_command_that_gives_none_is_an_error_without_its_output(
    server: PostgresServer, tmp_path: Path, body: str, code: int, problem: str
) -> None:
    url = Command(tmp_path, body).url(server)
    ended = run_cli("plan", "--source", url, "--target", url, "--table", "public.t")
    assert ended.returncode == code
    assert f"auth=command: {sys.executable}" in ended.stderr
    assert problem in ended.stderr
    assert "Zz9" not in ended.stderr + ended.stdout


def test_a_program_that_is_missing_is_named(server: PostgresServer) -> None:
    url = f"postgresql://me@127.0.0.1:{server.port}/postgres?auth=command:/nowhere/token"
    resolved, *_ = resolve(url, "--source")
    mark = str(conninfo.conninfo_to_dict(resolved)["password"])
    with pytest.raises(PermanentError, match="source: auth=command: /nowhere/token: cannot be run"):
        current_password(mark, "source")


def test_only_this_user_reaches_the_tokens(server: PostgresServer, tmp_path: Path) -> None:
    resolved, *_ = resolve(Command(tmp_path).url(server), "--source")
    mark = str(conninfo.conninfo_to_dict(resolved)["password"])
    assert mark.startswith(MARK)
    assert current_password(mark, "source") == PASSWORD
    assert current_password("as it is", "source") == "as it is"
    with pytest.raises(TransientError, match="the process that fetches tokens does not answer"):
        current_password(f"{mark}s", "source")
    if os.getuid():
        pytest.skip("only root may become another user")
    asking = (
        "import os, socket, sys; os.setuid(65534); asked = socket.socket(socket.AF_UNIX);"
        " asked.connect('\\0' + sys.argv[1]); print(asked.recv(100))"
    )
    name = mark.removeprefix(MARK)
    command = ["/usr/bin/env", sys.executable, "-c", asking, name]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == "b''\n"


def test_the_command_is_no_part_of_what_is_shown_or_stored(tmp_path: Path) -> None:
    url = "postgresql://me@h/d?sslmode=require&auth=command:/opt/token%20shop"
    assert redact(url) == "postgresql://me@h/d?sslmode=require&auth=***"
    assert not holds_secret(url)
    assert (place_of(url).host, place_of(url).database) == ("h", "d")
    # A penstock.toml that was found, not named, must not have its commands run.
    assert added_secrets(url, {}) == ["what a command of its choice prints"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me:Zz9@h/d?auth=command:x", "found a password and auth=command:"),
        ("postgresql://me@h/d?auth=command:x&password=Zz9", "found a password and"),
        ("postgresql://me@h/d?auth=command:", "expected one command"),
        ("postgresql://me@h/d?auth=command:x&auth=command:y", "expected one value, found 2"),
        ("postgresql://me@h/d?auth=command:'Zz9", "expected one command"),
        ("postgresql:///d?auth=command:x", "expected a user in the URL"),
        ("clickhouse://me@h/d?auth=command:x", "clickhouse:// does not support auth=command:"),
        ("s3://lake/o/?auth=command:x", "s3:// does not support auth=command:"),
        ("postgresql://me@h/d?auth=iam", "auth: expected one of command:..., aws-iam, gcp"),
    ],
)
def test_what_cannot_be_is_refused(url: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(url, "--source")
    assert problem in caught.value.message
    assert "Zz9" not in caught.value.message
