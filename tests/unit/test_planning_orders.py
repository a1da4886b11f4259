"""Bounds of partitions, whose order the source itself checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from penstock.backends.duckdb.source import DuckSource
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Extent, Key, KeyIsNull, KeyOther, KeyRange, KeyValues
from penstock.model.tables import Query
from penstock.planning.asking.orders import disorder

RELATION = Query("SELECT 1.50 AS n, 'a' AS t")
N, T = Key("n"), Key("t")


@pytest.fixture(scope="module")
def source() -> Iterator[DuckSource]:
    found = DuckSource(None)
    yield found
    found.close()


def ranges(key: Key, tag: str, texts: Sequence[str]) -> list[Extent]:
    edges = [None, *(Bound(tag, text) for text in texts), None]
    return [
        *(KeyRange(key, low, high) for low, high in pairwise(edges)),
        KeyIsNull(key),
    ]


def values(key: Key, tag: str, texts: Sequence[str]) -> list[Extent]:
    bounds = tuple(Bound(tag, text) for text in texts)
    return [*(KeyValues(key, (bound,)) for bound in bounds), KeyOther(key, bounds)]


@pytest.mark.parametrize(
    "extents",
    [
        ranges(N, "numeric", []),
        ranges(N, "numeric", ["1"]),
        ranges(N, "numeric", ["-1", "1.5", "10"]),
        ranges(T, "text", ["", " ", "A", "Z", "a", "é"]),
        values(N, "numeric", []),
        # In any order of the list.
        values(N, "numeric", ["10", "2", "1.5"]),
        [KeyIsNull(N)],
    ],
)
def test_each_row_is_in_one_partition(source: DuckSource, extents: list[Extent]) -> None:
    assert disorder(source, RELATION, extents) == ""


@pytest.mark.parametrize(
    ("extents", "problem"),
    [
        (ranges(N, "numeric", ["1", "1.0"]), "does not order '1' before '1.0'"),
        (ranges(N, "numeric", ["9", "10", "2", "3"]), "does not order '10' before '2'"),
        (ranges(T, "text", ["a", "A"]), "order 'a' before 'A', although they are adjacent among 2"),
        (values(N, "numeric", ["2", "1", "2.0"]), "compares '2' and '2.0' as equal"),
    ],
)
def test_a_row_in_two_partitions_is_rejected(
    source: DuckSource, extents: list[Extent], problem: str
) -> None:
    assert problem in disorder(source, RELATION, extents)


def test_more_bounds_than_one_statement_can_compare(source: DuckSource) -> None:
    texts = [str(number) for number in range(2500)]
    assert disorder(source, RELATION, ranges(N, "numeric", texts)) == ""
    texts[2200] = "0"
    assert "'2199' before '0'" in disorder(source, RELATION, ranges(N, "numeric", texts))


def test_the_collation_of_another_system_is_rejected(source: DuckSource) -> None:
    assert source.native_order(RELATION, T) == ""
    key = Key("t", collation="MariaDB:utf8mb4_general_ci")
    with pytest.raises(PlanningError, match="DuckDB cannot compare by the source's collation"):
        source.checksum(RELATION, None, KeyRange(key, None, Bound("text", "b")), ())
