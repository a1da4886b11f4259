"""More ranges than the statistics have bounds: they are subdivided, and each row is in exactly
one."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest

import penstock
from penstock import CopySpec, Finished
from penstock.backends.postgresql.keys.interpolation import between
from penstock.model.extents import KeyRange
from penstock.model.plans import PartitionPlan

from ...faults.pair import connect, execute

ROWS = 20_000
KEYS = {
    "int4": "i * 7 - 50000",
    "int8": "i::bigint * i",
    "numeric": "i * 1.37 - 100",
    "numeric(12,2)": "i / 7.0",
    "float4": "i * 0.37",
    "float8": "sqrt(i)",
    "date": "date '1950-01-01' + i",
    "timestamp": "timestamp '2001-01-01' + i * interval '17 minutes 0.25 seconds'",
    "timestamptz": "timestamptz '2001-01-01 00:00+00' + i * interval '1 day'",
    "uuid": "md5(i::text)::uuid",
    "text": "md5(i::text)",
    "varchar(40)": "'Käse ' || lpad(to_hex(hashint4(i)), 8, '0')",
}


def plan_of(url: str, count: int, **options: Any) -> PartitionPlan:
    spec = CopySpec(
        source=url, target=url, table="public.fine", target_table="public.copied",
        strategy="range", key="k", partitions=count, **options,
    )  # fmt: skip
    return penstock.plan(spec)


def make(url: str, type_: str, value: str) -> None:
    execute(
        url,
        f"CREATE TABLE fine AS SELECT ({value})::{type_} AS k FROM generate_series(1, {ROWS}) AS i",
        "CREATE INDEX ON fine (k)",
        "CREATE TABLE copied (LIKE fine)",
        "ANALYZE fine",
    )


@pytest.mark.parametrize(("type_", "value"), KEYS.items(), ids=list(KEYS))
def test_the_requested_number_of_ranges_is_planned(target_url: str, type_: str, value: str) -> None:
    make(target_url, type_, value)
    plan = plan_of(target_url, 1000)
    ranges = [part.extent for part in plan.partitions if isinstance(part.extent, KeyRange)]
    assert len(ranges) == 1000
    with closing(connect(target_url)) as connection:
        bounds = [each.upper.text for each in ranges[:-1] if each.upper]
        (ascending,) = connection.execute(
            f"SELECT bool_and(a::{type_} < b::{type_})"
            " FROM unnest(%s::text[], %s::text[]) AS pairs (a, b)",
            [bounds[:-1], bounds[1:]],
        ).fetchone() or (None,)
        assert ascending
        assert all(a.upper == b.lower for a, b in pairwise(ranges))
        sizes: dict[int, int] = dict(
            connection.execute(
                f"SELECT width_bucket(k, (%s::text[])::{type_.partition('(')[0]}[]), count(*)"
                " FROM fine GROUP BY 1",
                [bounds],
            ).fetchall()
        )
    # They average 20 rows; a sample cannot make them more even.
    assert sum(sizes.values()) == ROWS
    assert max(sizes.values()) < 200
    assert sum(size > 0 for size in sizes.values()) > 700


def test_each_row_is_in_one_range(target_url: str) -> None:
    make(target_url, "numeric", KEYS["numeric"])
    execute(target_url, "INSERT INTO fine VALUES (NULL), ('NaN'), ('Infinity')", "ANALYZE fine")
    spec = CopySpec(
        source=target_url, target=target_url, table="public.fine",
        target_table="public.copied", strategy="range", key="k", partitions=300,
        verify="checksums",
    )  # fmt: skip
    last = [*penstock.copy(spec)][-1]
    assert isinstance(last, Finished)
    assert last.status == "done"


def test_common_values_keep_their_weight(target_url: str) -> None:
    """A third of the rows share one value, which cannot be divided."""
    make(target_url, "int4", "CASE WHEN i % 3 = 0 THEN 777 ELSE i END")
    plan = plan_of(target_url, 500)
    assert len(plan.partitions) == 501 or len(plan.partitions) == 500
    heavy = max(plan.partitions, key=lambda part: part.rows or 0)
    assert heavy.rows == pytest.approx(ROWS / 3, rel=0.2)
    assert "777" in str(heavy.extent)


def test_the_plan_says_how_even_the_ranges_are(target_url: str) -> None:
    make(target_url, "text", KEYS["text"])
    assert any("% of the intended size" in why for why in plan_of(target_url, 1000).reasons)
    execute(target_url, "DROP TABLE fine, copied")
    make(target_url, "int4", KEYS["int4"])
    found = plan_of(target_url, 1000)
    assert any("as if its values were even" in why for why in found.reasons)
    assert not any("each step divided" in why for why in plan_of(target_url, 8).reasons)


@pytest.mark.parametrize(
    ("tag", "low", "high", "expected"),
    [
        ("int4", "1", "5", ["2", "3", "4"]),
        ("int4", "1", "2", []),
        ("int8", "-9223372036854775808", "9223372036854775807",
         ["-4611686018427387905", "-1", "4611686018427387903"]),
        ("numeric", "-0.5", "0.5", ["-0.25", "0", "0.25"]),
        ("numeric", "1", "NaN", []),
        ("float8", "0", "4", ["1.0", "2.0", "3.0"]),
        ("float8", "-Infinity", "4", []),
        ("date", "2024-02-28", "2024-03-03", ["2024-02-29", "2024-03-01", "2024-03-02"]),
        ("date", "0044-03-15 BC", "2024-03-03", []),
        ("timestamptz", "2024-01-01 05:30:00+05:30", "2024-01-05 00:00:00+00",
         ["2024-01-02 00:00:00.000000+00", "2024-01-03 00:00:00.000000+00",
          "2024-01-04 00:00:00.000000+00"]),
        ("text", "a", "z", []),
    ],
)  # fmt: skip
def test_bounds_are_interpolated_between_two_values(
    tag: str, low: str, high: str, expected: list[str]
) -> None:
    assert between(tag, low, high, 4) == expected
