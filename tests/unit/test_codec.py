"""Every class that is stored or sent survives JSON; edited documents are rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.backends.parquet.load.manifest import Manifest
from penstock.backends.roll_forward.documents import decode
from penstock.backends.roll_forward.runs import PlanDocument, RunDocument
from penstock.backends.roll_forward.series import Claim
from penstock.backends.roll_forward.states import Record
from penstock.errors import PermanentError, Unreadable, UsageError
from penstock.events import BY_NAME
from penstock.model.codec import NOT_STORED, OMITTED, JsonForm, from_json, to_json
from penstock.model.extents import Bound, Extent, Key, KeyIsNull, Whole
from penstock.model.plans import LoadPlan, Partition, PartitionPlan
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import ColumnPair, TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.verification.result import Verification

STORED: tuple[type[Any], ...] = (
    *get_args(Extent),
    Claim,
    CommitRecord,
    Manifest,
    PartitionPlan,
    PlanDocument,
    Record,
    RunDocument,
    Snapshot,
    SourceState,
    Verification,
    WorkerSpec,
    *BY_NAME.values(),
)
scalars: Mapping[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=5),
}
anything = st.recursive(
    st.one_of(*scalars.values()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type hint, as far as they are stored."""
    if hint in scalars:
        return scalars[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        stored = [item.name for item in fields(hint) if item.metadata != NOT_STORED]
        return st.builds(hint, **{name: values(hints[name]) for name in stored})
    if isinstance(hint, UnionType):
        return st.one_of(*map(values, get_args(hint)))
    if get_origin(hint) is tuple:
        # An extent of no tables or files has no label.
        item = values(get_args(hint)[0])
        return st.lists(item, min_size=1, max_size=2).map(tuple)
    item = get_args(hint)[1]
    inner = anything if item is Any else values(item)
    return st.dictionaries(st.text(max_size=5), inner, max_size=2)


def over_the_wire(value: Any) -> Any:
    return json.loads(json.dumps(to_json(value)))


def places(raw: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list or object within a document, and each of its keys."""
    if isinstance(raw, dict | list):
        for key in raw if isinstance(raw, dict) else range(len(raw)):
            yield raw, key
            yield from places(raw[key])


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: str(kind.__name__))
class TestEveryClass:
    @given(data=st.data())
    @settings(max_examples=10)
    def test_survives_a_round_trip(self, kind: type[Any], data: st.DataObject) -> None:
        value = data.draw(values(kind))
        raw = over_the_wire(value)
        again = from_json(kind, raw)
        assert again == value
        assert over_the_wire(again) == raw

    @given(data=st.data())
    @settings(max_examples=10)
    def test_is_read_or_rejected_after_an_edit(self, kind: type[Any], data: st.DataObject) -> None:
        raw = over_the_wire(data.draw(values(kind)))
        holder, key = data.draw(st.sampled_from(list(places(raw)) or [([raw], 0)]))
        if data.draw(st.booleans()):
            del holder[key]
        else:
            holder[key] = data.draw(anything)
        with suppress(Unreadable, UsageError):
            again = from_json(kind, raw)
            assert from_json(kind, over_the_wire(again)) == again

    @given(data=st.data())
    @settings(max_examples=5)
    def test_is_rejected_without_a_field_or_with_another_type(
        self, kind: type[Any], data: st.DataObject
    ) -> None:
        raw = over_the_wire(data.draw(values(kind)))
        hints, form = get_type_hints(kind), getattr(kind, "json_form", JsonForm())
        for item in fields(kind):
            if item.metadata in (NOT_STORED, OMITTED):
                continue
            if not form.defaults:
                without = {name: value for name, value in raw.items() if name != item.name}
                with pytest.raises(Unreadable, match=rf"^{kind.__name__}: .*{item.name}"):
                    from_json(kind, without)
            if hints[item.name] in scalars:
                wrong = {**raw, item.name: {"no": "such"}}
                with pytest.raises(Unreadable, match=rf"^{kind.__name__}\.{item.name}: expected"):
                    from_json(kind, wrong)


class TestForms:
    def test_defaults_are_left_out(self) -> None:
        assert to_json(TableRef("a", "b")) == ["a", "b"]
        assert to_json(TableRef("a", "b", only=True)) == ["a", "b", True]
        assert from_json(TableRef, ["a", "b", True]).only
        assert to_json(ColumnPair("a", "b")) == {"source": "a", "target": "b", "cast": ""}

    def test_computed_fields_are_written_for_readers_of_json(self) -> None:
        partition = Partition("p1", KeyIsNull(Key("id")))
        assert to_json(partition)["label"] == "id is null"
        assert from_json(Partition, {**to_json(partition), "label": "edited"}) == partition

    def test_an_integer_is_accepted_as_a_number(self) -> None:
        @dataclass
        class Half:
            size: float

        assert from_json(Half, {"size": 1}) == Half(1)
        with pytest.raises(Unreadable, match=r"^Half.size: expected a number, found true or false"):
            from_json(Half, {"size": True})

    def test_an_unsupported_type_is_a_bug(self) -> None:
        with pytest.raises(TypeError, match="bytes has no JSON form"):
            to_json({"x": b"1"})

    @pytest.mark.parametrize("raw", [[], ["a"], ["a", "b", True, 4], "ab", {"schema": "a"}])
    def test_a_list_of_another_length_is_rejected(self, raw: Any) -> None:
        with pytest.raises(Unreadable, match=r"^TableRef: expected .*name"):
            from_json(TableRef, raw)


PLAN = PartitionPlan(
    strategy="whole",
    reasons=(),
    partitions=(Partition("p1", Whole()), Partition("p2", KeyIsNull(Key("id")))),
    columns=(),
    pairs=(),
    format="binary",
    load=LoadPlan(TableRef("a", "b")),
)


class TestRefusals:
    def test_name_the_place_and_show_no_value(self) -> None:
        raw = over_the_wire(PLAN)
        raw["partitions"][1]["extent"]["key"]["text"] = ["secret"]
        with pytest.raises(Unreadable) as caught:
            from_json(PartitionPlan, raw)
        assert caught.value.message == (
            "PartitionPlan.partitions[1].extent.key.text: expected a string, found a list"
        )

    def test_reject_a_plan_with_another_fingerprint(self) -> None:
        raw = over_the_wire(PLAN)
        raw["partitions"][1]["extent"]["key"]["text"] = "di"
        with pytest.raises(Unreadable, match=r"^PartitionPlan: expected the fingerprint"):
            from_json(PartitionPlan, raw)

    @pytest.mark.parametrize("kind", [None, 7, [], {}])
    def test_reject_a_kind_that_is_no_string(self, kind: Any) -> None:
        with pytest.raises(Unreadable, match=r"^Partition.extent.kind: expected a string, found"):
            from_json(Partition, {**over_the_wire(PLAN.partitions[0]), "extent": {"kind": kind}})

    def test_name_the_position_in_a_list(self) -> None:
        with pytest.raises(Unreadable, match=r"^\[1\].text: expected a string, found null"):
            from_json(tuple[Bound, ...], [to_json(Bound("", "")), {"type": "", "text": None}])

    def test_cover_unknown_fields_of_records_alone(self) -> None:
        raw = over_the_wire(PLAN)
        raw["colour"] = raw["load"]["colour"] = raw["partitions"][0]["extent"]["colour"] = "green"
        assert from_json(PartitionPlan, raw) == PLAN
        # A record is read, changed and written: unknown fields would be lost.
        with pytest.raises(
            Unreadable, match=r"^Record: unknown colour; written by a newer Penstock"
        ):
            from_json(Record, {**to_json(Record("n")), "colour": "green"})

    def test_cover_a_truncated_document(self) -> None:
        whole = json.dumps(to_json(Record("n"))).encode()
        assert decode(Record, whole, "r/p1.json") == Record("n")
        for end in range(len(whole)):
            with pytest.raises(PermanentError, match=r"^target: r/p1.json cannot be read"):
                decode(Record, whole[:end], "r/p1.json")
