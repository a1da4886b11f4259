"""Masks of MariaDB's and MySQL's own texts and times, and the tables created for them."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from typing import Any

import psycopg
import pytest

from penstock import CopySpec, copy, verify
from penstock.events import Finished

from .mysql_pair import execute, rows

pytestmark = pytest.mark.both_servers

KEY = "Vq7 s'alt\\ 471108150042"
WORDS = ("", "Ünïcödé", "naïve café", "12345")
TABLE = """
    CREATE TABLE t (
        id bigint unsigned AUTO_INCREMENT PRIMARY KEY,
        old varchar(40) CHARACTER SET latin1 NOT NULL,
        fixed char(20) CHARACTER SET latin1,
        wide varchar(40) CHARACTER SET utf8mb4 UNIQUE,
        kind enum('é', 'b') CHARACTER SET latin1,
        raw varbinary(20),
        seen timestamp(3) NULL,
        born date,
        at datetime(6),
        KEY by_born (born), KEY by_old (old)
    )
"""
MASKS = (
    "id=hmac:env:SALT", "old=hmac:env:SALT", "fixed=hash", "wide=hash", "kind=hash", "raw=hash",
    "seen=year", "born=year", "at=year",
)  # fmt: skip


def keyed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def hashed(value: str | bytes) -> str:
    return hashlib.sha256(value if isinstance(value, bytes) else value.encode()).hexdigest()


@pytest.fixture
def shop(mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SALT", KEY)
    values = ", ".join(
        f"('{word}', '{word}', '{word}', 'é', x'00ff', '2024-05-17 13:14:15.678',"
        " '0044-03-15', '2024-12-31 23:59:59.999999')"
        for word in WORDS
    )
    execute(
        mysql_url,
        TABLE,
        f"INSERT INTO t (old, fixed, wide, kind, raw, seen, born, at) VALUES {values}",
        "INSERT INTO t (old) VALUES ('alone')",
    )
    return mysql_url


def copied(**options: Any) -> Finished:
    *_, finished = copy(CopySpec(degree=1, mode="recreate", mask=MASKS, **options))
    assert isinstance(finished, Finished)
    ends = {name: options[name] for name in ("source", "target")}
    schema = options.get("control_schema", "penstock")
    found = verify(finished.run_id, **ends, control_schema=schema, checksum=True)
    assert found.ok, [check.note for check in found.wrong]
    return finished


def expected() -> list[tuple[Any, ...]]:
    first = datetime.date(44, 1, 1), datetime.datetime.fromisoformat("2024-01-01")
    return [
        (keyed(str(id_)), keyed(word), hashed(word), hashed(word), hashed("é"),
         hashed(b"\x00\xff"), first[1], *first)
        for id_, word in enumerate(WORDS, 1)
    ] + [(keyed("5"), keyed("alone"), *[None] * 7)]  # fmt: skip


def test_masked_columns_into_postgresql(shop: str, source_url: str) -> None:
    report = copied(source=shop, target=source_url, table="t", target_table="public.t")
    with psycopg.connect(source_url) as connection:
        found = connection.execute("SELECT * FROM t").fetchall()
        types = connection.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        keys = connection.execute(
            "SELECT contype FROM pg_constraint WHERE conrelid = 't'::regclass"
            " AND contype IN ('p', 'u') ORDER BY 1"
        ).fetchall()
    assert keys == [("p",), ("u",)]
    assert sorted(found, key=str) == sorted(expected(), key=str)
    kinds = [kind.partition("(")[0] for (kind,) in types]
    assert set(kinds[:6]) <= {"character varying", "text"}
    assert (kinds[7], kinds[6][:9], kinds[8][:9]) == ("date", "timestamp", "timestamp")
    not_copied = {(item.kind, item.name) for item in report.not_copied}
    assert ("identity columns", "id") in not_copied
    assert ("indexes", "by_born") in not_copied


def test_masked_columns_into_the_same_system(shop: str) -> None:
    schema = shop.partition("?")[0].rpartition("/")[2]
    copied(source=shop, target=shop, table="t", target_table=f"{schema}.copied",
           control_schema=schema)  # fmt: skip
    found = rows(shop, "SELECT * FROM copied")
    assert sorted(found, key=str) == sorted(expected(), key=str)
    (created,) = rows(shop, "SHOW CREATE TABLE copied")
    assert "PRIMARY KEY" in created[1]
    assert "varchar(64)" in created[1]


@pytest.mark.parametrize("key", ["clé", "k" * 64, "ü" * 33, "x" * 200])
def test_a_key_of_any_length_and_script(
    mysql_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALT", key)
    execute(
        mysql_url,
        "CREATE TABLE named (id int PRIMARY KEY, word varchar(40), raw varbinary(9))",
        "INSERT INTO named VALUES (1, 'é', x'00ff'), (2, '', ''), (3, NULL, NULL)",
    )
    schema = mysql_url.rpartition("/")[2]
    mask = ("word=hmac:env:SALT", "raw=hmac:env:SALT")
    ends = {"source": mysql_url, "target": mysql_url}
    spec = CopySpec(
        **ends, table="named", target_table=f"{schema}.masked", mode="recreate", mask=mask, degree=1
    )
    for _ in copy(spec):
        pass

    def masked(value: bytes) -> str:
        return hmac.new(key.encode(), value, hashlib.sha256).hexdigest()

    assert rows(mysql_url, "SELECT * FROM masked ORDER BY id") == [
        (1, masked("é".encode()), masked(b"\0\xff")),
        (2, masked(b""), masked(b"")),
        (3, None, None),
    ]
