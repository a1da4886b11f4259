"""MySQL 9.6 and later as they are installed: without MD5()."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest

from penstock import CopySpec, copy, verify
from penstock_testkit import MysqlServer, ServerError
from penstock_testkit.mysql_programs import real_mysql_program

from .mysql_pair import execute, rows


@pytest.fixture(scope="module")
def server() -> Iterator[MysqlServer]:
    try:
        program = real_mysql_program()
    except ServerError as error:
        pytest.skip(str(error))
    with MysqlServer(program=program) as server:
        try:
            execute(server.url, "SELECT md5('')")
        except pymysql.OperationalError:
            yield server
        else:
            pytest.skip("the server has MD5()")


def load(source: str, target: str, table: str, **options: Any) -> str:
    ends = {"source": source, "target": target, "table": table, "target_table": "test.copied"}
    spec = CopySpec(**{**ends, "verify": "checksums", **options})
    return [event.run_id for event in copy(spec)][-1]


@pytest.mark.parametrize("flavour", ["MySQL", "PostgreSQL"])
def test_checksums_deletes_and_masks(server: MysqlServer, source_url: str, flavour: str) -> None:
    numbers = ", ".join(f"({n}, 'w{n} é', {n} / 7.0)" for n in range(1, 101))
    statements = (
        "CREATE TABLE t (id int PRIMARY KEY, word varchar(20), n decimal(9, 4))",
        f"INSERT INTO t VALUES {numbers}",
    )
    execute(server.url, "DROP TABLE IF EXISTS copied, t")
    if flavour == "MySQL":
        ends = (server.url, server.url, "test.t")
    else:
        ends = (source_url, server.url, "public.t")

    def run(*statements: str) -> None:
        if flavour == "MySQL":
            execute(server.url, *statements)
            return
        with psycopg.connect(source_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    run(*statements)
    load(*ends, mode="recreate", strategy="hash", key="id", partitions=3)
    night: dict[str, Any] = {
        "mode": "upsert",
        "atomic": "table",
        "deletes": "hard,50%",
    }
    run("DELETE FROM t WHERE id <= 30", "UPDATE t SET word = 'new' WHERE id = 31")
    run_id = load(*ends, **night)
    count = "SELECT count(*), min(id), sum(word = 'new') FROM copied"
    assert rows(server.url, count) == [(70, 31, 1)]
    assert verify(run_id, source=ends[0], target=ends[1], checksum=True).ok
    execute(server.url, "UPDATE copied SET word = 'other' WHERE id = 50")
    assert not verify(run_id, source=ends[0], target=ends[1], checksum=True, show_rows=True).ok
    load(*ends, mode="recreate", mask=("word=hash",))
    masked = "SELECT word = sha2('new', 256) FROM copied WHERE id = 31"
    assert rows(server.url, masked) == [(1,)]
