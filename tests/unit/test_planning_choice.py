"""Which strategy is chosen, how many partitions it aims for, and the reasons it gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.backends.api.facts import ChildTable, SourceFile, TableStatistics
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import TableRef
from penstock.planning.choice import MIB, Choice, choose
from penstock.planning.cuts import MOST_PARTITIONS
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
    **options: Any,
) -> Choice:
    return choose(spec(**options).cutting, table, Streams(degree, most or degree), blocks)


class TestAuto:
    def test_takes_blocks_of_a_large_heap_table(self) -> None:
        choice = chosen()
        assert (choice.strategy, choice.key, choice.count) == ("ctid", None, 16)
        # The kind of table, its size and the server, in whichever order.
        assert choice.reasons[0] == "ctid: heap table, 118,000 blocks, PostgreSQL 18; no key needed"
        assert choice.reasons[1:] == ("16 partitions of about 67 MB",)

    def test_takes_the_whole_of_a_small_table(self) -> None:
        choice = chosen(replace(HEAP, bytes=5 * MIB))
        assert choice == Choice(WHOLE, ("whole: 5.2 MB, one stream is enough",))
        choice = chosen(replace(FILES, bytes=710))
        assert choice == Choice(WHOLE, ("whole: 710 B, one stream is enough", "1 file"))

    @pytest.mark.parametrize(
        "size", [{"partitions": 3}, {"rows_per_partition": 1000}, {"bytes_per_partition": 1000}]
    )
    def test_cuts_a_small_table_where_a_size_is_given(self, size: dict[str, Any]) -> None:
        assert chosen(replace(HEAP, bytes=5 * MIB), **size).strategy == "ctid"

    def test_takes_the_tables_that_a_table_consists_of(self) -> None:
        choice = chosen(PARTITIONED)
        assert (choice.strategy, choice.count) == ("children", 16)
        assert choice.reasons[0] == "children: a partitioned table of 1 table"
        choice = chosen(PARTITIONED, snapshot="none")
        assert (choice.strategy, choice.key) == ("range", "id")
        assert "needs a shared snapshot" in choice.reasons[0]

    def test_counts_where_nothing_is_known_of_the_key(self) -> None:
        choice = chosen(replace(VIEW, sampled=False), key="id")
        assert (choice.strategy, choice.key, choice.count) == ("ntile", "id", 16)
        assert "without statistics, since it is a view" in choice.reasons[0]
        with pytest.raises(PlanningError, match="use --strategy ntile"):
            chosen(replace(VIEW, sampled=False), key="id", strategy="range")

    def test_takes_the_primary_key_where_there_are_no_blocks(self) -> None:
        choice = chosen(VIEW)
        assert (choice.strategy, choice.key, choice.count) == ("range", "id", 16)
        assert choice.reasons[0] == (
            "range: by the primary key's first column, id; ctid cannot be used: a view, whose "
            "rows have no blocks of their own"
        )

    def test_takes_the_whole_where_there_are_neither(self) -> None:
        choice = chosen(replace(VIEW, default_key=None))
        assert choice.strategy == "whole"
        assert choice.reasons == (
            "whole: ctid cannot be used: a view, whose rows have no blocks of their own, and "
            "there is no primary key; pass --key",
        )

    def test_takes_no_blocks_of_rows_that_move(self) -> None:
        choice = chosen(snapshot="none")
        assert (choice.strategy, choice.key) == ("range", "id")
        assert "ctid needs a shared snapshot, since updated rows move" in choice.reasons[0]
        assert chosen(snapshot="none", accept_moving_rows=True).strategy == "ctid"

    def test_takes_no_blocks_that_are_found_by_scans(self) -> None:
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

    def test_takes_the_key_that_is_given(self) -> None:
        choice = chosen(key="placed_at")
        assert (choice.strategy, choice.key, choice.count) == ("range", "placed_at", 16)
        assert choice.reasons[0] == "range: by key placed_at, as requested"

    def test_takes_windows_where_an_interval_is_given(self) -> None:
        choice = chosen(key="placed_at", interval="1 day")
        assert (choice.strategy, choice.key) == ("time", "placed_at")
        assert choice.reasons == ("time: an interval is set",)

    def test_takes_values_where_a_query_is_given(self) -> None:
        choice = chosen(key="region", values_query="SELECT 1")
        assert (choice.strategy, choice.key) == ("values", "region")
        assert choice.reasons == ("values: a query lists them",)


class TestAsAsked:
    @pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"auto"}))
    def test_is_what_was_asked_for_and_says_so(self, strategy: str) -> None:
        key = None if not STRATEGIES[strategy].takes_key else "placed_at"
        interval = "1 day" if strategy == "time" else None
        table = {"children": PARTITIONED, "files": FILES}.get(strategy, HEAP)
        choice = chosen(table, strategy=strategy, key=key, interval=interval)
        named = "ctid" if STRATEGIES[strategy].cuts_blocks else strategy
        assert (choice.strategy, choice.key) == (named, key)
        assert choice.reasons[0] == f"{strategy}: as requested"

    def test_ctid_says_what_auto_says_besides(self) -> None:
        assert chosen(strategy="ctid").reasons == ("ctid: as requested", *chosen().reasons)

    @pytest.mark.parametrize("name", ["blocks", *ALIASES])
    def test_blocks_have_the_name_of_the_source_s_system(self, name: str) -> None:
        choice = chosen(strategy=name)
        assert (choice.strategy, choice.how) == ("ctid", STRATEGIES["blocks"])
        assert choice.reasons[0] == f"{name}: as requested"
        assert chosen(blocks="blocks", strategy=name).strategy == "blocks"

    def test_range_falls_back_on_the_primary_key(self) -> None:
        assert chosen(strategy="range").key == "id"

    def test_range_without_any_key_is_refused(self) -> None:
        with pytest.raises(PlanningError) as caught:
            chosen(replace(HEAP, default_key=None), strategy="range")
        assert caught.value.message == (
            "--strategy range: expected --key COLUMN, since public.orders has no primary key to "
            "cut into ranges; found none"
        )

    def test_ctid_without_blocks_is_refused(self) -> None:
        with pytest.raises(PlanningError) as caught:
            chosen(VIEW, strategy="ctid")
        assert caught.value.message == (
            "--strategy ctid: public.orders cannot be cut by ctid: a view, whose rows have no "
            "blocks of their own"
        )

    def test_ctid_without_a_snapshot_is_refused_unless_asked_for(self) -> None:
        with pytest.raises(UsageError) as caught:
            chosen(strategy="ctid", snapshot="none")
        assert "--strategy ctid with --snapshot none" in caught.value.message
        assert "use --snapshot shared, or --accept-moving-rows" in caught.value.message
        choice = chosen(strategy="ctid", snapshot="none", accept_moving_rows=True)
        assert choice.strategy == "ctid"

    def test_hash_takes_one_bucket_a_stream(self) -> None:
        choice = chosen(strategy="hash", key="id", degree=3)
        assert choice.count == 3
        assert choice.reasons == (
            "hash: as requested",
            "3 partitions, one per stream: each scans the whole table",
        )
        assert chosen(strategy="hash", key="id", partitions=7).count == 7


class TestCount:
    def test_as_many_as_asked_for(self) -> None:
        choice = chosen(partitions=1234)
        assert choice.count == 1234
        assert choice.reasons[-1] == "1,234 partitions, as requested"

    def test_by_rows(self) -> None:
        choice = chosen(rows_per_partition=1_000_001)
        assert choice.count == 6
        assert choice.reasons[-1] == "6 partitions of about 1,000,001 rows"

    def test_by_rows_of_what_the_condition_selects(self) -> None:
        assert chosen(replace(HEAP, selected=0.1), rows_per_partition=100_000).count == 6

    def test_by_rows_without_an_estimate_is_refused(self) -> None:
        with pytest.raises(PlanningError) as caught:
            chosen(replace(HEAP, rows=None), rows_per_partition=1000)
        assert caught.value.message == (
            "--rows-per-partition: the source has no row estimate for public.orders; pass "
            "--partitions or --bytes-per-partition"
        )
        with pytest.raises(PlanningError, match="; count the rows, or pass --partitions or "):
            chosen(replace(HEAP, rows=None, rows_hint="count the rows"), rows_per_partition=1000)

    def test_by_bytes(self) -> None:
        choice = chosen(bytes_per_partition=100 * MIB)
        assert choice.count == 11
        assert choice.reasons[-1] == "11 partitions of about 105 MB"

    def test_by_bytes_of_what_the_condition_selects(self) -> None:
        assert chosen(replace(HEAP, selected=0.5), bytes_per_partition=128 * MIB).count == 4

    @pytest.mark.parametrize(
        ("size", "degree", "count"),
        [
            (64 * MIB, 4, 8),  # not below 8 MiB each
            (1 * GIB, 4, 16),  # four a stream
            (1 * GIB, 1, 8),  # 128 MiB each at most
            (100 * GIB, 4, 800),
        ],
    )
    def test_by_size_and_degree(self, size: int, degree: int, count: int) -> None:
        assert chosen(replace(HEAP, bytes=size), degree).count == count

    @pytest.mark.parametrize(
        ("size", "count"),
        [
            (64 * MIB, 8),  # as small as for as many streams as there are to begin with
            (300 * MIB, 8),
            (1 * GIB, 16),  # not below 64 MiB each for streams that may be added
            (3 * GIB, 32),  # four for each of those
            (100 * GIB, 800),
        ],
    )
    def test_for_streams_that_may_be_added(self, size: int, count: int) -> None:
        assert chosen(replace(HEAP, bytes=size), degree=2, most=8).count == count

    def test_no_more_for_streams_that_would_scan_it_all(self) -> None:
        scanned = replace(HEAP, blocks_scan=True)
        assert chosen(scanned, degree=2, most=8, strategy="blocks").count == 2

    def test_at_least_one_of_an_empty_table(self) -> None:
        empty = replace(HEAP, rows=0, bytes=0, blocks=0)
        assert chosen(empty, strategy="ctid").count == 1
        assert chosen(empty, rows_per_partition=10).count == 1
        assert chosen(empty, bytes_per_partition=10).count == 1

    @pytest.mark.parametrize(
        "options",
        [{"partitions": 1_000_000}, {"rows_per_partition": 1}, {"bytes_per_partition": 1}],
    )
    @pytest.mark.parametrize("cut", [{}, {"key": "id"}, {"strategy": "hash", "key": "id"}])
    def test_has_a_limit_and_says_so(self, options: dict[str, Any], cut: dict[str, Any]) -> None:
        choice = chosen(**options, **cut)
        assert choice.count == MOST_PARTITIONS
        assert choice.reasons[-1].endswith("; limited to 10,000")
