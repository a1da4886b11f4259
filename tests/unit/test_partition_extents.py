"""Every plan covers every row exactly once: partitions are checked with rows as Python values."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.backends.api.facts import (
    ChildTable,
    KeyStatistics,
    SourceFile,
    TableStatistics,
    WeightedBound,
)
from penstock.errors import PlanningError
from penstock.model.extents import (
    BlockRange,
    Bound,
    ChildBlocks,
    Children,
    Extent,
    Files,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)
from penstock.model.tables import TableRef
from penstock.planning import partition_extents as planning

KEY = Key("k")
TABLE = TableStatistics(
    rows=1000, bytes=1 << 20, selected=1.0, blocks=128, storage="heap table", default_key=None
)


def total_order(value: Any) -> Any:
    """PostgreSQL's order of numbers: NaN equals itself and is above everything."""
    if isinstance(value, Decimal):
        return (1, Decimal(0)) if value.is_nan() else (0, value)
    return value


# Every float can be represented as a Decimal, including infinities and NaN.
FLOATS = st.one_of(
    st.floats(),
    st.sampled_from([math.inf, -math.inf, math.nan, 0.0, -0.0, 5e-324, 1.7976931348623157e308]),
).map(Decimal)
LIMITS = {16: (-(2**15), 2**15 - 1), 32: (-(2**31), 2**31 - 1), 64: (-(2**63), 2**63 - 1)}


def integers(bits: int) -> st.SearchStrategy[Any]:
    low, high = LIMITS[bits]
    return st.one_of(st.integers(low, high), st.sampled_from([low, low + 1, -1, 0, 1, high]))


@dataclass(frozen=True)
class Kind:
    """A type that supports ranges: its values, and how they are read from a bound's text."""

    values: st.SearchStrategy[Any]
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


KINDS = {
    "int2": Kind(integers(16), int),
    "int4": Kind(integers(32), int),
    "int8": Kind(integers(64), int),
    "numeric": Kind(st.decimals(allow_nan=True, allow_infinity=True), Decimal),
    "float8": Kind(FLOATS, Decimal),
    "date": Kind(st.dates(), date.fromisoformat),
    "timestamp": Kind(st.datetimes(), datetime.fromisoformat),
    "timestamptz": Kind(st.datetimes(timezones=st.just(UTC)), datetime.fromisoformat),
    "uuid": Kind(st.uuids(), uuid.UUID),
    "text": Kind(st.text(), str),
}
kinds = st.sampled_from(sorted(KINDS))


def selects(extent: Extent, value: Any, read: Callable[[str], Any]) -> bool:
    """Whether the extent selects a row with this key, by the rules of SQL."""

    def of(bound: Bound) -> Any:
        return total_order(read(bound.text))

    order = None if value is None else total_order(value)
    match extent:
        case KeyIsNull():
            return value is None
        case KeyRange(_, lower, upper):
            return (
                value is not None
                and (lower is None or of(lower) <= order)
                and (upper is None or order < of(upper))
            )
        case KeyValues(_, values):
            return value is not None and any(of(bound) == order for bound in values)
        case KeyOther(_, values):
            return value is not None and all(of(bound) != order for bound in values)
        case HashBucket(_, modulus, remainder):
            return (0 if value is None else hash(order)) % modulus == remainder
        case Whole():
            return True
        case _:
            raise AssertionError(f"{extent} is not by key")


def assert_each_once(cut: planning.Partitioning, rows: Sequence[Any], kind: Kind) -> None:
    for row in rows:
        chosen = [extent for extent, _ in cut.extents if selects(extent, row, kind.read)]
        assert len(chosen) == 1, f"{row!r} is selected by {list(map(str, chosen))}"


def distinct(values: Sequence[Any]) -> list[Any]:
    found = {total_order(value): value for value in values if value is not None}
    return [found[order] for order in sorted(found)]


@dataclass(frozen=True)
class Case:
    kind: Kind
    rows: list[Any]
    statistics: KeyStatistics
    count: int


