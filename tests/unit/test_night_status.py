"""The status of a night, from its plan, its snapshots and the history of its watermark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.nights import (
    BY_HAND,
    Horizon,
    Night,
    SourceVersions,
    Watermark,
    night_status,
)
from penstock.model.snapshots import Snapshot

SOURCE = SourceVersions("1", 1, 5, 16384, {"16384": ""}, "")
NIGHT = Night("w", 3, "", SOURCE, "", since=Horizon(90, 95), moment="2026-11-24 02:00:00+00")
TAKEN = Snapshot("token", "2026-11-25 02:00:00.5+00", "100:110")
LAST = Watermark("w", 3, "r3", "2026-11-24 02:00:00+00", Horizon(90, 95), SOURCE)
LATER = Watermark("w", 4, "r4", "2026-11-25 03:00:00+00", Horizon(120, 130), SOURCE)


def test_a_night_without_competition_can_merge() -> None:
    status = night_status("mine", NIGHT, [TAKEN], [LAST])
    assert status.merged is None
    assert status.overtaken_by is None
    assert status.since == NIGHT.moment


def test_a_merged_night_stays_merged_after_later_ones() -> None:
    mine = replace(LATER, run_id="mine")
    status = night_status("mine", NIGHT, [TAKEN], [replace(LATER, epoch=5), mine, LAST])
    assert status.merged == mine
    assert status.overtaken_by is None


@pytest.mark.parametrize(
    ("last", "covered"),
    [
        (LATER, True),
        (replace(LATER, horizon=Horizon(105, 110)), True),
        # A night that was stopped earlier, and woke up after the other one was planned.
        (replace(LATER, horizon=Horizon(95, 109)), False),
        (replace(LATER, run_id=f"{BY_HAND}x"), False),
        (Watermark("w", 4, f"{BY_HAND}x", "", None), False),
        # Of another server: its transaction ids are not comparable.
        (replace(LATER, source=replace(SOURCE, system="2"), horizon=Horizon(1, 2)), True),
        (replace(LATER, horizon=None, moment="2026-11-25 02:00:00+00"), False),
    ],
)
def test_a_later_night_overtakes_an_unmerged_one(last: Watermark, *, covered: bool) -> None:
    status = night_status("mine", NIGHT, [replace(TAKEN, token="older"), TAKEN], [last, LAST])
    assert status.merged is None
    assert status.overtaken_by == last
    assert status.covered == covered


def test_a_night_without_a_snapshot_is_never_covered() -> None:
    assert not night_status("mine", NIGHT, [], [LATER, LAST]).covered
