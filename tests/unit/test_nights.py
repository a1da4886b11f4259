"""The starting point of a night's reads, in plain data."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import CopySpec
from penstock.model.nights import Horizon, SourceVersions, Watermark, has_tables_of, is_behind
from penstock.planning.nights import TargetNow, new_leaves, plan_night

FURTHEST = 2**31 - 2**24
SPEC = CopySpec(
    source="postgresql://a/b",
    target="postgresql://c/d",
    table="public.t",
    mode="upsert",
    incremental="xmin",
)
SOURCE = SourceVersions("system", 1, 5, 10, {"10": "a"}, "shape")
NOW = Horizon(1000, 1010)
TARGET = TargetNow("storage", 7)
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
FIRST = plan_night(SPEC, SPEC, (), None, SOURCE, NOW, FURTHEST, TARGET, MOMENT)
LAST = replace(
    FIRST.watermark("run"), moment="then", horizon=Horizon(900, 905), target="storage", rows=7
)


def why_full(**changes: Any) -> str:
    facts: dict[str, Any] = {"last": LAST, "source": SOURCE, "now": NOW, "target": TARGET}
    facts.update(changes)
    last, source, now, target = (facts[name] for name in ("last", "source", "now", "target"))
    night = plan_night(SPEC, SPEC, (), last, source, now, FURTHEST, target, MOMENT)
    assert (night.since is None) == bool(night.full)
    return night.full


def test_changes_since_the_last_horizon_are_read() -> None:
    assert why_full() == ""
    assert (
        plan_night(SPEC, SPEC, (), LAST, SOURCE, NOW, FURTHEST, TARGET, MOMENT).since
        == LAST.horizon
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"last": None}, "this is the first night"),
        ({"last": replace(LAST, horizon=None)}, "the watermark was reset"),
        ({"last": replace(LAST, selects="other")}, "--where"),
        ({"source": replace(SOURCE, system="other")}, "the source is a different server"),
        ({"source": replace(SOURCE, database=6)}, "the source is a different database"),
        ({"source": replace(SOURCE, timeline=2)}, "the source failed over from timeline 1 to 2"),
        ({"source": replace(SOURCE, table=11)}, "the source's table was recreated"),
        ({"source": replace(SOURCE, shape="other")}, "columns or types"),
        ({"source": replace(SOURCE, leaves={"10": "b"})}, "columns or types"),
        ({"target": TargetNow("", None)}, "does not exist"),
        ({"target": TargetNow("other", 7)}, "recreated or rewritten"),
        ({"target": TargetNow("storage", 6)}, "had 7 rows after the last night, and has 6 now"),
        ({"now": Horizon(890, 904)}, "gone back to an earlier state"),
        ({"now": Horizon(900, 900 + FURTHEST)}, "transactions have begun since the last night"),
    ],
)
def test_all_rows_are_read_if_changes_are_unknown(changes: dict[str, Any], why: str) -> None:
    assert why in why_full(**changes)


def test_the_greatest_distance_between_comparable_ids() -> None:
    assert why_full(now=Horizon(900, 899 + FURTHEST)) == ""
    assert why_full(now=Horizon(900, 900 + FURTHEST)) != ""


def test_new_and_reattached_partitions_are_found() -> None:
    leaves = {"11": "a", "12": "b", "13": "c"}
    then = replace(LAST, source=replace(SOURCE, leaves={"11": "a", "12": "a", "14": "x"}))
    source = replace(SOURCE, leaves=leaves)
    night = plan_night(SPEC, SPEC, (), then, source, NOW, FURTHEST, TARGET, MOMENT)
    assert night.full == ""
    assert night.source is not None
    assert new_leaves(night.source, then) == (12, 13)
    assert has_tables_of(night, replace(source, leaves={"11": "a"}))
    assert not has_tables_of(night, replace(source, leaves={**leaves, "15": "a"}))
    assert not has_tables_of(night, replace(source, leaves={**leaves, "11": "again"}))


STANDBY = replace(SOURCE, standby=True)


@pytest.mark.parametrize(
    ("source", "then", "now", "behind"),
    [
        (SOURCE, Horizon(900, 905), Horizon(900, 905), False),
        (SOURCE, Horizon(900, 905), Horizon(900, 904), True),
        (STANDBY, Horizon(900, 905), Horizon(900, 904), True),
        # By its position in the log alone.
        (STANDBY, Horizon(900, 905, 0, 5000), Horizon(900, 905, 4999, 6000), True),
        (STANDBY, Horizon(900, 905, 0, 5000), Horizon(900, 905, 5000, 6000), False),
        (STANDBY, Horizon(900, 905), Horizon(900, 905, 10, 20), False),
        # It has not followed a promotion yet, or it has.
        (replace(STANDBY, timeline=0), Horizon(1, 2), Horizon(900, 905), True),
        (replace(STANDBY, timeline=2), Horizon(900, 905), Horizon(1, 2), False),
        (replace(STANDBY, system="other"), Horizon(900, 905), Horizon(1, 2), False),
    ],
)
def test_a_source_that_is_behind_is_noticed(
    source: SourceVersions, then: Horizon, now: Horizon, behind: bool
) -> None:
    assert is_behind(replace(LAST, horizon=then), source, now) == behind


def test_a_horizon_survives_json() -> None:
    for horizon in (NOW, Horizon(1, 2, 3, 4)):
        assert Horizon.parse(str(horizon)) == horizon
    assert Horizon.parse("") is None
    assert Horizon.parse("1:2") == Horizon(1, 2)


def test_a_watermark_takes_the_epoch_after_the_one_it_continues() -> None:
    assert (FIRST.epoch, FIRST.watermark("r").epoch) == (0, 1)
    assert isinstance(LAST, Watermark)
