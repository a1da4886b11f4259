"""Keys with one value that most rows have: their estimates, the warning, and the choice of ctid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import CopySpec, plan
from penstock.backends.postgresql.keys.keys import SourceKey
from penstock.model.extents import HashBucket
from penstock.model.plans import PartitionPlan
from penstock_testkit import DistantServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

ROWS = 100_000
# Nine rows of ten have the same key; none is below 8 MiB.
KEYS = {
    "int": "CASE WHEN n % 10 > 0 THEN 4711 ELSE n END",
    "text": "CASE WHEN n % 10 > 0 THEN 'most' ELSE 'k' || n END",
    "char(9)": "CASE WHEN n % 10 > 0 THEN 'most' ELSE 'k' || n END",
    "numeric": "CASE WHEN n % 10 > 0 THEN 1.50 ELSE n END",
    "boolean": "n % 10 > 0",
    "inet": "'10.0.0.1'::inet + CASE WHEN n % 10 > 0 THEN 0 ELSE n END",
    "timestamptz": "to_timestamp(CASE WHEN n % 10 > 0 THEN 0 ELSE n END)",
}


def make(pair: Pair, type_: str, value: str, *, analyzed: bool = True) -> None:
    pair.both(f"CREATE TABLE t (id int, k {type_}, pad text) WITH (autovacuum_enabled = false)")
    pair.source.run(
        f"INSERT INTO t SELECT n, {value}, repeat('x', 100) FROM generate_series(1, {ROWS}) AS n",
        "CREATE INDEX ON t (k)",
        *(["ANALYZE t"] if analyzed else []),
    )


def skew(plan: PartitionPlan) -> list[str]:
    return [warning for warning in plan.warnings if "times the mean" in warning]


@pytest.mark.parametrize("type_", KEYS)
def test_buckets_hold_what_is_estimated(pair: Pair, type_: str) -> None:
    make(pair, type_, KEYS[type_])
    plan = pair.plan(strategy="hash", key="k", partitions=8)
    text = 'k::text COLLATE pg_catalog."C"'
    actual = dict(
        pair.source.rows(
            f"SELECT (hashtextextended({text}, 0) & 9223372036854775807) % 8, count(*)"
            " FROM t GROUP BY 1"
        )
    )
    estimated = {
        part.extent.remainder: part.rows
        for part in plan.partitions
        if isinstance(part.extent, HashBucket) and part.rows is not None
    }
    for bucket, rows in estimated.items():
        assert rows == pytest.approx(actual.get(bucket, 0), abs=0.02 * ROWS)
    (warning,) = skew(plan)
    assert "times the mean: k = " in warning
    assert warning.endswith("; use --strategy ctid or another --key")


@pytest.mark.parametrize("type_", ["int", "text", "numeric", "timestamptz"])
@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "sampled"])
def test_a_heavy_value_of_a_range(pair: Pair, type_: str, *, analyzed: bool) -> None:
    make(pair, type_, KEYS[type_], analyzed=analyzed)
    plan = pair.plan(strategy="range", key="k", partitions=8)
    (warning,) = skew(plan)
    assert plan.strategy == "range"
    largest = max(plan.partitions, key=lambda part: part.bytes or 0)
    assert warning.startswith(f"{largest.id} ({largest.extent}) has about ")
    assert ": k = " in warning
    assert "% of all rows, which stay together" in warning

    chosen = pair.plan(key="k", partitions=8)
    assert (chosen.strategy, skew(chosen)) == ("ctid", [])
    assert chosen.reasons[0].startswith("ctid: not range by key k, since k = ")
    report = pair.copy(key="k", partitions=8)
    assert report.status == "done"
    pair.assert_same(columns="id, k")


def test_most_keys_are_null(pair: Pair) -> None:
    make(pair, "int", "CASE WHEN n % 10 = 0 THEN n END")
    plan = pair.plan(strategy="range", key="k", partitions=8)
    (warning,) = skew(plan)
    assert "(k is null) has about 90 % of the rows" in warning
    (hashed,) = skew(pair.plan(strategy="hash", key="k", partitions=8))
    assert "(hash(k) % 8 = 0) has about 91 % of the rows" in hashed
    assert pair.plan(key="k", partitions=8).strategy == "ctid"


@pytest.mark.parametrize(
    "options",
    [
        {"key": "k", "mode": "replace"},
        {"key": "k", "snapshot": "none"},
        {"key": "k", "where": "id > 0"},
    ],
    ids=str,
)
def test_it_stays_by_key(pair: Pair, options: dict[str, Any]) -> None:
    make(pair, "int", KEYS["int"])
    plan = pair.plan(partitions=8, **options)
    assert plan.strategy == "range"
    assert len(skew(plan)) == 1


def test_even_keys_and_unknown_ones(pair: Pair) -> None:
    make(pair, "int", "n", analyzed=False)
    for _ in range(2):
        for options in ({"strategy": "range"}, {"strategy": "hash"}, {"strategy": "ntile"}, {}):
            plan = pair.plan(key="k", partitions=8, **options)
            assert not skew(plan)
            assert plan.strategy == options.get("strategy", "range")
        pair.source.run("ANALYZE t")


def test_hashes_take_no_round_trip(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    make(pair, "int", KEYS["int"])

    def planned() -> tuple[int, bool]:
        with DistantServer(pair.source.url, 0) as source:
            spec = CopySpec(
                source=source.url, target=pair.target.url, table="public.t",
                strategy="hash", key="k", partitions=8,
            )  # fmt: skip
            found = bool(skew(plan(spec)))
            return source.round_trips, found

    trips, found = planned()
    assert found
    monkeypatch.setattr(SourceKey, "_common_values", lambda *_: None)
    assert planned() == (trips, False)
