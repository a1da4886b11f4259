"""Targets that another session replaces while a copy is being planned."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock import CopySpec, plan
from penstock.backends.mysql.catalog.tables import obstacle
from penstock.backends.mysql.connection import connect
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql import target as sql_target
from penstock.backends.sql.catalog.relations import check_is_table
from penstock.errors import TableReplaced
from penstock.model.tables import TableRef

from .mysql_pair import execute

pytestmark = pytest.mark.both_servers

if TYPE_CHECKING:
    from penstock.backends.sql.session import Session


@pytest.mark.parametrize("times", [1, 100])
def test_a_target_that_is_missing_for_a_moment(
    source_url: str, mysql_url: str, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    with psycopg.connect(source_url, autocommit=True) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY)")
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY)")
    calls = count()

    def check_later(session: Session, table: TableRef, needs: str) -> None:
        if next(calls) < times:
            assert session.catalog_facts is not None
            session.catalog_facts.forget()
            session.catalog_facts.once("relations", dict)
        check_is_table(session, table, needs)

    monkeypatch.setattr(sql_target, "check_is_table", check_later)
    database = mysql_url.rpartition("/")[2].partition("?")[0]
    spec = CopySpec(
        source=source_url, target=mysql_url, table="public.t", target_table=f"{database}.t"
    )
    if times == 1:
        assert plan(spec).partitions
        return
    with pytest.raises(TableReplaced, match=r"t was dropped or recreated while"):
        plan(spec)


def test_a_table_that_the_server_cannot_open_is_described_by_its_error(mysql_url: str) -> None:
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE VIEW v AS SELECT id FROM t")
    execute(mysql_url, "DROP TABLE t", "CREATE TABLE u (id int PRIMARY KEY)")
    database = mysql_url.rpartition("/")[2].partition("?")[0]
    with closing(connect(mysql_url, "target")) as connection:
        session = MySqlSession(connection, MYSQL)
        assert "references invalid table" in obstacle(session, TableRef(database, "v"))
        assert obstacle(session, TableRef(database, "u")) == ""
        assert obstacle(session, TableRef(database, "none")) == ""
