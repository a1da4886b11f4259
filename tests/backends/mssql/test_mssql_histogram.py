"""Bounds from a histogram: the queries, and the bounds computed from the steps."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.backends.api.facts import KeyStatistics
from penstock.backends.mssql.catalog.histogram import HistogramStep, bounds_of, read_bounds
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.types import MsType
from penstock.errors import PlanningError
from penstock.model.extents import Key
from penstock.model.tables import TableRef
from penstock.planning.partition_extents import by_range

TABLE, KEY = TableRef("dbo", "t"), Key("it's")
FOUND = (2, "PK_t", 1000, 1000, 0, "2026-01-02")
STEPS = [("1", 0.0, 1.0), ("999", 997.0, 1.0), ("1000", 0.0, 1.0)]


class Played(MssqlSession):
    """The answers of a server."""

    def __init__(self, facts: Sequence[Any] = FOUND, steps: Sequence[Any] = STEPS) -> None:
        self.dialect = MSSQL
        self.queries: list[str] = []
        self._answers = [[facts] if facts else [], list(steps)]

    def facts_of_table(self, query: str, table: TableRef) -> list[tuple[Any, ...]]:
        self.queries.append(query)
        if len(self.queries) > len(self._answers):
            raise PlanningError("source: table dbo.t: Invalid object name")
        return self._answers[len(self.queries) - 1]


def test_queries() -> None:
    session = Played()
    assert read_bounds(session, TABLE, KEY, "numeric", MsType("decimal", 9, 2), 1000)
    found, steps = session.queries
    assert "x.stats_column_id = 1" in found
    assert "t.has_filter = 0" in found
    assert found.endswith(
        "WHERE c.name = N'it''s' AND p.rows > 0 ORDER BY p.modification_counter, p.rows_sampled"
        " DESC"
    )
    assert steps.startswith(
        "SELECT CONVERT(nvarchar(60), CAST(h.range_high_key AS decimal(9,2)), 2), h.range_rows,"
        " h.equal_rows FROM (SELECT CAST(? AS int) AS object_id) AS o"
    )
    assert "CROSS APPLY sys.dm_db_stats_histogram(o.object_id, 2) AS h" in steps
    assert steps.endswith("ORDER BY h.step_number")


def test_the_origin_is_reported() -> None:
    read = read_bounds(Played(), TABLE, KEY, "int4", MsType("int"), 1000)
    assert read is not None
    assert read[2] == "the histogram of statistics PK_t (2026-01-02)"
    sampled = (2, "_WA_1", 1_000_000, 20_000, 0, "2026-01-02")
    read = read_bounds(Played(sampled), TABLE, KEY, "int4", MsType("int"), 1000)
    assert read is not None
    assert read[2].endswith("_WA_1 (2026-01-02, 20,000 of 1,000,000 rows)")


def test_even_keys_have_few_steps_and_many_bounds() -> None:
    read = read_bounds(Played(), TABLE, KEY, "int8", MsType("bigint"), 1000)
    assert read is not None
    bounds, nulls, origin = read
    assert nulls == 0
    assert sum(bound.weight for bound in bounds) == pytest.approx(1)
    keys = [int(bound.bound.text) for bound in bounds]
    assert keys == sorted(set(keys))
    statistics = KeyStatistics(KEY, False, nulls, bounds, origin, True)
    cut = by_range(statistics, 8)
    assert [fraction for _, fraction in cut.extents] == pytest.approx([0.125] * 8, abs=0.01)


@pytest.mark.parametrize(
    "session",
    [
        Played(facts=()),
        Played(facts=(2, "PK_t", 1000, 1000, 51, "2026-01-02")),
        Played(facts=(2, "PK_t", 940, 940, 0, "2026-01-02")),
        Played(steps=()),
        # The keys between two texts are unknown.
        Played(steps=[("a", 0.0, 1.0), ("b", 998.0, 1.0)]),
    ],
    ids=["none", "written to", "grown", "empty", "coarse"],
)
def test_histograms_that_a_sample_must_replace(session: Played) -> None:
    assert read_bounds(session, TABLE, KEY, "text", MsType("nvarchar", 9), 1000) is None


def test_texts_in_another_order_and_servers_without_histograms() -> None:
    session = Played()
    assert read_bounds(session, TABLE, KEY, "varchar", MsType("varchar", 9), 1000) is None
    assert not session.queries
    session._answers = []
    assert read_bounds(session, TABLE, KEY, "int4", MsType("int"), 1000) is None


def test_nulls_and_rows_added_after_the_histogram() -> None:
    steps = [
        HistogramStep(None, 0, 100),
        HistogramStep("1", 0, 10),
        HistogramStep("2", 0, 70),
        HistogramStep("9", 0, 10),
    ]
    found = bounds_of(steps, "int4", 10)
    assert found is not None
    bounds, nulls = found
    assert [(each.bound.text, each.weight) for each in bounds] == [
        ("1", 0.1), ("2", 0.7), ("9", 0.2),
    ]  # fmt: skip
    assert nulls == 0.5


def keys_of(tag: str) -> st.SearchStrategy[list[str]]:
    if tag == "numeric":
        numbers = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-10"))
        return unique(numbers).map(lambda numbers: [format(each, "f") for each in numbers])
    if tag == "int8":
        return unique(st.integers(-(2**63), 2**63 - 1)).map(lambda numbers: [*map(str, numbers)])
    times = st.datetimes()
    return unique(times).map(
        lambda numbers: [f"{each.isoformat(' ', 'microseconds')}3" for each in numbers]
    )


def unique(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=2, max_size=5, unique=True).map(sorted)


@pytest.mark.parametrize("tag", ["int8", "numeric", "timestamp"])
@settings(max_examples=30)
@given(data=st.data())
def test_bounds_ascend(tag: str, data: st.DataObject) -> None:
    """Bounds out of order would put rows into two partitions."""
    keys = data.draw(keys_of(tag))
    steps = [HistogramStep(text, 1000.0, 1.0) for text in keys]
    found = bounds_of(steps, tag, 0)
    if found is None:
        return  # keys too close to each other
    texts = [each.bound.text for each in found[0]]
    values: list[Any] = [*map(Decimal, texts)] if tag != "timestamp" else [
        each.ljust(27, "0") for each in texts
    ]  # fmt: skip
    assert values == sorted(set(values))
    assert set(keys) <= set(texts)
