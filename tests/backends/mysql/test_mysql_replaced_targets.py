"""Targets that another session replaces while a copy is being planned."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock import CopySpec, plan
from penstock.backends.sql import target as sql_target
from penstock.backends.sql.catalog.relations import check_is_table
from penstock.errors import TableReplaced

from .mysql_pair import execute

if TYPE_CHECKING:
    from penstock.backends.sql.session import Session
    from penstock.model.tables import TableRef


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
