"""MySQL and MariaDB servers for tests: they start, keep committed data, and end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pymysql
import pytest

from penstock_testkit import (
    ExternalMysqlServer,
    MysqlServer,
    ServerError,
    any_mysql_server,
    connect_mysql,
    mysql_missing,
    mysql_programs,
)
from penstock_testkit.waiting import until

ORPHAN = """
from penstock_testkit import MysqlServer
server = MysqlServer()
server.start()
print(server.pid, server.home, flush=True)
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""
pytestmark = pytest.mark.usefixtures("_installed")


@pytest.fixture(scope="module")
def _installed() -> None:
    try:
        mysql_programs.mysql_program()
    except ServerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def server(_installed: None) -> Iterator[MysqlServer]:
    with MysqlServer() as server:
        yield server


def rows(url: str, query: str) -> tuple[tuple[object, ...], ...]:
    with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        found: tuple[tuple[object, ...], ...] = cursor.fetchall()
        return found


def test_keeps_port_and_committed_data_over_stop_and_kill() -> None:
    with MysqlServer(settings={"max_connections": 33}) as server:
        url = server.url
        assert rows(url, "SELECT @@max_connections") == ((33,),)
        rows(url, "CREATE TABLE kept (n int) ENGINE = InnoDB")
        server.restart()
        for number in range(3):
            with closing(connect_mysql(url)) as lost, lost.cursor() as cursor:
                rows(url, f"INSERT INTO kept VALUES ({number})")
                lost.begin()
                cursor.execute("INSERT INTO kept VALUES (100)")
                pid = server.pid
                server.kill()
            assert not server.running
            assert not psutil.pid_exists(pid)
            server.start()
        assert server.url == url
        assert rows(url, "SELECT n FROM kept ORDER BY n") == ((0,), (1,), (2,))
        assert "ready for connections" in server.log_tail()
        home = server.home
    assert not home.exists()
    with pytest.raises(ServerError, match="not running"):
        _ = server.pid


def test_two_servers_are_independent(server: MysqlServer) -> None:
    with MysqlServer() as other:
        assert other.port != server.port
        rows(other.url, "CREATE TABLE mine (n int)")
        assert rows(other.url, "SHOW TABLES") == (("mine",),)
        assert rows(server.url, "SHOW TABLES") == ()


def test_has_the_settings_that_a_copy_needs(server: MysqlServer, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("1\t🐘\n2\t\\N\n")
    with (
        server.new_database() as url,
        closing(connect_mysql(url, local_infile=True)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE t (n int, s text)")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{tmp_path / 'rows'}' INTO TABLE t")
        assert cursor.rowcount == 2
        assert rows(url, "SELECT * FROM t ORDER BY n") == ((1, "🐘"), (2, None))


def test_a_database_in_use_can_be_dropped(server: MysqlServer) -> None:
    with server.new_database() as url:
        session = connect_mysql(url)
        with session.cursor() as cursor:
            cursor.execute("CREATE TABLE t (n int)")
            session.begin()
            cursor.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(pymysql.OperationalError):
        session.ping(reconnect=False)
    with pytest.raises(pymysql.OperationalError, match="Unknown database"):
        connect_mysql(url)


def test_requires_a_password(server: MysqlServer) -> None:
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        connect_mysql(server.url_for(password="wrong"))


def test_does_not_outlive_a_parent_that_is_killed() -> None:
    owner = subprocess.run(
        [sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, check=False
    )
    pid, home = owner.stdout.split()

    def has_ended() -> bool | None:
        return None if psutil.pid_exists(int(pid)) or Path(home).exists() else True

    assert until(has_ended, 60, lambda: f"{pid} or {home} is still there")


def test_reports_why_it_does_not_start(tmp_path: Path) -> None:
    for server in (
        MysqlServer(settings={"innodb_page_size": 5}),
        MysqlServer(program=tmp_path / "nosuch"),
    ):
        with pytest.raises(ServerError, match=r"innodb.page.size|nosuch cannot be run"):
            server.start()
        server.close()


def test_an_external_server_may_be_named(
    server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_MYSQL", server.url)
    monkeypatch.setenv("PENSTOCK_TEST_MYSQLD", "/nosuch")
    assert mysql_missing() == ""
    with any_mysql_server() as named:
        assert isinstance(named, ExternalMysqlServer)
        with named.new_database() as url:
            assert rows(server.url, "SHOW DATABASES LIKE 'test\\_%'") == ((url.split("/")[-1],),)
    assert server.running


def test_names_missing_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_TEST_MYSQL", "PENSTOCK_TEST_MYSQLD"):
        monkeypatch.delenv(name, raising=False)
    assert mysql_missing() == ""
    monkeypatch.setenv("PATH", "/nosuch")
    monkeypatch.setattr(mysql_programs, "SYSTEM_FOLDERS", "/nosuch")
    assert mysql_missing().startswith("neither mariadbd nor mysqld is installed")
