"""Runs whose source's columns change while they are stopped: one table never has two moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock import CopySpec, PenstockError, PlanningError
from penstock.errors import SnapshotLost
from penstock.events import SnapshotChanged

from ...covering import each_value
from ..conftest import Pair

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, a varchar(10), b varchar(10), c varchar(10),"
    " n int, g int GENERATED ALWAYS AS (n * 2) STORED){}"
)
EXCHANGE = (
    "ALTER TABLE t RENAME a TO x",
    "ALTER TABLE t RENAME b TO a",
    "ALTER TABLE t RENAME x TO b",
)
DDL: dict[str, tuple[tuple[str, ...], str]] = {
    "replaced": (
        ("ALTER TABLE t DROP a", "ALTER TABLE t ADD a varchar(10) DEFAULT 'new'"),
        "column 'a' was dropped, and another one has its name now",
    ),
    "exchanged": (EXCHANGE, "column 'a' is now called 'b'"),
    "rotated": (
        (
            *("ALTER TABLE t RENAME a TO x", "ALTER TABLE t RENAME b TO a"),
            *("ALTER TABLE t RENAME c TO b", "ALTER TABLE t RENAME x TO c"),
        ),
        "column 'a' is now called 'c'",
    ),
    "longer": (
        ("ALTER TABLE t ALTER a TYPE varchar(20)",),
        "'a' was character varying(10) and is now character varying(20)",
    ),
    "collated": (
        ('ALTER TABLE t ALTER a TYPE varchar(10) COLLATE "C"',),
        "'a' had the collation the usual one of its type and has now pg_catalog.\"C\"",
    ),
    "computed": (
        ("ALTER TABLE t DROP g", "ALTER TABLE t ADD g int GENERATED ALWAYS AS (n * 3) STORED"),
        "column 'g' was dropped, and another one has its name now",
    ),
    "recreated": (
        (
            *("ALTER TABLE t RENAME TO old", TABLE.format("")),
            "INSERT INTO t (id, a, b, n) SELECT id, b, a, n FROM old",
        ),
        "the table was recreated",
    ),
}
MODES = ("append", "truncate", "upsert", "replace", "recreate", "swap")
VIEWS: dict[str, dict[str, Any]] = {
    "shared": {},
    "none": {"snapshot": "none"},
    "accept": {"on_snapshot_lost": "accept"},
    "restart": {"on_snapshot_lost": "restart"},
    "now": {},
}


def begin(pair: Pair, **options: Any) -> None:
    """Create a run, and copy its first partition."""
    spec: dict[str, Any] = {
        "source": pair.source.url,
        "target": pair.target.url,
        "table": "public.t",
        "run_id": "changed",
        "mode": "truncate",
        "key": "id",
        "partitions": 4,
        "degree": 1,
        **options,
    }
    penstock.create(CopySpec(**spec))
    first = penstock.status("changed", target=pair.target.url).run.plan.partitions[0].id
    list(resumed(pair, only=(first,)))


def resumed(pair: Pair, **options: Any) -> Iterator[penstock.Event]:
    ends: dict[str, Any] = {"source": pair.source.url, "target": pair.target.url}
    return penstock.resume("changed", **ends, **options)


@pytest.fixture
def tables(pair: Pair) -> Pair:
    pair.both(TABLE.format(""))
    pair.source.run(
        "INSERT INTO t (id, a, b, c, n)"
        " SELECT i, 'a' || i, 'b' || i, 'c' || i, i FROM generate_series(1, 2000) AS i"
    )
    return pair


def refused(pair: Pair, expected: str, **options: Any) -> None:
    with pytest.raises(PenstockError) as caught:
        list(resumed(pair, **options))
    assert isinstance(caught.value, PlanningError), caught.value
    assert caught.value.exit_code == 65
    assert "public.t has changed since run changed was planned; start a new run" in str(
        caught.value
    )
    assert expected in str(caught.value)


@pytest.mark.parametrize(("ddl", "view"), each_value(DDL, VIEWS, 2))
def test_a_run_does_not_continue_with_other_columns(tables: Pair, ddl: str, view: str) -> None:
    begin(tables, **VIEWS[view])
    statements, expected = DDL[ddl]
    tables.source.run(*statements)
    refused(tables, expected, as_of_now=view == "now")


@pytest.mark.parametrize(("mode", "ddl"), each_value(MODES, ["replaced", "exchanged"]))
def test_no_mode_continues_with_other_columns(tables: Pair, mode: str, ddl: str) -> None:
    begin(tables, mode=mode, degree=3, key="id")
    statements, expected = DDL[ddl]
    tables.source.run(*statements)
    refused(tables, expected)


@pytest.mark.parametrize("hidden", [{"mask": ("a=last4",)}, {"exclude_columns": ("a",)}])
def test_a_hidden_column_stays_hidden_when_a_run_continues(
    tables: Pair, hidden: dict[str, Any]
) -> None:
    begin(tables, **hidden)
    tables.source.run(*EXCHANGE)
    refused(tables, "column 'b' is now called 'a'")
    assert tables.target.value("SELECT count(*) FROM t WHERE b LIKE 'a%'") == 0


def test_conditions_name_columns_too(tables: Pair) -> None:
    begin(tables, columns=("id", "c"), where="a LIKE 'a%'", mode="replace")
    tables.source.run(*EXCHANGE)
    refused(tables, "column 'a' is now called 'b'")


def test_columns_that_a_run_does_not_use_may_change(tables: Pair) -> None:
    begin(tables, columns=("id", "c"))
    tables.source.run(*EXCHANGE, "ALTER TABLE t ADD more int DEFAULT 5")
    with pytest.raises(SnapshotLost, match="other columns or types since"):
        list(resumed(tables))
    list(resumed(tables, on_snapshot_lost="accept"))
    assert tables.target.count() == 2000


def test_a_query_knows_the_columns_behind_its_names(tables: Pair) -> None:
    tables.both("ALTER TABLE t DROP g")
    begin(tables, table=None, query="SELECT * FROM t", target_table="public.t")
    tables.source.run(*EXCHANGE)
    with pytest.raises(PlanningError, match="column 'a' is now called 'b'"):
        list(resumed(tables))


@pytest.mark.parametrize("renamed", ["ALTER TYPE mood RENAME VALUE 'sad' TO 'low'"])
def test_a_value_that_changes_without_a_write_is_no_proof(pair: Pair, renamed: str) -> None:
    for side in (pair.source, pair.target):
        side.run("CREATE TYPE mood AS ENUM ('sad', 'low2')", "CREATE TABLE t (id int, m mood)")
    pair.source.run("INSERT INTO t SELECT i, 'sad' FROM generate_series(1, 2000) AS i")
    begin(pair)
    pair.source.run(renamed)
    with pytest.raises(SnapshotLost, match="other columns or types since"):
        list(resumed(pair))


@pytest.mark.parametrize("ddl", ["replaced", "exchanged", "rotated"])
def test_a_partitioned_table_does_not_continue_with_other_columns(pair: Pair, ddl: str) -> None:
    pair.source.run(
        TABLE.format(" PARTITION BY RANGE (id)"),
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE high (gone int, c varchar(10), b varchar(10), a varchar(10), n int,"
        " id int NOT NULL, g int GENERATED ALWAYS AS (n * 2) STORED)",
        "ALTER TABLE high DROP gone",
        "ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (1000) TO (3000)",
        "INSERT INTO t (id, a, b, c, n)"
        " SELECT i, 'a' || i, 'b' || i, 'c' || i, i FROM generate_series(1, 2000) AS i",
    )
    pair.target.run(TABLE.format(""))
    begin(pair)
    statements, expected = DDL[ddl]
    pair.source.run(*statements)
    refused(pair, expected)


def test_a_child_table_that_is_attached_is_no_proof(pair: Pair) -> None:
    pair.source.run(
        "CREATE TABLE t (id int NOT NULL, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE high (id int NOT NULL, a text)",
        "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 999) AS i",
        "INSERT INTO high SELECT i, 'a' FROM generate_series(1000, 1999) AS i",
    )
    pair.target.run("CREATE TABLE t (id int NOT NULL, a text)")
    begin(pair)
    pair.source.run("ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (1000) TO (3000)")
    with pytest.raises(PenstockError):
        list(resumed(pair))


def test_an_undone_change_leaves_a_proof(tables: Pair) -> None:
    begin(tables)
    tables.source.run(*EXCHANGE)
    tables.source.run(*EXCHANGE)
    events = list(resumed(tables))
    assert any(
        "no write to the table" in e.message for e in events if isinstance(e, SnapshotChanged)
    )
    assert tables.target.count() == 2000


def test_a_batch_does_not_continue_with_other_columns(tables: Pair) -> None:
    tables.both("CREATE TABLE u (id int PRIMARY KEY)")
    spec: dict[str, Any] = {
        "source": tables.source.url,
        "target": tables.target.url,
        "tables": ("public.t", "public.u"),
        "run_id": "many",
        "defaults": {"mode": "truncate", "mask": ("a=last4",), "key": "id", "partitions": 4},
    }
    stop = penstock.copy_all(penstock.BatchSpec(**spec, degree=1))
    for event in stop:
        if type(event).__name__ == "Committed":
            break
    stop.close()
    tables.source.run(*EXCHANGE)
    with pytest.raises(PenstockError):
        list(penstock.copy_all(penstock.BatchSpec(**spec, degree=1)))
    assert tables.target.value("SELECT count(*) FROM t WHERE b LIKE 'a%'") == 0


@pytest.mark.parametrize("ddl", ["exchanged", "computed"])
def test_a_run_that_is_done_is_neither_verified_nor_repaired_with_other_columns(
    tables: Pair, ddl: str
) -> None:
    ends: dict[str, Any] = {"source": tables.source.url, "target": tables.target.url}
    tables.copy(mode="truncate", mask=("a=last4",), run_id="done")
    tables.source.run(*DDL[ddl][0], "UPDATE t SET n = 7 WHERE id = 7")
    for checksum in (False, True):
        with pytest.raises(PlanningError, match="has changed since run done was planned"):
            penstock.verify("done", **ends, checksum=checksum)
    with pytest.raises(PlanningError, match="has changed since run done was planned"):
        penstock.plan_repair("done", **ends)
