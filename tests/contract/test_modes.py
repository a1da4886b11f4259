"""Every mode and strategy that a backend lists copies all rows; others are rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock import MODES, copy
from penstock.backends.api.worker import ARROW
from penstock.events import Finished
from penstock.spec.modes import TRUNCATE, UPSERT, Emptying, Entry, Mode
from penstock.spec.strategies import STRATEGIES as KNOWN

from ..covering import EVERY
from .copying import OLD, ROWS, STRATEGIES, Pair
from .database import Database
from .rows import Rows

# Strategies for modes that do not depend on how a partition selects its rows.
FEW = ("auto", "whole", "ntile", "values")


def is_tried(mode: Mode, strategy: str) -> bool:
    """Whether a mode and a strategy are tried together: one partitions the source, the other loads.

    Rows are selected in the target only if they are deleted or verified by partition. A selection
    without a key cannot be deleted, and is verified in mode `truncate`.
    """
    if EVERY or mode.entry is Entry.REPLACE or strategy in FEW:
        return True
    return mode.emptying is Emptying.TRUNCATE and "key" not in STRATEGIES[strategy]


def refusal(mode: Mode, strategy: str, pair: Pair) -> str:
    """Return the reason why the combination is rejected; empty if it is not."""
    source = pair.mine.backend.source_capabilities
    target = pair.theirs.backend.target_capabilities
    if KNOWN[strategy] not in source.strategies:
        return f"{source.system} as a source does not support --strategy {strategy}; it supports "
    if mode not in target.modes:
        return f"{target.system} as a target does not support --mode {mode}; it supports "
    if mode.entry is Entry.REPLACE and strategy == "values" and not pair.mine.finds_texts:
        return "so the target would select other rows than the source"
    if strategy in pair.mine.lacks:
        return f"--strategy {strategy}"
    if mode.entry is Entry.ATTACH:  # the target is not partitioned
        return "--mode attach"
    by_condition = mode.entry is Entry.REPLACE and target.replaces_by_condition
    if by_condition and "key" not in STRATEGIES[strategy]:
        return "--key"
    return "--strategy children" if strategy == "children" else ""  # the table has none


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_each_mode_with_every_strategy(pair: Pair, mode: Mode) -> None:
    pair.make(key="id" if mode.entry is Entry.BY_KEY else "")
    loaded = 0
    for strategy, options in STRATEGIES.items():
        choice = {"mode": mode.name, "strategy": strategy, **options}
        if refused := refusal(mode, strategy, pair):
            with pair.refused(refused):
                pair.copy(**choice)
            continue
        if not is_tried(mode, strategy):
            continue
        finished = pair.copy(**choice)
        _check_cut(finished, strategy)
        if mode.entry is Entry.BY_KEY:
            assert (finished.inserted, finished.updated) == (0 if loaded else len(ROWS.rows), 0)
        loaded += 1
        pair.check(times=loaded if mode.only_adds else 1)
        if mode.emptying is Emptying.TRUNCATE or mode.entry is Entry.REPLACE:
            pair.verify(finished)
    assert (
        loaded > 2
        or mode.entry is Entry.ATTACH
        or mode not in pair.theirs.backend.target_capabilities.modes
    )


def _check_cut(finished: Finished, strategy: str) -> None:
    assert finished.status == "done"
    assert finished.partitions >= (1 if strategy in ("auto", "whole", "blocks") else 2)


def test_record_batches_with_every_strategy(outward: Pair) -> None:
    """A system may have a format of its own for copies to its own kind."""
    if outward.mine.backend.source_capabilities.formats[0] == ARROW:
        pytest.skip("it speaks no other, as test_each_mode_with_every_strategy has it")
    outward.make()
    for strategy, options in STRATEGIES.items():
        if not refusal(TRUNCATE, strategy, outward):
            finished = outward.copy(mode="truncate", strategy=strategy, **options)
            _check_cut(finished, strategy)
            outward.check()
            outward.verify(finished)


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_each_mode_among_other_rows(
    inward: Pair, mode: Mode, open_database: Callable[[str], Database]
) -> None:
    """The rows of an earlier run are handled as the mode says."""
    target = inward.theirs.backend.target_capabilities
    if mode not in target.modes:
        pytest.skip("refused, as test_each_mode_with_every_strategy has it")
    if mode.entry is Entry.ATTACH:
        pytest.skip("the target has child tables, as the backend's own tests have it")
    inward.make(OLD, key="id" if mode.entry is Entry.BY_KEY else "")
    before = mode.name if mode.reloads_partitions else "append"
    cut = {"strategy": "ntile", "key": "id", "partitions": 3}
    for where in ("id < 300", "id >= 300"):
        inward.copy(mode=before, where=where, **cut)
    inward.check(OLD)
    newer = open_database(inward.mine.name)
    newer.fill(ROWS)
    finished = Pair(newer, inward.theirs).copy(mode=mode.name, where="id < 300", **cut)
    if mode.entry is Entry.BY_KEY:
        assert (finished.inserted, finished.updated) == (0, len(ROWS.rows))
    expected = {
        "append": [*OLD.rows, *ROWS.rows],
        "replace": [*ROWS.rows, *OLD.rows[300:]],
        "upsert": [*ROWS.rows, *OLD.rows[300:]],
    }
    if not target.replaces_by_condition:
        expected["swap"] = expected["replace"]  # both replace the rows of the same selection
    inward.check(Rows(ROWS.columns, expected.get(mode.name, ROWS.rows)))


def test_an_atomic_upsert_from_another_system(
    inward: Pair, open_database: Callable[[str], Database]
) -> None:
    target = inward.theirs.backend.target_capabilities
    if target.merges_nights:
        _check_upserts(inward, open_database)
        return
    inward.make(key="id")
    refused = "--mode upsert" + (" with --atomic" if UPSERT in target.modes else "")
    with inward.refused(f"{target.system} as a target does not support {refused}"):
        inward.copy(mode="upsert", atomic="table")


def test_an_atomic_upsert_within_a_system(
    pair: Pair, open_database: Callable[[str], Database]
) -> None:
    if not pair.theirs.backend.target_capabilities.merges_nights:
        pytest.skip("refused, as test_an_atomic_upsert_from_another_system has it")
    _check_upserts(pair, open_database)


def _check_upserts(pair: Pair, open_database: Callable[[str], Database]) -> None:
    """Check an upsert that deletes the rows that are no longer in the source."""
    choice = {"mode": "upsert", "atomic": "table", "deletes": "hard,50%"}
    choice |= {"strategy": "ntile", "key": "id"}
    pair.make(OLD, key="id")
    finished = pair.copy(**choice, partitions=3)
    assert (finished.inserted, finished.updated) == (len(OLD.rows), 0)
    pair.check(OLD)
    newer = open_database(pair.mine.name)
    newer.fill(ROWS)
    pair = Pair(newer, pair.theirs)
    for updated in (len(ROWS.rows), 0):
        finished = pair.copy(**choice, partitions=2)
        assert (finished.inserted, finished.updated) == (0, updated)
        pair.check()


def test_an_empty_table_is_copied(pair: Pair) -> None:
    empty = Rows(ROWS.columns, [])
    pair.make(empty)
    finished = pair.copy()
    assert finished.rows == 0
    pair.check(empty)
    pair.verify(finished)


def test_a_cancelled_run_is_resumed(pair: Pair) -> None:
    pair.make()
    events = copy(pair.spec(run_id="r", strategy="ntile", key="id", partitions=4))
    for event in events:
        if event.name == "committed":
            break
    events.close()
    finished = pair.resume("r", on_snapshot_lost="accept")
    assert finished.attempts < finished.partitions  # committed partitions are not read again
    pair.resume("r", on_snapshot_lost="accept")  # no work remains
    pair.check()
