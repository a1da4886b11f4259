"""Rows and tables that cannot be copied into or out of MySQL: the message and the exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

import penstock
from penstock import CopySpec, PlanningError
from penstock.events import Opened
from penstock.spec.modes import ModeName
from penstock_testkit import AnyMysqlServer

from ...one_copy import OneCopy
from .mysql_pair import execute, rows

PLAIN = "CREATE TABLE t (id int PRIMARY KEY, note varchar(100), day varchar(30))"
PASSWORD = "gehe1m-w0rt"
READ = "SELECT ON `penstock`.*"


@pytest.fixture(scope="module")
def source(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with mysql_server.new_database() as url:
        execute(
            url,
            PLAIN,
            "INSERT INTO t VALUES (1, 'one', '2020-01-01'), (2, NULL, '2020-01-02'),"
            " (3, 'three', '2020-01-03')",
            "CREATE TABLE m (id int PRIMARY KEY, note varchar(100), day varchar(30))"
            " ENGINE = MyISAM",
            "INSERT INTO m SELECT * FROM t",
            PLAIN.replace("TABLE t", "TABLE long_row").replace("varchar(100)", "longtext"),
            "INSERT INTO long_row VALUES (1, repeat('x', 2000000), '')",
            "SET sql_mode = ''",
            "CREATE TABLE zero (id int PRIMARY KEY, note varchar(100), day date)",
            "INSERT INTO zero VALUES (1, 'one', '0000-00-00')",
        )
        yield url


def database(url: str) -> str:
    return urlsplit(url).path[1:]


class Copy(OneCopy):
    """A copy in one partition."""

    def __init__(self, source: str, target: str, table: str = "t", **options: Any) -> None:
        arguments: dict[str, Any] = {
            "target_table": f"{database(target)}.t", "degree": 1, "strategy": "whole",
            "attempts": 1, **options,
        }  # fmt: skip
        if "query" not in options:
            arguments["table"] = f"{database(source)}.{table}"
        super().__init__(source=source, target=target, **arguments)


@contextmanager
def user(server: AnyMysqlServer, url: str, *grants: str) -> Iterator[str]:
    """Return the URL of the same database for a user with few privileges."""
    name = "somebody"
    execute(
        url,
        f"CREATE USER {name}@'%' IDENTIFIED BY '{PASSWORD}'",
        *(f"GRANT {grant} TO {name}@'%'" for grant in grants),
    )
    try:
        yield server.url_for(db=database(url), user=name, password=PASSWORD)
    finally:
        execute(url, f"DROP USER {name}@'%'")


@contextmanager
def setting(url: str, name: str, value: object) -> Iterator[None]:
    """Change a setting of the whole server."""
    ((before,),) = rows(url, f"SELECT @@GLOBAL.{name}")
    execute(url, f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        execute(url, f"SET GLOBAL {name} = {before}")


# Connections


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            (":penstock@", ":wrong@"),
            65,
            "Access denied for user .* check the user, the password",
        ),
        (("/test_", "/nope_"), 65, r":\d+: Unknown database 'nope_.*; create it, or name another"),
        (("?", "?ssl_ca=/nope.pem&"), 65, "ssl_ca, ssl_cert or ssl_key: .* No such file"),
        (
            ("?", "?ssl_mode=verify_identity&"),
            65,
            "SSL is required|certificate verify failed.*; add .ssl_ca=FILE",
        ),
    ],
)
def test_a_failed_login_is_reported(
    source: str, mysql_url: str, change: tuple[str, str], code: int, message: str
) -> None:
    target = f"{mysql_url}?connect_timeout=5".replace(*change)
    copied = Copy(source, target)
    assert copied.code == code
    assert re.search(message, copied.message), copied.message


def test_an_unreachable_server_is_reported(source: str) -> None:
    copied = Copy(source, "mysql://somebody:gehe1m@127.0.0.1:1/nope")
    assert copied.code == 75
    assert "target: 127.0.0.1:1: Can't connect to MySQL server" in copied.message


# Requests


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "id >"}, "source: --where: You have an error in your SQL syntax"),
        ({"where": "nope = 1"}, "source: --where: Unknown column 'nope'"),
        ({"where": "id = 1) OR (1"}, "source: --where: You have an error"),
        ({"query": "SELECT id FRM t"}, "source: --query: You have an error"),
        ({"query": "SELECT id FROM t FOR UPDATE"}, "; expected a query that only reads and locks"),
        ({"query": "SELECT 1 AS id, 2 AS id"}, "source: --query: Duplicate column name 'id'"),
        ({"table": "nope"}, "found no such table"),
        ({"table": "m"}, "to use InnoDB, found engine MyISAM, which has no snapshots"),
    ],
)
def test_a_request_that_the_source_refuses(
    source: str, mysql_url: str, options: dict[str, Any], message: str
) -> None:
    execute(mysql_url, PLAIN)
    copied = Copy(source, mysql_url, **options)
    assert copied.code == 65
    assert message in copied.message
    assert rows(mysql_url, "SELECT count(*) FROM t") == [(0,)]


# Tables


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (f"{PLAIN} ENGINE = MyISAM", "to use InnoDB, found engine MyISAM"),
        ("CREATE TABLE t (id int, note varchar(100), day varchar(30), must int NOT NULL)",
         "the source has no such column"),
        ("CREATE TABLE t (id int, note varchar(100) NOT NULL, day varchar(30))",
         "column 'note', row 2: expected a value, found NULL"),
        ("CREATE TABLE t (id int, note varchar(4), day varchar(30))",
         "Data too long for column 'note' at row 3|Data truncated for column 'note' at row 3"),
        ("CREATE TABLE t (id int, note varchar(9), day varchar(9) AS (upper(note)) STORED)",
         "the target computes this column"),
        ("CREATE TABLE t (id int PRIMARY KEY, note varchar(9), day varchar(30),"
         " CHECK (id < 3))",
         "(?i)expected rows that meet the table's check constraints, found: .*constraint"),
        ("CREATE TABLE t (id int, note varchar(9), day varchar(30), UNIQUE (id));"
         "INSERT INTO t (id) VALUES (2)",
         "expected each key once in the table and the source, found: Duplicate entry '2' for"),
        ("CREATE TABLE t (id int, note varchar(9), day varchar(30));"
         "CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW"
         " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no rows here'", "`t`: no rows here"),
        ("CREATE TABLE o (id int PRIMARY KEY);"
         "CREATE TABLE t (id int PRIMARY KEY, note varchar(9), day varchar(30),"
         " FOREIGN KEY (id) REFERENCES o (id))",
         "expected a parent row in the referenced table for each row, found: .*CONSTRAINT"),
        ("CREATE TABLE t (id int, note varchar(9), day varchar(30))"
         " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (3))",
         "expected a partition of the table for each row, found: Table has no partition"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("local_infile", [1, 0])
def test_a_table_that_refuses_rows(
    source: str, mysql_url: str, definition: str, message: str, local_infile: int
) -> None:
    execute(mysql_url, *definition.split(";"))
    before = rows(mysql_url, "SELECT count(*) FROM t")
    with setting(mysql_url, "local_infile", local_infile):
        copied = Copy(source, mysql_url)
    assert copied.code == (76 if "no such column" in message else 65)
    assert re.search(message, copied.message), copied.message
    assert rows(mysql_url, "SELECT count(*) FROM t") == before


def test_an_invisible_column_is_loaded(source: str, mysql_url: str) -> None:
    execute(mysql_url, PLAIN.replace("varchar(30)", "varchar(30) INVISIBLE"))
    assert Copy(source, mysql_url).code == 0
    assert rows(mysql_url, "SELECT day FROM t WHERE id = 3") == [("2020-01-03",)]


def test_a_long_name_in_another_script(source: str, mysql_url: str) -> None:
    table = "\u00e4" * 64
    execute(mysql_url, PLAIN.replace("TABLE t ", f"TABLE {table} "))
    copied = Copy(source, mysql_url, target_table=f"{database(mysql_url)}.{table}")
    assert not copied.message
    assert rows(mysql_url, f"SELECT count(*) FROM {table}") == [(3,)]


def test_zero_dates_become_null_or_fail(source: str, mysql_url: str) -> None:
    execute(mysql_url, PLAIN.replace("varchar(30)", "date"))
    copied = Copy(source, mysql_url, "zero")
    assert copied.code == 65
    assert "column 'day', row 1: expected a date" in copied.message
    assert "zero_dates=null" in copied.message
    execute(mysql_url, "DROP DATABASE penstock")
    assert Copy(f"{source}?zero_dates=null", mysql_url, "zero").code == 0
    assert rows(mysql_url, "SELECT day FROM t") == [(None,)]


@pytest.mark.parametrize("system", ["mysql", "postgresql"])
def test_zero_dates_in_not_null_columns(mysql_url: str, target_url: str, system: str) -> None:
    """In a created table such a column accepts the NULLs they become."""
    execute(
        mysql_url,
        "SET sql_mode = ''",
        "CREATE TABLE days (id int, born date NOT NULL DEFAULT '0000-00-00' COMMENT 'NOT NULL',"
        " seen datetime(3) NOT NULL, made timestamp NOT NULL, other date NOT NULL,"
        " PRIMARY KEY (id, other))",
        "INSERT INTO days VALUES (1, 0, 0, 0, '2020-01-01')",
    )
    target = mysql_url if system == "mysql" else target_url
    into = f"{database(mysql_url)}.made" if system == "mysql" else "public.made"
    copied = Copy(
        f"{mysql_url}?zero_dates=null", target, "days", mode="recreate", target_table=into
    )
    assert not copied.message
    query = "SELECT born, seen, made FROM made"
    if system == "mysql":
        assert rows(target, query) == [(None, None, None)]
        assert rows(target, "SELECT column_comment FROM information_schema.columns WHERE"
                    " table_schema = database() AND table_name = 'made' AND column_name = 'born'"
                    ) == [("NOT NULL",)]  # fmt: skip
    else:
        with psycopg.connect(target) as connection:
            assert connection.execute(query).fetchall() == [(None, None, None)]


def test_a_row_larger_than_a_packet_is_refused(source: str, mysql_url: str) -> None:
    execute(mysql_url, PLAIN.replace("varchar(100)", "longtext"))
    with setting(mysql_url, "max_allowed_packet", 1 << 20), setting(mysql_url, "local_infile", 0):
        copied = Copy(source, mysql_url, "long_row")
    assert copied.code == 65
    assert (
        "row 1: expected a statement of at most 1,048,576 bytes (max_allowed_packet), found 2,000,"
        in copied.message
    )


# Users


def test_a_user_who_may_only_read(
    mysql_server: AnyMysqlServer, source: str, mysql_url: str
) -> None:
    execute(mysql_url, PLAIN)
    with user(mysql_server, source, f"SELECT ON {database(source)}.*") as url:
        copied = Copy(url, mysql_url)
        assert copied.code == 65
        assert "GRANT RELOAD ON *.*" in copied.message
        assert "--snapshot none" in copied.message
        assert Copy(url, mysql_url, snapshot="none").code == 0
        execute(source, f"GRANT LOCK TABLES ON {database(source)}.* TO somebody@'%'")
        assert Copy(url, mysql_url, mode="truncate").code == 0


def test_a_user_who_may_load_and_no_more(
    mysql_server: AnyMysqlServer, source: str, mysql_url: str
) -> None:
    """The few privileges that the documentation lists are enough."""
    execute(mysql_url, PLAIN)
    few = f"SELECT, INSERT ON {database(mysql_url)}.*"
    with user(mysql_server, mysql_url, few) as url:
        copied = Copy(source, url)
        assert copied.code == 65
        assert (
            "`penstock control-ddl --target mysql:// --control-schema penstock`" in copied.message
        )
        execute(mysql_url, "GRANT ALL ON penstock.* TO somebody@'%'")
        assert Copy(source, url).code == 0
        execute(mysql_url, f"REVOKE INSERT ON {database(mysql_url)}.* FROM somebody@'%'")
        copied = Copy(source, url, where="id < 0")
        assert copied.code == 65
        assert "INSERT command denied to user 'somebody'" in copied.message


@pytest.mark.parametrize("mode", ["append", "recreate"])
def test_a_read_only_server_is_refused(
    mysql_server: AnyMysqlServer, source: str, mysql_url: str, mode: ModeName
) -> None:
    execute(mysql_url, PLAIN)
    grants = (f"ALL ON {database(mysql_url)}.*", "ALL ON penstock.*")
    with user(mysql_server, mysql_url, *grants) as url, setting(mysql_url, "read_only", 1):
        copied = Copy(source, url, mode=mode)
        request = CopySpec(
            source=source,
            target=url,
            table=f"{database(source)}.t",
            target_table=f"{database(url)}.t",
            mode=mode,
        )
        with pytest.raises(PlanningError, match="expected a primary server that accepts writes"):
            penstock.plan(request)
        # A user who is exempt may continue.
        assert penstock.plan(replace(request, target=mysql_url)).partitions
    assert copied.code == 65
    assert "expected a primary server that accepts writes" in copied.message


# Secrets


def test_the_password_appears_nowhere(
    mysql_server: AnyMysqlServer, source: str, mysql_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    execute(mysql_url, PLAIN)
    grants = (f"ALL ON {database(mysql_url)}.*", f"ALL ON {database(source)}.*", "RELOAD ON *.*",
              "ALL ON penstock.*")  # fmt: skip
    shown: list[str] = []
    with user(mysql_server, mysql_url, *grants) as url:
        ends: dict[str, Any] = {
            "source": url.replace(database(mysql_url), database(source)),
            "target": url,
        }
        request = CopySpec(
            **ends, table=f"{database(source)}.t", target_table=f"{database(mysql_url)}.t"
        )
        shown.append(repr(request))
        for event in penstock.copy(request):
            shown.append(repr(event) + event.to_line())
            if isinstance(event, Opened):
                process = psutil.Process(event.pid)
                shown.append(repr([process.cmdline(), process.environ()]))
        assert len(shown) > 5
    for table in ("run", "commit_record", "step_record"):
        shown.append(repr(rows(mysql_url, f"SELECT * FROM penstock.{table}")))
    shown += capfd.readouterr()
    assert not [text for text in shown if PASSWORD in text]


def test_control_tables_without_privileges(
    source: str, mysql_url: str, mysql_server: AnyMysqlServer
) -> None:
    execute(mysql_url, PLAIN.replace("TABLE t", "TABLE IF NOT EXISTS t"))
    assert Copy(source, mysql_url, mode="truncate").code == 0, "makes them"
    with user(mysql_server, mysql_url, f"ALL ON `{database(mysql_url)}`.*", READ) as url:
        copied = Copy(source, url, mode="truncate")
    assert copied.code == 65
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON `penstock`.* TO the user" in copied.message
