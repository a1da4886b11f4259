"""Steps that a stopped run left undone on its table: the next run completes or reports them."""

from __future__ import annotations

from contextlib import closing
from typing import Any, LiteralString

import psycopg
import pytest

import penstock
from penstock import CopySpec
from penstock.errors import PenstockError
from penstock.events import Finished, Prepared

TABLE: LiteralString = "CREATE TABLE t (id int PRIMARY KEY, kind int, note text)"
INDEXES = ["t_kind", "t_pkey"]


def execute(url: str, *statements: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def facts(url: str) -> tuple[list[str], str]:
    """Return the table's indexes, and whether it is logged (p) or not (u)."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT coalesce(array_agg(x.relname::text ORDER BY x.relname)"
            " FILTER (WHERE x.oid IS NOT NULL), '{}'), c.relpersistence::text"
            " FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indrelid = c.oid"
            " LEFT JOIN pg_class AS x ON x.oid = i.indexrelid"
            " WHERE c.oid = 't'::regclass GROUP BY c.relpersistence"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.fixture
def ends(source_url: str, target_url: str) -> dict[str, Any]:
    """The URLs of a copy whose target a stopped run left unlogged and without indexes."""
    execute(source_url, TABLE, "INSERT INTO t SELECT n, n % 7, 'x' FROM generate_series(1, 999) n")
    execute(target_url, TABLE, "CREATE INDEX t_kind ON t (kind)")
    ends: dict[str, Any] = {"source": source_url, "target": target_url, "table": "t"}
    ends["mode"] = "truncate"
    altering = CopySpec(**ends, indexes="defer", unlogged=True, run_id="stopped")
    with closing(penstock.copy(altering)) as events:
        assert any(isinstance(event, Prepared) for event in events)  # closed here
    assert facts(target_url) == ([], "u")
    return ends


def finished(**options: Any) -> Finished:
    last = list(penstock.copy(CopySpec(**options)))[-1]
    assert isinstance(last, Finished)
    return last


@pytest.mark.parametrize("options", [{"indexes": "defer"}, {"indexes": "defer", "mode": "append"}])
def test_the_next_run_completes_the_steps(ends: dict[str, Any], options: dict[str, Any]) -> None:
    request_options = {**ends, **options}
    reasons = penstock.plan(CopySpec(**request_options)).reasons
    what = "build index t_kind of public.t"
    assert f"left over from run stopped, which was stopped: {what}" in reasons
    assert finished(**request_options).status == "done"
    assert facts(ends["target"]) == (INDEXES, "p")


def test_a_run_that_may_not_alter_the_table_reports_the_steps(ends: dict[str, Any]) -> None:
    warnings = "\n".join(penstock.plan(CopySpec(**ends)).warnings)
    assert "run stopped was stopped before it could build index t_kind" in warnings
    assert 'CREATE INDEX "t_kind" ON "public"."t" USING btree (kind)' in warnings
    assert finished(**ends).status == "done"
    assert facts(ends["target"]) == ([], "u")
    assert penstock.plan(CopySpec(**ends)).warnings
    # A run that alters the table completes them; an index dropped later is another user's doing.
    finished(**ends, indexes="defer")
    execute(ends["target"], "DROP INDEX t_kind")
    assert not penstock.plan(CopySpec(**ends)).warnings


def test_a_table_that_replaces_it_lacks_the_indexes_too(ends: dict[str, Any]) -> None:
    request_options = {**ends, "mode": "swap"}
    (warning, *_) = penstock.plan(CopySpec(**request_options)).warnings
    assert "--indexes defer" not in warning
    assert "run stopped was stopped before it could " in warning
    assert not penstock.plan(CopySpec(**{**ends, "mode": "recreate"})).warnings


def test_steps_that_fail_are_reported(ends: dict[str, Any]) -> None:
    execute(ends["target"], "CREATE TABLE other (a int)", "CREATE INDEX t_kind ON other (a)")
    last = finished(**ends, indexes="defer")
    assert last.status == "done"
    assert [item.name for item in last.not_copied] == ["build index t_kind of public.t"]
    assert facts(ends["target"]) == (["t_pkey"], "p")


def test_the_resumed_run_completes_its_steps(ends: dict[str, Any]) -> None:
    options = {key: ends[key] for key in ("source", "target")}
    last = list(penstock.resume("stopped", **options))[-1]
    assert isinstance(last, Finished)
    assert facts(ends["target"]) == (INDEXES, "p")
    assert "left undone" not in str(penstock.plan(CopySpec(**ends)))


def test_a_stopped_run_resumed_after_another_completed_its_steps(
    source_url: str, target_url: str
) -> None:
    execute(source_url, TABLE, "INSERT INTO t SELECT n, n % 7, 'x' FROM generate_series(1, 999) n")
    execute(target_url, TABLE, "CREATE INDEX t_kind ON t (kind)")
    ends: dict[str, Any] = {"source": source_url, "target": target_url}
    request_options = {**ends, "table": "t", "mode": "append"}
    first = CopySpec(**request_options, indexes="defer", where="id < 500", run_id="stopped")
    with closing(penstock.copy(first)) as events:
        assert any(isinstance(event, Prepared) for event in events)
    assert finished(**request_options, indexes="defer", where="id >= 500").status == "done"
    assert facts(target_url)[0] == INDEXES
    last = list(penstock.resume("stopped", **ends))[-1]
    assert isinstance(last, Finished)
    with psycopg.connect(target_url) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (999,)


def test_another_index_in_the_place_of_a_dropped_one(source_url: str, target_url: str) -> None:
    execute(source_url, TABLE, "INSERT INTO t SELECT n, n % 7, 'x' FROM generate_series(1, 999) n")
    execute(target_url, TABLE, "CREATE INDEX t_kind ON t (kind)")
    ends: dict[str, Any] = {"source": source_url, "target": target_url}
    request_options = CopySpec(**ends, table="t", mode="append", indexes="defer", run_id="stopped")
    with closing(penstock.copy(request_options)) as events:
        assert any(isinstance(event, Prepared) for event in events)
    assert facts(target_url)[0] == []
    execute(target_url, "CREATE INDEX t_kind ON t (note)")
    with pytest.raises(PenstockError, match='relation "t_kind" already exists'):
        list(penstock.resume("stopped", **ends))
    assert "t_kind" in facts(target_url)[0]
