"""Every row is in exactly one partition and is copied exactly once: nasty keys, all strategies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql

from penstock import PartitionPlan, PlanningError
from penstock.backends.postgresql.compare.conditions import condition

from ...covering import each_value

if TYPE_CHECKING:
    from tests.backends.conftest import Pair, Side


@dataclass(frozen=True)
class Kind:
    """A type of key: its nasty values as text, and an expression over `n` that yields many."""

    type: str
    nasty: tuple[str, ...]
    many: str


TIMES = ("-infinity", "infinity", "2026-03-29 02:30:00", "2026-03-29", "0001-01-01 BC")
TEXTS = (
    "", " ", "a", "A", "b", "a ", "á", "Z", "ß", "zz", "it's", '"', "back\\slash", "%s", "{}",
    "NaN", "NULL", "\n", "\t", "--", "/*", "🐘", "\u00a0", "é", "e\u0301", "_", "-1", "10", "9",
)  # fmt: skip
FLOATS = ("NaN", "Infinity", "-Infinity", "0", "-0", "1", "-1")

KINDS = {
    kind.type: kind
    for kind in (
        Kind("int2", ("-32768", "-1", "0", "1", "32767"), "n * 7 % 30011"),
        Kind("int4", ("-2147483648", "-1", "0", "1", "2147483647"), "n * n"),
        Kind("int8", ("-9223372036854775808", "0", "9223372036854775807"), "n::int8 << 40"),
        Kind(
            "numeric",
            (
                "NaN",
                "Infinity",
                "-Infinity",
                "0",
                "0.00",
                "-0.0",
                "1e-30",
                "1.0",
                "1.00",
                "12345678901234567890123456789012345678.0123456789",
                "-1e100",
                "1e100",
            ),
            "n * 1.37 - 100",
        ),
        Kind("float4", (*FLOATS, "1e-45", "-3.4028235e38", "3.4028235e38"), "sqrt(n) - 9"),
        Kind(
            "float8",
            (*FLOATS, "5e-324", "-1.7976931348623157e308", "1.7976931348623157e308", "0.1"),
            "sqrt(n) - 9",
        ),
        Kind(
            "date",
            ("-infinity", "infinity", "4713-01-01 BC", "5874897-12-31", "2026-03-29"),
            "date '2026-01-01' + n",
        ),
        Kind(
            "timestamp",
            (*TIMES, "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999"),
            "timestamp '2026-01-01' + n * interval '1 hour 1 microsecond'",
        ),
        Kind(
            "timestamptz",
            (*TIMES, "4713-01-01 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"),
            "timestamptz '2026-01-01 00:00:00+00' + n * interval '1 hour 1 microsecond'",
        ),
        Kind("uuid", ("0" * 32, "f" * 32, "8" + "0" * 31, "7" + "f" * 31), "md5(n::text)::uuid"),
        Kind("text", (*TEXTS, "x" * 3000), "md5(n::text)"),
        Kind("varchar(40)", TEXTS, "md5(n::text)"),
        Kind("char(40)", TEXTS, "md5(n::text)"),
    )
}
TIMED = ("date", "timestamp", "timestamptz")
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def create(pair: Pair, kind: Kind, table: str, *filling: str, not_null: bool = False) -> None:
    """Create a table on both sides, filled in the source from queries that return keys."""
    constraint = "NOT NULL" if not_null else ""
    pair.both(
        f"CREATE TABLE {table} (id int GENERATED ALWAYS AS IDENTITY, k {kind.type} {constraint})"
        # Statistics must exist when a test says so, and not before.
        " WITH (autovacuum_enabled = off)"
    )
    for query in filling:
        pair.source.run(f"INSERT INTO {table} (k) {query}")


def nasty(side: Side, kind: Kind) -> str:
    values = sql.Literal(list(kind.nasty)).as_string(side.connection)
    return f"SELECT v::{kind.type} FROM unnest({values}::text[]) AS v, generate_series(1, 3)"


def many(kind: Kind, count: int = 300) -> str:
    return f"SELECT ({kind.many})::{kind.type} FROM generate_series(1, {count}) AS n"


def nulls(kind: Kind) -> str:
    return f"SELECT NULL::{kind.type} FROM generate_series(1, 5)"


def heavy(kind: Kind) -> str:
    """Return one value that is as frequent as all others together."""
    return f"SELECT (SELECT {kind.many} FROM (VALUES (7)) AS v (n))::{kind.type} " + (
        "FROM generate_series(1, 300)"
    )


def assert_selects_each_once(
    side: Side, table: str, plan: PartitionPlan, where: str | None
) -> None:
    """Ask the server how many of the partitions' predicates are true for each row."""
    gates = [
        f"coalesce(({condition(where, part.extent).as_string(side.connection)}), false)::int"
        for part in plan.partitions
    ]
    expected = f"coalesce((\n{where or 'true'}\n), false)::int"
    wrong = side.rows(f"SELECT k::text FROM {table} WHERE {' + '.join(gates)} <> {expected}")
    assert wrong == [], f"{plan.strategy} of {table}: {[str(part) for part in plan.partitions]}"