@st.composite
def range_cases(draw: st.DrawFn) -> Case:
    """Return rows, and statistics with some of their values, none, or outdated ones."""
    type_ = draw(kinds)
    kind = KINDS[type_]
    nullable = draw(st.booleans())
    values = st.one_of(kind.values, st.none()) if nullable else kind.values
    rows = draw(st.lists(values, max_size=30))
    known = draw(st.lists(kind.values, max_size=5))
    present = distinct(rows)
    if present:
        known += draw(st.lists(st.sampled_from(present), max_size=30))
    weights = st.one_of(st.just(0.0), st.floats(1e-6, 0.1), st.floats(0.3, 0.9))
    bounds = tuple(
        WeightedBound(Bound(type_, kind.write(value)), draw(weights)) for value in distinct(known)
    )
    statistics = KeyStatistics(
        key=KEY,
        nullable=nullable,
        null_fraction=draw(st.floats(0, 1)) if nullable else 0.0,
        bounds=bounds,
        origin="a test",
        indexed=draw(st.booleans()),
    )
    return Case(kind, rows, statistics, draw(st.integers(1, 40)))


def even(count: int, nullable: bool = False, null_fraction: float = 0.0) -> KeyStatistics:
    """Return an evenly distributed histogram: equal steps, and a last bound without weight."""
    bounds = tuple(
        WeightedBound(Bound("int4", str(index)), 0.0 if index == count - 1 else 1 / (count - 1))
        for index in range(count)
    )
    return KeyStatistics(KEY, nullable, null_fraction, bounds, "a test", indexed=True)


def weighted(*weights: float) -> KeyStatistics:
    bounds = tuple(
        WeightedBound(Bound("int4", str(index)), weight) for index, weight in enumerate(weights)
    )
    return KeyStatistics(KEY, False, 0.0, bounds, "a test", indexed=True)


def fractions(cut: planning.Partitioning) -> list[float]:
    assert all(fraction is not None for _, fraction in cut.extents)
    return [fraction or 0.0 for _, fraction in cut.extents]


