"""Partitions of the source's table that are attached or detached while a run reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.events import Committed

from .pair import ROWS, Pair, ask, execute, partition_id

# The first has a gap, which lies in the first of four partitions by key.
CHILDREN = ((1, 3001), (5001, 12001), (12001, ROWS + 1))
LEFT = ROWS - 2000


@pytest.fixture
def parted(pair: Pair) -> Pair:
    statements = [
        f"CREATE TABLE child_{low} PARTITION OF item FOR VALUES FROM ({low}) TO ({high})"
        for low, high in CHILDREN
    ]
    execute(
        pair.source,
        "ALTER TABLE item RENAME TO plain",
        "ALTER INDEX item_pkey RENAME TO plain_pkey",
        "CREATE TABLE item (LIKE plain, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        *statements,
        "INSERT INTO item SELECT * FROM plain WHERE id NOT BETWEEN 3001 AND 5000",
        "CREATE TABLE more (LIKE plain INCLUDING INDEXES)",
        "INSERT INTO more SELECT * FROM plain WHERE id BETWEEN 3001 AND 5000",
        "ANALYZE",
    )
    return pair


ATTACH = "ALTER TABLE item ATTACH PARTITION more FOR VALUES FROM (3001) TO (5001)"
DETACH = "ALTER TABLE item DETACH PARTITION child_12001"


@pytest.mark.parametrize("change", [ATTACH, DETACH], ids=["attach", "detach"])
@pytest.mark.parametrize("strategy", ["children", "auto"])
def test_the_strategy_children_reads_the_planned_child_tables(
    parted: Pair, strategy: str, change: str
) -> None:
    gate = parted.gate(6000)
    run = parted.copy("--mode", "truncate", strategy=strategy, degree=1, partitions=3)
    gate.reached()
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(execute, parted.source, change)
        gate.open()
        run.ended(0)
        changing.result(60)
    assert ask(parted.target, "SELECT count(*) FROM item") == LEFT


@pytest.mark.parametrize("verify", ["none", "counts"])
def test_verification_finds_a_partition_attached_during_a_copy_by_key(
    parted: Pair, verify: str
) -> None:
    gate = parted.gate(12000)
    run = parted.copy(
        *("--mode", "truncate", "--key", "id", "--verify", verify),
        strategy="range",
        degree=1,
        partitions=4,
    )
    run.wait_for(Committed, partition_id=partition_id(1))
    gate.reached()
    execute(parted.source, ATTACH)
    gate.open()
    run.ended(0 if verify == "none" else 65)
    assert verify == "none" or "but" in run.errors