def cuts(kind: Kind) -> Iterator[dict[str, Any]]:
    """Return options that partition by this key in different ways."""
    yield {"strategy": "range", "partitions": 2}
    yield {"strategy": "range", "partitions": 20}
    yield {"strategy": "ntile", "partitions": 7}
    yield {"strategy": "hash", "partitions": 3}
    yield {"strategy": "values"}
    incomplete = f"SELECT ({kind.many})::{kind.type} FROM generate_series(1, 9) AS n"
    yield {"strategy": "values", "values_query": incomplete + " UNION ALL SELECT NULL"}


@pytest.mark.parametrize(("name", "statistics"), each_value(KINDS, ["unknown", "analyzed"]))
def test_each_row_is_in_one_partition(pair: Pair, name: str, statistics: str) -> None:
    kind, analyzed = KINDS[name], statistics == "analyzed"
    side = pair.source
    side.run("SET timezone = 'UTC'")
    shapes: dict[str, tuple[str, ...]] = {
        "public.nasty": (nasty(side, kind), nulls(kind), many(kind), heavy(kind)),
        "public.bare": (nasty(side, kind),),
        "public.none": (),
        "public.only_nulls": (nulls(kind),),
        "public.one_value": (heavy(kind),),
    }
    for table, filling in shapes.items():
        create(pair, kind, table, *filling, not_null=table == "public.bare")
        if analyzed:
            side.run(f"ANALYZE {table}")
        for options in cuts(kind):
            plan = pair.plan(table, key="k", **options)
            assert_selects_each_once(side, table, plan, None)
    limit = f"k > (SELECT ({kind.many})::{kind.type} FROM (VALUES (5)) AS v (n)) -- a comment"
    for options in cuts(kind):
        plan = pair.plan("public.nasty", key="k", where=limit, **options)
        assert_selects_each_once(side, "public.nasty", plan, limit)


@each_kind
def test_each_row_is_copied_once(pair: Pair, kind: Kind) -> None:
    filling = (nasty(pair.source, kind), nulls(kind), many(kind, 100), heavy(kind))
    create(pair, kind, "public.t", *filling)
    pair.source.run("ANALYZE t")
    for options in cuts(kind):
        # One partition per value would be too many for a test.
        if options == {"strategy": "values"}:
            options["where"] = "id <= 30 OR k IS NULL"
        report = pair.copy(key="k", mode="truncate", **options)
        assert report.partitions > 1
        assert report.rows == pair.source.count(where=options.get("where", "true"))
        pair.assert_same(where=options.get("where", "true"))


@pytest.mark.parametrize("type_", TIMED)
@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "index"])
def test_each_row_is_in_one_window(pair: Pair, type_: str, indexed: bool) -> None:
    side = pair.source
    side.run("SET timezone = 'UTC'")
    kind = KINDS[type_]
    infinite = f"SELECT v::{type_} FROM unnest('{{infinity, -infinity}}'::text[]) AS v"
    create(pair, kind, "public.t", many(kind), nulls(kind), infinite)
    if indexed:
        side.run("CREATE INDEX ON t (k)")
    for analyzed in (False, True):
        if analyzed:
            side.run("ANALYZE t")
        for interval in ("1 day", "1 month", "36 hours", "1 week", "1 year"):
            for where in (None, "k >= '2026-01-03' AND k < '2026-01-05'", "id % 2 = 0"):
                plan = pair.plan(strategy="time", key="k", interval=interval, where=where)
                assert_selects_each_once(side, "public.t", plan, where)
                if interval == "1 day" and where is None:
                    assert len(plan.partitions) >= 10


