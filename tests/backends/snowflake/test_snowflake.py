"""Features of Snowflake alone: names, logins, files on a stage, and time travel."""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import snowflake.connector
from snowflake.connector.errors import ProgrammingError

from penstock import CopySpec, copy, plan
from penstock.backends.shared.values.arrow import kind_of
from penstock.backends.snowflake.catalog.names import swapped
from penstock.backends.snowflake.connection import Connection, connect
from penstock.backends.snowflake.errors import from_driver
from penstock.backends.snowflake.load.leases import has_ended, this_process
from penstock.backends.snowflake.load.stage import new_folder
from penstock.backends.snowflake.location import URLS, login, place
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import TYPES, SnowType
from penstock.errors import (
    PermanentError,
    PlanningError,
    SnapshotLost,
    TransientError,
    UsageError,
)
from penstock.model.tables import TableRef
from penstock_testkit import connect_snowflake, is_emulated

from ...types.arrow_types import ARROW_TYPES
from ...types.type_files import lines

_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?")


def described(text: str) -> SnowType:
    match = _TYPE.fullmatch(text)
    assert match is not None
    name, first, second = match[1], int(match[2] or 0), int(match[3] or 0)
    if name == "number":
        return SnowType(name, first, second)
    return SnowType(name, length=first) if name == "varchar" else SnowType(name, scale=first)


@pytest.mark.parametrize(("mine", "theirs", "kind"), lines("snowflake/to_arrow"))
def test_types_read_from_snowflake(mine: str, theirs: str, kind: str) -> None:
    type_ = described(mine)
    found = TYPES.arrow_type(type_)
    assert str(type_) == mine
    assert ("refused" if found is None else str(found)) == theirs
    assert ("refused" if found is None else kind_of(found)) == kind


