"""A step makes spans with the provider that its process has set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A provider is set once in a process, so this is one of its own.
SCRIPT = """
import dagster as dg
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dagster_penstock import CopySpec, PenstockResource, penstock_assets

memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)
ends = dict(source="env:PG_SRC", target="env:PG_DST", target_table="dw.t", mode="truncate")

@penstock_assets(specs=[CopySpec(table="public.t", **ends)])
def tables(context, penstock: PenstockResource):
    yield from penstock.copy(context)

with provider.get_tracer("job").start_as_current_span("job") as job:
    assert dg.materialize([tables], resources={"penstock": PenstockResource()}).success
spans = {span.name: span for span in memory.get_finished_spans()}
run = spans["penstock.run"]
assert spans["penstock.partition"].parent.span_id == run.context.span_id
print(run.attributes["penstock.rows"], run.parent.span_id == job.get_span_context().span_id)
"""


@pytest.mark.usefixtures("warehouse")
def test_a_run_is_within_the_span_of_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1000 True"
