"""Copies between DuckDB files: requirements beyond the contract suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

import penstock
from penstock import Bound, CopySpec, Key, KeyRange, Partition
from penstock.errors import PenstockError, PlanningError, UsageError
from penstock.spec.batch_spec import BatchSpec

ROWS = 130_000
SOURCE = f"""
    CREATE SCHEMA shop;
    CREATE TYPE shop.mood AS ENUM ('fair', 'fine', 'Foul');
    CREATE TABLE shop.orders AS SELECT
        i AS id, CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 7919) % 1003 END AS place,
        'order ' || i AS note, i / 3.0 AS weight,
        DATE '2020-01-01' + CAST(i % 700 AS INTEGER) AS day,
        CAST(i * 1.5 AS DECIMAL(12,2)) AS price,
        uuid() AS ticket, CAST(i AS HUGEINT) AS huge, [i, NULL, i + 1] AS parts,
        {{'a': i, 'b': 'x'}} AS pair, i % 2 = 0 AS paid,
        TIMESTAMP '2020-01-01' + to_seconds(i) AS at,
        CAST(TIMESTAMP '2020-01-01' + to_seconds(i) AS TIMESTAMPTZ) AS seen,
        to_minutes(i) AS took,
        CAST(['fair', 'fine', 'Foul'][i % 3 + 1] AS shop.mood) AS mood,
        encode('x' || i) AS raw
    FROM range({ROWS}) AS r (i);
    CREATE TABLE shop.items (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, amount INTEGER);
    INSERT INTO shop.items SELECT i, 'item ' || i, i % 7 FROM range(1000) AS r (i);