class TestRange:
    @given(range_cases())
    def test_selects_each_row_once(self, case: Case) -> None:
        assert_each_once(planning.by_range(case.statistics, case.count), case.rows, case.kind)

    @given(range_cases())
    def test_is_open_at_both_ends_and_includes_null_if_possible(self, case: Case) -> None:
        cut = planning.by_range(case.statistics, case.count)
        extents = [extent for extent, _ in cut.extents]
        ranges = [extent for extent in extents if isinstance(extent, KeyRange)]
        assert ranges[0].lower is None
        assert ranges[-1].upper is None
        assert all(mine.upper == following.lower for mine, following in pairwise(ranges))
        assert all(extent.upper is not None for extent in ranges[:-1])
        others = extents[len(ranges) :]
        assert others == ([KeyIsNull(KEY)] if case.statistics.nullable else [])

    @given(range_cases())
    def test_creates_no_more_ranges_than_requested(self, case: Case) -> None:
        cut = planning.by_range(case.statistics, case.count)
        ranges = [extent for extent, _ in cut.extents if isinstance(extent, KeyRange)]
        assert 1 <= len(ranges) <= min(case.count, max(1, len(case.statistics.bounds)))

    @given(range_cases())
    def test_estimates_add_up_to_all_rows(self, case: Case) -> None:
        cut = planning.by_range(case.statistics, case.count)
        known = [fraction for _, fraction in cut.extents if fraction is not None]
        weight = sum(item.weight for item in case.statistics.bounds)
        if weight:
            assert math.isclose(sum(known), 1.0, abs_tol=1e-9)

    @given(st.integers(2, 400), st.integers(1, 400))
    @example(101, 4)
    @example(101, 60)
    @example(10_001, 10_000)
    def test_ranges_of_even_weights_are_about_equal(self, bounds: int, count: int) -> None:
        cut = planning.by_range(even(bounds), count)
        shares = fractions(cut)
        # A step of the histogram cannot be divided.
        step = 1 / (bounds - 1)
        assert max(shares) <= 2 / len(shares) + 1e-9
        assert min(shares) >= 1 / len(shares) - step - 1e-9
        assert len(shares) >= min(count, bounds) * 0.6

    def test_many_bounds_give_the_requested_number(self) -> None:
        shares = fractions(planning.by_range(even(101), 7))
        assert len(shares) == 7
        assert max(shares) - min(shares) <= 1 / 100 + 1e-9

    @pytest.mark.parametrize("position", [1, 10, 50, 90])
    def test_a_frequent_value_is_alone_and_the_others_are_even(self, position: int) -> None:
        weights = [0.005] * 100
        weights[position] = 0.505
        cut = planning.by_range(weighted(*weights), 12)
        shares = fractions(cut)
        heavy = max(shares)
        assert heavy == pytest.approx(0.505)
        others = [share for share in shares if share != heavy]
        assert max(others) <= 2 * sum(others) / len(others) + 1e-9

    @given(st.lists(st.floats(0, 1), min_size=2, max_size=60), st.integers(1, 20))
    def test_no_range_exceeds_its_share_by_more_than_one_value(
        self, weights: list[float], count: int
    ) -> None:
        total = sum(weights)
        if total < 1e-3:
            return
        shares = fractions(planning.by_range(weighted(*weights), count))
        assert max(shares) <= 2 / count + max(weights) / total + 1e-9

    def test_a_single_value_is_one_range_with_a_reason(self) -> None:
        cut = planning.by_range(weighted(1.0), 8)
        assert [extent for extent, _ in cut.extents] == [KeyRange(KEY, None, None)]
        assert cut.reasons == (
            "bounds from a test",
            "1 range: too few bounds are known for more",
        )

    def test_without_statistics_there_is_one_range_without_an_estimate(self) -> None:
        statistics = KeyStatistics(KEY, True, 0.0, (), "nothing", indexed=False)
        cut = planning.by_range(statistics, 8)
        assert cut.extents == ((KeyRange(KEY, None, None), None), (KeyIsNull(KEY), 0.0))
        assert cut.warnings == ()

    def test_warns_of_a_key_without_an_index(self) -> None:
        statistics = KeyStatistics(KEY, False, 0.0, even(50).bounds, "a test", indexed=False)
        (warning,) = planning.by_range(statistics, 5).warnings
        assert warning == "k has no index: each of the 5 ranges scans the whole table"
        assert planning.by_range(even(50), 5).warnings == ()

    def test_keeps_the_collation_of_its_bounds(self) -> None:
        key = Key("k", collation="C")
        statistics = KeyStatistics(key, True, 0.0, even(50).bounds, "a test", indexed=True)
        assert all(
            isinstance(extent, KeyRange | KeyIsNull) and extent.key == key
            for extent, _ in planning.by_range(statistics, 5).extents
        )


class TestWindows:
    @given(
        st.lists(st.datetimes(), unique=True).map(sorted),
        st.lists(st.one_of(st.datetimes(), st.none())),
    )
    def test_select_each_row_once(self, starts: list[datetime], rows: list[Any]) -> None:
        kind = KINDS["timestamp"]
        bounds = [Bound("timestamp", str(start)) for start in starts]
        # Rows exactly at a start or just before it are the most likely to be missed.
        rows = [*rows, *starts]
        cut = planning.by_windows(bounds, KEY, nullable=True, indexed=True, origin="a test")
        assert_each_once(cut, rows, kind)
        assert len(cut.extents) == max(1, len(starts)) + 1

    def test_are_open_below_and_above(self) -> None:
        starts = [Bound("date", f"2026-01-0{day}") for day in (1, 2, 3)]
        cut = planning.by_windows(starts, KEY, nullable=False, indexed=True, origin="the index")
        assert [extent for extent, _ in cut.extents] == [
            KeyRange(KEY, None, starts[1]),
            KeyRange(KEY, starts[1], starts[2]),
            KeyRange(KEY, starts[2], None),
        ]
        assert cut.reasons == ("3 windows from the index",)
        assert cut.warnings == ()

    def test_warn_of_a_key_without_an_index(self) -> None:
        starts = [Bound("date", f"2026-01-0{day}") for day in (1, 2, 3)]
        cut = planning.by_windows(starts, KEY, nullable=False, indexed=False, origin="a sample")
        assert cut.warnings == ("k has no index: each of 3 windows scans the table",)


