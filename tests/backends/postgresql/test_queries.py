"""A query instead of a table: read by every strategy that can, refused if it does more than
read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.backends.postgresql.test_relations import reader

from penstock import CopySpec, PlanningError, SnapshotLost, UsageError, copy, resume
from penstock.events import Committed, Finished
from penstock_testkit.statistics import settle_statistics

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

QUERY = """SELECT o.id, upper(c.name) AS "Name", o.at::date AS day, '%s; $1 {}' AS odd
FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer
WHERE o.id % 2 = 0 -- every other"""
COLUMNS = 'id, "Name", day, odd'


@pytest.fixture
def shop(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE customers (id int PRIMARY KEY, name text)",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, at timestamptz, note text)",
        "CREATE SEQUENCE numbers",
        "INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, 20) AS n",
        "INSERT INTO orders SELECT n, nullif(n % 25, 0), timestamptz '2026-01-01'"
        " + n * interval '1 hour' FROM generate_series(1, 2000) AS n",
        "CREATE FUNCTION write() RETURNS int LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO customers VALUES (99); RETURN 1; END'",
    )
    pair.target.run('CREATE TABLE t (id int, "Name" text, day date, odd text)')
    return pair


def ask(pair: Pair, query: str = QUERY, **options: Any) -> CopySpec:
    return pair.spec(None, query=query, target_table="public.t", **options)


def run(spec: CopySpec) -> Finished:
    *_, report = copy(spec)
    assert isinstance(report, Finished)
    assert report.status == "done"
    return report


def assert_copied(pair: Pair, where: str = "true") -> None:
    mine = pair.source.rows(
        f"SELECT row({COLUMNS})::text FROM (\n{QUERY}\n) AS query WHERE {where}"
    )
    assert sorted(mine) == pair.target.contents("t", "true", COLUMNS)
    assert mine


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({}, 1),
        ({"key": "id", "partitions": 4}, 5),
        ({"strategy": "ntile", "key": "Name", "partitions": 3}, 4),
        ({"strategy": "hash", "key": "Name", "partitions": 3}, 3),
        ({"strategy": "values", "key": "Name"}, 22),
        ({"strategy": "time", "key": "day", "interval": "1 month"}, 4),
        ({"where": "id > 100 AND query.day IS NOT NULL", "key": "id", "partitions": 2}, 3),
        ({"mode": "replace", "key": "Name", "partitions": 2}, 3),
    ],
)
def test_a_query_is_copied(shop: Pair, options: dict[str, Any], partitions: int) -> None:
    report = run(ask(shop, **options))
    assert report.partitions == partitions
    assert_copied(shop, str(options.get("where", "true")))


def test_auto_says_why(shop: Pair) -> None:
    from penstock import plan  # noqa: PLC0415

    planned = plan(ask(shop, partitions=5))
    assert planned.strategy == "whole"
    assert "a query, which has no blocks of its own" in planned.reasons[0]
    planned = plan(ask(shop, key="id", partitions=5))
    assert planned.strategy == "ntile"
    assert "without statistics" in planned.reasons[0]


@pytest.mark.parametrize(
    "end", ["", ";", " ; ", ";-- done; really", "; /* a /* nested; */ one */ ;", "\n-- a comment"]
)
def test_a_trailing_semicolon_or_comment_is_allowed(shop: Pair, end: str) -> None:
    run(ask(shop, QUERY.replace(" -- every other", "") + end, mode="truncate"))
    assert_copied(shop)


REFUSED = {
    "a parameter": ("SELECT id, $1::int AS a FROM orders", "expected no parameters"),
    "a parameter of no type": ("SELECT $1 AS id", "expected no parameters"),
    "several statements": ("SELECT 1 AS id; SELECT 2 AS id", "one statement, found several"),
    "one that drops": ("SELECT 1 AS id; DROP TABLE orders", "one statement, found several"),
    "brackets that are not its own": ("SELECT 1 AS id) AS a, (SELECT 2 AS b", "syntax error"),
    "no statement": ("-- nothing", "found nothing"),
    "an insert": ("INSERT INTO orders VALUES (0) RETURNING id", "found INSERT"),
    "a delete": ("DELETE FROM orders", "found DELETE"),
    "a utility": ("SHOW timezone", "found SHOW"),
    "a CTE that writes": (
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone",
        "only reads",
    ),
    "a lock": ("SELECT id FROM orders FOR UPDATE", "only reads.*FOR UPDATE"),
    "a table made": ("SELECT id INTO made FROM orders", "INTO"),
    "a sequence": ("SELECT nextval('numbers') AS id", "only reads.*nextval"),
    "a function that writes": ("SELECT write() AS id", "only reads.*INSERT"),
    "a name twice": ("SELECT id, customer AS id FROM orders", "each column name once.*'id'"),
    "no name": ("SELECT id + 1 FROM orders", "a name for each column"),
    "an unknown table": ("SELECT id FROM nowhere", "nowhere.*does not exist"),
    "an error in every row": ("SELECT id / 0 AS id FROM orders", "division by zero"),
}


@pytest.mark.parametrize(("query", "words"), REFUSED.values(), ids=REFUSED)
def test_an_unsuitable_query_is_refused_before_any_change(
    shop: Pair, query: str, words: str
) -> None:
    before = shop.source.rows("TABLE customers"), shop.source.count("orders")
    with pytest.raises((PlanningError, UsageError), match=f"(?s)--query.*{words}"):
        run(ask(shop, query))
    assert (shop.source.rows("TABLE customers"), shop.source.count("orders")) == before
    assert shop.source.value("SELECT is_called FROM numbers") is False
    assert not shop.has_control_schema()


def test_a_write_in_a_later_row_is_refused_by_the_server(shop: Pair) -> None:
    # Planning tries one row; the streams are read-only.
    query = "SELECT CASE WHEN id > 1000 THEN write() ELSE id END AS id FROM orders"
    for snapshot in ("shared", "none"):
        with pytest.raises(Exception, match="1 partition failed"):
            run(ask(shop, query, snapshot=snapshot, columns=("id",), map="name"))
    assert shop.source.count("customers") == 20


def test_a_slow_query_is_no_error(shop: Pair) -> None:
    run(ask(shop, "SELECT 1 AS id FROM (SELECT pg_sleep(3)) AS s", columns=("id",)))
    assert shop.target.rows("SELECT id FROM t") == [(1,)]


def test_range_recommends_ntile(shop: Pair) -> None:
    with pytest.raises(PlanningError, match=r"--strategy range: query has no .* --strategy ntile"):
        run(ask(shop, strategy="range", key="id"))
    with pytest.raises(UsageError, match="--strategy ctid"):
        ask(shop, strategy="ctid")
    with pytest.raises(PlanningError, match="--key nmae: no such column"):
        run(ask(shop, strategy="ntile", key="nmae"))


@pytest.mark.parametrize("has_writes", [False, True])
def test_resume_requires_an_unchanged_source(shop: Pair, has_writes: bool) -> None:
    settle_statistics(shop.source.connection)
    events = copy(ask(shop, key="id", partitions=4, run_id="r"))
    for event in events:
        if isinstance(event, Committed):
            break
    events.close()
    if has_writes:
        shop.source.run("CREATE TABLE somewhere_else ()")
        with pytest.raises(SnapshotLost, match="may have been written to"):
            list(resume("r", source=shop.source.url, target=shop.target.url))
    else:
        *_, report = resume("r", source=shop.source.url, target=shop.target.url)
        assert isinstance(report, Finished)
        assert report.status == "done"
        assert_copied(shop)


@pytest.mark.parametrize(
    ("read", "rewrite"),
    [
        ({"query": "SELECT id, note FROM orders"}, "TRUNCATE orders"),
        ({"table": "public.kept"}, "REFRESH MATERIALIZED VIEW kept"),
        ({"table": "public.seen"}, "TRUNCATE orders"),
    ],
    ids=["query", "materialized view", "view"],
)
def test_the_tables_read_cannot_be_rewritten_during_the_run(
    shop: Pair, read: dict[str, Any], rewrite: str
) -> None:
    # A snapshot protects from neither: later partitions would find other rows.
    shop.source.run(
        "CREATE VIEW seen AS SELECT id, note FROM orders",
        "CREATE MATERIALIZED VIEW kept AS SELECT id, note FROM orders",
        "UPDATE orders SET note = 'later'",
        "SET lock_timeout = '300ms'",
    )
    shop.target.run("CREATE TABLE u (id int, note text)")
    options = {"table": None, "target_table": "public.u", "key": "id", "partitions": 4, **read}
    refused = 0
    for event in copy(shop.spec(**options)):
        if isinstance(event, Committed):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                shop.source.run(rewrite)
            refused += 1
    assert refused >= 4
    assert shop.target.count("u") == 2000


def test_column_privileges_suffice(shop: Pair) -> None:
    with reader(shop, "GRANT SELECT (id, note) ON orders TO {}") as url:
        shop.target.run("CREATE TABLE u (id int, note text)")
        shop.copy("public.orders", source=url, target_table="public.u", columns=("id", "note"))
    assert shop.target.count("u") == 2000