"""
ORDERS = "shop.orders"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("source") / "source.duckdb"
    execute(path, SOURCE)
    return url(path)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "copy.duckdb"
    yield url(path)
    assert sorted(os.listdir(tmp_path)) in ([], ["copy.duckdb"])


def url(path: Path) -> str:
    return f"duckdb:///{path}"


def execute(at: Path | str, statements: str) -> list[tuple[Any, ...]]:
    path = str(at).removeprefix("duckdb:///")
    with duckdb.connect(path) as connection:
        return connection.execute(statements).fetchall()


def copy(source: str, target: str, **options: Any) -> Any:
    """Copy to the end, and return the last event."""
    if not {"table", "query"} & set(options):
        options["table"] = ORDERS
    spec = CopySpec(source=source, target=target, **{"degree": 2, **options})
    finished = last(penstock.copy(spec))
    assert finished.status == "done"
    return finished


def gather(items: Iterator[Any], events: list[Any]) -> None:
    for event in items:
        events.append(event)


def last(items: Iterator[Any]) -> Any:
    *_, finished = items
    return finished


def have_equal_rows(source: str, target: str, table: str = ORDERS) -> bool:
    rows = [
        execute(end, f"SELECT sum(CAST(hash(t) AS HUGEINT)), count(*) FROM {table} AS t")
        for end in (source, target)
    ]
    return rows[0] == rows[1]


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({"strategy": "ctid", "partitions": 2}, 2),
        ({"strategy": "range", "key": "ticket", "partitions": 3}, 4),
        ({"strategy": "ntile", "key": "place", "partitions": 3}, 4),
        ({"strategy": "ntile", "key": "note", "partitions": 3}, 4),
        ({"strategy": "ntile", "key": "price", "partitions": 3}, 4),
        ({"strategy": "ntile", "key": "weight", "partitions": 3}, 4),
        ({"strategy": "values", "key": "mood"}, 5),
        ({"strategy": "values", "key": "id % 3"}, 5),
        ({"strategy": "time", "key": "seen", "interval": "1 day"}, 3),
    ],
)
def test_keys_of_every_type(
    source: str, target: str, options: dict[str, Any], partitions: int
) -> None:
    finished = copy(source, target, **options)
    assert finished.rows == ROWS
    assert finished.partitions == partitions
    assert have_equal_rows(source, target)
    types = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'orders'"
    assert execute(source, types) == execute(target, types)


def test_a_condition_selects_the_rows(source: str, target: str) -> None:
    finished = copy(source, target, where="place > 500 -- only those", strategy="range", key="id")
    assert (
        finished.rows == execute(source, f"SELECT count(*) FROM {ORDERS} WHERE place > 500")[0][0]
    )


def test_a_query_is_copied(source: str, target: str) -> None:
    query = f"SELECT mood, sum(id) AS total, count(*) AS n FROM {ORDERS} GROUP BY 1; -- done"
    copy(source, target, query=query, target_table="sums.by_mood")
    assert execute(target, "SELECT sum(total), sum(n) FROM sums.by_mood") == [
        (ROWS * (ROWS - 1) // 2, ROWS)
    ]


def test_a_query_reads_files_in_an_in_memory_database(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.csv").write_text("a,b\n1,x\n2,y\n")
    monkeypatch.chdir(folder)
    copy(
        "duckdb:///:memory:",
        target,
        query="SELECT * FROM read_csv('a.csv')",
        target_table="main.a",
    )
    assert execute(target, "FROM a ORDER BY a") == [(1, "x"), (2, "y")]
    (folder / "a.csv").unlink()
    folder.rmdir()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 AS a; SELECT 2 AS b", "2 statements"),
        ("DELETE FROM shop.orders", "found DELETE"),
        ("SELECT $1 AS a", "expected no parameters"),
        ("SELECT 1 AS a, 2 AS a", "'a' more than once"),
        ("SELECT nope FROM shop.orders", "nope"),
        ("SELECT 1 AS a) AS q, (SELECT 2 AS b", "syntax error"),
    ],
)
def test_text_that_is_not_a_query_is_rejected(
    source: str, target: str, query: str, message: str
) -> None:
    with pytest.raises((PlanningError, UsageError), match=message):
        copy(source, target, query=query, target_table="main.a")


def test_replace_of_a_table_with_a_primary_key(source: str, target: str) -> None:
    for _ in range(2):
        copy(source, target, table="shop.items", mode="replace", strategy="range", key="id")
    assert have_equal_rows(source, target, "shop.items")


def test_recreate_replaces_the_table(source: str, target: str) -> None:
    execute(target, "CREATE SCHEMA shop; CREATE TABLE shop.items (other VARCHAR)")
    copy(source, target, table="shop.items", mode="recreate")
    assert have_equal_rows(source, target, "shop.items")
    keys = "SELECT constraint_text FROM duckdb_constraints() WHERE table_name = 'items' ORDER BY 1"
    assert execute(source, keys) == execute(target, keys)


def test_swap_replaces_the_table_at_the_end(source: str, target: str) -> None:
    execute(
        target,
        'CREATE SCHEMA shop; CREATE TABLE shop.items (id INTEGER PRIMARY KEY, "na(me" VARCHAR,'
        " name VARCHAR NOT NULL DEFAULT 'x', amount INTEGER CHECK (amount < 100));"
        "CREATE INDEX by_name ON shop.items (name);"
        "INSERT INTO shop.items VALUES (1, 'a', 'b', 2)",
    )
    columns = ("id", "name", "amount")
    with pytest.raises(PenstockError):
        copy(
            source,
            target,
            query="SELECT id, name, amount + 95 AS amount FROM shop.items",
            target_table="shop.items",
            columns=columns,
            mode="swap",
        )
    assert execute(target, "SELECT count(*) FROM shop.items") == [(1,)]
    copy(source, target, table="shop.items", columns=columns, mode="swap", verify="checksums")
    assert execute(target, 'SELECT count(*), sum(amount), max("na(me") FROM shop.items') == [
        (1000, sum(i % 7 for i in range(1000)), None)
    ]
    assert execute(target, "SELECT index_name FROM duckdb_indexes()") == [("by_name",)]
    tables = execute(target, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shop'")
    assert tables == [("items",)] or len(tables) == 2  # the second is the failed run's
    copy(source, target, table="shop.items", target_table="main.fresh", mode="swap")
    assert execute(target, "SELECT count(*) FROM main.fresh") == [(1000,)]


def test_upsert_counts_inserts_and_updates(source: str, target: str) -> None:
    copy(source, target, table="shop.items", mode="recreate")
    execute(target, "DELETE FROM shop.items WHERE id < 10")
    execute(target, "UPDATE shop.items SET amount = NULL WHERE id BETWEEN 20 AND 24")
    execute(target, "INSERT INTO shop.items VALUES (5000, 'mine', 1)")
    finished = copy(
        source, target, table="shop.items", mode="upsert", strategy="hash", key="id", partitions=2
    )
    assert (finished.inserted, finished.updated) == (10, 5)
    execute(target, "DELETE FROM shop.items WHERE id = 5000")
    assert have_equal_rows(source, target, "shop.items")


def test_upsert_rejects_a_duplicate_key(source: str, target: str) -> None:
    execute(target, "CREATE TABLE items (id INTEGER PRIMARY KEY, name VARCHAR)")
    query = "SELECT id // 2 AS id, name FROM shop.items"
    spec = CopySpec(
        source=source, target=target, query=query, target_table="main.items", mode="upsert"
    )
    with pytest.raises(PenstockError):
        list(penstock.copy(spec))
    assert execute(target, "SELECT count(*) FROM items") == [(0,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "upsert"}, "expected a primary key"),
        ({"table": "shop.order"}, "shop.orders"),
        ({"types": ("place=nope",)}, "expected a DuckDB type"),
        ({"types": ("place=int), (1",)}, "expected one type|expected a type"),
        ({"types": ("none=int",)}, "expected names of copied columns"),
        ({"where": "true) OR (true"}, "--where"),
        ({"strategy": "range", "key": "parts"}, "to partition into ranges"),
    ],
)
def test_unsupported_requests_are_rejected(
    source: str, target: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanningError, match=message):
        copy(source, target, **options)
    assert not os.path.exists(target.removeprefix("duckdb:///"))


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1" + bytes(100)])
def test_another_kind_of_file_is_rejected(source: str, tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "other.csv"
    other.write_bytes(content)
    url = f"duckdb:///{other}"
    for ends in ((source, url), (url, source)):
        with pytest.raises(PlanningError, match=r"other\.csv: expected a DuckDB database"):
            copy(*ends)
    assert other.read_bytes() == content


def test_types_of_a_created_table(source: str, target: str) -> None:
    copy(source, target, types=("place=SMALLINT", "price=DECIMAL(20,4)", "took=VARCHAR"))
    found = dict(
        execute(
            target,
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'orders'",
        )
    )
    assert (found["place"], found["price"], found["took"]) == (
        "SMALLINT",
        "DECIMAL(20,4)",
        "VARCHAR",
    )


@pytest.mark.parametrize(
    ("value", "type_", "problem"),
    [
        ("CASE WHEN i = 5000 THEN 'x' ELSE '7' END", "INTEGER", "'x'"),
        ("CASE WHEN i = 5000 THEN 'x' ELSE uuid()::VARCHAR END", "UUID", "'x'"),
        ("CASE WHEN i = 5000 THEN 1e9::BIGINT ELSE i END", "DECIMAL(6,2)", "1000000000"),
        ("CASE WHEN i = 5000 THEN [1.234] ELSE [1.5] END", "DECIMAL(6,1)[]", "1.234"),
        ("[CASE WHEN i = 5000 THEN DATE 'infinity' END]", "DATE[]", "infinity"),
        ("make_timestamp_ns(1000 + (i = 5000)::INT)", "TIMESTAMP", "00:00.000001001"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    target: str, value: str, type_: str, problem: str
) -> None:
    query = f"SELECT {value} AS v FROM range(20000) AS r (i)"
    spec = CopySpec(
        source="duckdb:///:memory:",
        target=target,
        query=query,
        target_table="main.t",
        types=(f"v={type_}",),
        degree=1,
    )
    events: list[Any] = []
    with pytest.raises(PenstockError):
        gather(penstock.copy(spec), events)
    failed = [event for event in events if type(event).__name__ == "Failed"]
    message = failed[0].error["message"]
    assert "column 'v', row 5,001" in message
    assert problem in message
    assert failed[0].error["transient"] is False


def test_source_and_target_in_one_file_are_rejected(source: str) -> None:
    with pytest.raises(PlanningError, match="same"):
        copy(source, source, target_table="shop.other")


def test_appended_rows_are_verified(source: str, target: str) -> None:
    def append(where: str) -> str:
        options = {"table": "shop.items", "where": where, "strategy": "range", "key": "id"}
        finished = copy(source, target, **options, partitions=2, verify="checksums")
        return str(finished.run_id)

    def verified(run_id: str) -> penstock.Verification:
        return penstock.verify(run_id, source=source, target=target, checksum=True, show_rows=True)

    first = append("id < 300")  # all rows of the table
    second = append("id >= 300")  # only the rows that its keys and condition select
    for run_id in (first, second):
        assert verified(run_id).ok
    execute(target, "UPDATE shop.items SET amount = 99 WHERE id = 307")
    assert verified(first).ok
    found = verified(second)
    assert not found.ok
    assert {(row.key, row.what) for check in found.checks for row in check.rows} == {
        ("307", "different")
    }
    # Another program's rows match the run's condition.
    execute(target, "INSERT INTO shop.items VALUES (-1, 'mine', 5)")
    found = verified(first)
    assert not found.ok
    assert [check.note for check in found.checks if not check.ok] == [
        "not compared: the table may have other rows, and the target cannot tell which rows this "
        "run loaded"
    ]


def test_given_partitions_of_a_series_are_copied_once(source: str, target: str) -> None:
    def run(run_id: str) -> CopySpec:
        return CopySpec(
            source=source, target=target, table="shop.items", run_id=run_id, mode="replace",
            key="id", strategy="range", degree=1,
        )  # fmt: skip

    ends: dict[str, Any] = {"source": source, "target": target}
    for name, lower, upper in (("one", "0", "500"), ("two", "500", "1000")):
        extent = KeyRange(Key("id"), Bound("", lower), Bound("", upper))
        penstock.create(run(name), partitions=[Partition(name, extent)], series="s")
        assert last(penstock.resume(name, **ends)).rows == 500
    assert {
        name: found[0] for name, found in penstock.committed_in_series("s", target=target).items()
    } == {
        "one": "one",
        "two": "two",
    }
    execute(target, "DELETE FROM shop.items WHERE id < 100")
    for _ in range(2):
        last(penstock.resume("one", **ends, only=["one"], recopy="again"))
    assert have_equal_rows(source, target, "shop.items")


def test_rows_partitioned_by_place_cannot_be_copied_again(source: str, target: str) -> None:
    ends: dict[str, Any] = {"source": source, "target": target}
    by_place = copy(source, target, mode="truncate", strategy="ctid", partitions=2)
    with pytest.raises(PenstockError, match="cannot be identified"):
        list(penstock.resume(by_place.run_id, **ends, only=["p0001"], recopy="spoilt"))
    assert have_equal_rows(source, target)


def test_a_batch(source: str, target: str) -> None:
    batch = BatchSpec.from_mapping(
        {"source": source, "target": target, "tables": ["shop.*"], "mode": "truncate", "degree": 2},
        "test",
    )
    assert last(penstock.copy_all(batch)).status == "done"
    assert have_equal_rows(source, target)
    assert have_equal_rows(source, target, "shop.items")


def test_urls() -> None:
    with pytest.raises(UsageError, match="found a host"):
        copy("duckdb://host/x.duckdb", "duckdb:///y.duckdb")
    with pytest.raises(UsageError, match="found parameters"):
        copy("duckdb:///x.duckdb?password=secret", "duckdb:///y.duckdb")
    with pytest.raises(PlanningError, match="found no file"):
        copy("duckdb:////nowhere/x.duckdb", "duckdb:////nowhere/y.duckdb")


PARTS = (
    "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
    """CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER DEFAULT 7 REFERENCES parent (id),
        q INTEGER UNIQUE CHECK (q > 0))""",
    "CREATE INDEX by_p ON child (p)",
    "CREATE VIEW seen AS SELECT id FROM child",
    "CREATE SEQUENCE tickets START 3",
)


@pytest.fixture
def parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("parts") / "parts.duckdb"
    for statement in PARTS:
        execute(path, statement)
    return url(path)


def test_omitted_objects_are_listed(parts: str, target: str) -> None:
    finished = copy(parts, target, table="main.child", mode="recreate")
    omitted = {(item.kind, item.name): item for item in finished.not_copied}
    kinds = {"foreign keys", "check constraints", "indexes", "defaults"}
    assert {kind for kind, _ in omitted} == kinds
    execute(target, omitted["indexes", "by_p"].remedy)
    assert execute(target, "SELECT index_name FROM duckdb_indexes()") == [("by_p",)]
    options = {"source": parts, "target": target, "tables": ["main.*"], "mode": "recreate"}
    end = last(penstock.copy_all(BatchSpec.from_mapping(options, "test")))
    assert [(item.kind, item.name) for item in end.not_copied] == [
        ("sequences", "main.tickets"),
        ("views", "main.seen"),
    ]


def test_omitted_objects_are_listed_for_another_system(parts: str, target_url: str) -> None:
    finished = copy(
        parts, target_url, table="main.child", target_table="public.child_of_duck", mode="recreate"
    )
    # The table that it refers to is not copied with it.
    (item,) = finished.not_copied
    assert (item.kind, item.table) == ("foreign keys", "public.child_of_duck")
    assert item.remedy.startswith('ALTER TABLE "public"."child_of_duck" ADD CONSTRAINT ')


def test_omitted_objects_are_listed_from_another_system(source_url: str, target: str) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE boss (id int PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE child (id int PRIMARY KEY DEFAULT 7, p int REFERENCES boss, q int UNIQUE)"
        )
        connection.execute("CREATE INDEX by_p ON child (p)")
        connection.execute("GRANT SELECT ON child TO PUBLIC")
    finished = copy(source_url, target, table="public.child", mode="recreate")
    assert {(item.kind, item.name, item.remedy) for item in finished.not_copied} == {
        (
            "foreign keys",
            "child_p_fkey",
            '-- in CREATE TABLE "public"."child": FOREIGN KEY ("p") REFERENCES "public"."boss"'
            ' ("id");',
        ),
        ("grants", "SELECT to PUBLIC", ""),
    }


def copy_texts(source: Path, target: str, rows: int, short: int = 0) -> None:
    """Copy a new table of texts of 100 KB, after some short ones."""
    with duckdb.connect(source) as session:
        session.execute(
            "CREATE TABLE texts AS SELECT i AS id, repeat(md5(i::VARCHAR),"
            f" CASE WHEN i < {short} THEN 1 ELSE 3125 END) AS value FROM range({short + rows}) t(i)"
        )
    copy(url(source), target, table="main.texts", strategy="whole")


def test_long_texts_are_committed(tmp_path: Path) -> None:
    """At the commit DuckDB holds those that fill no row group."""
    target = tmp_path / "target.duckdb"
    copy_texts(tmp_path / "source.duckdb", url(target), 3000)
    with duckdb.connect(target) as session:
        found = session.sql("SELECT count(*), sum(length(value)) FROM texts").fetchall()
    assert found == [(3000, 3000 * 100_000)]


@pytest.mark.parametrize("first", [0, 100, 4000])
def test_long_texts_take_more_memory(tmp_path: Path, first: int) -> None:
    """DuckDB reads 2,048 rows at once, here of 100 KB, which exceed a worker's usual limit."""
    target = tmp_path / "target"
    copy_texts(tmp_path / "source.duckdb", f"{target}/", 1500, first)
    with duckdb.connect() as session:
        found = session.sql(
            "SELECT count(*), sum(length(value)), min(id), max(id)"
            f" FROM read_parquet('{target}/*.parquet')"
        )
        expected = (first + 1500, first * 32 + 1500 * 100_000, 0, first + 1499)
        assert found.fetchall() == [expected]
