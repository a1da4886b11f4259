"""Rejected copies from SQL Server: their messages and exit codes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from .mssql_tables import Copy, execute, is_babelfish, rows

PASSWORD = "gehe1m-w0rt"


@pytest.fixture(scope="module")
def url(mssql_module: str) -> str:
    execute(
        mssql_module,
        "CREATE TABLE orders (id int NOT NULL PRIMARY KEY, note nvarchar(20), x float, doc xml,"
        " word varchar(20))",
        "INSERT INTO orders VALUES (1, N'one', 1.5, '<a/>', 'a'), (2, NULL, NULL, NULL, NULL)",
        "CREATE TABLE fine (id int NOT NULL PRIMARY KEY, at datetime2(7))",
        "INSERT INTO fine VALUES (1, '2026-01-02 03:04:05'), (2, '2026-01-02 03:04:05.1234567')",
    )
    return mssql_module


def copied(url: str, tmp_path: Path, **options: Any) -> Copy:
    options_of_copy = {"table": "dbo.orders", "strategy": "whole", **options}
    if "query" in options_of_copy:
        del options_of_copy["table"]
    return Copy(url, f"file://{tmp_path / 't'}", **options_of_copy)


# Connections


def login(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[0]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            lambda url: url.replace(
                f"{login(url)}@", f"{login(url).partition(':')[0]}:{PASSWORD}@"
            ),
            65,
            r"source: [^ ]+:\d+: .*; check the user, password and database",
        ),
        (
            lambda url: url.replace(f"{login(url)}@", f"nobody:{PASSWORD}@"),
            65,
            "check the user, password and database",
        ),
        (lambda url: url.replace("?", "_nope?"), 65, r"source: [^ ]+:\d+: .*_nope"),
        (
            lambda url: re.sub(r":\d+/", ":1/", url) + "&connect_timeout=3",
            75,
            r"source: [^ ]+:1: .*TCP Provider|(?i:timeout)",
        ),
    ],
    ids=["another password", "nobody", "no such database", "no such port"],
)
def test_a_failed_connection_is_reported(
    url: str, tmp_path: Path, change: Any, code: int, message: str
) -> None:
    failed = copied(change(url), tmp_path)
    assert re.search(message, failed.message), failed.message
    # Babelfish reports a missing database like one with too many sessions.
    assert failed.code == (75 if "_nope" in failed.message and is_babelfish(url) else code)
    assert PASSWORD not in failed.message
    assert "Babel" not in failed.message


# Requests


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"table": "dbo.order"},
            "expected table dbo.order, found no such table; similar names: dbo",
        ),
        ({"table": "sales.orders"}, "found no such table; similar names: dbo.orders"),
        ({"table": "nope"}, "nope"),
        ({"where": "id >"}, "source: --where: "),
        ({"where": "nope = 1"}, "source: --where: .*nope"),
        ({"where": "id = 1) OR (1 = 1"}, "source: --where: "),
        ({"where": "1 = 1 /*"}, "source: --where: "),
        ({"query": "SELECT id FRM orders"}, "source: --query: "),
        ({"columns": ("id", "nope")}, "nope"),
        (
            {"strategy": "range", "key": "x", "partitions": 2},
            "--key x: expected a column of type int2, .* to partition into ranges; found float8",
        ),
        (
            {"strategy": "ntile", "key": "doc", "partitions": 2},
            "--key doc: expected .* to partition into ranges; found xml",
        ),
        ({"strategy": "range", "key": "nope", "partitions": 2}, "--key nope: "),
        (
            {"strategy": "time", "key": "id", "interval": "1 day"},
            "--key id: expected a column of type date, timestamp, timestamptz; found int4",
        ),
        (
            {"strategy": "hash", "key": "(id) + 1) OR (1", "partitions": 2},
            "--key",
        ),
        (
            {"strategy": "blocks", "partitions": 2},
            "cannot be partitioned by physloc|with --snapshot none",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_rejected_request(
    url: str, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    rejected = copied(url, tmp_path, **options)
    assert rejected.code in (64, 65), rejected.message
    assert re.search(message, rejected.message), rejected.message
    assert not list(tmp_path.glob("**/*.parquet"))


def test_a_server_without_database_snapshots(url: str, tmp_path: Path) -> None:
    outcome = copied(url, tmp_path, snapshot="shared")
    if is_babelfish(url):
        assert outcome.code == 65
        assert "has no database snapshots" in outcome.message
        assert "--snapshot none" in outcome.message
    else:
        assert outcome.code == 0
        assert not rows(url, "SELECT name FROM sys.databases WHERE source_database_id = DB_ID()")


def test_a_fraction_of_a_microsecond_is_rejected(url: str, tmp_path: Path) -> None:
    rejected = copied(url, tmp_path, table="dbo.fine")
    if is_babelfish(url):
        pytest.skip("Babelfish keeps microseconds")
    assert rejected.code == 65
    assert "column 'at', row 2: expected whole microseconds" in rejected.message


def test_a_time_rounded_by_a_query_is_copied(url: str, tmp_path: Path) -> None:
    query = "SELECT id, CAST(at AS datetime2(6)) AS at FROM dbo.fine"
    assert copied(url, tmp_path, query=query).done().rows == 2


def test_checksums_need_a_utf8_collation(url: str, tmp_path: Path) -> None:
    outcome = copied(url, tmp_path, verify="checksums")
    if not is_babelfish(url):
        pytest.skip("this server has one")
    assert outcome.code == 65
    assert "pass --verify counts, or leave the text columns out with --columns" in outcome.message