@pytest.mark.parametrize("type_", TIMED)
def test_windows_that_fit_the_data_are_found(pair: Pair, type_: str) -> None:
    side = pair.source
    kind = KINDS[type_]
    create(pair, kind, "public.t", many(kind), nulls(kind))
    side.run("ANALYZE t")
    found = []
    for partitions in (1, 5, 5_000):
        plan = pair.plan(strategy="time", key="k", partitions=partitions)
        assert_selects_each_once(side, "public.t", plan, None)
        found.append(next(reason for reason in plan.reasons if "each of 1 " in reason))
    assert found[0].endswith("each of 1 year")
    assert found[2].endswith("each of 1 hour")
    assert len(set(found)) == 3


@pytest.mark.parametrize("type_", TIMED)
def test_windows_copy_each_row_once(pair: Pair, type_: str) -> None:
    kind = KINDS[type_]
    infinite = f"SELECT v::{type_} FROM unnest('{{infinity, -infinity}}'::text[]) AS v"
    create(pair, kind, "public.t", many(kind, 100), nulls(kind), infinite)
    for interval in ("2 days", "1 month"):
        pair.copy(strategy="time", key="k", interval=interval, mode="truncate")
        pair.assert_same()


@pytest.mark.parametrize("type_", TIMED)
def test_windows_over_all_of_time_are_refused(pair: Pair, type_: str) -> None:
    kind = KINDS[type_]
    create(pair, kind, "public.t", nasty(pair.source, kind), nulls(kind))
    with pytest.raises(PlanningError, match=r"--interval '1 day'"):
        pair.plan(strategy="time", key="k", interval="1 day")
    assert not pair.has_control_schema()


@pytest.mark.parametrize("strategy", ["ctid", "whole"])
def test_a_table_without_a_key_is_copied_once(pair: Pair, strategy: str) -> None:
    kind = KINDS["text"]
    create(pair, kind, "public.t", nasty(pair.source, kind), many(kind, 20_000), nulls(kind))
    # Dead rows, updated rows and empty blocks.
    pair.source.run(
        "UPDATE t SET k = k || 'x' WHERE id % 3 = 0",
        "DELETE FROM t WHERE id BETWEEN 5000 AND 9000",
        "VACUUM t",
    )
    count = 7 if strategy == "ctid" else None
    report = pair.copy(strategy=strategy, mode="truncate", degree=2, partitions=count)
    assert report.partitions == (count or 1)
    pair.assert_same()


@pytest.mark.parametrize("strategy", ["auto", "ctid", "whole"])
def test_an_empty_table_is_copied(pair: Pair, strategy: str) -> None:
    create(pair, KINDS["text"], "public.t")
    assert pair.copy(strategy=strategy).rows == 0
    assert pair.target.count() == 0


@pytest.mark.parametrize("rows", [1000, 1001, 3])
def test_ntile_is_exact(pair: Pair, rows: int) -> None:
    # Stale statistics and a skewed key do not matter.
    pair.both("CREATE TABLE t (k numeric)")
    pair.source.run(
        f"INSERT INTO t SELECT n ^ 5 FROM generate_series(1, {rows}) AS n",
        "INSERT INTO t SELECT NULL FROM generate_series(1, 100)",
    )
    plan = pair.plan(strategy="ntile", key="k", partitions=5)
    counts = [
        pair.source.count(where=condition(None, part.extent).as_string(pair.source.connection))
        for part in plan.partitions
    ]
    *ranges, nulls = counts
    assert nulls == 100
    assert sum(ranges) == rows
    assert len(ranges) == min(rows, 5)
    assert max(ranges) - min(ranges) <= 2
    assert plan.partitions[-1].rows in (None, 100) or rows == 3


def test_ntile_goes_around_a_heavy_value(pair: Pair) -> None:
    pair.both("CREATE TABLE t (k int)")
    pair.source.run(
        "INSERT INTO t SELECT CASE WHEN n > 500 THEN 250 ELSE n END"
        " FROM generate_series(1, 1000) AS n"
    )
    plan = pair.plan(strategy="ntile", key="k", partitions=5)
    counts = sorted(
        pair.source.count(where=condition(None, part.extent).as_string(pair.source.connection))
        for part in plan.partitions
    )
    assert counts[-1] < 560  # the value itself, and less than half of its neighbours
    assert len(counts) == 5 or len(counts) == 6
