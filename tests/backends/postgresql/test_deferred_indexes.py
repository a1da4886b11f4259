"""`--indexes defer`: indexes are absent during the load, and restored unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.backends.postgresql.definitions import definitions
from tests.backends.postgresql.test_recreate import LOADED, PARTITIONED, ROWS, TYPES, everything

from penstock import PermanentError, PlanningError, UsageError, copy
from penstock.events import Committed, StepChanged

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

DEFERRED: dict[str, Any] = {"indexes": "defer"}
INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname <> 'penstock' ORDER BY 1"


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_every_index_is_restored_unchanged(pair: Pair, mode: str) -> None:
    pair.both(TYPES, everything(pair.version))
    pair.source.run(ROWS)
    before = definitions(pair.target.url)
    pair.copy('app."T a"', mode=mode, columns=LOADED, **DEFERRED)
    assert definitions(pair.target.url) == before
    pair.assert_same('app."T a"', columns=", ".join(f'"{name}"' for name in LOADED))


def test_indexes_are_absent_while_rows_are_loaded(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE, b int)", "CREATE INDEX ON t (b)")
    pair.source.run("INSERT INTO t SELECT n, n, n FROM generate_series(1, 100) AS n")
    query = INDEXES.replace("<>", "=").replace("'penstock'", "'public'")
    before = pair.target.rows(query)
    assert len(before) == 3
    for event in copy(pair.spec(**DEFERRED)):
        if isinstance(event, Committed):
            assert pair.target.rows(query) == []
    assert pair.target.rows(query) == before


def test_indexes_are_built_in_parallel(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE t (a int NOT NULL, b int, c int)",
        "CREATE INDEX one ON t (a)",
        "CREATE UNIQUE INDEX two ON t (a)",
        "CREATE INDEX three ON t (b)",
        "ALTER TABLE t CLUSTER ON one",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX two",
    )
    pair.source.run("INSERT INTO t SELECT n, n, n FROM generate_series(1, 100) AS n")
    before = definitions(pair.target.url)
    started: list[str] = []
    with psycopg.connect(pair.target.url) as writer:
        for event in copy(pair.spec(degree=3, strategy="whole", **DEFERRED)):
            if isinstance(event, Committed):
                writer.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")  # blocks every build
            elif isinstance(event, StepChanged) and "build" in event.step:
                started += [event.step] if event.state == "started" else []
                assert event.state == "started" or len(started) == 3
                if len(started) == 3:
                    writer.rollback()
    assert definitions(pair.target.url) == before


@pytest.mark.parametrize("unlogged", [False, True])
def test_indexes_of_a_partitioned_table_are_restored(pair: Pair, unlogged: bool) -> None:
    pair.both(PARTITIONED)
    pair.target.run("CREATE INDEX odd ON t_north_low (region)")
    before = definitions(pair.target.url)
    pair.copy(mode="truncate", unlogged=unlogged, **DEFERRED)
    assert definitions(pair.target.url) == before
    pair.assert_same()
    invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"
    assert pair.target.value(invalid) == 0


def test_indexes_that_others_need_are_kept(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE, b int)", "CREATE INDEX ON t (b)")
    pair.target.run(
        "CREATE TABLE o (a int CONSTRAINT points REFERENCES t (a))",
        "CREATE VIEW v AS SELECT id, b FROM t GROUP BY id",
    )
    pair.source.run("INSERT INTO t SELECT n, n, n FROM generate_series(1, 100) AS n")
    before = definitions(pair.target.url)
    (warning,) = pair.plan(**DEFERRED).warnings
    for part in ("t_a_key (foreign key points of public.o)", "t_pkey (view public.v)"):
        assert part in warning
    events = pair.events(**DEFERRED)
    steps = {event.step for event in events if isinstance(event, StepChanged)}
    assert steps == {"build index t_b_idx of public.t"}
    assert definitions(pair.target.url) == before


def test_a_partitioned_index_that_others_need_is_kept(pair: Pair) -> None:
    pair.both(PARTITIONED)
    pair.target.run('CREATE TABLE o (i int, r text COLLATE "C", FOREIGN KEY (i, r) REFERENCES t)')
    pair.target.run("DELETE FROM t")
    before = definitions(pair.target.url)
    pair.copy(**DEFERRED)
    assert definitions(pair.target.url) == before
    pair.assert_same()


def test_rows_that_break_a_key_leave_the_run_resumable(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, b int)", "CREATE INDEX ON t (b)")
    pair.source.run("INSERT INTO t SELECT n, n FROM generate_series(1, 100) AS n")
    pair.target.run("INSERT INTO t VALUES (7, 0)")
    before = definitions(pair.target.url)
    with pytest.raises(PermanentError, match="could not create unique index"):
        pair.copy(run_id="r", **DEFERRED)
    assert pair.target.value("SELECT status FROM penstock.run") == "failed"
    pair.target.run("DELETE FROM t WHERE b = 0")
    assert pair.cli("resume", "r", *pair.ends).returncode == 0
    assert definitions(pair.target.url) == before
    pair.assert_same()


def test_an_invalid_index_is_left_alone(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE t (id int)", "CREATE INDEX broken ON t (id)", "CREATE INDEX ok ON t (id)"
    )
    pair.target.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken'::regclass")
    plan = pair.plan(**DEFERRED)
    assert plan.warnings == ("invalid indexes stay as they are: broken",)
    assert [step.name for step in plan.load.before] == ["drop index ok of public.t"]


class TestRefused:
    def test_replace_mode(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY)")
        with pytest.raises(UsageError, match="not support --indexes defer with --mode replace"):
            pair.plan(mode="replace", key="id", strategy="range", **DEFERRED)

    def test_a_partition_of_another_table(self, pair: Pair) -> None:
        pair.both(PARTITIONED)
        with pytest.raises(
            PlanningError, match="is a child table, and its indexes belong to its parent's"
        ):
            pair.plan("public.t_else", **DEFERRED)

    def test_a_user_who_is_not_the_owner(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY)")
        pair.target.run("CREATE ROLE filler LOGIN", "GRANT ALL ON t TO filler")
        try:
            target = pair.target.url.replace("postgres@", "filler@")
            with pytest.raises(PlanningError, match=r'--indexes defer.*GRANT "postgres"'):
                pair.plan(target=target, **DEFERRED)
        finally:
            pair.target.run("DROP OWNED BY filler", "DROP ROLE filler")
