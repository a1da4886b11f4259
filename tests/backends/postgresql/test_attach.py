"""attach: each partition becomes a child of the target's table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock import (
    Bound,
    Key,
    KeyRange,
    Partition,
    PenstockError,
    PlanningError,
    RunFailed,
    UsageError,
    create,
    resume,
    verify,
)
from penstock.errors import TargetChanged
from penstock.events import Event, Failed, Finished

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

COLUMNS = "id int NOT NULL, day date NOT NULL, kind text, n int"
ROLE = "penstock_owner_of_parents"
DAYS = {"mode": "attach", "strategy": "time", "key": "day", "interval": "1 day"}


@pytest.fixture
def days(pair: Pair) -> Pair:
    """Five days of ten rows each, and an empty target partitioned by day."""
    pair.source.run(
        f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id, day))",
        "INSERT INTO t SELECT i, date '2026-03-01' + i / 10, 'k' || i % 3, i"
        " FROM generate_series(0, 49) AS i",
        "CREATE INDEX ON t (day)",
        "ANALYZE t",
    )
    pair.target.run(
        f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id, day), CONSTRAINT small CHECK (n < 1000))"
        " PARTITION BY RANGE (day)",
        "CREATE INDEX by_kind ON t (kind, (n % 10)) WHERE n > 3",
        "CREATE UNIQUE INDEX ON t (day DESC, id)",
    )
    return pair


def children(pair: Pair) -> dict[str, str]:
    """Return the children of the target's table, with their bounds."""
    return dict(
        pair.target.rows(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i"
            " JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 't'::regclass"
            " ORDER BY 1"
        )
    )


def range_of(first: str, last: str) -> str:
    return f"FOR VALUES FROM ('2026-03-{first}') TO ('2026-03-{last}')"


ALL_DAYS = {f"t_p2026_03_{n:02}": range_of(f"{n:02}", f"{n + 1:02}") for n in range(1, 6)}
NOTHING_LEFT = (
    "SELECT count(*) FROM pg_class WHERE relname LIKE 'penstock\\_%' AND relkind IN ('r', 'i')"
    " AND relnamespace = 'public'::regnamespace"
)


def shape(pair: Pair, table: str) -> list[tuple[Any, ...]]:
    """Return a child's definition, apart from its name and bounds."""
    return pair.target.rows(
        "SELECT kind, replace(said, 'X', '') FROM ("
        "  SELECT 'index' AS kind, replace(pg_get_indexdef(indexrelid), "
        f"'{table}', 'X') AS said FROM pg_index WHERE indrelid = '{table}'::regclass"
        "  UNION ALL SELECT 'attached', (SELECT i.inhparent::regclass::text FROM pg_inherits AS i"
        "   WHERE i.inhrelid = x.indexrelid) FROM pg_index AS x"
        f"  WHERE indrelid = '{table}'::regclass"
        "  UNION ALL SELECT 'constraint', conname || pg_get_constraintdef(oid) || coninhcount"
        f"   || conislocal FROM pg_constraint WHERE conrelid = '{table}'::regclass"
        "    AND contype IN ('c', 'n', 'f')"
        "  UNION ALL SELECT 'column', row(attname, atttypid, attnotnull, attinhcount, attislocal,"
        f"   attgenerated)::text FROM pg_attribute WHERE attrelid = '{table}'::regclass"
        "    AND attnum > 0"
        "  UNION ALL SELECT 'table', row(relowner, relpersistence, reltablespace, relreplident,"
        f"   relacl)::text FROM pg_class WHERE oid = '{table}'::regclass"
        ") AS of ORDER BY 1, 2"
    )


def test_each_window_becomes_a_child(days: Pair) -> None:
    finished = days.copy(**DAYS, degree=3, verify="checksums")
    assert finished.rows == 50
    days.assert_same()
    assert children(days) == ALL_DAYS
    assert days.target.value(NOTHING_LEFT) == 0
    # Compared with what the server itself creates.
    days.target.run(f"CREATE TABLE t_p2026_03_20 PARTITION OF t {range_of('20', '21')}")
    assert shape(days, "t_p2026_03_01") == shape(days, "t_p2026_03_20")


def test_rows_are_frozen_at_once(days: Pair) -> None:
    """A transaction older than the rows sees them, so VACUUM will not have to rewrite them."""
    with days.target.connection.transaction():
        days.target.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert days.target.value("SELECT 1 FROM pg_class LIMIT 1") == 1
        days.copy(**DAYS)
        assert days.target.count("t") == 50


