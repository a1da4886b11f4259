"""`?ssh=user@bastion` for MySQL and MariaDB, through a real sshd."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from penstock import UsageError
from penstock.backends.mysql.connection import connect
from penstock.engine.connections import resolve
from penstock.errors import PermanentError, TransientError
from penstock_testkit import MysqlServer, mysql_missing
from penstock_testkit.waiting import until

from ...cli import run_cli
from ...ssh_bastion import Bastion, sshd_missing
from .mysql_pair import execute, rows

MISSING = mysql_missing() or sshd_missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture
def bastion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bastion]:
    with Bastion(tmp_path) as bastion:
        monkeypatch.setenv("PATH", bastion.environ["PATH"])
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        yield bastion
        for client in bastion.clients():
            client.kill()  # those of this process, which goes on


@pytest.fixture(scope="module")
def server() -> Iterator[MysqlServer]:
    with MysqlServer() as server:
        execute(
            server.url,
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE TABLE copied (id int PRIMARY KEY)",
            "INSERT INTO t VALUES (1), (2), (3), (4)",
        )
        yield server


def test_one_ssh_carries_all_sessions(server: MysqlServer, bastion: Bastion) -> None:
    database = server.url.rpartition("/")[2]
    end = f"{server.url}?ssh=bastion"
    words = ["--source", end, "--target", end, "--table", f"{database}.t"]
    words += ["--target-table", f"{database}.copied", "--partitions", "2", "--degree", "2"]
    ended = run_cli("copy", *words, env=dict(os.environ))
    assert ended.returncode == 0, ended.stderr
    assert rows(server.url, "SELECT count(*) FROM copied") == [(4,)]
    assert bastion.logins == 1
    assert bastion.sessions >= 5
    until(lambda: not bastion.clients() or None, 20, lambda: "ssh is left")


def test_a_session_begins_again_through_another_ssh(server: MysqlServer, bastion: Bastion) -> None:
    url, *_ = resolve(f"{server.url}?ssh=bastion", "--source")
    for logins in (1, 2):
        session = connect(url, "source")
        # Another session asks the server what this one waits for.
        assert "running" in session._reason()
        assert session.rows("SELECT 1") == [(1,)]
        assert bastion.logins == logins
        for client in bastion.clients():
            client.kill()
            client.wait(20)
        with pytest.raises(pymysql.Error):
            session.rows("SELECT 1")
        session.abandon()


def test_a_bastion_that_cannot_reach_the_server_says_so(bastion: Bastion) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url, *_ = resolve(
            f"mysql://me@127.0.0.1:{nobody.getsockname()[1]}/d?ssh=bastion", "--source"
        )
        with pytest.raises(TransientError, match=r"; ssh bastion: channel .*Connection refused"):
            connect(url, "source")


def test_the_server_is_verified_by_its_own_name(bastion: Bastion) -> None:
    """Its certificate says localhost; the driver connects to 127.0.0.1."""
    key, certificate = bastion.folder / "server.key", bastion.folder / "server.crt"
    argv = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=server"]
    argv += [
        "-keyout",
        str(key),
        "-out",
        str(certificate),
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    with MysqlServer(settings={"ssl_key": str(key), "ssl_cert": str(certificate)}) as server:
        verified = f"?ssh=bastion&ssl_mode=verify_identity&ssl_ca={certificate}"
        named = server.url.replace("127.0.0.1", "localhost")
        session = connect(resolve(named + verified, "--source")[0], "source")
        assert session.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        assert "running" in session._reason()
        session.abandon()
        with pytest.raises(PermanentError, match=r"certificate is not valid for '127\.0\.0\.1'"):
            connect(resolve(server.url + verified, "--source")[0], "source")


def test_a_bastion_is_a_name() -> None:
    with pytest.raises(UsageError, match="--source: ssh: expected user@bastion"):
        resolve("mysql://me@h/d?ssh=-v", "--source")
