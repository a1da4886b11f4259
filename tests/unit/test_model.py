"""Extents, partitions and plans as JSON, and the fingerprint that identifies a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.model.codec import from_json, to_json
from penstock.model.extents import (
    BlockRange,
    Bound,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)
from penstock.model.plans import LoadPlan, Partition, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import Column, ColumnPair, TableRef

bounds = st.builds(Bound, st.text(), st.text())
keys = st.builds(Key, st.text(), st.booleans(), st.text())
blocks = st.integers(0, 2**32)
counts = st.none() | st.integers(0, 2**63)
values = st.lists(bounds).map(tuple)
extents: st.SearchStrategy[Extent] = st.one_of(
    st.just(Whole()),
    st.builds(BlockRange, blocks, st.none() | blocks),
    st.builds(KeyRange, keys, st.none() | bounds, st.none() | bounds),
    st.builds(KeyIsNull, keys),
    st.builds(KeyValues, keys, values),
    st.builds(KeyOther, keys, values),
    st.builds(HashBucket, keys, st.integers(1), st.integers(0)),
)
partitions = st.builds(Partition, st.text(min_size=1), extents, counts, counts)
# The part of a column that JSON keeps: only planning uses `generated` and `has_default`.
columns = st.builds(Column, st.text(min_size=1), st.text(), st.booleans())
plans = st.builds(
    PartitionPlan,
    strategy=st.text(),
    reasons=st.lists(st.text()).map(tuple),
    partitions=st.lists(partitions, min_size=1).map(tuple),
    columns=st.lists(columns, min_size=1).map(tuple),
    rows=counts,
    bytes=counts,
    warnings=st.lists(st.text()).map(tuple),
)


def over_the_wire(raw: Any) -> Any:
    return json.loads(json.dumps(raw))


@given(extents)
def test_an_extent_survives_json(extent: Extent) -> None:
    assert from_json(Extent, over_the_wire(to_json(extent))) == extent
    assert isinstance(str(extent), str)


@given(partitions)
def test_a_partition_survives_json(partition: Partition) -> None:
    raw = over_the_wire(to_json(partition))
    assert from_json(Partition, raw) == partition
    assert raw["label"] == str(partition.extent)


@given(plans)
def test_a_plan_survives_json(plan: PartitionPlan) -> None:
    raw = over_the_wire(to_json(plan))
    again = from_json(PartitionPlan, raw)
    assert again == plan
    assert again.fingerprint == plan.fingerprint == raw["fingerprint"]


def test_numbers_keep_every_digit() -> None:
    digits = "12345678901234567890123456789012345678.0123456789"
    extent = KeyValues(Key("k"), (Bound("numeric", digits),))
    raw = over_the_wire(to_json(extent))
    assert raw["values"] == [{"type": "numeric", "text": digits}]
    assert from_json(Extent, raw) == extent


def test_an_unknown_kind_of_extent_is_rejected() -> None:
    with pytest.raises(UsageError, match="unknown kind 'spiral'; written by a newer Penstock"):
        from_json(Extent, {"kind": "spiral"})


@pytest.mark.parametrize(
    ("extent", "label"),
    [
        (Whole(), "whole table"),
        (BlockRange(0, 128), "blocks [0, 128)"),
        (BlockRange(128, None), "blocks [128, end)"),
        (KeyRange(Key("id"), None, None), "id not null"),
        (KeyRange(Key("id"), None, Bound("int4", "7")), "id < 7"),
        (KeyRange(Key("id"), Bound("int4", "7"), None), "id >= 7"),
        (KeyRange(Key("id"), Bound("int4", "7"), Bound("int4", "9")), "id [7, 9)"),
        (KeyIsNull(Key("id")), "id is null"),
        (KeyValues(Key("x"), (Bound("text", "a"), Bound("text", "b"))), "x = a, b"),
        (KeyOther(Key("x"), ()), "x: any other value"),
        (HashBucket(Key("lower(x)", expression=True), 4, 3), "hash(lower(x)) % 4 = 3"),
    ],
)
def test_an_extent_has_a_readable_label(extent: Extent, label: str) -> None:
    assert str(extent) == label
    assert str(Partition("p0001", extent)) == f"p0001 ({label})"


PLAN = PartitionPlan(
    strategy="range",
    reasons=("range: as requested",),
    partitions=(
        Partition("p0001", KeyRange(Key("id"), None, Bound("int4", "7")), 10, 100),
        Partition("p0002", KeyRange(Key("id"), Bound("int4", "7"), None), 20, 200),
    ),
    columns=(Column("id", "integer", False), Column("name", "text")),
    pairs=(ColumnPair("id", "id"), ColumnPair("name", "label", "varchar")),
    format="binary",
    load=LoadPlan(
        TableRef("dw", "b"),
        (Step("s1", "truncate dw.b", "TRUNCATE dw.b"), Step("s2", "index", "x", True, 3, True)),
        ("id",),
        True,
        ("slow",),
    ),
    rows=30,
    bytes=300,
)
FIRST, SECOND = PLAN.partitions


class TestFingerprint:
    def test_is_the_same_in_every_version(self) -> None:
        # It is stored with every run: if it changes for the same plan, no run can be resumed.
        assert PLAN.fingerprint == "0ae343737828b90b"

    @pytest.mark.parametrize(
        "plan",
        [
            replace(PLAN, strategy="auto", reasons=(), warnings=("slow",), rows=None, bytes=1),
            replace(PLAN, partitions=(replace(FIRST, rows=1, bytes=2), SECOND)),
            replace(PLAN, columns=(replace(PLAN.columns[0], has_default=True), PLAN.columns[1])),
        ],
    )
    def test_stays_the_same_if_the_same_rows_are_selected(self, plan: PartitionPlan) -> None:
        assert plan.fingerprint == PLAN.fingerprint

    @pytest.mark.parametrize(
        "plan",
        [
            replace(PLAN, partitions=(FIRST,)),
            replace(PLAN, partitions=(SECOND, FIRST)),
            replace(PLAN, partitions=(replace(FIRST, id="p1"), SECOND)),
            replace(
                PLAN,
                partitions=(
                    replace(FIRST, extent=KeyRange(Key("id"), None, Bound("int4", "8"))),
                    SECOND,
                ),
            ),
            replace(
                PLAN,
                partitions=(
                    replace(FIRST, extent=KeyRange(Key("id"), None, Bound("int8", "7"))),
                    SECOND,
                ),
            ),
            replace(PLAN, columns=PLAN.columns[:1]),
            replace(PLAN, columns=PLAN.columns[::-1]),
            replace(PLAN, columns=(replace(PLAN.columns[0], type="bigint"), PLAN.columns[1])),
            replace(PLAN, columns=(replace(PLAN.columns[0], name="ID"), PLAN.columns[1])),
        ],
    )
    def test_changes_with_the_rows_or_the_columns(self, plan: PartitionPlan) -> None:
        assert plan.fingerprint != PLAN.fingerprint

    @given(plans, plans)
    def test_differs_between_plans(self, first: PartitionPlan, second: PartitionPlan) -> None:
        def content(plan: PartitionPlan) -> Any:
            return (
                plan.columns,
                plan.pairs,
                [(partition.id, partition.extent) for partition in plan.partitions],
            )

        same = content(first) == content(second)
        assert (first.fingerprint == second.fingerprint) == same


class TestPlan:
    def test_finds_a_partition_by_its_id(self) -> None:
        assert PLAN.partition("p0002") is SECOND

    def test_lists_its_partitions(self) -> None:
        with pytest.raises(UsageError) as caught:
            PLAN.partition("p9")
        assert caught.value.message == (
            "partition 'p9' is not in the plan, which has 2 partitions, from 'p0001' to 'p0002'"
        )


@given(st.text(), st.text(), st.text())
def test_snapshot_and_source_state_survive_json(one: str, two: str, three: str) -> None:
    snapshot = Snapshot(one, two)
    assert from_json(Snapshot, over_the_wire(to_json(snapshot))) == snapshot
    state = SourceState(one, two, three, one)
    assert from_json(SourceState, over_the_wire(to_json(state))) == state


def test_a_commit_record_as_json_has_every_field() -> None:
    record = CommitRecord("p0001", 2, 10, 100, "2026-01-01", "2026-01-02")
    raw = to_json(record)
    assert CommitRecord(**{**raw, "files": tuple(raw["files"])}) == record
