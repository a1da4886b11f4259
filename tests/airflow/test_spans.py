"""Spans of Penstock's tasks are part of the trace that a real Airflow makes of the DAG run."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from penstock_testkit.airflow.stack import AirflowStack
from penstock_testkit.waiting import until

from ..collector import Collector, attributes

DAG = """
from airflow.sdk import DAG
from penstock_airflow import CopyTableOperator

with DAG("spans", schedule=None):
    CopyTableOperator(
        task_id="orders", source_conn_id="shop", target_conn_id="dw", table="public.orders",
        strategy="range", partitions=2, degree=1,
    )
"""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    # Airflow knows the exporters by the names of their entry points.
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp_proto_http")
    yield made
    made.close()


def test_a_run_is_within_its_task(collector: Collector, source_url: str, target_url: str) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        connection.execute("INSERT INTO orders SELECT generate_series(1, 100)")
    with AirflowStack(settings={"traces.otel_on": True}) as stack:
        stack.set_connection("shop", source_url)
        stack.set_connection("dw", target_url)
        stack.add_dag(DAG, "spans")
        assert stack.trigger("spans").wait(timeout=120) == "success"
        # A task sends its spans after it has reported its state.
        until(
            lambda: collector.named("worker.orders") or None,
            60,
            lambda: "Airflow sent no span of the task",
        )
    (run,) = collector.named("penstock.run")
    (task,) = collector.named("worker.orders")
    assert run.trace_id == task.trace_id
    assert run.parent_span_id == task.span_id
    assert attributes(run)["rows"] == 100
    partitions = collector.named("penstock.partition")
    assert {span.parent_span_id for span in partitions} == {run.span_id}
    assert len(partitions) == 2