class TestValues:
    @given(st.data(), kinds)
    def test_any_list_selects_each_row_once(self, data: st.DataObject, type_: str) -> None:
        kind = KINDS[type_]
        rows = data.draw(st.lists(st.one_of(kind.values, st.none())))
        listed = data.draw(st.lists(kind.values))
        values = [Bound(type_, kind.write(value)) for value in distinct(listed)]
        cut = planning.by_values(values, KEY, nullable=True)
        assert_each_once(cut, rows, kind)

    def test_an_empty_list_is_a_valid_plan(self) -> None:
        assert planning.by_values([], KEY, nullable=False).extents


class TestHash:
    @given(st.lists(st.one_of(FLOATS, st.none())), st.integers(1, 50))
    def test_selects_each_row_once(self, rows: list[Any], count: int) -> None:
        cut = planning.by_hash(KEY, count)
        assert_each_once(cut, rows, KINDS["float8"])
        assert sum(fractions(cut)) == pytest.approx(1.0)


class TestBlocks:
    @given(
        st.integers(0, 2**32 - 2),
        st.integers(1, 500),
        st.lists(st.floats(0, 1)),
        st.integers(0, 1000),
    )
    def test_select_each_block_once_including_later_ones(
        self, blocks: int, count: int, places: list[float], grown: int
    ) -> None:
        cut = planning.by_blocks(blocks, count)
        extents = [extent for extent, _ in cut.extents]
        assert len(extents) == max(1, min(count, blocks))
        edges = {
            edge + near
            for extent in extents
            if isinstance(extent, BlockRange)
            for edge in (extent.lower, extent.upper or 0)
            for near in (-1, 0, 1)
        }
        size = blocks + grown
        samples = {int(place * max(0, size - 1)) for place in places} | {0, size, *edges}
        for block in samples:
            if block < 0:
                continue
            chosen = [
                extent
                for extent in extents
                if isinstance(extent, BlockRange)
                and extent.lower <= block
                and (extent.upper is None or block < extent.upper)
            ]
            assert len(chosen) == 1, f"block {block} is in {list(map(str, chosen))}"

    @given(st.integers(1, 10**6), st.integers(1, 500))
    def test_differ_by_at_most_one_block(self, blocks: int, count: int) -> None:
        sizes = [fraction * blocks for fraction in fractions(planning.by_blocks(blocks, count))]
        assert max(sizes) - min(sizes) <= 1 + 1e-6
        assert sum(sizes) == pytest.approx(blocks)

    def test_an_empty_table_has_one_partition(self) -> None:
        assert planning.by_blocks(0, 8).extents == ((BlockRange(0, None), 0.0),)


def child(number: int, size: int, blocks: int | None) -> ChildTable:
    return ChildTable(TableRef("public", f"c{number}"), None, size, blocks)


