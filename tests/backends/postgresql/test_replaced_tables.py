"""recreate: an existing table stays until the new one, built beside it, is complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.backends.postgresql.definitions import definitions

from penstock import BatchSpec, RunFailed, TargetChanged, copy_all, resume
from penstock.events import Finished

if TYPE_CHECKING:
    from ..conftest import Pair

OK = "CREATE FUNCTION ok(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT {}'"
SHOP = """
    CREATE TABLE customer (id int PRIMARY KEY, name text);
    CREATE TABLE purchase (
        id serial PRIMARY KEY, customer int REFERENCES customer,
        CONSTRAINT sound CHECK (ok(id))
    );
    INSERT INTO customer SELECT n, 'c' || n FROM generate_series(1, 30) AS n;
    INSERT INTO purchase SELECT n, n FROM generate_series(1, 30) AS n;
"""


def copy_shop(pair: Pair) -> None:
    spec = {
        "source": pair.source.url, "target": pair.target.url, "tables": "public.*",
        "mode": "recreate", "degree": 2, "attempts": 1,
    }  # fmt: skip
    list(copy_all(BatchSpec.from_mapping(spec, "t")))


def tables(pair: Pair) -> list[str]:
    names = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    return [name for (name,) in pair.target.rows(names)]


def test_a_table_that_fails_keeps_its_old_one_with_its_keys(pair: Pair) -> None:
    pair.source.run(OK.format("true"), SHOP)
    pair.target.run(OK.format("true"))
    copy_shop(pair)
    before = definitions(pair.target.url, "public.purchase")
    pair.source.run("UPDATE customer SET name = 'new'")
    pair.target.run("CREATE OR REPLACE " + OK.format("false").removeprefix("CREATE "))
    with pytest.raises(RunFailed):
        copy_shop(pair)
    assert definitions(pair.target.url, "public.purchase") == before
    assert pair.target.count("purchase") == 30
    assert pair.target.count("customer", "name = 'new'") == 30
    pair.target.run("CREATE OR REPLACE " + OK.format("true").removeprefix("CREATE "))
    copy_shop(pair)
    pair.assert_same("purchase")
    # The next run drops what the failed one had built.
    assert tables(pair) == ["customer", "purchase"]


def test_the_plan_says_what_is_built_beside(pair: Pair) -> None:
    pair.source.run("CREATE TABLE t (id int PRIMARY KEY)")
    new = pair.plan(mode="recreate").load
    assert new.table.name == "t"
    pair.target.run("CREATE TABLE t (id int PRIMARY KEY)")
    load = pair.plan(mode="recreate").load
    assert load.loads_beside
    assert load.table.name.startswith("t__penstock_")
    created = [step.name for step in load.before if step.name.startswith("create")]
    assert created == [f"create {load.table}, to become public.t"]
    assert [step.name for step in load.after][-1] == f"swap {load.table} for public.t"
    # Without rows, nothing waits for the new table.
    assert not pair.plan(mode="recreate", schema_only=True).load.loads_beside


def test_a_sequence_that_another_table_uses_stays(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id serial PRIMARY KEY, name text)")
    pair.source.run("INSERT INTO t (name) SELECT 'x' FROM generate_series(1, 20)")
    pair.target.run(
        "CREATE TABLE other (id int DEFAULT nextval('t_id_seq'))",
        "SELECT setval('t_id_seq', 5)",
    )
    for expected in (21, 22):
        pair.copy(mode="recreate")
        pair.assert_same()
        pair.target.run("INSERT INTO other DEFAULT VALUES")
        assert pair.target.value("SELECT max(id) FROM other") == expected
    pair.target.run("INSERT INTO t (name) VALUES ('y')")
    assert pair.target.value("SELECT max(id) FROM t") == 23
    owned = "SELECT pg_get_serial_sequence('t', 'id')"
    assert pair.target.value(owned) == "public.t_id_seq"


def test_a_sequence_that_the_old_table_owned_stays(pair: Pair) -> None:
    pair.source.run(
        "CREATE SEQUENCE numbers", "CREATE TABLE t (id int DEFAULT nextval('numbers'))",
        "INSERT INTO t SELECT FROM generate_series(1, 20)",
    )  # fmt: skip
    pair.target.run(
        "CREATE SEQUENCE numbers", "CREATE TABLE t (id int DEFAULT nextval('numbers'))",
        "ALTER SEQUENCE numbers OWNED BY t.id",
    )  # fmt: skip
    pair.copy(mode="recreate")
    pair.assert_same()
    assert pair.target.value("SELECT nextval('numbers')") == 21
    assert definitions(pair.target.url) == definitions(pair.source.url)


def test_another_systems_table_gets_the_same_names_each_time(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as shop:
        shop.execute(
            "CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, n int CHECK (n > 0));"
            "CREATE INDEX by_name ON t (name); CREATE UNIQUE INDEX by_n ON t (n);"
            "INSERT INTO t SELECT range, 'n' || range, range + 1 FROM range(50)"
        )
    parts = """
        SELECT conname::text, contype::text FROM pg_constraint WHERE conrelid = 't'::regclass
        UNION SELECT indexrelid::regclass::text, 'index' FROM pg_index
        WHERE indrelid = 't'::regclass ORDER BY 1, 2
    """
    found = []
    for _ in range(2):
        pair.copy("main.t", source=f"duckdb:///{file}", target_table="public.t", mode="recreate")
        found.append(pair.target.rows(parts))
        assert pair.target.count() == 50
    assert {"t_by_n", "t_by_name"} <= {name for name, _ in found[0]}
    assert found[0] == found[1]


def test_an_index_that_cannot_be_built_is_left_out(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as shop:
        shop.execute(
            "CREATE TABLE t (id int, name text); CREATE INDEX by_name ON t (name);"
            "INSERT INTO t SELECT 1, string_agg(md5(range::text), '') FROM range(1000)"
        )
    pair.target.run("CREATE TABLE t (old int)")
    end = pair.copy("main.t", source=f"duckdb:///{file}", target_table="public.t", mode="recreate")
    (omitted,) = (item for item in end.not_copied if item.name == "by_name")
    assert omitted.table == "public.t"
    assert omitted.remedy.endswith('"public"."t" ("name");')
    assert pair.target.count() == 1
    assert tables(pair) == ["t"]


def test_a_batch_replaces_tables_that_reference_each_other(pair: Pair) -> None:
    """Each exchange locks the other's table."""
    pair.source.run(
        "CREATE TABLE a (id int PRIMARY KEY, other int);"
        "CREATE TABLE b (id int PRIMARY KEY, other int REFERENCES a);"
        "ALTER TABLE a ADD FOREIGN KEY (other) REFERENCES b;"
        "INSERT INTO a SELECT n FROM generate_series(1, 40) AS n;"
        "INSERT INTO b SELECT n, n FROM generate_series(1, 40) AS n"
    )
    for _ in range(4):
        copy_shop(pair)
        assert definitions(pair.target.url) == definitions(pair.source.url)


@pytest.mark.parametrize("mode", ["recreate", "swap"])
def test_a_finished_run_notices_that_its_table_was_replaced(pair: Pair, mode: str) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t SELECT generate_series(1, 20)")
    run_id = pair.copy(mode=mode).run_id
    (again,) = list(resume(run_id, source=pair.source.url, target=pair.target.url))[-1:]
    assert isinstance(again, Finished)
    pair.target.run(
        "DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(101, 120)",
    )  # fmt: skip
    with pytest.raises(TargetChanged, match=r"public\.t was recreated, or another table took"):
        list(resume(run_id, source=pair.source.url, target=pair.target.url))


def test_vacuum_full_between_the_exchange_and_the_end(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t SELECT generate_series(1, 20)")
    run_id = pair.copy(mode="recreate").run_id
    pair.target.run("VACUUM FULL t", "UPDATE penstock.run SET status = 'failed'")
    end = list(resume(run_id, source=pair.source.url, target=pair.target.url))[-1]
    assert isinstance(end, Finished)
    assert end.status == "done"
