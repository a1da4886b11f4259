"""The choice of a strategy, the number of partitions, and the reasons for both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.backends.api.facts import ChildTable, SourceFile, TableStatistics
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import TableRef
from penstock.planning.choice import MIB, Aims, Choice, choose
from penstock.planning.partition_extents import MOST_PARTITIONS
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import Streams
from penstock.spec.strategies import ALIASES, STRATEGIES, WHOLE

GIB = 1024 * MIB
HEAP = TableStatistics(
    rows=6_000_000,
    bytes=1 * GIB,
    selected=1.0,
    blocks=118_000,
    storage="heap table, 118,000 blocks, PostgreSQL 18",
    default_key="id",
)
VIEW = replace(HEAP, blocks=None, storage="a view, whose rows have no blocks of their own")

PARTITIONED = replace(
    HEAP,
    blocks=None,
    storage="a partitioned table of 1 table",
    children=(ChildTable(TableRef("public", "orders_1"), 6_000_000, 1 * GIB, 118_000),),
)
FILES = replace(
    HEAP,
    blocks=None,
    storage="1 file",
    default_key=None,
    files=(SourceFile("a.parquet", 1 * GIB, "v1", ((6_000_000, 1 * GIB),)),),
)


def spec(**options: Any) -> CopySpec:
    return CopySpec(source="x://a", target="x://b", table="public.orders", **options)


def chosen(
    table: TableStatistics = HEAP,
    degree: int = 4,
    blocks: str = "ctid",
    most: int = 0,
    least_rows: int = 0,
    **options: Any,
) -> Choice:
    aims = Aims(Streams(degree, most or degree), blocks, least_rows)
    return choose(spec(**options), table, aims)


class TestAuto:
    def test_chooses_blocks_for_a_large_heap_table(self) -> None:
        choice = chosen()
        assert (choice.strategy, choice.key, choice.count) == ("ctid", None, 16)
        # The kind of table, its size and the server, in any order.
        assert choice.reasons[0] == "ctid: heap table, 118,000 blocks, PostgreSQL 18; no key needed"
        assert choice.reasons[1:] == ("16 partitions of about 67 MB",)

    def test_copies_a_small_table_whole(self) -> None:
        choice = chosen(replace(HEAP, bytes=5 * MIB))
        assert choice == Choice(WHOLE, ("whole: 5.2 MB, one stream is enough",))
        choice = chosen(replace(FILES, bytes=710))
        assert choice == Choice(WHOLE, ("whole: 710 B, one stream is enough", "1 file"))

    @pytest.mark.parametrize(
        "size", [{"partitions": 3}, {"partitions": "1000 rows"}, {"partitions": "1000 B"}]
    )
    def test_partitions_a_small_table_if_a_size_is_specified(self, size: dict[str, Any]) -> None:
        assert chosen(replace(HEAP, bytes=5 * MIB), **size).strategy == "ctid"

    def test_chooses_child_tables_of_a_partitioned_table(self) -> None:
        choice = chosen(PARTITIONED)
        assert (choice.strategy, choice.count) == ("children", 16)
        assert choice.reasons[0] == "children: a partitioned table of 1 table"
        choice = chosen(PARTITIONED, snapshot="none")
        assert (choice.strategy, choice.key) == ("range", "id")
        assert "needs a shared snapshot" in choice.reasons[0]

    def test_falls_back_to_counting_rows_without_statistics(self) -> None:
        choice = chosen(replace(VIEW, sampled=False), key="id")
        assert (choice.strategy, choice.key, choice.count) == ("ntile", "id", 16)
        assert "without statistics, since it is a view" in choice.reasons[0]
        with pytest.raises(PlanningError, match="use --strategy ntile"):
            chosen(replace(VIEW, sampled=False), key="id", strategy="range")

    def test_chooses_the_primary_key_without_blocks(self) -> None:
        choice = chosen(VIEW)
        assert (choice.strategy, choice.key, choice.count) == ("range", "id", 16)
        assert choice.reasons[0] == (
            "range: by the primary key's first column, id; ctid cannot be used: a view, whose "
            "rows have no blocks of their own"
        )

    def test_copies_a_table_whole_without_blocks_and_key(self) -> None:
        choice = chosen(replace(VIEW, default_key=None))
        assert choice.strategy == "whole"
        assert choice.reasons == (
            "whole: ctid cannot be used: a view, whose rows have no blocks of their own, and "
            "there is no primary key; pass --key",
        )

    def test_avoids_blocks_if_rows_move(self) -> None:
        choice = chosen(snapshot="none")
        assert (choice.strategy, choice.key) == ("range", "id")
        assert "ctid needs a shared snapshot, since updated rows move" in choice.reasons[0]

    def test_avoids_blocks_if_they_need_full_scans(self) -> None:
        scanned = replace(HEAP, blocks_scan=True)
        choice = chosen(scanned, blocks="physloc")
        assert choice.reasons[0] == (
            "range: by the primary key's first column, id; physloc would scan the whole "
            "table for each partition"
        )
        assert chosen(replace(scanned, default_key=None), blocks="physloc").strategy == "whole"
        choice = chosen(scanned, blocks="physloc", strategy="blocks", degree=3)
        assert (choice.strategy, choice.count) == ("physloc", 3)
        assert choice.reasons[-1] == "3 partitions, one per stream: each scans the whole table"
        assert chosen(scanned, strategy="blocks", partitions=7).count == 7

    def test_chooses_the_specified_key(self) -> None:
        choice = chosen(key="placed_at")
        assert (choice.strategy, choice.key, choice.count) == ("range", "placed_at", 16)
        assert choice.reasons[0] == "range: by key placed_at, as requested"

    def test_chooses_windows_if_an_interval_is_specified(self) -> None:
        choice = chosen(key="placed_at", interval="1 day")
        assert (choice.strategy, choice.key) == ("time", "placed_at")
        assert choice.reasons == ("time: an interval is set",)

    def test_chooses_values_if_a_query_for_them_is_specified(self) -> None:
        choice = chosen(key="region", values_query="SELECT 1")
        assert (choice.strategy, choice.key) == ("values", "region")
        assert choice.reasons == ("values: a query lists them",)


class TestAsAsked:
    @pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"auto"}))
    def test_uses_the_requested_strategy_and_says_so(self, strategy: str) -> None:
        key = None if not STRATEGIES[strategy].takes_key else "placed_at"
        interval = "1 day" if strategy == "time" else None
        table = {"children": PARTITIONED, "files": FILES}.get(strategy, HEAP)
        choice = chosen(table, strategy=strategy, key=key, interval=interval)
        named = "ctid" if STRATEGIES[strategy].by_blocks else strategy
        assert (choice.strategy, choice.key) == (named, key)
        assert choice.reasons[0] == f"{strategy}: as requested"

    def test_ctid_also_has_the_reasons_of_auto(self) -> None:
        assert chosen(strategy="ctid").reasons == ("ctid: as requested", *chosen().reasons)

    @pytest.mark.parametrize("name", ["blocks", *ALIASES])
    def test_blocks_are_named_in_terms_of_the_source(self, name: str) -> None:
        choice = chosen(strategy=name)
        assert (choice.strategy, choice.how) == ("ctid", STRATEGIES["blocks"])
        assert choice.reasons[0] == f"{name}: as requested"
        assert chosen(blocks="blocks", strategy=name).strategy == "blocks"

    def test_range_falls_back_on_the_primary_key(self) -> None:
        assert chosen(strategy="range").key == "id"

    def test_range_without_any_key_is_rejected(self) -> None:
        with pytest.raises(PlanningError) as caught:
            chosen(replace(HEAP, default_key=None), strategy="range")
        assert caught.value.message == (
            "--strategy range: expected --key COLUMN, since public.orders has no primary key to "
            "partition into ranges; found none"
        )

    def test_ctid_without_blocks_is_rejected(self) -> None:
        with pytest.raises(PlanningError) as caught:
            chosen(VIEW, strategy="ctid")
        assert caught.value.message == (
            "--strategy ctid: public.orders cannot be partitioned by ctid: a view, whose rows have "
            "no blocks of their own"
        )

    def test_ctid_without_a_snapshot_is_rejected(self) -> None:
        with pytest.raises(UsageError) as caught:
            chosen(strategy="ctid", snapshot="none")
        assert "--strategy ctid with --snapshot none" in caught.value.message
        assert "use --snapshot shared, or a strategy by a key" in caught.value.message

    def test_hash_uses_one_bucket_per_stream(self) -> None:
        choice = chosen(strategy="hash", key="id", degree=3)
        assert choice.count == 3
        assert choice.reasons == (
            "hash: as requested",
            "3 partitions, one per stream: each scans the whole table",
        )
        assert chosen(strategy="hash", key="id", partitions=7).count == 7


class TestCount:
    def test_is_the_requested_number(self) -> None:
        choice = chosen(partitions=1234)
        assert choice.count == 1234
        assert choice.reasons[-1] == "1,234 partitions, as requested"

    def test_follows_from_rows(self) -> None:
        choice = chosen(partitions="1000001 rows")
        assert choice.count == 6
        assert choice.reasons[-1] == "6 partitions of about 1,000,001 rows"

    def test_follows_from_the_rows_that_the_condition_selects(self) -> None:
        assert chosen(replace(HEAP, selected=0.1), partitions="100000 rows").count == 6

    def test_by_rows_needs_an_estimate(self) -> None:
        with pytest.raises(PlanningError) as caught:
            chosen(replace(HEAP, rows=None), partitions="1000 rows")
        assert caught.value.message == (
            "--partitions: the source has no row estimate for public.orders; pass "
            "a number of partitions, or a size such as 64MB"
        )
        with pytest.raises(PlanningError, match="; count the rows, or pass a number "):
            chosen(replace(HEAP, rows=None, rows_hint="count the rows"), partitions="1000 rows")

    def test_follows_from_bytes(self) -> None:
        choice = chosen(partitions="100MiB")
        assert choice.count == 11
        assert choice.reasons[-1] == "11 partitions of about 105 MB"

    def test_follows_from_the_bytes_that_the_condition_selects(self) -> None:
        assert chosen(replace(HEAP, selected=0.5), partitions="128MiB").count == 4

    @pytest.mark.parametrize(
        ("size", "degree", "count"),
        [
            (64 * MIB, 4, 8),  # at least 8 MiB each
            (1 * GIB, 4, 16),  # four per stream
            (1 * GIB, 1, 8),  # at most 128 MiB each
            (100 * GIB, 4, 800),
        ],
    )
    def test_follows_from_size_and_degree(self, size: int, degree: int, count: int) -> None:
        assert chosen(replace(HEAP, bytes=size), degree).count == count

    @pytest.mark.parametrize(
        ("size", "count"),
        [
            (64 * MIB, 8),  # for the initial number of streams
            (300 * MIB, 8),
            (1 * GIB, 16),  # at least 64 MiB each for streams that may be added
            (3 * GIB, 32),  # four per such stream
            (100 * GIB, 800),
        ],
    )
    def test_allows_for_streams_that_may_be_added(self, size: int, count: int) -> None:
        assert chosen(replace(HEAP, bytes=size), degree=2, most=8).count == count

    @pytest.mark.parametrize(
        ("rows", "size", "count"),
        [
            (6_000_000, 1 * GIB, 14),  # a multiple of the streams
            (2_000_000, 1 * GIB, 8),  # at most 128 MiB each
            (2_000_000, 256 * MIB, 4),
            (700_000, 256 * MIB, 2),
            (300_000, 64 * MIB, 1),
        ],
    )
    def test_follows_from_the_rows_that_burden_the_target(
        self, rows: int, size: int, count: int
    ) -> None:
        table = replace(HEAP, rows=rows, bytes=size)
        choice = chosen(table, degree=2, most=8, least_rows=400_000)
        assert choice.count == count
        assert choice.reasons[-1].endswith("; the target would write smaller ones twice")
        selected = chosen(replace(table, rows=rows * 2, selected=0.5), 2, least_rows=400_000)
        assert selected.count <= count

    def test_is_not_limited_by_few_rows(self) -> None:
        usual = chosen(least_rows=300_000)
        assert (usual.count, usual.reasons) == (16, chosen().reasons)
        assert chosen(partitions=20, least_rows=400_000).count == 20
        assert chosen(replace(HEAP, rows=None), least_rows=10**9).count == 16

    def test_ignores_added_streams_if_each_would_scan_the_table(self) -> None:
        scanned = replace(HEAP, blocks_scan=True)
        assert chosen(scanned, degree=2, most=8, strategy="blocks").count == 2

    def test_is_at_least_one(self) -> None:
        empty = replace(HEAP, rows=0, bytes=0, blocks=0)
        assert chosen(empty, strategy="ctid").count == 1
        assert chosen(empty, partitions="10 rows").count == 1
        assert chosen(empty, partitions="10B").count == 1

    @pytest.mark.parametrize(
        "options",
        [{"partitions": 1_000_000}, {"partitions": "1 rows"}, {"partitions": "1B"}],
    )
    @pytest.mark.parametrize("cut", [{}, {"key": "id"}, {"strategy": "hash", "key": "id"}])
    def test_has_a_limit_and_says_so(self, options: dict[str, Any], cut: dict[str, Any]) -> None:
        choice = chosen(**options, **cut)
        assert choice.count == MOST_PARTITIONS
        assert choice.reasons[-1].endswith("; limited to 10,000")