class TestTables:
    @given(
        st.lists(
            st.tuples(st.sampled_from([0, 1, 8192, 80_000, 10**9, 10**12]), st.booleans()),
            min_size=1,
            max_size=300,
        ),
        st.integers(1, planning.MOST_PARTITIONS),
    )
    def test_cover_each_table_once(self, sizes: list[tuple[int, bool]], count: int) -> None:
        children = [
            child(number, size, size // 8192 if heap else None)
            for number, (size, heap) in enumerate(sizes)
        ]
        cut = planning.by_tables(children, count)
        whole: list[TableRef] = []
        ranges: dict[TableRef, list[tuple[int, int | None]]] = {}
        for extent, _ in cut.extents:
            if isinstance(extent, Children):
                whole += extent.tables
            else:
                assert isinstance(extent, ChildBlocks)
                ranges.setdefault(extent.table, []).append((extent.lower, extent.upper))
        assert sorted([*whole, *ranges]) == sorted(each.table for each in children)
        for parts in ranges.values():
            assert parts[0][0] == 0
            assert [lower for lower, _ in parts[1:]] == [upper for _, upper in parts[:-1]]
            assert parts[-1][1] is None
        assert sum(fractions(cut)) == pytest.approx(1)
        assert len(cut.extents) <= planning.MOST_PARTITIONS

    def test_tables_that_cannot_be_partitioned_are_whole(self) -> None:
        cut = planning.by_tables([child(1, 10**9, None), child(2, 10**9, 9**5)], 4)
        first, *others = [extent for extent, _ in cut.extents]
        assert len(others) == 2
        assert Children((TableRef("public", "c1"),)) in [first, *others]

    def test_thousands_of_tables_need_more_than_one_query(self) -> None:
        cut = planning.by_tables([child(number, 0, 0) for number in range(1000)], 1)
        assert len(cut.extents) == 10


class TestWhole:
    def test_is_one_partition_of_all_rows(self) -> None:
        assert planning.as_whole().extents == ((Whole(), 1.0),)


class TestNumber:
    @given(st.integers(1, planning.MOST_PARTITIONS + 2))
    @example(1)
    @example(planning.MOST_PARTITIONS + 2)
    def test_ids_are_unique_short_and_in_order(self, count: int) -> None:
        partitions = planning.number([(HashBucket(KEY, count, 0), None)] * count, TABLE)
        ids = [partition.id for partition in partitions]
        assert len(set(ids)) == count
        assert all(len(name) <= 10 for name in ids)
        assert ids == sorted(ids)

    def test_is_limited(self) -> None:
        too_many = planning.MOST_PARTITIONS + 3
        with pytest.raises(PlanningError, match=r"10,003 partitions; the limit is 10,000"):
            planning.number([(Whole(), None)] * too_many, TABLE)

    def test_rows_and_bytes_are_shared_by_partitions(self) -> None:
        table = TableStatistics(
            rows=1000, bytes=8000, selected=0.5, blocks=1, storage="", default_key=None
        )
        partitions: list[tuple[Extent, float | None]] = [
            (KeyRange(KEY, None, None), 0.75),
            (KeyIsNull(KEY), None),
        ]
        first, second = planning.number(partitions, table)
        assert (first.rows, first.bytes) == (375, 3000)
        assert (second.rows, second.bytes) == (None, None)

    def test_rows_are_unknown_if_the_source_has_no_estimate(self) -> None:
        table = TableStatistics(
            rows=None, bytes=8000, selected=1.0, blocks=1, storage="", default_key=None
        )
        (only,) = planning.number([(Whole(), 1.0)], table)
        assert (only.rows, only.bytes) == (None, 8000)


def source_file(name: str, *sizes: int) -> SourceFile:
    return SourceFile(name, sum(sizes) + 100, "v1", tuple((size * 10, size) for size in sizes))


class TestFiles:
    @given(
        st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=8), min_size=1, max_size=8),
        st.integers(1, 12),
    )
    def test_every_row_group_is_in_one_partition(self, sizes: list[list[int]], count: int) -> None:
        files = [source_file(f"f{n}", *groups) for n, groups in enumerate(sizes)]
        seen: list[tuple[str, int]] = []
        for extent, _ in planning.by_files(files, count).extents:
            assert isinstance(extent, Files)
            for part in extent.parts:
                (groups,) = [len(f.groups) for f in files if f.path == part.path]
                assert part.lower < (part.upper or groups)
                seen += [(part.path, group) for group in range(part.lower, part.upper or groups)]
        assert seen == [(f.path, group) for f in files for group in range(len(f.groups))]

    def test_shares_add_up(self) -> None:
        files = [source_file("a", 10, 30), source_file("b", 60)]
        shares = [share for _, share in planning.by_files(files, 4).extents]
        assert sum(share or 0 for share in shares) == pytest.approx(1)

    def test_large_files_are_split_and_small_ones_combined(self) -> None:
        files = [source_file("large", *[10] * 8), *(source_file(f"s{n}", 5) for n in range(4))]
        cut = planning.by_files(files, 5)
        assert [str(extent) for extent, _ in cut.extents] == [
            "large row groups [0, 2)",
            "large row groups [2, 4)",
            "large row groups [4, 6)",
            "large row groups [6, end)",
            "s0 and 3 more",
        ]
        assert cut.reasons == (
            "5 files",
            "1 large file partitioned by row groups",
            "small files grouped in 1 partition",
        )

    def test_a_single_row_group_is_not_split(self) -> None:
        assert len(planning.by_files([source_file("a", 1000)], 8).extents) == 1

    def test_files_without_rows_are_one_partition(self) -> None:
        assert len(planning.by_files([source_file("a", 0), source_file("b", 0)], 4).extents) == 1
