"""Tables as TimescaleDB makes them: rows in chunks that inherit from them, and none of their own.

The extension is imitated: its schema of chunks, and the trigger that keeps rows out of the parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import BatchSpec, PlanningError, copy_all
from penstock.events import BatchFinished

if TYPE_CHECKING:
    from ..conftest import Pair

EXTENSION = """
    CREATE SCHEMA _timescaledb_internal; CREATE SCHEMA _timescaledb_functions;
    CREATE FUNCTION _timescaledb_functions.insert_blocker() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'invalid INSERT on the root table'; END $$;
    CREATE TABLE metric (id int, at date NOT NULL);
    CREATE TRIGGER ts_insert_blocker BEFORE INSERT ON metric
        FOR EACH ROW EXECUTE FUNCTION _timescaledb_functions.insert_blocker();
"""
CHUNKS = """
    CREATE TABLE _timescaledb_internal._hyper_1_1_chunk (CHECK (at < '2026-06-01'))
        INHERITS (metric);
    CREATE TABLE _timescaledb_internal._hyper_1_2_chunk (CHECK (at >= '2026-06-01'))
        INHERITS (metric);
    INSERT INTO _timescaledb_internal._hyper_1_1_chunk
        SELECT n, '2026-01-01' FROM generate_series(1, 600) AS n;
    INSERT INTO _timescaledb_internal._hyper_1_2_chunk
        SELECT n, '2026-07-01' FROM generate_series(601, 1000) AS n;
"""


@pytest.fixture
def metrics(pair: Pair) -> Pair:
    pair.source.run(EXTENSION, CHUNKS, "ANALYZE")
    return pair


def test_a_database_is_copied_without_its_chunks(metrics: Pair) -> None:
    arguments = {"source": metrics.source.url, "target": metrics.target.url, "tables": "*.*"}
    spec = BatchSpec.from_mapping(
        {**arguments, "mode": "recreate", "verify": "checksums", "partitions": 4}, "test"
    )
    end = list(copy_all(spec))[-1]
    assert isinstance(end, BatchFinished)
    (table,) = end.tables
    assert table.table == "public.metric"
    assert metrics.target.count("ONLY public.metric") == 1000
    (item,) = table.not_copied
    assert (item.kind, item.name) == ("hypertables", "metric")
    assert 'create_hypertable(\'"public"."metric"\'' in item.remedy
    # The statement is for people to complete, and harmless.
    metrics.target.run(item.remedy)


def test_its_rows_are_not_read_by_blocks(metrics: Pair) -> None:
    """A block of a chunk does not have the rows that are compressed."""
    plan = metrics.plan("public.metric", mode="recreate", partitions=4)
    assert plan.strategy != "ctid"
    with pytest.raises(PlanningError, match="compressed rows have no blocks"):
        metrics.plan("public.metric", mode="recreate", strategy="ctid", partitions=4)


def test_its_own_rows_alone_are_refused(metrics: Pair) -> None:
    with pytest.raises(PlanningError, match="would copy none of them"):
        metrics.plan("public.metric", mode="recreate", descendants="exclude")


@pytest.mark.parametrize("mode", ["append", "truncate"])
@pytest.mark.parametrize("has_chunks", [False, True])
def test_a_hypertable_is_loaded_as_one_table(metrics: Pair, mode: str, has_chunks: bool) -> None:
    metrics.target.run(EXTENSION, CHUNKS if has_chunks else "")
    load = metrics.plan("public.metric", mode=mode).load
    assert not load.table.only
    statements = [step.statement for step in load.before if step.id == "truncate"]
    assert len(statements) == (mode == "truncate")
    assert all('TRUNCATE "public"."metric"' in each for each in statements)


def test_a_swap_is_refused(metrics: Pair) -> None:
    metrics.target.run(EXTENSION)
    with pytest.raises(PlanningError, match="without inheritance"):
        metrics.plan("public.metric", mode="swap")
