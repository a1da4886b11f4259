"""The event protocol: round trips, readers of other versions, and its JSON schema."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from penstock import events
from penstock.errors import Diagnosis, PenstockError
from penstock.events import (
    BY_NAME,
    BatchTable,
    Event,
    OtherProcess,
    PartitionComparison,
    PartitionDifference,
    PartitionFailure,
    PartitionTiming,
    ReadLater,
    from_line,
)
from penstock.model.tables import NotCopied

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "event-protocol.schema.json"
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)

texts = st.text()
amounts = st.integers(0, 2**63)
seconds = st.floats(0, 1e9)
numbers_from_1 = st.integers(1, 2**31)
estimates = st.none() | amounts
errors = st.fixed_dictionaries(
    {"error": texts, "message": texts, "transient": st.booleans()},
    optional={
        "side": st.sampled_from(["source", "target"]),
        "code": st.from_regex(r"\A[0-9A-Z]{5}\Z"),
        "detail": texts,
        "hint": texts,
        "context": texts,
        "constraint": texts,
    },
)
# By name: a field has the same meaning in every event.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "run_id": st.text(min_size=1, max_size=36),
    "at": st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    "partition_id": st.text(min_size=1, max_size=10),
    "label": texts,
    "attempt": numbers_from_1,
    "attempts": numbers_from_1,
    "pid": numbers_from_1,
    "rows": amounts,
    "bytes": amounts,
    "seconds": seconds,
    "wait_source": seconds,
    "wait_target": seconds,
    "busy": seconds,
    "paced": seconds,
    "lost": seconds,
    "delay": seconds,
    "already": st.booleans(),
    "error": errors,
    "strategy": texts,
    "reasons": st.lists(texts, max_size=3).map(tuple),
    "partitions": numbers_from_1,
    "committed": amounts,
    "fingerprint": st.from_regex(r"\A[0-9a-f]{16}\Z"),
    "degree": numbers_from_1,
    "mode": texts,
    "taken_at": texts,
    "message": texts,
    "snapshots": amounts,
    "inserted": estimates,
    "updated": estimates,
    "deleted": estimates,
    "epoch": amounts,
    "step_id": texts,
    "step": texts,
    "table": texts,
    "target_table": texts,
    "ok": st.booleans(),
    "mismatches": amounts,
    "counted": amounts,
    "method": st.sampled_from(["counts", "checksums"]),
    "warnings": st.lists(texts, max_size=3).map(tuple),
    "kind": texts,
    "name": texts,
    "remedy": texts,
    "dropped": st.booleans(),
    "side": st.sampled_from(["source", "target"]),
    "automatic": st.booleans(),
    "done": st.booleans(),
    "watermark": texts,
    "moment": texts,
    "since": texts,
    "full": texts,
    "unproven": texts,
    "cause": st.sampled_from(["connections", "auto", "lag"]),
    "waits": st.dictionaries(texts, numbers_from_1, max_size=3),
    "what": st.sampled_from(["planning", "finishing"]),
    "run_ids": st.lists(texts, max_size=3).map(tuple),
    "host": texts,
    "partition_ids": st.lists(texts, max_size=3).map(tuple),
    "phases": st.dictionaries(texts, seconds, max_size=3),
}


def events_of(kind: Any, **strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        kind, **{item.name: {**FIELDS, **strategies}[item.name] for item in fields(kind)}
    )


FIELDS["failures"] = st.lists(events_of(PartitionFailure), max_size=2).map(tuple)
FIELDS["others"] = st.lists(events_of(OtherProcess), max_size=2).map(tuple)
FIELDS["not_copied"] = st.lists(events_of(NotCopied), max_size=2).map(tuple)
# A field with another meaning in one event.
OWN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "planned": {"rows": estimates, "bytes": estimates},
    "degree": {"degree": amounts},
    "snapshot": {"state": st.sampled_from(["taken", "adopted", "lost", "renewed"])},
    "merged": {
        "inserted": amounts,
        "updated": amounts,
        "deleted": amounts,
        "epoch": amounts,
    },
    "finished": {
        "status": st.sampled_from(["done", "partial", "failed", "interrupted"]),
        "attempts": amounts,
        "error": st.none() | errors,
        "timings": st.lists(events_of(PartitionTiming), max_size=2).map(tuple),
        "later": st.lists(
            events_of(ReadLater, partition_ids=st.lists(texts, max_size=3).map(tuple)), max_size=2
        ).map(tuple),
    },
}
OWN["verified"] = {
    "differences": st.lists(
        events_of(
            PartitionDifference,
            **dict.fromkeys(("committed", "source", "target"), estimates),
            partition_id=st.none() | st.text(min_size=1),
            note=st.text(),
        ),
        max_size=2,
    ).map(tuple),
    "compared": st.lists(
        events_of(
            PartitionComparison,
            **dict.fromkeys(("source", "target"), estimates),
            **dict.fromkeys(("source_digest", "target_digest"), st.none() | texts),
            partition_id=st.none() | st.text(min_size=1),
        ),
        max_size=2,
    ).map(tuple),
}
OWN["merged"] = dict.fromkeys(("inserted", "updated", "deleted"), amounts)
OWN["step"] = {"state": st.sampled_from(["started", "done", "retrying", "failed"])}
TABLES = st.lists(
    events_of(
        BatchTable,
        status=st.sampled_from(["found", "done", "partial", "failed", "interrupted"]),
        error=st.none() | errors,
    ),
    max_size=2,
).map(tuple)
OWN["batch_started"] = {"tables": TABLES}
OWN["batch_finished"] = {
    "tables": TABLES,
    "status": st.sampled_from(["done", "failed", "interrupted"]),
}
EVENTS = {name: events_of(kind, **OWN.get(name, {})) for name, kind in BY_NAME.items()}
any_event = st.one_of(*EVENTS.values())


def test_every_event_class_is_known_by_its_name() -> None:
    named = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Event) and value.name
    }
    assert named == set(BY_NAME.values())
    assert all(kind.name == name for name, kind in BY_NAME.items())


class TestLines:
    @given(any_event)
    def test_survive_a_round_trip(self, event: Event) -> None:
        line = event.to_line()
        assert from_line(line) == event
        assert from_line(line.encode() + b"\n") == event

    @given(any_event)
    def test_are_single_lines_of_ascii(self, event: Event) -> None:
        line = event.to_line()
        assert line.isascii()
        assert len(line.splitlines()) == 1
        assert json.loads(line)["version"] == 1

    @given(any_event, st.dictionaries(st.from_regex(r"\Ax_[a-z]{1,5}\Z"), st.integers()))
    def test_may_have_fields_that_are_unknown_to_a_reader(
        self, event: Event, more: dict[str, int]
    ) -> None:
        raw = json.loads(event.to_line())
        raw.update(more)
        for nested in (*raw.get("failures", ()), *raw.get("timings", ())):
            nested.update(more)
        assert from_line(json.dumps(raw)) == event

    def test_have_a_time(self) -> None:
        event = events.Warned(run_id="r1", message="low tide")
        at = datetime.fromisoformat(event.at)
        assert at.tzinfo is not None
        assert abs((datetime.now(UTC) - at).total_seconds()) < 60


BAD: list[tuple[str | bytes, str]] = [
    ("", "expected a JSON object"),
    ("penstock: hello", "expected a JSON object"),
    ('{"version": 1', "expected a JSON object"),
    (b"\xff\xfe", "expected a JSON object"),
    ("[]", "expected"),
    ("null", "expected"),
    ('"opened"', "expected"),
    ("{}", "expected version 1"),
    ('{"version": 2, "event": "opened"}', "expected version 1"),
    ('{"version": 1}', "expected one of opened, progress"),
    ('{"version": 1, "event": "exploded"}', "expected one of opened, progress"),
    ('{"version": 1, "event": ["opened"]}', "expected one of opened, progress"),
    ('{"version": 1, "event": {}}', "expected one of opened, progress"),
    ('{"version": 1, "event": null}', "expected one of opened, progress"),
]


class TestBadLines:
    @pytest.mark.parametrize(("line", "expected"), BAD)
    def test_name_the_expected_content(self, line: str | bytes, expected: str) -> None:
        with pytest.raises(ValueError, match=r"^event") as caught:
            from_line(line)
        assert expected in str(caught.value)

    @pytest.mark.parametrize("name", sorted(BY_NAME))
    @given(data=st.data())
    @settings(max_examples=10)
    def test_name_a_missing_field(self, name: str, data: st.DataObject) -> None:
        raw = json.loads(data.draw(EVENTS[name]).to_line())
        optional = {"at", "already", "failures", "timings", "inserted", "updated", "error"}
        optional |= {"warnings", "not_copied", "differences", "compared", "later"}
        optional |= {"paced", "lost", "automatic", "done", "cause", "phases"}
        optional |= {"watermark", "epoch", "moment", "since", "full", "unproven"}
        optional |= {"deleted"} if name == "finished" else set()
        optional |= {"table", "target_table"} if name == "planned" else set()
        optional -= {"error"} if name == "failed" else set()
        optional -= {"inserted", "updated"} if name == "merged" else set()
        optional |= {"message"} if name == "step" else set()
        optional |= {"watermark", "epoch", "moment", "since", "full", "unproven"} | (
            {"deleted"} if name == "finished" else set()
        )
        optional -= {"inserted", "updated"} if name == "merged" else set()
        field = data.draw(st.sampled_from(sorted(set(raw) - {"version", "event"} - optional)))
        del raw[field]
        with pytest.raises(ValueError, match=f"event {name}.*{field}"):
            from_line(json.dumps(raw))

    @pytest.mark.parametrize("field", ["failures", "timings"])
    @pytest.mark.parametrize("value", [None, 7, [7], [{}], [{"partition_id": "p1"}]])
    @given(event=EVENTS["finished"])
    @settings(max_examples=3)
    def test_with_a_malformed_report_name_it(self, field: str, value: object, event: Event) -> None:
        raw = {**event.as_json(), field: value}
        with pytest.raises(ValueError, match=r"^event finished"):
            from_line(json.dumps(raw))


class TestSchema:
    def test_is_valid(self) -> None:
        Draft202012Validator.check_schema(SCHEMA)

    @given(any_event)
    def test_accepts_every_event(self, event: Event) -> None:
        VALIDATOR.validate(json.loads(event.to_line()))

    def test_has_exactly_the_events(self) -> None:
        assert [item["$ref"] for item in SCHEMA["oneOf"]] == [f"#/$defs/{name}" for name in BY_NAME]

    @pytest.mark.parametrize("name", sorted(BY_NAME))
    def test_has_exactly_the_fields(self, name: str) -> None:
        defined = SCHEMA["$defs"][name]
        known = {"version", "event", *(item.name for item in fields(BY_NAME[name]))}
        assert set(defined["properties"]) == known
        assert set(defined["required"]) == known
        assert defined["properties"]["event"] == {"const": name}
        assert defined["description"]

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("difference", PartitionDifference),
            ("comparison", PartitionComparison),
            ("failure", PartitionFailure),
            ("timing", PartitionTiming),
            ("batch_table", BatchTable),
            ("other_process", OtherProcess),
        ],
    )
    def test_has_every_field_of_a_report(self, name: str, kind: Any) -> None:
        assert set(SCHEMA["$defs"][name]["properties"]) == {item.name for item in fields(kind)}

    def test_has_every_field_of_an_error(self) -> None:
        full = Diagnosis(**{item.name: "x" for item in fields(Diagnosis)})
        known = PenstockError("x", full).as_json()
        assert set(SCHEMA["$defs"]["error"]["properties"]) == set(known)

    @pytest.mark.parametrize("name", sorted(BY_NAME))
    @given(data=st.data())
    @settings(max_examples=5)
    def test_rejects_a_missing_field_or_one_of_another_type(
        self, name: str, data: st.DataObject
    ) -> None:
        raw = json.loads(data.draw(EVENTS[name]).to_line())
        for field in raw:
            without = {key: value for key, value in raw.items() if key != field}
            assert not VALIDATOR.is_valid(without), field
            assert not VALIDATOR.is_valid({**raw, field: {"no": "such"}}), field
        assert VALIDATOR.is_valid({**raw, "x_new": 1})

    def test_rejects_unknown_events(self) -> None:
        event = json.loads(events.Warned(run_id="r1", message="low tide").to_line())
        assert VALIDATOR.is_valid(event)
        assert not VALIDATOR.is_valid({**event, "event": "exploded"})
        assert not VALIDATOR.is_valid({**event, "version": 2})


def test_as_json_has_all_fields() -> None:
    event = events.Warned(run_id="r1", message="low tide")
    assert event.as_json() == {"version": 1, "event": "warning", **asdict(event)}
