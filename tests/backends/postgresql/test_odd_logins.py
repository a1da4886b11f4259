"""Logins, passwords and databases whose names need escapes in a URL."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from penstock import CopySpec, copy, resume
from penstock.events import Finished
from penstock_testkit import PostgresServer

from ...cli import run_cli

ODD = "we@ird:/?#[]%&=+ '\"\\é"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password="secret") as server:
        yield server


def test_a_copy_between_databases_of_an_odd_login(server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        user, password = sql.Identifier(ODD), sql.Literal(ODD)
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} CREATEDB").format(user, password)
        )
        for number in (1, 2):
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(
                    sql.Identifier(f"{ODD}{number}"), user
                )
            )
    login = quote(ODD, safe="")
    source, target = (
        f"postgresql://{login}:{login}@127.0.0.1:{server.port}/{login}{number}" for number in (1, 2)
    )
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 100) AS n")
    spec = CopySpec(
        source=source, target=target, table="public.t", mode="recreate", partitions=3, degree=2
    )
    first, *_, end = copy(spec)
    assert isinstance(end, Finished)
    assert end.rows == 100
    run_id = first.run_id
    *_, again = resume(run_id, source=source, target=target)
    assert isinstance(again, Finished)
    shown = run_cli("status", run_id, "--target", target)
    assert shown.returncode == 0, shown.stderr
    assert f":{login}@" not in shown.stdout + shown.stderr
