"""Bounds written by another system: their type tags keep their meaning here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import PlanningError
from penstock.backends.postgresql.target import PostgresTarget
from penstock.model.extents import (
    Bound,
    Extent,
    FilePart,
    Files,
    Key,
    KeyOther,
    KeyRange,
    KeyValues,
)
from penstock.model.tables import TableRef

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

T = TableRef("public", "t")
A = Key("a")
# In ascending order, in the notation that all systems share.
TAGGED = {
    "bool": ["false", "true"],
    "int2": ["-1", "7"],
    "int4": ["-1", "7"],
    "int8": ["-9223372036854775808", "7"],
    "numeric": ["-1.5", "1" + "0" * 40, "NaN"],
    "float4": ["-Infinity", "0.1", "NaN"],
    "float8": ["-Infinity", "1e-300", "NaN"],
    "text": ["", "it's", "z"],
    "date": ["2024-01-31", "2024-02-01"],
    "time": ["00:00:00", "10:00:00.5"],
    "timestamp": ["2024-01-31 10:00:00", "2024-01-31 10:00:00.5"],
    "timestamptz": ["2024-01-31 10:00:00+00", "2024-01-31 10:00:00.5+00"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "bytea": ["\\x", "\\x00ff"],
}


def count(pair: Pair, extent: Extent) -> int:
    target = PostgresTarget(pair.target.url, "penstock")
    try:
        target.check_condition(T, None, extent)
        return target.checksum(T, None, extent, ()).rows
    finally:
        target.close()


@pytest.mark.parametrize("tag", TAGGED)
def test_a_tagged_bound_selects_the_rows_below_it(pair: Pair, tag: str) -> None:
    texts = TAGGED[tag]
    bounds = tuple(Bound(tag, text) for text in texts)
    pair.target.run(f"CREATE TABLE t (a {tag})", "INSERT INTO t VALUES (NULL)")
    for text in texts:
        quoted = text.replace("'", "''")
        pair.target.run(f"INSERT INTO t VALUES ('{quoted}')")
    assert count(pair, KeyRange(A, bounds[0], bounds[1])) == 1
    assert count(pair, KeyRange(A, bounds[0], None)) == len(texts)
    assert count(pair, KeyValues(A, bounds)) == len(texts)
    assert count(pair, KeyOther(A, bounds[:1])) == len(texts) - 1


def test_an_unusable_bound_is_refused(pair: Pair) -> None:
    pair.target.run("CREATE TABLE t (a int)")
    with pytest.raises(PlanningError, match="hugeint"):
        count(pair, KeyValues(A, (Bound("hugeint", "1"),)))
    with pytest.raises(PlanningError, match=r"cannot select rows by a\.parquet"):
        count(pair, Files((FilePart("/a.parquet", 1, "1"),)))
