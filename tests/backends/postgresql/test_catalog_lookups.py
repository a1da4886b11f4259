"""Statements about many tables find each in the catalogs by an index, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from penstock.backends.postgresql.session.statements import statement

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


@pytest.fixture
def prepared(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int) PARTITION BY LIST (id)")
    pair.both("CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)")
    pair.both("CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2)")
    pair.copy(run_id="r1")
    return pair


@pytest.mark.parametrize("mode", ["truncate", "attach"])
def test_the_tables_of_runs_are_noted_by_an_index(prepared: Pair, mode: str) -> None:
    target = prepared.target
    target.run(f'UPDATE penstock.run SET spec = spec || \'{{"mode": "{mode}"}}\'')
    noted = statement("note_targets").format(
        schema=sql.Identifier("penstock"), prepared=sql.SQL(""), unprepared=sql.SQL("")
    )
    lists = {"runs": ["r1"], "tables": ["public.t"], "children": [None], "attaching": ["attach"]}
    steps = target.connection.execute(sql.SQL("EXPLAIN ") + noted, lists).fetchall()
    assert not [step for (step,) in steps if "Seq Scan on pg_class" in step]

    query = "SELECT target_state -> 'files' FROM penstock.run"
    names = ["t", "t_1", "t_2"] if mode == "truncate" else ["t"]
    files = {
        str(oid): file
        for oid, file in target.rows(
            "SELECT oid::bigint, relfilenode::bigint FROM pg_class WHERE relname ="
            f" ANY ('{{{','.join(names)}}}')"
        )
    }
    target.run("UPDATE penstock.run SET target_state = NULL")
    target.connection.execute(noted, lists)
    assert target.value(query) == files
    target.connection.execute(noted, {**lists, "tables": ["public.gone"]})
    assert target.value("SELECT target_state IS NULL FROM penstock.run") is True
