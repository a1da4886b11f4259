"""A partition that is far larger than the others: its warning, and the choice that avoids it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock import PartitionPlan
from penstock.backends.api.facts import (
    CommonValue,
    HashStatistics,
    KeyStatistics,
    TableStatistics,
    WeightedBound,
)
from penstock.model.extents import Bound, HashBucket, Key, KeyIsNull
from penstock.model.nights import Horizon, Watermark
from penstock.planning.questions import Bounds, KeyBounds, KeyHashes
from penstock.spec.terms import as_arguments

from .plain import NIGHT, STATISTICS, VERSIONS, World, facts_of, planned, request_of, spec_of

HEAVY = 0.9
VIEW = replace(STATISTICS, blocks=None, children=(), files=(), storage="a view")
HEAP = replace(STATISTICS, children=(), files=())


def ranges(heavy: float = HEAVY, nulls: float = 0.0, *, known: bool = True) -> KeyBounds:
    """Return bounds of ten values, of which 7 has a share."""
    other = (1.0 - nulls - heavy) / 9
    bounds = tuple(
        WeightedBound(Bound("int4", str(n)), heavy, heavy if known else 0.0)
        if n == 7
        else WeightedBound(Bound("int4", str(n)), other)
        for n in range(10)
    )
    return KeyBounds(KeyStatistics(Key("id"), nulls > 0, nulls, bounds, "a test", True))


def plan_of(
    answer: Any = None, table: TableStatistics = HEAP, **options: Any
) -> tuple[PartitionPlan, list[str]]:
    answer = ranges() if answer is None else answer
    kind = KeyHashes if isinstance(answer, HashStatistics) else Bounds
    spec = spec_of(**{"key": "id", "partitions": 10, **options})
    plan = planned(request_of(spec), facts_of(statistics=table), World({kind: answer}))
    return plan, [text for text in plan.warnings if "times the mean" in text]


def test_a_requested_strategy_is_kept_and_warned_about() -> None:
    plan, (warning,) = plan_of(strategy="range")
    assert plan.strategy == "range"
    (heavy,) = (part for part in plan.partitions if "7" in str(part.extent) and part.rows == 900)
    times = HEAVY * len(plan.partitions)
    assert warning == (
        f"{heavy.id} (id [7, 8)) has about 90 % of the rows, {times:.1f} times the mean: id = 7 in "
        "90 % of all rows, which stay together; use --strategy blocks or another --key"
    )
    assert as_arguments(warning).endswith('use strategy="blocks" or another key')


def test_an_automatic_choice_avoids_it() -> None:
    plan, warnings = plan_of()
    assert (plan.strategy, len(plan.partitions), warnings) == ("blocks", 10, [])
    assert plan.reasons[0] == (
        "blocks: not range by key id, since id = 7 in 90 % of all rows, which stay together"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"table": VIEW},
        {"snapshot": "none"},
        {"mode": "replace"},
        {"mode": "attach"},
        {"where": "label = 'a'"},
        {"answer": ranges(known=False)},
    ],
    ids=["view", "without snapshot", "replace", "attach", "where", "unknown value"],
)
def test_it_stays_by_key_if_that_needs_a_key(options: dict[str, Any]) -> None:
    plan, warnings = plan_of(**options)
    assert plan.strategy == "range"
    assert len(warnings) == 1
    by_blocks = "where" in options or "answer" in options
    assert ("--strategy blocks or" in warnings[0]) is by_blocks


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"answer": ranges(0.15)}, "below twice the mean"),
        ({"table": replace(HEAP, bytes=8 << 20)}, "a small table"),
        ({"table": replace(HEAP, selected=0.001)}, "few rows"),
        ({"partitions": 1}, "one partition"),
        ({"partitions": 2}, "half of two partitions"),
    ],
)
def test_no_warning(options: dict[str, Any], why: str) -> None:
    _, warnings = plan_of(**{"strategy": "range", **options})
    assert not warnings, why


def test_null_counts_as_a_value() -> None:
    answer = ranges(0.05, nulls=0.6)
    plan, (warning,) = plan_of(answer, strategy="range")
    assert isinstance(plan.partitions[-1].extent, KeyIsNull)
    assert warning.startswith(f"{plan.partitions[-1].id} (id is null) has about 60 % of the rows")
    plan, warnings = plan_of(answer)
    assert (plan.strategy, warnings) == ("blocks", [])
    assert "since id is null in 60 % of all rows" in plan.reasons[0]


def test_more_than_one() -> None:
    heavy = tuple(CommonValue(Bound("int4", str(n)), 0.3, n) for n in (3, 13, 24, 5))
    answer = HashStatistics(common=tuple(replace(each, share=0.24) for each in heavy))
    _, (warning,) = plan_of(answer, strategy="hash")
    # 3 and 13 fall into one bucket.
    assert "(hash(id) % 10 = 3) has about 48 % of the rows, 4.8 times the mean" in warning
    assert "and 2 others more than 2 times: id = 3 in 24 % of all rows" in warning


def test_buckets_have_the_shares_of_their_values() -> None:
    common = CommonValue(Bound("int4", "7"), 0.5, 12)
    plan, (warning,) = plan_of(HashStatistics(0.1, (common,)), strategy="hash")
    rows = {
        part.extent.remainder: part.rows
        for part in plan.partitions
        if isinstance(part.extent, HashBucket)
    }
    assert rows == {0: 140, 1: 40, 2: 540, **dict.fromkeys(range(3, 10), 40)}
    assert "id = 7 in 50 %" in warning


def test_a_condition_on_the_key_may_exclude_its_values() -> None:
    answer = HashStatistics(common=(CommonValue(Bound("int4", "7"), 0.9, 12),))
    plan, warnings = plan_of(answer, strategy="hash", where="id <> 7")
    assert not warnings
    assert {part.rows for part in plan.partitions} == {100}


def test_values_of_a_masked_key_are_not_shown() -> None:
    answer = HashStatistics(common=(CommonValue(Bound("int4", "4711"), 0.9, 12),))
    for options in ({"mask": {"id": "hash"}}, {"exclude_columns": ["id"]}):
        _, (warning,) = plan_of(answer, strategy="hash", **options)
        assert "4711" not in warning
        assert "has about 91 % of the rows" in warning


def test_a_night_reads_other_rows() -> None:
    """The skew of a table says nothing about the rows that have changed."""
    spec = spec_of(mode="upsert", incremental="xmin", strategy="range", key="id", partitions=10)
    first = planned(request_of(spec), facts_of(night=NIGHT), World({Bounds: ranges()}))
    assert first.night is not None
    last = Watermark(
        "s.t to s.t", 1, "run-1", "then", Horizon(900, 905), VERSIONS, target="storage",
        selects=first.night.selects,
    )  # fmt: skip
    facts = facts_of(night=replace(NIGHT, last=last, changed="age(xmin) < 7"))
    later = planned(request_of(spec), facts, World({Bounds: ranges()}))
    assert later.selection
    warned = [
        any("times the mean" in warning for warning in plan.warnings) for plan in (first, later)
    ]
    assert warned == [True, False]
