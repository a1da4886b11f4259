"""Spans of an execution, collected by OpenTelemetry's own SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from penstock import traced
from penstock.errors import PermanentError
from penstock.events import (
    BatchFinished,
    BatchStarted,
    BatchTable,
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    Planned,
    Progress,
    Retrying,
    SnapshotChanged,
    Warned,
)

MOVED: dict[str, Any] = {
    "rows": 10,
    "bytes": 1_000,
    "seconds": 2.0,
    "wait_source": 0.5,
    "wait_target": 1.0,
}
LOST = {"error": "TransientError", "message": "the connection was lost", "transient": True}
BAD = {"error": "PermanentError", "message": "a bad row", "code": "22P02", "detail": "Ada"}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def at(second: int) -> str:
    return f"2026-11-29T10:00:{second:02}.250+00:00"


def nanoseconds(second: int) -> int:
    return (1795946400 + second) * 1_000_000_000 + 250_000_000


def planned(run_id: str = "r", table: str = "public.orders") -> Planned:
    return Planned(
        run_id=run_id,
        at=at(1),
        strategy="blocks",
        reasons=(),
        partitions=2,
        committed=0,
        rows=20,
        bytes=2_000,
        fingerprint="f",
        degree=1,
        seconds=0.5,
        table=table,
        target_table="dw.orders",
    )


def attempt(second: int, partition: str = "p1", number: int = 1, run_id: str = "r") -> Any:
    return {
        "run_id": run_id,
        "partition_id": partition,
        "attempt": number,
        "pid": 1,
        "at": at(second),
    }


def finished(run_id: str = "r", status: str = "done", **changes: Any) -> Finished:
    return Finished(
        run_id=run_id,
        status=status,
        at=at(50),
        partitions=2,
        committed=2,
        attempts=3,
        busy=1.0,
        degree=1,
        snapshots=1,
        **MOVED,
        **changes,
    )


RETRIED: tuple[Event, ...] = (
    planned(),
    Opened(**attempt(2), label="id from 'Ada' to 'Eve'"),
    Progress(**attempt(3), **MOVED),
    Failed(**attempt(4), error=LOST),
    Retrying(run_id="r", partition_id="p1", attempt=2, delay=1.0),
    Opened(**attempt(6, number=2), label="id from 'Ada' to 'Eve'"),
    Opened(**attempt(7, "p2"), label=""),
    Committed(**attempt(8, number=2), **MOVED),
    Committed(**attempt(9, "p2"), **MOVED),
    finished(),
)


class Spans:
    """The spans of some events."""

    def __init__(self, events: Iterable[Event], most: int = 1000) -> None:
        memory = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(memory))
        self.error: BaseException | None = None
        watched = traced(events, provider)
        try:
            for number, _ in enumerate(watched, 1):
                if number == most:
                    watched.close()  # type: ignore[attr-defined]
                    break
        except PermanentError as error:
            self.error = error
        self.all: tuple[ReadableSpan, ...] = memory.get_finished_spans()

    def named(self, name: str, **attributes: Any) -> list[ReadableSpan]:
        wanted = {f"penstock.{each}": value for each, value in attributes.items()}
        return [
            span
            for span in self.all
            if span.name == f"penstock.{name}"
            and wanted.items() <= dict(span.attributes or {}).items()
        ]

    def one(self, name: str, **attributes: Any) -> ReadableSpan:
        (span,) = self.named(name, **attributes)
        return span


def status(span: ReadableSpan) -> tuple[StatusCode, str | None]:
    return span.status.status_code, span.status.description


def is_within(span: ReadableSpan, other: ReadableSpan) -> bool:
    assert other.context is not None
    return span.parent is not None and span.parent.span_id == other.context.span_id


def test_a_run_has_partitions_which_have_attempts() -> None:
    spans = Spans(RETRIED)
    run = spans.one("run")
    first, second = (spans.one("partition", partition_id=each) for each in ("p1", "p2"))
    assert is_within(first, run)
    assert is_within(second, run)
    lost, taken = (spans.one("attempt", partition_id="p1", attempt=n) for n in (1, 2))
    assert is_within(lost, first)
    assert is_within(taken, first)
    assert is_within(spans.one("attempt", partition_id="p2"), second)
    assert len(spans.all) == 6
    assert (first.start_time, first.end_time) == (nanoseconds(2), nanoseconds(8))
    assert (lost.start_time, lost.end_time) == (nanoseconds(2), nanoseconds(4))
    assert (taken.start_time, taken.end_time) == (nanoseconds(6), nanoseconds(8))


def test_spans_have_the_figures_of_their_events_and_no_values_of_rows() -> None:
    spans = Spans(RETRIED)
    run = dict(spans.one("run").attributes or {})
    assert run["penstock.table"] == "public.orders"
    assert run["penstock.target_table"] == "dw.orders"
    assert (run["penstock.run_id"], run["penstock.status"], run["penstock.rows"]) == (
        "r",
        "done",
        10,
    )
    for name in ("partition", "attempt"):
        found = dict(spans.named(name, partition_id="p1")[-1].attributes or {})
        assert {found[f"penstock.{each}"] for each in MOVED} == {*MOVED.values()}
    assert "Ada" not in "".join(span.to_json() for span in spans.all)
    for span in spans.all:
        assert all(name.startswith("penstock.") for name in span.attributes or {})


def test_a_failed_attempt_has_its_error_and_its_partition_that_of_the_last() -> None:
    spans = Spans(RETRIED)
    lost = spans.one("attempt", partition_id="p1", attempt=1)
    assert status(lost) == (StatusCode.ERROR, "the connection was lost")
    (event,) = lost.events
    assert (event.name, event.timestamp) == ("exception", nanoseconds(4))
    assert dict(event.attributes or {}) == {
        "exception.type": "TransientError",
        "exception.message": "the connection was lost",
        "penstock.transient": True,
    }
    assert {status(span)[0] for span in spans.all if span is not lost} == {StatusCode.UNSET}


def failing() -> Iterator[Event]:
    yield planned()
    yield Opened(**attempt(2), label="")
    yield Failed(**attempt(4), error=BAD)
    yield finished(status="failed", error=BAD)
    raise PermanentError("a bad row")


def test_a_failed_run_has_its_error_once() -> None:
    spans = Spans(failing())
    assert isinstance(spans.error, PermanentError)
    for name in ("run", "partition", "attempt"):
        span = spans.one(name)
        assert status(span) == (StatusCode.ERROR, "a bad row")
        (event,) = span.events
        assert (event.attributes or {})["exception.type"] == "PermanentError"
        assert (event.attributes or {})["penstock.code"] == "22P02"
    assert spans.one("partition").end_time == nanoseconds(4)
    assert "Ada" not in "".join(span.to_json() for span in spans.all)


def test_an_execution_without_a_last_event_has_the_error_that_ended_it() -> None:
    def events() -> Iterator[Event]:
        yield Warned(run_id="r", message="low tide")
        raise PermanentError("no such table")

    run = Spans(events()).one("run")
    assert status(run) == (StatusCode.ERROR, "no such table")
    assert [event.name for event in run.events] == ["penstock.warning", "exception"]


def test_an_execution_that_is_interrupted_ends_all_spans() -> None:
    spans = Spans(RETRIED, most=7)
    assert {span.name for span in spans.all} == {
        *("penstock.run", "penstock.partition", "penstock.attempt")
    }
    for span in (spans.one("run"), *spans.named("partition"), spans.named("attempt")[-1]):
        assert status(span) == (StatusCode.ERROR, "interrupted")


def test_a_lost_snapshot_ends_attempts() -> None:
    lost = SnapshotChanged(run_id="r", state="lost", taken_at="", message="gone", at=at(5))
    spans = Spans([*RETRIED[:2], lost, *RETRIED[5:]])
    first, second = spans.named("attempt", partition_id="p1")
    assert status(first) == (StatusCode.ERROR, "gone")
    assert status(second)[0] is StatusCode.UNSET
    (event,) = spans.one("run").events
    assert (event.name, (event.attributes or {})["penstock.state"]) == ("penstock.snapshot", "lost")


def test_a_batch_has_a_run_for_each_table() -> None:
    tables = tuple(
        BatchTable(table=f"t{n}", target_table=f"t{n}", run_id=f"r{n}", status="found")
        for n in range(2)
    )
    end = BatchFinished(run_id="b", status="failed", tables=tables, rows=1, bytes=1, seconds=1.0)
    spans = Spans(
        (
            BatchStarted(run_id="b", tables=tables, degree=1),
            *(planned("r0", "t0"), planned("r1", "t1")),
            Opened(**attempt(2, run_id="r1"), label=""),
            Committed(**attempt(3, run_id="r1"), **MOVED),
            *(finished("r0", "failed"), finished("r1"), end),
        )
    )
    batch = spans.one("batch", batch_id="b", status="failed")
    assert status(batch)[0] is StatusCode.ERROR
    first, second = spans.one("run", table="t0"), spans.one("run", table="t1")
    assert is_within(first, batch)
    assert is_within(spans.one("partition"), second)
    assert (status(first)[0], status(second)[0]) == (StatusCode.ERROR, StatusCode.UNSET)
    assert first.end_time == nanoseconds(50)


def test_the_run_is_within_the_current_span_and_current_while_it_works() -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("test")

    def events() -> Iterator[Event]:
        with tracer.start_as_current_span("of the driver"):
            pass
        yield planned()

    with tracer.start_as_current_span("task") as task:
        for _ in traced(events(), provider):
            assert trace.get_current_span() is task
    spans = {span.name: span for span in memory.get_finished_spans()}
    assert is_within(spans["penstock.run"], spans["task"])
    assert is_within(spans["of the driver"], spans["penstock.run"])


def test_the_environment_names_the_span_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    run = Spans(RETRIED).one("run")
    assert run.parent is not None
    assert f"{run.parent.trace_id:032x}" == PARENT[3:35]
    assert f"{run.parent.span_id:016x}" == PARENT[36:52]


def test_a_wrong_name_in_the_environment_begins_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", "no such span")
    assert Spans(RETRIED).one("run").parent is None


def test_without_a_provider_events_pass_through() -> None:
    events = iter(RETRIED)
    assert traced(events) is events


NOTHING = """
import sys
from penstock import traced
assert list(traced(iter([1, 2]))) == [1, 2]
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""

OF_PROCESS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from penstock import Warned, traced
warned = [Warned(run_id="r", message="low tide")]
assert isinstance(traced(warned), type(iter([])))  # the API alone is no provider
memory = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(memory))
assert list(traced(warned)) == warned
assert [span.name for span in memory.get_finished_spans()] == ["penstock.run"]
"""


@pytest.mark.parametrize("program", [NOTHING, OF_PROCESS])
def test_only_the_provider_of_a_process_counts(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