@pytest.mark.parametrize(("mine", "theirs"), lines("snowflake/new_columns"))
def test_types_created_in_snowflake(mine: str, theirs: str) -> None:
    if theirs == "refused":
        with pytest.raises(PlanningError):
            TYPES.created.of(ARROW_TYPES[mine], "c")
    else:
        assert TYPES.created.of(ARROW_TYPES[mine], "c") == theirs


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("orders", "ORDERS"),
        ("ORDERS", "orders"),
        ("Orders", "Orders"),
        ("a b", "a b"),
        ("_1", "_1"),
    ],
)
def test_plain_names_need_no_quotes(mine: str, theirs: str) -> None:
    assert swapped(mine) == theirs
    assert swapped(theirs) == mine


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"password": "s3cret"}),
        ("?authenticator=oauth", {"authenticator": "oauth", "token": "s3cret"}),
        (
            "?authenticator=pat",
            {"authenticator": "PROGRAMMATIC_ACCESS_TOKEN", "token": "s3cret"},
        ),
        (
            "?private_key_file=/k.p8",
            {
                "authenticator": "SNOWFLAKE_JWT",
                "private_key_file": "/k.p8",
                "private_key_file_pwd": "s3cret",
            },
        ),
        (
            "?authenticator=browser",
            {"authenticator": "externalbrowser", "client_store_temporary_credential": True},
        ),
    ],
)
def test_logins(query: str, expected: dict[str, Any]) -> None:
    environ = {"SNOWFLAKE_PASSWORD": "s3cret"}
    url = URLS.resolve(f"snowflake://me@acme-prod/sales/raw{query}", environ, "--target")
    found = URLS.parse(url)
    assert login(found) == {"user": "me", **expected}
    assert place(found) == {"account": "acme-prod", "database": "sales", "schema": "raw"}
    assert "s3cret" not in repr(found)
    assert "s3cret" not in repr(URLS.place(url))
    assert URLS.secrets(url) == ("s3cret",)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("snowflake://acme/sales", "user"),
        ("snowflake://me@acme/sales", "SNOWFLAKE_PASSWORD"),
        ("snowflake://me:s3cret@acme/sales?authenticator=key", "private_key_file"),
        ("snowflake://me:s3cret@acme", "database"),
        ("snowflake://me:s3cret@acme/a/b/c", "several parts"),
        ("snowflake://me:s3cret@acme/a?passcode=1", "parameters"),
    ],
)
def test_incomplete_urls(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        URLS.resolve(url, {}, "--target")
    assert "s3cret" not in str(caught.value)


def test_each_table_is_read_at_the_snapshots_moment() -> None:
    session = SnowflakeSession.__new__(SnowflakeSession)
    session.moment = "2026-01-02 03:04:05.000006 +0000"
    assert session.rows_of(TableRef("public", "orders")) == (
        '"PUBLIC"."ORDERS" AT (TIMESTAMP => CAST(\'2026-01-02 03:04:05.000006 +0000\' AS'
        " TIMESTAMP_TZ))"
    )


def test_a_dead_process_is_detected_on_its_own_machine() -> None:
    mine = this_process()
    assert not has_ended(mine)
    assert has_ended(re.sub(r"\d+$", "1", mine))  # another process with the same number
    assert not has_ended("another machine|1|1")
    assert not has_ended(None)


@pytest.mark.parametrize(
    ("code", "words", "kind", "part"),
    [
        (250001, "Incorrect username or password was specified.", PermanentError, "password"),
        (250001, "JWT token is invalid.", PermanentError, "JWT"),
        (250001, "404 Not Found: post acme.snowflakecomputing.com", PermanentError, "404"),
        (250001, "Could not connect to Snowflake backend", TransientError, "Could not connect"),
        (390114, "Authentication token has expired.", TransientError, "expired"),
        (625, "Statement has locked table T in another transaction", TransientError, "locked"),
        (606, "No active warehouse selected in the session.", PermanentError, "?warehouse=NAME"),
        (3001, "Insufficient privileges to operate on T", PermanentError, "?role=NAME"),
        (707, "Time travel data is not available for table T.", SnapshotLost, "Time travel"),
        (2003, "Object T does not exist or not authorized.", PermanentError, "not authorized"),
    ],
)
def test_classes_of_errors(code: int, words: str, kind: type[Exception], part: str) -> None:
    state = "08001" if code == 250001 else "42000"
    found = from_driver(ProgrammingError(words, errno=code, sqlstate=state), "target")
    assert type(found) is kind
    assert found.message.startswith("target: ")
    assert part in found.message


def test_an_unreadable_key_is_reported_without_the_passphrase(tmp_path: Path) -> None:
    for name, text, reason in (("none.p8", "", "No such file"), ("a.p8", "s3cret", "passphrase")):
        if text:
            (tmp_path / name).write_text(text)
        url = f"snowflake://me:s3cret@acme/sales?private_key_file={tmp_path / name}"
        with pytest.raises(PermanentError, match=name) as caught:
            connect(url, "target")
        assert reason in caught.value.message
        assert "s3cret" not in caught.value.message


def test_stages_of_dead_processes_are_swept_and_no_password_shows(
    source_url: str, snowflake_url: str, tmp_path: Path
) -> None:
    if not is_emulated(snowflake_url):
        pytest.skip("an account knows its passwords")
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
    parts = urlsplit(snowflake_url)
    url = parts._replace(netloc=f"me:s3cret@{parts.hostname}:{parts.port}").geturl()
    spec = CopySpec(
        source=source_url, target=url, table="public.t", mode="recreate", strategy="whole", degree=1
    )
    output = repr([event.as_json() for event in copy(spec)])
    file = tmp_path / "part.parquet"
    file.touch()
    dead = re.sub(r"\d+$", "1", this_process())
    with closing(connect_snowflake(snowflake_url)) as connection, connection.cursor() as cursor:
        for token, owner, process in (
            ("dead", 1, dead),
            ("void", 0, this_process()),
            ("alive", 1, this_process()),
        ):
            cursor.execute(f"PUT 'file://{file}' @penstock.files/{token}/ AUTO_COMPRESS = FALSE")
            cursor.execute(
                "INSERT INTO penstock.stage SELECT ?, 'r', 'p', 1, ?, 0, ?, SYSDATE()",
                (token, owner, process),
            )
        assert len(cursor.execute("LIST @penstock.files").fetchall()) == 3
        output += repr([event.as_json() for event in copy(spec)])
        (remaining,) = cursor.execute("LIST @penstock.files").fetchall()
        assert "alive" in remaining[0]
        assert cursor.execute("SELECT token FROM penstock.stage").fetchall() == [("alive",)]
        output += repr(cursor.execute("SELECT * FROM penstock.run").fetchall())
        output += repr(cursor.execute("SELECT * FROM penstock.journal").fetchall())
    with pytest.raises(PlanningError) as caught:
        plan(replace(spec, source=url, table="public.none", snapshot="none"))
    assert "expected table public.none" in caught.value.message
    assert "s3cret" not in output + repr(spec) + repr(caught.value) + str(caught.value.__cause__)


def test_folders_of_dead_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine, dead = new_folder(), new_folder()
    (dead / "process").write_text(re.sub(r"\d+$", "1", this_process()))
    (dead / "00000.parquet").touch()
    another = new_folder()
    assert sorted(tmp_path.iterdir()) == sorted([mine, another])


def test_a_partition_with_several_files_and_mixed_case_names(
    source_url: str, snowflake_url: str
) -> None:
    """Nothing remains on the stage or in the tables of stages and leases."""
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute('CREATE TABLE "Mixed Case" (id bigint, "Name" text, "ORDER" text)')
        connection.execute(
            'INSERT INTO "Mixed Case" SELECT i, md5(i::text), repeat(md5(i::text), 9)'
            " FROM generate_series(1, 300000) AS i"
        )
    spec = CopySpec(
        source=source_url,
        target=snowflake_url,
        table='public."Mixed Case"',
        mode="recreate",
        strategy="whole",
        file_size=1 << 20,
    )
    assert list(copy(spec))[-1].name == "finished"
    with closing(connect_snowflake(snowflake_url)) as connection, connection.cursor() as cursor:
        cursor.execute('SELECT COUNT(*), COUNT(DISTINCT id), MIN("order") FROM "Mixed Case"')
        assert cursor.fetchone()[:2] == (300000, 300000)
        for table in ("stage", "lease"):
            assert cursor.execute(f"SELECT COUNT(*) FROM penstock.{table}").fetchone() == (0,)
        cursor.execute("SELECT COUNT(*) FROM information_schema.load_history")
        assert cursor.fetchone()[0] > 1
        assert cursor.execute("LIST @penstock.files").fetchall() == []


@pytest.mark.parametrize(("login", "redirected"), [("", False), ("?authenticator=browser", True)])
def test_only_a_browser_login_redirects_output(
    monkeypatch: pytest.MonkeyPatch, login: str, redirected: bool
) -> None:
    """Threads that send heartbeats connect while events are printed."""
    found: list[bool] = []
    monkeypatch.setattr(
        snowflake.connector, "connect", lambda **_: found.append(sys.stdout is sys.stderr)
    )
    Connection(f"snowflake://me:Zz9@account/db{login}", "target")
    assert found == [redirected]
    assert sys.stdout is not sys.stderr
