"""Partitions are distributed over mapped tasks: each once, in order, within Airflow's limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Partition
from penstock.model.extents import Bound, Key, KeyRange, KeyValues
from penstock_airflow.runs.packing import MAX_LABEL, hire, pack

LONGEST_IN_THE_GRID = 250


def partitions(count: int) -> list[Partition]:
    def extent(number: int) -> KeyRange:
        return KeyRange(Key("k"), Bound("int", str(number)), Bound("int", str(number + 1)))

    return [Partition(f"p{number}", extent(number)) for number in range(count)]


def packed(count: int, per_task: int, max_tasks: int) -> list[dict[str, Any]]:
    return pack(
        "r", "append", partitions(count), per_task=per_task, max_tasks=max_tasks, concurrency=0
    )


@given(st.integers(0, 3000), st.integers(1, 100), st.integers(1, 1100))
def test_every_partition_appears_once_and_in_order(
    count: int, per_task: int, max_tasks: int
) -> None:
    packs = packed(count, per_task, max_tasks)
    ids = [name for one in packs for name in one["partitions"]]
    assert ids == [f"p{number}" for number in range(count)]
    assert len(packs) <= max_tasks
    sizes = [len(one["partitions"]) for one in packs]
    assert all(sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1
    if -(-count // per_task) <= max_tasks:
        assert all(size <= per_task for size in sizes)
        assert len(packs) == -(-count // per_task)
    else:
        assert len(packs) == max_tasks


def test_each_entry_is_complete() -> None:
    assert packed(3, 2, 10) == [
        {"run_id": "r", "mode": "append", "partitions": ["p0"], "label": "p0 k [0, 1)"},
        {
            "run_id": "r",
            "mode": "append",
            "partitions": ["p1", "p2"],
            "label": "p1 to p2: k [1, 2) to k [2, 3)",
        },
    ]


def test_workers_have_no_partitions_of_their_own_and_divide_the_rate() -> None:
    assert hire("r", "append", 40, workers=2, max_rate=100, gathers=True) == [
        {"run_id": "r", "mode": "append", "label": label, "max_rate": 50, "gathers": True}
        for label in ("worker 0", "worker 1")
    ]


@pytest.mark.parametrize(("workers", "count"), [(1, 1), (3, 3), (4, 3)])
def test_there_are_no_more_workers_than_partitions(workers: int, count: int) -> None:
    tasks = hire("r", "append", 3, workers=workers)
    assert [task["label"] for task in tasks] == [f"worker {number}" for number in range(count)]
    assert all("max_rate" not in task for task in tasks)


@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=60), st.integers(1, 2))
def test_a_label_fits_into_the_grid(values: list[str], count: int) -> None:
    extent = KeyValues(Key("country"), tuple(Bound("text", value) for value in values))
    both = [Partition(f"p{number}", extent) for number in range(count)]
    (one,) = pack("r", "append", both, per_task=2, max_tasks=10, concurrency=0)
    assert one["label"].startswith("p0 ")
    assert len(one["label"]) <= MAX_LABEL < LONGEST_IN_THE_GRID


@pytest.mark.parametrize(("concurrency", "rate"), [(4, 25), (0, 10), (1, 100), (1000, 10)])
def test_mapped_tasks_that_run_at_once_divide_the_rate(concurrency: int, rate: int) -> None:
    options: dict[str, Any] = {"per_task": 1, "max_tasks": 99, "concurrency": concurrency}
    packs = pack("r", "append", partitions(10), **options, max_rate=100)
    assert {one["max_rate"] for one in packs} == {rate}
    assert all("max_rate" not in one for one in pack("r", "append", partitions(10), **options))
