"""Spans of an execution for OpenTelemetry, made from its events.

`opentelemetry` is imported only if this process has configured a provider, or is to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.events import (
    BatchFinished,
    BatchStarted,
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    Planned,
    Progress,
    Retrying,
    Sampled,
    SnapshotChanged,
)
from penstock.show.json_log import figures

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

_NAME = "penstock"


def traced(
    events: Iterable[Event], tracer_provider: TracerProvider | None = None
) -> Iterator[Event]:
    """Pass events on, and make spans of a run, its partitions and their attempts.

    Nothing happens without a provider. The run's span is a child of the current one, or else of
    the one that the environment names in ``TRACEPARENT``; it is the current one while the
    execution works.

    Args:
        events: the events of an execution.
        tracer_provider: where spans go; by default to the provider that this process has set.
    """
    provider = tracer_provider or _provider_of_process()
    if provider is None:
        return iter(events)
    return _spans_of(events, provider.get_tracer(_NAME))


def _provider_of_process() -> TracerProvider | None:
    # Nobody can have set one without this module.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider: TracerProvider = trace.get_tracer_provider()
    unset = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    return None if unset else provider


def _spans_of(events: Iterable[Event], tracer: Tracer) -> Generator[Event]:
    from opentelemetry import trace  # noqa: PLC0415 - only for those who watch spans

    iterator = iter(events)
    spans = _Spans(tracer, _parent())
    problem: BaseException | None = None
    try:
        while True:
            # Not while others handle an event: they may be in another context by then.
            with trace.use_span(spans.root, record_exception=False, set_status_on_exception=False):
                event = next(iterator, None)
            if event is None:
                return
            spans.add(event)
            yield event
    except BaseException as error:
        problem = error
        raise
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()
        spans.end(problem)


def _parent(environ: Mapping[str, str] = os.environ) -> Context | None:
    """Return the context of the span around this execution; None for the current one."""
    from opentelemetry import trace  # noqa: PLC0415 - as above
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above
        TraceContextTextMapPropagator,
    )

    if trace.get_current_span().get_span_context().is_valid or "TRACEPARENT" not in environ:
        return None
    carrier = {name: environ.get(name.upper(), "") for name in ("traceparent", "tracestate")}
    return TraceContextTextMapPropagator().extract(carrier)


@dataclass(slots=True)
class _Partition:
    """The spans of a partition that is not committed."""

    span: Span
    attempt: Span | None = None
    error: Mapping[str, Any] | None = None
    """Why its last attempt failed."""
    ended_at: int | None = None
    """When it did, in nanoseconds."""


class _Spans:
    """The spans that are open.

    Args:
        tracer: makes spans.
        parent: the context of the span around the execution; None for the current one.
    """

    def __init__(self, tracer: Tracer, parent: Context | None) -> None:
        self._tracer = tracer
        self.root = tracer.start_span("penstock.run", parent)
        self._is_batch = False
        self._is_finished = False
        self._runs: dict[str, Span] = {}
        """The spans of a batch's tables."""
        self._partitions: dict[tuple[str, str], _Partition] = {}

    def add(self, event: Event) -> None:
        """Process an event."""
        match event:
            case BatchStarted():
                self._is_batch = True
                self.root.update_name("penstock.batch")
                _describe(self.root, event, {"batch_id": event.run_id, "tables": len(event.tables)})
            case BatchFinished():
                self._is_finished = True
                _describe(self.root, event)
                _judge(self.root, event.status, None)
            case Planned():
                self._plan(event)
            case Opened():
                self._open(event)
            case Committed() if partition := self._taken(event.run_id, event.partition_id):
                self._commit(partition, event)
            case Failed() if partition := self._partitions.get((event.run_id, event.partition_id)):
                self._fail(partition, event)
            case Finished():
                self._finish(event)
            case Progress() | Sampled() | Committed() | Failed() | Retrying():
                pass
            case _:
                if isinstance(event, SnapshotChanged) and event.state == "lost":
                    self._end_partitions(event.run_id, event.message)
                facts = _attributes({**figures(event), "message": getattr(event, "message", None)})
                span = self._run(event.run_id)
                span.add_event(f"penstock.{event.name}", facts, _time(event))

    def _run(self, run_id: str) -> Span:
        return self._runs.get(run_id, self.root)

    def _plan(self, event: Planned) -> None:
        if self._is_batch and event.run_id not in self._runs:
            began = _time(event) - int(event.seconds * 1e9)
            self._runs[event.run_id] = self._tracer.start_span(
                "penstock.run", self._within(self.root), start_time=began
            )
        names = {"table": event.table, "target_table": event.target_table}
        _describe(self._run(event.run_id), event, names)

    def _open(self, event: Opened) -> None:
        key = (event.run_id, event.partition_id)
        partition, at = self._partitions.get(key), _time(event)
        names = {"run_id": event.run_id, "partition_id": event.partition_id}
        if partition is None:
            of = self._within(self._run(event.run_id))
            span = self._tracer.start_span("penstock.partition", of, start_time=at)
            span.set_attributes(_attributes(names))
            partition = self._partitions[key] = _Partition(span)
        elif partition.attempt is not None:
            partition.attempt.end(at)
        partition.error = partition.ended_at = None
        of = self._within(partition.span)
        partition.attempt = self._tracer.start_span("penstock.attempt", of, start_time=at)
        partition.attempt.set_attributes(_attributes({**names, **figures(event)}))

    def _taken(self, run_id: str, partition_id: str) -> _Partition | None:
        return self._partitions.pop((run_id, partition_id), None)

    @staticmethod
    def _commit(partition: _Partition, event: Committed) -> None:
        facts = _attributes(figures(event))
        for span in (partition.attempt, partition.span):
            if span is not None:
                span.set_attributes(facts)
                span.end(_time(event))

    @staticmethod
    def _fail(partition: _Partition, event: Failed) -> None:
        partition.error, partition.ended_at = event.error, _time(event)
        if partition.attempt is not None:
            _record(partition.attempt, event.error, partition.ended_at)
            partition.attempt.end(partition.ended_at)
            partition.attempt = None

    def _finish(self, event: Finished) -> None:
        self._end_partitions(event.run_id, "the run has ended")
        span = self._run(event.run_id)
        _describe(span, event)
        if event.error:
            _record(span, event.error, _time(event))
        else:
            failed = f"{len(event.failures):,} partitions failed" if event.failures else None
            _judge(span, event.status, failed)
        if self._runs.pop(event.run_id, None) is not None:
            span.end(_time(event))
        elif not self._is_batch:
            self._is_finished = True

    def _end_partitions(self, run_id: str, why: str) -> None:
        """End the spans of partitions that no event has ended."""
        for key in [key for key in self._partitions if key[0] == run_id]:
            partition = self._partitions.pop(key)
            if partition.attempt is not None:
                _judge(partition.attempt, "interrupted", why)
                partition.attempt.end()
            elif partition.error is not None:
                _record(partition.span, partition.error, partition.ended_at)
            if partition.error is None:
                _judge(partition.span, "interrupted", why)
            partition.span.end(None if partition.attempt else partition.ended_at)

    def end(self, problem: BaseException | None) -> None:
        """End all spans.

        Args:
            problem: why the execution has ended, other than by its last event.
        """
        known = problem is None or isinstance(problem, GeneratorExit)
        why = "interrupted" if known else type(problem).__name__
        for run_id in {run_id for run_id, _ in self._partitions}:
            self._end_partitions(run_id, why)
        for span in self._runs.values():
            _judge(span, "interrupted", why)
            span.end()
        if not self._is_finished and isinstance(problem, PenstockError):
            _record(self.root, problem.as_json(), None)
        elif not self._is_finished and problem is not None:
            _judge(self.root, "interrupted", why)
        self.root.end()

    def _within(self, span: Span) -> Context:
        from opentelemetry import trace  # noqa: PLC0415 - as above

        return trace.set_span_in_context(span)


def _time(event: Event) -> int:
    """Return when an event happened, in nanoseconds."""
    return int(datetime.fromisoformat(event.at).timestamp() * 1000) * 1_000_000


def _attributes(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {f"penstock.{name}": fact for name, fact in facts.items() if fact not in (None, "")}


def _describe(span: Span, event: Event, names: Mapping[str, Any] | None = None) -> None:
    span.set_attributes(_attributes({"run_id": event.run_id, **figures(event), **(names or {})}))


def _record(span: Span, error: Mapping[str, Any], at: int | None) -> None:
    """Record an error of an event, as OpenTelemetry's conventions have exceptions."""
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - as above

    message = str(error.get("message", ""))
    facts = {"exception.type": str(error.get("error", "")), "exception.message": message}
    shown = {name: error.get(name) for name in ("code", "side", "transient")}
    span.add_event("exception", {**facts, **_attributes(shown)}, at)
    span.set_status(Status(StatusCode.ERROR, message.partition("\n")[0]))


def _judge(span: Span, status: str, why: str | None) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - as above

    if status not in ("done", "partial"):
        span.set_status(Status(StatusCode.ERROR, why or status))
