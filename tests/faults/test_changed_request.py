"""Changes after which a run cannot continue: a source with other columns, or other options."""

from __future__ import annotations

from signal import SIGKILL

import pytest

from penstock.events import Opened, Warned

from .pair import Pair, execute

NEW = "ALTER TABLE item ADD extra int"
GONE = "ALTER TABLE item DROP amount"
RETYPED = "ALTER TABLE item ALTER amount TYPE numeric(14,2)"


def stop_in_mid_copy(pair: Pair) -> dict[str, int]:
    gates = pair.gates(3, 4)
    run = pair.copy()
    for gate in gates:
        gate.reached()
    run.signal_all(SIGKILL)
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
    return pair.attempts()


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (NEW, None, ["column 'extra' was added"]),
        (GONE, GONE, ["column 'amount' was dropped"]),
        (RETYPED, RETYPED, ["'amount' was numeric(12,2) and is now numeric(14,2)"]),
        (None, GONE, ["amount", "the target has no such column"]),
    ],
)
def test_other_columns_in_the_source_are_rejected(
    pair: Pair, source: str | None, target: str | None, expected: list[str]
) -> None:
    before = stop_in_mid_copy(pair)
    assert before
    if source:
        execute(pair.source, source)
    if target:
        execute(pair.target, target)
    resumed = pair.resume()
    resumed.ended(65)
    for words in expected:
        assert words in resumed.errors
    assert not resumed.of(Opened)
    assert pair.attempts() == before
    pair.check_nothing_left()


def test_a_column_change_that_was_undone_is_accepted(pair: Pair) -> None:
    stop_in_mid_copy(pair)
    execute(pair.source, NEW)
    execute(pair.target, NEW)
    pair.resume().ended(65)
    execute(pair.source, "ALTER TABLE item DROP extra")
    execute(pair.target, "ALTER TABLE item DROP extra")
    resumed = pair.check_resumes()
    # The server was written to, so the table's statistics need time to settle.
    (warned,) = resumed.of(Warned)
    assert "settle" in warned.message


def test_other_options_are_rejected(pair: Pair) -> None:
    before = stop_in_mid_copy(pair)
    other = pair.copy("--where", "id > 5", "--mode", "truncate", partitions=7)
    other.ended(64)
    for words in (
        "run faults exists with other options",
        "--where: the run has None, found 'id > 5'",
        "--mode: the run has 'append', found 'truncate'",
        "--partitions: the run has 8, found 7",
    ):
        assert words in other.errors
    assert "--degree" not in other.errors
    assert not other.events
    assert pair.attempts() == before
    pair.check_nothing_left()
    # Execution options do not change the rows that are copied.
    same = pair.copy("--attempts", "2", degree=3)
    same.ended(0)
    pair.check_resumes()
