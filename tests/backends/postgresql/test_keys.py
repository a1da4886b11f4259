"""Keys that differ from what the catalog says, or that the planner cannot use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from psycopg import sql

from penstock import PlanningError, UsageError, copy, resume
from penstock.events import Finished, Planned
from penstock_testkit.statistics import settle_statistics

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

CUTS: list[dict[str, Any]] = [
    {"strategy": "range", "key": "k", "partitions": 3},
    {"strategy": "time", "key": "at", "interval": "1 day"},
    {"strategy": "values", "key": "k", "values_query": "SELECT generate_series(1, 5)"},
    {"strategy": "values", "key": "k", "snapshot": "none"},
]
each_cut = pytest.mark.parametrize("cut", CUTS, ids=str)
ROWS = "SELECT n, timestamp '2026-01-01' + n * interval '1 hour' FROM generate_series(1, 100) AS n"


class TestNullsInNotNullColumns:
    @each_cut
    def test_a_constraint_that_was_never_validated(self, pair: Pair, cut: dict[str, Any]) -> None:
        pair.needs(18, "NOT NULL constraints that are not validated")
        pair.both("CREATE TABLE t (k int, at timestamp)")
        pair.source.run(
            f"INSERT INTO t {ROWS}",
            "INSERT INTO t VALUES (NULL, NULL), (7, NULL), (NULL, '2026-01-02')",
            "ALTER TABLE t ADD CONSTRAINT k_is_there NOT NULL k NOT VALID",
            "ALTER TABLE t ADD CONSTRAINT at_is_there NOT NULL at NOT VALID",
            "ANALYZE t",
        )
        pair.copy(**cut)
        pair.assert_same()

    @each_cut
    def test_a_foreign_table(self, pair: Pair, cut: dict[str, Any]) -> None:
        url = urlsplit(pair.source.url)
        login = [url.hostname, str(url.port), url.path[1:], url.username, url.password or ""]
        host, port, name, user, password = (
            sql.Literal(part).as_string(pair.source.connection) for part in login
        )
        pair.source.run(
            "CREATE TABLE far (k int, at timestamp)",
            f"INSERT INTO far {ROWS}",
            "INSERT INTO far VALUES (NULL, NULL), (7, NULL), (NULL, '2026-01-02')",
            "CREATE EXTENSION postgres_fdw",
            "CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw"
            f" OPTIONS (host {host}, port {port}, dbname {name})",
            f"CREATE USER MAPPING FOR CURRENT_USER SERVER here OPTIONS (user {user},"
            f" password {password})",
            "CREATE FOREIGN TABLE t (k int, at timestamp) SERVER here OPTIONS (table_name 'far')",
            "ANALYZE t",
        )
        pair.target.run("CREATE TABLE t (k int, at timestamp)")
        pair.copy(**cut)
        pair.assert_same()


class TestNewValuesAfterPlanning:
    def test_a_renewed_snapshot_misses_none_of_its_rows(self, pair: Pair) -> None:
        """Nothing was committed with the lost snapshot, so the run reads everything in a newer
        one."""
        pair.both("CREATE TABLE t (k text, n int)")
        pair.source.run("INSERT INTO t VALUES ('a', 1), ('b', 2)")
        events = copy(pair.spec(strategy="values", key="k", run_id="r1"))
        for event in events:
            if isinstance(event, Planned):
                break
        events.close()
        pair.source.run("INSERT INTO t VALUES ('c', 3), (NULL, 4)")
        *_, report = resume("r1", source=pair.source.url, target=pair.target.url)
        assert isinstance(report, Finished)
        assert report.status == "done"
        pair.assert_same()


class TestExpressions:
    @pytest.mark.parametrize("key", ["n % 3", "lower(k)", "k -- x", "k || '%s{}'", "NULL::int"])
    @pytest.mark.parametrize("strategy", ["hash", "values"])
    def test_put_every_row_into_one_partition(self, pair: Pair, key: str, strategy: str) -> None:
        pair.both("CREATE TABLE t (k text, n int)")
        pair.source.run(
            "INSERT INTO t SELECT (ARRAY['A', 'a', 'b', NULL])[n % 4 + 1], nullif(n, 9)"
            " FROM generate_series(1, 20) AS n"
        )
        for mode in ("truncate", "replace"):
            pair.copy(strategy=strategy, key=key, mode=mode)
            pair.assert_same()

    @pytest.mark.parametrize(
        ("options", "parts"),
        [
            ({"strategy": "range", "key": "n + 1"}, ["--key n + 1", "no such column"]),
            ({"strategy": "range", "key": "gone"}, ["--key gone", "no such column", "j, k, n"]),
            ({"strategy": "hash", "key": "gone"}, ["--key gone", '"gone"']),
            ({"strategy": "values", "key": "n +"}, ["--key n +", "syntax error"]),
            (
                {"strategy": "range", "key": "j"},
                ["--key j", "int2, int4", "to partition into ranges; found jsonb"],
            ),
            (
                {"strategy": "time", "key": "n", "interval": "1 day"},
                ["--key n", "date, timestamp, timestamptz", "found int4"],
            ),
            (
                {"strategy": "time", "key": "at", "interval": "1 potato"},
                ["--interval", "1 potato"],
            ),
            ({"strategy": "time", "key": "at", "interval": "0"}, ["--interval", "found '0'"]),
            ({"strategy": "time", "key": "at", "interval": "-1 day"}, ["--interval", "-1 day"]),
            (
                {"strategy": "values", "key": "n", "values_query": "SELECT 1, 2"},
                ["--values-query", "expected one column, found 2"],
            ),
            (
                {"strategy": "values", "key": "n", "values_query": "SELECT 'x'"},
                ["--values-query", '"x"'],
            ),
            (
                {"strategy": "values", "key": "n", "values_query": "DELETE FROM t"},
                ["--values-query", "syntax error"],
            ),
            (
                {
                    "strategy": "values",
                    "key": "n",
                    "values_query": "SELECT generate_series(1, 100000)",
                },
                ["--values-query", "more than 10,000"],
            ),
        ],
    )
    def test_unusable_expressions_are_refused(
        self, pair: Pair, options: dict[str, Any], parts: list[str]
    ) -> None:
        pair.both("CREATE TABLE t (k text, n int, j jsonb, at timestamp)")
        pair.source.run("INSERT INTO t SELECT 'x', n, '{}', now() FROM generate_series(1, 20) n")
        with pytest.raises((PlanningError, UsageError)) as caught:
            pair.events(**options)
        for part in parts:
            assert part in caught.value.message
        assert not pair.has_control_schema()


class TestPlanningScansNothing:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"strategy": "ctid", "partitions": 8},
            {"strategy": "range", "key": "id", "partitions": 8},
            {"strategy": "range", "key": "name", "partitions": 8},
            {"strategy": "range", "key": "id", "partitions": 8, "where": "id > 500"},
            {"strategy": "time", "key": "at", "interval": "1 day"},
            {"strategy": "time", "key": "at", "interval": "1 day", "where": "at > '2026-02-01'"},
            {"strategy": "hash", "key": "id"},
            {"strategy": "whole"},
        ],
        ids=str,
    )
    def test_an_analyzed_table_is_not_scanned(self, pair: Pair, options: dict[str, Any]) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz)")
        pair.source.run(
            "INSERT INTO t SELECT n, md5(n::text), '2026-01-01Z'::timestamptz + n * interval '1 h'"
            " FROM generate_series(1, 5000) AS n",
            "CREATE INDEX ON t (at)",
            "VACUUM ANALYZE t",
        )
        before = scans(pair)
        assert pair.plan(**options).partitions
        assert scans(pair) == before

    def test_listing_values_scans_the_table(self, pair: Pair) -> None:
        # Proves that scans are counted at all, without which the test above would prove nothing.
        pair.both("CREATE TABLE t (id int)")
        pair.source.run("INSERT INTO t SELECT generate_series(1, 50)")
        scanned, read = scans(pair)
        pair.plan(strategy="values", key="id")
        assert scans(pair) == (scanned + 1, read + 50)


def scans(pair: Pair) -> tuple[Any, ...]:
    """Return the number of sequential scans of the table, and of rows read by them."""
    # A session's counts are published by the time it has ended.
    active = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'penstock%'"
    while pair.source.value(active):
        time.sleep(0.01)
    settle_statistics(pair.source.connection)
    (found,) = pair.source.rows(
        "SELECT seq_scan, seq_tup_read FROM pg_stat_all_tables WHERE relid = 't'::regclass"
    )
    return found
