"""Ranges and values specified by a user: found to be disjoint by the source's own order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.backends.duckdb.source import DuckSource
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key
from penstock.model.tables import Query
from penstock.planning.named_bounds import Range, Rank, read_ranges, read_values

ROWS = Query("SELECT 1 AS i, 1.50 AS n, 'a' AS t, DATE '2024-01-01' AS d, true AS b")


@pytest.fixture(scope="module")
def source() -> Iterator[DuckSource]:
    found = DuckSource(None)
    yield found
    found.close()


def ranks(source: DuckSource, key: str, *, ordered: bool) -> Rank:
    return partial(source.rank_values, ROWS, Key(key), ordered=ordered)


SIDES = st.none() | st.integers(0, 6)


@settings(max_examples=60, deadline=None)
@given(ranges=st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=4))
def test_ranges_without_a_common_value_are_accepted(
    source: DuckSource, ranges: list[tuple[int | None, int | None]]
) -> None:
    def rows(lower: int | None, upper: int | None) -> set[int]:
        return set(range(-1 if lower is None else lower, 8 if upper is None else upper))

    ascend = all(low is None or high is None or low <= high for low, high in ranges)
    are_disjoint = all(not rows(*one) & rows(*other) for one, other in combinations(ranges, 2))
    # An empty range within another one overlaps it, judging by bounds alone.
    inside = any(
        one[0] is not None and one[0] == one[1] and one[0] in rows(*other) - {other[0]}
        for one in ranges
        for other in ranges
    )
    texts: list[Range] = [
        (None if low is None else str(low), None if high is None else str(high))
        for low, high in ranges
    ]
    if ascend and are_disjoint and not inside:
        found = read_ranges(ranks(source, "i", ordered=True), Key("i"), texts)
        assert [tuple(bound and bound.text for bound in pair) for pair in found] == texts
    else:
        with pytest.raises(PlanningError, match=r"--key i: expected (ascending bounds|ranges)"):
            read_ranges(ranks(source, "i", ordered=True), Key("i"), texts)


@pytest.mark.parametrize(
    ("key", "texts", "expected"),
    [
        ("i", ["1", "01"], "found '1' and '01', which are both '1'"),
        ("n", ["1.5", "2", "1.50"], "found '1.5' and '1.50', which are both '1.5'"),
        ("i", ["1.5"], "expected a value of type int4, found '1.5'"),
        ("d", ["2024-01-01T12:00"], "found 2024-01-01T12:00, which has a time of day"),
    ],
)
def test_overlapping_or_invalid_values_are_rejected(
    source: DuckSource, key: str, texts: list[str], expected: str
) -> None:
    with pytest.raises(PlanningError) as refused:
        read_values(ranks(source, key, ordered=False), Key(key), texts)
    assert expected in refused.value.message


def test_values_are_normalised_by_type(source: DuckSource) -> None:
    found = read_values(
        ranks(source, "d", ordered=False),
        Key("d"),
        ["2024-1-2", "2024-01-01"],
    )
    assert found == (Bound("date", "2024-01-02"), Bound("date", "2024-01-01"))
    assert read_values(ranks(source, "b", ordered=False), Key("b"), []) == ()


def test_a_type_without_order_supports_no_ranges(source: DuckSource) -> None:
    with pytest.raises(PlanningError, match="to partition into ranges"):
        read_ranges(ranks(source, "b", ordered=True), Key("b"), [(None, None)])
