"""Option files such as `~/.my.cnf`: read as the clients read them; logins by them and by tokens."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from penstock import UsageError, holds_secret
from penstock.backends.mysql.location import URLS, _options_of, tls_options
from penstock.engine.connections import added_secrets
from penstock_testkit import MysqlServer, mysql_missing

from ...cli import run_cli
from ...token_endpoint import TokenEndpoint
from .mysql_pair import execute, rows

PASSWORD = "Zz9 p@s#s\"\\w'"
WRITTEN = """
# of the client
[client]
user = me
password="a#b\\"c\\s\\\\d"   # a comment
host='h.example' # another
  port=3307# one more
ssl-ca=/x/y
ssl_cert = /x/z;
socket = /a b/c
loose-connect-timeout=3
[mysqldump]
user=no
; gone
[ client]
user=no
[client-mariadb ]
ssl-verify-server-cert
[client]
empty=
password='a''b'
password=a"b"
password = tr"#x"ail
password=\\x\\n|\\t
password=two = signs
"""


def test_a_file_means_what_it_means_to_the_client(tmp_path: Path) -> None:
    if (program := shutil.which("my_print_defaults")) is None:
        pytest.skip("my_print_defaults is not installed; mariadb-client would do")
    (tmp_path / "more.d").mkdir()
    (tmp_path / "more.d" / "b.cnf").write_text("[client]\nuser=b\n")
    (tmp_path / "more.d" / "a.cnf").write_text("[client]\nuser=a\n")
    (tmp_path / "more.d" / "c.txt").write_text("[client]\nuser=c\n")
    (tmp_path / "one").write_text("[client]\nport=1\n")
    path = tmp_path / "my.cnf"
    path.write_text(f"{WRITTEN}!include {tmp_path}/one\n!includedir {tmp_path}/more.d\n")
    groups = ("client", "client-mariadb")
    command = [program, f"--defaults-file={path}", *groups]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ours = [
        f"--{name}={value}" if value or name == "empty" else f"--{name}"
        for group, name, value in _options_of(str(path), "--source", 0)
        if group in groups
    ]
    assert "\n".join(ours) + "\n" == shown
    assert len(ours) == 18


def resolve(path: Path, text: str, url: str = "mysql:///shop") -> str:
    path.write_text(f"[client]\n{text}")
    named = f"{url}{'&' if '?' in url else '?'}read_default_file={path}"
    return URLS.resolve(named, {"MYSQL_PWD": "env"}, "--source")


@pytest.mark.parametrize(
    ("text", "url", "resolved"),
    [
        ("user=u\npassword=p", "mysql://", "mysql://u:p@localhost:3306/"),
        ("user=u\npassword=p", "mysql://me:own@h/d", "mysql://me:own@h:3306/d"),
        ("user=u\npassword=p", "mysql://me@h/d", "mysql://me:p@h:3306/d"),
        ("user=u", "mysql:///d", "mysql://u:env@localhost:3306/d"),
        ("user=u\nhost=H\nport=7\ndatabase=d", "mysql://", "mysql://u:env@h:7/d"),
        ("user=u\nhost=h\nport=7", "mysql://g:8/d", "mysql://u:env@g:8/d"),
        ("user=u\nhost=::1", "mysql:///d", "mysql://u:env@[::1]:3306/d"),
        ("user=u\nsocket=/s", "mysql:///d", "mysql://u:env@localhost:3306/d?unix_socket=%2Fs"),
        ("user=u\nsocket=/s", "mysql://h/d", "mysql://u:env@h:3306/d"),
        (
            "user=u\nssl-mode=REQUIRED\nconnect-timeout=3",
            "mysql://h/d?connect_timeout=4",
            "mysql://u:env@h:3306/d?connect_timeout=4&ssl_mode=required",
        ),
    ],
)
def test_the_url_comes_first_then_the_file_then_the_environment(
    tmp_path: Path, text: str, url: str, resolved: str
) -> None:
    assert resolve(tmp_path / "my.cnf", text, url) == resolved


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("ssl-mode=VERIFY_IDENTITY", {"verify_mode": True, "check_hostname": True}),
        ("ssl-verify-server-cert", {"verify_mode": True, "check_hostname": True}),
        ("ssl-ca=/ca", {"ca": "/ca", "verify_mode": True, "check_hostname": False}),
        ("ssl", {"verify_mode": False, "check_hostname": False}),
        ("skip-ssl", None),
        ("ssl=0", None),
    ],
)
def test_tls_is_as_the_file_says(
    tmp_path: Path, text: str, options: dict[str, object] | None
) -> None:
    found = tls_options(URLS.parse(resolve(tmp_path / "my.cnf", text)))
    assert found == ({"ssl_disabled": True} if options is None else {"ssl": options})


def test_a_file_that_cannot_be_used_is_named_but_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "my.cnf"
    for text, mode, problem in (
        ("password=Zz9", 0o666, "one that everyone may write to"),
        ("port=Zz9", 0o600, "found a host, port, ssl-mode or connect-timeout"),
        ("ssl-mode=Zz9", 0o600, "found a host, port, ssl-mode or connect-timeout"),
        (f"!include {path}", 0o600, "found one that includes itself"),
        (f"!includedir {path}.d", 0o600, "No such file or directory"),
    ):
        path.touch()
        path.chmod(mode)
        with pytest.raises(UsageError) as caught:
            resolve(path, text)
        assert caught.value.message.startswith(f"--source: {path}: expected ")
        assert problem in caught.value.message
        assert "Zz9" not in caught.value.message
    with pytest.raises(UsageError, match=r"/none: expected an option file: No such file"):
        URLS.resolve("mysql:///d?read_default_file=/none", {"A": "b"}, "--source")


def test_a_file_is_read_only_to_connect(tmp_path: Path) -> None:
    (tmp_path / ".my.cnf").write_text("[client]\npassword=hidden\n")
    url = "mysql://elsewhere.example/d?read_default_file=~/.my.cnf"
    assert not holds_secret(url)
    # A penstock.toml that was found must not send the password where it wants.
    assert added_secrets(url, {"HOME": str(tmp_path)}) == ["a password in a file of yours"]
    assert added_secrets("mysql://elsewhere.example/d", {"HOME": str(tmp_path)}) == []


@pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
def test_workers_log_in_by_tokens(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Zz9 token\n")
    command = quote(f"cat {tmp_path}/token")
    with MysqlServer() as server, TokenEndpoint("Zz9 token") as endpoint:
        execute(
            server.url,
            "CREATE USER token@'127.0.0.1' IDENTIFIED BY 'Zz9 token'",
            "GRANT ALL ON *.* TO token@'127.0.0.1'",
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE TABLE copied (id int PRIMARY KEY)",
            "INSERT INTO t VALUES (1), (2), (3), (4)",
        )
        parts = urlsplit(server.url)
        database = parts.path[1:]
        for auth in (f"command:{command}", "gcp-iam", "entra"):
            end = f"mysql://token@{parts.hostname}:{parts.port}/{database}?auth={auth}"
            words = ["--source", end, "--target", end, "--table", f"{database}.t"]
            words += ["--target-table", f"{database}.copied", "--mode", "truncate"]
            words += ["--partitions", "2", "--degree", "2"]
            environ = {**os.environ, "MYSQL_PWD": "wrong", **endpoint.environ}
            ended = run_cli("copy", *words, env=environ)
            assert ended.returncode == 0, ended.stderr
            assert "Zz9" not in ended.stdout + ended.stderr
            assert rows(server.url, "SELECT count(*) FROM copied") == [(4,)]
        assert len(endpoint.asked) == 2


@pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
def test_workers_log_in_by_a_file(tmp_path: Path) -> None:
    with MysqlServer() as server:
        quoted = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
        execute(
            server.url,
            f"CREATE USER filed@localhost IDENTIFIED BY '{quoted}'",
            "GRANT ALL ON *.* TO filed@localhost",
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE TABLE copied (id int PRIMARY KEY)",
            "INSERT INTO t VALUES (1), (2), (3), (4)",
        )
        escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        (tmp_path / ".my.cnf").write_text(
            f'[client]\nuser=filed\npassword="{escaped}"\nsocket={server.socket}\n'
        )
        database = urlsplit(server.url).path
        end = f"mysql://{database}?read_default_file=~/.my.cnf"
        words = ["--source", end, "--target", end, "--table", f"{database[1:]}.t"]
        words += ["--target-table", f"{database[1:]}.copied", "--partitions", "2", "--degree", "2"]
        environ = {**os.environ, "HOME": str(tmp_path), "MYSQL_PWD": "wrong"}
        ended = run_cli("copy", *words, env=environ)
        assert ended.returncode == 0, ended.stderr
        assert "Zz9" not in ended.stdout + ended.stderr
        assert rows(server.url, "SELECT count(*) FROM copied") == [(4,)]
        # The client itself logs in by the same file.
        if client := shutil.which("mariadb"):
            command = [client, f"--defaults-file={tmp_path}/.my.cnf", "-Ne", "SELECT user()"]
            shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            assert shown == "filed@localhost\n"
