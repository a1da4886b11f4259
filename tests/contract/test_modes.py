"""Every mode with every strategy that a backend names: rows in, rows out. Others are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock import MODES, copy
from penstock.spec.modes import Mode
from penstock.spec.strategies import STRATEGIES as KNOWN

from .copying import OLD, ROWS, STRATEGIES, Pair
from .database import Database
from .rows import Rows


def combines(mode: Mode, strategy: str, pair: Pair) -> bool:
    """Whether a mode goes with a strategy: what deletes by condition needs a key."""
    by_condition = pair.theirs.backend.target_capabilities.replaces_by_condition
    return not (mode.deletes_by_partition and by_condition) or "key" in STRATEGIES[strategy]


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_with_every_strategy(pair: Pair, mode: Mode) -> None:
    source = pair.mine.backend.source_capabilities
    target = pair.theirs.backend.target_capabilities
    pair.make(key="id" if mode.merges_by_key else "")
    loaded = 0
    for strategy, options in STRATEGIES.items():
        asked = {"mode": mode.name, "strategy": strategy, **options}
        if (
            mode not in target.modes
            or KNOWN[strategy] not in source.strategies
            or not combines(mode, strategy, pair)
        ):
            with pair.refused():
                pair.copy(**asked)
            continue
        if strategy == "children":  # of a table that consists of none
            with pair.refused("--strategy children"):
                pair.copy(**asked)
            continue
        finished = pair.copy(**asked)
        assert finished.status == "done"
        assert finished.partitions >= (1 if strategy in ("auto", "whole", "blocks") else 2)
        loaded += 1
        pair.check(times=loaded if mode.only_adds else 1)
    assert loaded > 2 or mode not in target.modes


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_among_other_rows(
    pair: Pair, mode: Mode, name: str, open_database: Callable[[str], Database]
) -> None:
    """What becomes of rows that an earlier run has loaded."""
    if mode not in pair.theirs.backend.target_capabilities.modes:
        pytest.skip("refused, as test_with_every_strategy has it")
    pair.make(OLD, key="id" if mode.merges_by_key else "")
    before = mode.name if mode.reloads_partitions else "append"
    cut = {"strategy": "ntile", "key": "id", "partitions": 3}
    for where in ("id < 300", "id >= 300"):
        pair.copy(mode=before, where=where, **cut)
    pair.check(OLD)
    newer = open_database(name)
    newer.fill(ROWS)
    Pair(newer, pair.theirs).copy(mode=mode.name, where="id < 300", **cut)
    expected = {
        "append": [*OLD.rows, *ROWS.rows],
        "replace": [*ROWS.rows, *OLD.rows[300:]],
        "upsert": [*ROWS.rows, *OLD.rows[300:]],
    }
    if not pair.theirs.backend.target_capabilities.replaces_by_condition:
        expected["swap"] = expected["replace"]  # both swap what was loaded of the same selection
    pair.check(Rows(ROWS.columns, expected.get(mode.name, ROWS.rows)))


def test_a_table_without_rows(pair: Pair) -> None:
    empty = Rows(ROWS.columns, [])
    pair.make(empty)
    assert pair.copy().rows == 0
    pair.check(empty)


def test_cancelled_it_can_be_resumed(pair: Pair) -> None:
    pair.make()
    events = copy(pair.spec(run_id="r", strategy="ntile", key="id", partitions=4))
    for event in events:
        if event.name == "committed":
            break
    events.close()
    pair.resume("r", on_snapshot_lost="accept")
    pair.check()
