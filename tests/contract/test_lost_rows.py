"""A run that is complete, and whose rows others have removed since."""

from __future__ import annotations

import pytest

from penstock import copy, create, find_loss, status
from penstock.errors import TargetChanged
from penstock.events import Committed, Planned, Warned

from .copying import ROWS, Pair

CUT = {"strategy": "range", "key": "id", "partitions": 3}


def test_a_run_does_not_end_as_done_over_an_empty_table(inward: Pair) -> None:
    inward.make()
    inward.copy(run_id="r", **CUT)
    assert find_loss("r", target=inward.ends["target"]) is None
    assert inward.copy(run_id="r", **CUT).status == "done"
    inward.theirs.empty()
    with pytest.raises(TargetChanged, match="start a new run"):
        inward.resume("r")
    with pytest.raises(TargetChanged, match="start a new run") as caught:
        inward.copy(run_id="r", **CUT)
    assert f"expected {len(ROWS.rows)} rows" in caught.value.message
    assert status("r", target=inward.ends["target"]).run.status == "done"


def test_rows_that_vanish_before_the_last_steps_are_missed(inward: Pair) -> None:
    """The run was interrupted after its last partition: only steps are left to do."""
    if not inward.theirs.starts_over:
        pytest.skip("a commit may be carried out later, so rows may be missing for a moment")
    inward.make()
    events = copy(inward.spec(run_id="r", **CUT))
    left = None
    for event in events:
        if isinstance(event, Planned):
            left = event.partitions
        if isinstance(event, Committed) and left:
            left -= 1
        if left == 0:
            break
    events.close()
    if not inward.theirs.read():
        pytest.skip("it shows no rows before the last steps")
    inward.theirs.empty()
    if status("r", target=inward.ends["target"]).run.status == "done":
        pytest.skip("no step was left")
    with pytest.raises(TargetChanged):
        inward.resume("r")


def test_a_run_whose_rows_are_gone_is_planned_again(inward: Pair) -> None:
    inward.make()
    inward.copy(run_id="r", **CUT)
    inward.theirs.empty()
    spec = inward.spec(run_id="r", **CUT)
    if not inward.theirs.starts_over:
        with pytest.raises(TargetChanged, match="start a new run"):
            create(spec, renew=True)
        return
    assert create(spec, renew=True).renewed
    assert inward.resume("r").status == "done"
    inward.check()
    assert not create(spec, renew=True).renewed
    assert inward.resume("r").status == "done"
    inward.check()


def test_missing_rows_are_named(inward: Pair) -> None:
    inward.make()
    inward.copy(run_id="r", **CUT)
    inward.theirs.empty(2)
    remaining = len(inward.theirs.read())
    events = list(copy(inward.spec(run_id="r", **CUT)))
    (warning,) = [event for event in events if isinstance(event, Warned)]
    assert f"expected {len(ROWS.rows)} rows, found {remaining}" in warning.message
    assert len(inward.theirs.read()) == remaining