def test_the_next_day_is_attached_next_to_the_others(days: Pair) -> None:
    days.copy(**DAYS)
    days.source.run("INSERT INTO t SELECT i, '2026-03-06', 'new', i FROM generate_series(50, 59) i")
    finished = days.copy(**DAYS, where="day >= '2026-03-06'", verify="checksums")
    assert finished.rows == 10
    days.assert_same()
    assert children(days) == {**ALL_DAYS, "t_p2026_03_06": range_of("06", "07")}


def test_a_second_run_replaces_the_children_of_the_first(days: Pair) -> None:
    days.copy(**DAYS)
    before = shape(days, "t_p2026_03_02")
    days.source.run("UPDATE t SET n = n + 1", "DELETE FROM t WHERE day = '2026-03-05'")
    days.target.run("INSERT INTO t VALUES (99, '2026-03-02', 'gone', 1)")
    finished = days.copy(**DAYS, degree=3, verify="checksums")
    assert finished.rows == 40
    days.assert_same(where="day < '2026-03-05'")
    assert children(days) == ALL_DAYS  # no partition was planned for the fifth day
    assert shape(days, "t_p2026_03_02") == before


def test_a_partition_copied_again_replaces_its_child(days: Pair) -> None:
    """Its child is replaced, whatever its name is now, and no other; readers see one or the
    other."""
    days.copy(**DAYS, run_id="r")
    others = days.target.rows("SELECT tableoid, id FROM t WHERE day <> '2026-03-02' ORDER BY 2")
    days.target.run("ALTER TABLE t_p2026_03_02 RENAME TO second")
    days.source.run("UPDATE t SET n = n + 1 WHERE day = '2026-03-02'")
    resume_days(days, only=["p0002"], recopy="mended", as_of_now=True)
    days.assert_same()
    expected = {**ALL_DAYS, "second": range_of("02", "03")}
    del expected["t_p2026_03_02"]
    assert children(days) == expected
    assert others == days.target.rows(
        "SELECT tableoid, id FROM t WHERE day <> '2026-03-02' ORDER BY 2"
    )
    # A partition without rows gets no child.
    days.source.run("DELETE FROM t WHERE day = '2026-03-02'")
    resume_days(days, only=["p0002"], recopy="mended again", as_of_now=True)
    assert "second" not in children(days)
    assert verify("r", source=days.source.url, target=days.target.url).ok


def resume_days(days: Pair, **options: Any) -> Finished:
    ends: dict[str, Any] = {"source": days.source.url, "target": days.target.url}
    *_, last = resume("r", **ends, on_snapshot_lost="accept", **options)
    assert isinstance(last, Finished)
    return last


def test_children_by_list_of_values(pair: Pair) -> None:
    pair.source.run(
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, kind text, twice bigint)",
        "INSERT INTO t (kind, twice) SELECT (ARRAY['a b', 'c', NULL])[1 + i % 3], 2 * i"
        " FROM generate_series(1, 30) AS i",
    )
    pair.target.run(
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, kind text, n serial,"
        " twice bigint GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY LIST (kind)",
        "ALTER TABLE t ADD CONSTRAINT later CHECK (n > 0) NOT VALID",
    )
    pair.copy(mode="attach", strategy="values", key="kind", columns="id,kind")
    assert children(pair) == {
        "t_pa_b": "FOR VALUES IN ('a b')",
        "t_pc": "FOR VALUES IN ('c')",
        "t_pnull": "FOR VALUES IN (NULL)",
    }
    pair.assert_same(columns="id, kind, twice")
    assert pair.target.value("SELECT count(DISTINCT n) FROM t") == 30
    pair.target.run("INSERT INTO t (kind) VALUES ('c')")
    assert pair.target.value("SELECT max(id) FROM t") == 31


def test_rows_outside_a_childs_bounds_fail_their_partition(days: Pair) -> None:
    """They are copied, and then fail their partition: no row is lost silently."""
    days.both("ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER day DROP NOT NULL")
    run = create(days.spec(**DAYS, run_id="r")).run
    *_, last, null = [partition.child for partition in run.plan.partitions]
    assert last is not None
    assert null is not None
    assert (last.bounds, null.bounds) == (range_of("05", "06"), "")
    days.source.run("INSERT INTO t VALUES (50, NULL, '', 0), (51, '2026-03-20', '', 0)")
    ends: dict[str, Any] = {"source": days.source.url, "target": days.target.url}
    *events, error = all_of(resume("r", **ends, on_error="continue"))
    assert isinstance(error, RunFailed)
    failed = {event.partition_id: event.error for event in events if isinstance(event, Failed)}
    assert {(key, error["constraint"]) for key, error in failed.items()} == {
        ("p0005", "penstock_child_bounds"),
        ("p0006", "penstock_child_bounds"),
    }
    assert children(days) == {name: ALL_DAYS[name] for name in list(ALL_DAYS)[:4]}
    assert days.target.value(NOTHING_LEFT) == 0


