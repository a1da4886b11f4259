"""What is Snowflake's alone: names, who logs in, files on a stage, and moments."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import psycopg
import pytest

from penstock import CopySpec, copy
from penstock.backends.shared.arrow import kind_of
from penstock.backends.snowflake.leases import is_gone, this_process
from penstock.backends.snowflake.location import URLS, login, place, resolved
from penstock.backends.snowflake.names import swapped
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.target import TYPES
from penstock.backends.snowflake.types import SnowType, arrow_type
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import TableRef
from penstock_testkit import connect_snowflake

from ...types.arrow_types import ARROW_TYPES
from ...types.reading import lines

_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?")


def described(written: str) -> SnowType:
    found = _TYPE.fullmatch(written)
    assert found is not None
    name, first, second = found[1], int(found[2] or 0), int(found[3] or 0)
    if name == "number":
        return SnowType(name, first, second)
    return SnowType(name, length=first) if name == "varchar" else SnowType(name, scale=first)


@pytest.mark.parametrize(("mine", "theirs", "kind"), lines("snowflake/from"))
def test_types_from_it(mine: str, theirs: str, kind: str) -> None:
    type_ = described(mine)
    found = arrow_type(type_)
    assert str(type_) == mine
    assert ("refused" if found is None else str(found)) == theirs
    assert ("refused" if found is None else kind_of(found)) == kind


@pytest.mark.parametrize(("mine", "theirs"), lines("snowflake/made"))
def test_types_into_it(mine: str, theirs: str) -> None:
    if theirs == "refused":
        with pytest.raises(PlanningError):
            TYPES.of(ARROW_TYPES[mine], "c")
    else:
        assert TYPES.of(ARROW_TYPES[mine], "c") == theirs


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
def test_plain_names_are_those_without_quotes(mine: str, theirs: str) -> None:
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
def test_who_logs_in(query: str, expected: dict[str, Any]) -> None:
    environ = {"SNOWFLAKE_PASSWORD": "s3cret"}
    url = URLS.resolve(f"snowflake://me@acme-prod/sales/raw{query}", environ, "--target")
    found = URLS.parse(url)
    assert login(found) == {"user": "me", **expected}
    assert place(found) == {"account": "acme-prod", "database": "sales", "schema": "raw"}
    assert "s3cret" not in repr(found)
    assert "s3cret" not in repr(URLS.place(url))
    assert URLS.secrets(url) == ("s3cret",)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("snowflake://acme/sales", "user"),
        ("snowflake://me@acme/sales", "SNOWFLAKE_PASSWORD"),
        ("snowflake://me:s3cret@acme/sales?authenticator=key", "private_key_file"),
        ("snowflake://me:s3cret@acme", "database"),
        ("snowflake://me:s3cret@acme/a/b/c", "several parts"),
        ("snowflake://me:s3cret@acme/a?passcode=1", "parameters"),
    ],
)
def test_a_url_that_says_too_little(url: str, found: str) -> None:
    with pytest.raises(UsageError, match=found) as caught:
        resolved(url, {}, "--target")
    assert "s3cret" not in str(caught.value)


def test_a_moment_is_said_for_each_table() -> None:
    session = SnowflakeSession.__new__(SnowflakeSession)
    session.moment = "2026-01-02 03:04:05.000006 +0000"
    assert session.rows_of(TableRef("public", "orders")) == (
        '"PUBLIC"."ORDERS" AT (TIMESTAMP => CAST(\'2026-01-02 03:04:05.000006 +0000\' AS'
        " TIMESTAMP_TZ))"
    )


def test_a_process_that_is_gone_is_known_on_its_machine() -> None:
    mine = this_process()
    assert not is_gone(mine)
    assert is_gone(re.sub(r"\d+$", "1", mine))  # another one had its number
    assert not is_gone("another machine|1|1")
    assert not is_gone(None)


def test_a_partition_of_several_files_and_names_of_both_cases(
    source_url: str, snowflake_url: str
) -> None:
    """Nothing is left on the stage, nor in the tables that say who is at work."""
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
