"""Where spans of the command line go: to the exporter that OpenTelemetry's own variables name."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.events import Event
from penstock.watching.spans import traced

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_EXPORTER = "OTEL_TRACES_EXPORTER"
_LOG = logging.getLogger("penstock.spans")
# Seconds that a collector may take for the last spans: the process ends afterwards.
_PATIENCE = 10.0
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def exported(events: Iterator[Event]) -> Iterator[Event]:
    """Pass events on, export their spans, and wait for the last of them for some seconds.

    The exporter begins with the first event: only then may this process have threads.
    """
    provider = _provider(os.environ)
    try:
        yield from traced(events, provider)
    finally:
        _flush(provider)


def _provider(environ: Mapping[str, str]) -> TracerProvider | None:
    name = environ.get(_EXPORTER, "none")
    if name in ("", "none") or find_spec("opentelemetry") is None:
        return None
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None and hasattr(trace.get_tracer_provider(), "force_flush"):
        return None  # `opentelemetry-instrument` has set one
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - users bring it
        from opentelemetry.sdk.trace import TracerProvider as Provider  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

        exporter = _exporter(name, environ)
    except ImportError as error:
        _LOG.warning(
            "%s=%s: no spans are exported: %s; install opentelemetry-sdk and "
            "opentelemetry-exporter-otlp-proto-http, for instance",
            _EXPORTER,
            name,
            error,
        )
        return None
    named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    provider = Provider(resource=Resource.create({} if named else {"service.name": "penstock"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter(name: str, environ: Mapping[str, str]) -> Any:
    """Return the exporter of a name, as OpenTelemetry's packages register it.

    Raises:
        ImportError: it is not installed.
    """
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    names = [name]
    if name == "otlp":
        names = [_OTLP.get(protocol, protocol)] if protocol else [*_OTLP.values()]
    for each in names:
        for found in entry_points(group="opentelemetry_traces_exporter", name=each):
            return found.load()()
    raise ImportError(f"no exporter named {' or '.join(names)} is installed")


def _flush(provider: TracerProvider | None) -> None:
    if provider is not None:
        end: Any = getattr(provider, "shutdown", None)
    else:
        trace = sys.modules.get("opentelemetry.trace")
        end = getattr(trace and trace.get_tracer_provider(), "force_flush", None)
    if end is not None:
        thread = threading.Thread(target=end, daemon=True, name="penstock: last spans")
        thread.start()
        thread.join(_PATIENCE)