def all_of(events: Iterator[Event]) -> list[Event | PenstockError]:
    """Return the events, and the error that ends them."""
    seen: list[Event | PenstockError] = []
    try:
        seen.extend(events)
    except PenstockError as error:
        seen.append(error)
    return seen


def test_a_child_detached_by_another_user(days: Pair) -> None:
    create(days.spec(**DAYS, run_id="r"))
    resume_days(days, only=["p0001", "p0002"])
    days.target.run("VACUUM FULL t_p2026_03_01")
    resume_days(days, only=["p0003"])
    days.target.run("ALTER TABLE t DETACH PARTITION t_p2026_03_02")
    with pytest.raises(TargetChanged, match="lost a child table"):
        resume_days(days)


def test_two_runs_with_different_partitions(days: Pair) -> None:
    """Both are planned before either attaches a child."""

    def partition(name: str, lower: str, upper: str) -> Partition:
        bounds = (Bound("", f"2026-03-{day}") for day in (lower, upper))
        return Partition(name, KeyRange(Key("day"), *bounds))

    spec = {"mode": "attach", "key": "day"}
    create(
        days.spec(**spec, run_id="r"),
        partitions=[partition("a", "01", "03"), partition("b", "03", "04")],
    )
    create(
        days.spec(**spec, run_id="s"),
        partitions=[partition("a", "02", "04"), partition("b", "04", "05")],
    )
    resume_days(days)
    events = all_of(
        resume("s", source=days.source.url, target=days.target.url, on_error="continue")
    )
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.partition_id == "a"
    assert "would overlap" in failed.error["message"]
    assert children(days) == {
        "t_p2026_03_01": range_of("01", "03"),
        "t_p2026_03_03": range_of("03", "04"),
        "t_p2026_03_04": range_of("04", "05"),
    }
    days.assert_same(where="day < '2026-03-05'")


def test_children_get_what_belongs_to_the_parent(days: Pair) -> None:
    """Owner, foreign keys in both directions, and what only some of the children have."""
    days.target.run(
        "CREATE TABLE kind (name text PRIMARY KEY)",
        "INSERT INTO kind VALUES ('k0'), ('k1')",
        "ALTER TABLE t ADD CONSTRAINT of_kind FOREIGN KEY (kind) REFERENCES kind",
        "CREATE TABLE note (id int, day date, FOREIGN KEY (id, day) REFERENCES t)",
        f"CREATE ROLE {ROLE}",
        f"GRANT CREATE ON SCHEMA public TO {ROLE}",
        f"ALTER TABLE t OWNER TO {ROLE}",
        f"GRANT REFERENCES, SELECT ON kind TO {ROLE}",
    )
    try:
        with pytest.raises(RunFailed) as caught:
            days.copy(**DAYS)
        assert "of_kind" in str(caught.value.__notes__)
        assert children(days) == {}
        days.target.run("INSERT INTO kind VALUES ('k2')")
        days.copy(**DAYS, degree=2)
        days.target.run(f"CREATE TABLE t_p2026_03_20 PARTITION OF t {range_of('20', '21')}")
        days.target.run(f"ALTER TABLE t_p2026_03_20 OWNER TO {ROLE}")
        assert shape(days, "t_p2026_03_01") == shape(days, "t_p2026_03_20")
        days.target.run("INSERT INTO note VALUES (1, '2026-03-01')")
        # A note refers to one of its rows: it cannot be dropped, and no other child is dropped
        # either.
        with pytest.raises(RunFailed) as caught:
            days.copy(**DAYS, on_error="continue")
        assert "note" in str(caught.value.__notes__)
        days.assert_same()
    finally:
        days.target.run("DROP TABLE t, note", f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


@pytest.mark.parametrize(
    ("definition", "options", "message"),
    [
        ("CREATE TABLE t ({})", {}, "expected public.t to be a partitioned table, found a table"),
        ("CREATE TABLE t ({}) PARTITION BY HASH (day)", {}, "found PARTITION BY HASH (day)"),
        ("CREATE TABLE t ({}) PARTITION BY RANGE (day, id)", {}, "RANGE (day, id)"),
        ("CREATE TABLE t ({}) PARTITION BY RANGE ((id + 1))", {}, "RANGE or LIST of one column"),
        ("CREATE TABLE t ({}) PARTITION BY RANGE (id)", {}, "the --key that is loaded into id"),
        ("CREATE TABLE t ({}) PARTITION BY LIST (day)", {}, "expected --strategy values"),
        (
            "CREATE TABLE t ({}) PARTITION BY RANGE (day);"
            "CREATE TABLE c PARTITION OF t FOR VALUES FROM ('2026-03-02') TO ('2026-03-04')",
            {},
            "public.c, a child table of public.t (FOR VALUES FROM ('2026-03-02') TO ('2026-03-04'))"
            ", overlaps partition p0002",
        ),
        (
            "CREATE TABLE t ({}) PARTITION BY RANGE (day);"
            f"CREATE TABLE c PARTITION OF t {range_of('02', '03')}",
            {},
            "--mode attach did not create it",
        ),
        (
            "CREATE TABLE p ({}) PARTITION BY RANGE (day); CREATE TABLE t PARTITION OF p DEFAULT"
            " PARTITION BY RANGE (day)",
            {},
            "to be the root of its partition tree",
        ),
        (
            "CREATE TABLE t ({}) PARTITION BY RANGE (day); CREATE FUNCTION f() RETURNS trigger"
            " LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
            "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
            {},
            "INSERT triggers of public.t (tr)",
        ),
        (
            "CREATE TABLE t ({}) PARTITION BY RANGE (day);"
            "CREATE PUBLICATION p FOR TABLES IN SCHEMA public",
            {},
            "public.t is published (p)",
        ),
        (
            "CREATE TABLE t ({}, g int GENERATED ALWAYS AS IDENTITY) PARTITION BY RANGE (day)",
            {"columns": "id,day,kind,n"},
            "the identity column g of public.t is not copied",
        ),
        ("CREATE TABLE t ({}) PARTITION BY RANGE (day)", {"strategy": "hash"}, "--strategy hash"),
        ("CREATE TABLE t ({}) PARTITION BY RANGE (day)", {"key": None}, "expected --key"),
        (
            "CREATE TABLE t ({}) PARTITION BY RANGE (day)",
            {"on_snapshot_lost": "restart"},
            "restart: expected --mode truncate, replace, recreate, swap",
        ),
    ],
)  # fmt: skip
def test_unsuitable_targets_are_refused_before_any_change(
    days: Pair, definition: str, options: dict[str, Any], message: str
) -> None:
    if "TABLES IN SCHEMA" in definition:
        days.needs(15, "publications of schemas")
    days.target.run("DROP TABLE t", definition.format(COLUMNS))
    arguments = {**DAYS, **options}
    if arguments["strategy"] == "hash" or arguments["key"] is None:
        del arguments["interval"]
    if arguments["key"] is None:
        arguments["strategy"] = "auto"
    with pytest.raises((PlanningError, UsageError)) as caught:
        days.copy(**arguments)
    assert message in caught.value.message
    assert not days.has_control_schema()


def test_a_run_with_a_condition_replaces_only_its_own_children(days: Pair) -> None:
    days.copy(**DAYS)
    with pytest.raises(RunFailed) as caught:
        days.copy(**DAYS, where="kind = 'k1'")
    assert "condition may leave out some of its rows" in str(caught.value.__notes__)
    days.assert_same()
    # The child that the run itself attached is its own.
    days.target.run("DROP TABLE t_p2026_03_02")
    with pytest.raises(RunFailed):
        days.copy(**DAYS, where="kind = 'k1'", run_id="r", on_error="continue")
    resume_days(days, only=["p0002"], recopy="again")
    assert days.target.count("t_p2026_03_02") == days.source.count(
        where="kind = 'k1' AND day = '2026-03-02'"
    )


def test_rows_from_another_system_are_frozen_too(days: Pair, tmp_path: Path) -> None:
    """Rows from record batches are frozen like any others."""
    file = tmp_path / "days.duckdb"
    with duckdb.connect(str(file)) as other:
        other.execute(
            "CREATE TABLE t AS SELECT i AS id, DATE '2026-03-01' + (i // 10)::int AS day,"
            " 'k' || i % 3 AS kind, i AS n FROM range(50) AS r (i)"
        )
    days.copy(**DAYS, source=f"duckdb:///{file}", table="t", target_table="public.t")
    assert children(days) == ALL_DAYS
    days.assert_same()
