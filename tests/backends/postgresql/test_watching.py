"""A run as others watch it: its log as JSON, its metrics in a file, and its spans."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families

from ...cli import run_cli
from ...collector import Collector, attributes

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.backends.conftest import Pair

ENDS = ["--source", "env:SHOP", "--target", "env:DW"]
NEVER = ["--show-values", "never"]


@pytest.fixture
def shop(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    pair.source.run(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "INSERT INTO orders SELECT generate_series(1, 1000)",
        "CREATE TABLE customers (id int PRIMARY KEY, name text)",
        "INSERT INTO customers VALUES (1, 'Ada Lovelace')",
    )
    monkeypatch.setenv("SHOP", pair.source.url)
    monkeypatch.setenv("DW", pair.target.url)
    return pair


def cli(
    *words: str, code: int = 0, variables: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    ended = run_cli(*words, env={**os.environ, **(variables or {})})
    assert ended.returncode == code, ended.stderr
    return ended


class TestLog:
    def log(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        ended = cli(*words, "--log-format", "json", code=code)
        assert ended.stdout == ""
        return [json.loads(line) for line in ended.stderr.splitlines()]

    def test_of_a_table_is_all_json(self, shop: Pair) -> None:
        lines = self.log(
            "copy", *ENDS, "--table", "orders", "--partitions", "4", "--strategy", "range"
        )
        committed = [line for line in lines if line.get("event") == "committed"]
        assert sum(line["rows"] for line in committed) == 1000
        assert {line["partition"] for line in committed} == {f"p000{n}" for n in range(1, 5)}
        assert {line["table"] for line in committed} == {"public.orders"}
        (end,) = [line for line in lines if line.get("event") == "finished"]
        assert (end["status"], end["rows"], end["level"]) == ("done", 1000, "info")
        assert len({line["run_id"] for line in lines}) == 1

    def test_of_tables_names_each(self, shop: Pair) -> None:
        lines = self.log("copy-all", *ENDS, "--tables", "public.*", "--run-id", "b")
        ends = {line["table"]: line for line in lines if line.get("event") == "finished"}
        assert ends.keys() == {"public.orders", "public.customers"}
        assert {line["batch_id"] for line in ends.values()} == {"b"}
        assert (lines[-1]["event"], lines[-1]["run_id"]) == ("batch_finished", "b")

    def test_of_a_failure_has_neither_rows_nor_a_report(self, shop: Pair) -> None:
        shop.target.run("CREATE TABLE customers (id int, name text CHECK (length(name) < 5))")
        lines = self.log("copy", *ENDS, "--table", "customers", "--mode", "append", *NEVER, code=65)
        failed = [line for line in lines if line["level"] == "error"]
        assert {line.get("error") for line in failed} & {"PermanentError"}
        assert any(line.get("code") == "23514" for line in failed)
        assert "Lovelace" not in json.dumps(lines)
        assert "continue with: penstock resume" in lines[-1]["message"]

    def test_says_that_a_connection_failed(self, shop: Pair) -> None:
        ended = run_cli(
            *("plan", *ENDS, "--table", "orders", "--log-format", "json"),
            env={**os.environ, "SHOP": "postgresql://nobody:s3cr3t@localhost:1/none"},
        )
        assert ended.returncode != 0
        (line,) = [json.loads(line) for line in ended.stderr.splitlines()]
        assert line["level"] == "error"
        assert "s3cr3t" not in ended.stderr

    def test_beside_events_has_no_second_log(self, shop: Pair) -> None:
        ended = cli("copy", *ENDS, "--table", "orders", "--json", "--log-format", "json")
        assert ended.stderr == ""
        assert json.loads(ended.stdout.splitlines()[-1])["event"] == "finished"


def samples(path: Path) -> dict[tuple[str, str], float]:
    """Return values by the name of the metric and its table; those of partitions by their state."""
    return {
        (sample.name, sample.labels.get("state") or sample.labels.get("table", "")): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


class TestMetrics:
    def test_of_a_table_are_those_of_its_report(self, shop: Pair, tmp_path: Path) -> None:
        path = tmp_path / "orders.prom"
        began = time.time()
        cli("copy", *ENDS, "--table", "orders", "--run-id", "r", "--metrics-file", str(path))
        found = samples(path)
        assert found["penstock_rows_total", "public.orders"] == 1000
        assert found["penstock_partitions", "pending"] == 0
        assert found["penstock_run_success", ""] == 1
        at = found["penstock_last_success_timestamp_seconds", "public.orders"]
        assert began - 1 <= at <= time.time()
        assert 'target="env:DW"' in path.read_text()

    def test_of_tables_are_in_one_file(self, shop: Pair, tmp_path: Path) -> None:
        path = tmp_path / "all.prom"
        cli("copy-all", *ENDS, "--tables", "public.*", "--metrics-file", str(path))
        found = samples(path)
        assert found["penstock_rows_total", "public.orders"] == 1000
        assert found["penstock_rows_total", "public.customers"] == 1
        assert found["penstock_tables", "done"] == 2

    def test_of_a_failure_say_so_until_the_run_is_resumed(self, shop: Pair, tmp_path: Path) -> None:
        path = tmp_path / "r.prom"
        shop.target.run("CREATE TABLE customers (id int, name text CHECK (length(name) < 5))")
        words = ("--table", "customers", "--mode", "append", "--run-id", "r")
        cli("copy", *ENDS, *words, "--metrics-file", str(path), code=65)
        found = samples(path)
        assert (found["penstock_run_success", ""], found["penstock_partitions", "failed"]) == (0, 1)
        shop.target.run("ALTER TABLE customers DROP CONSTRAINT customers_name_check")
        cli("resume", "r", *ENDS, "--metrics-file", str(path))
        found = samples(path)
        assert found["penstock_run_success", ""] == 1
        assert found["penstock_rows_total", "public.customers"] == 1

    def test_have_no_secret(self, shop: Pair, tmp_path: Path) -> None:
        path = tmp_path / "r.prom"
        url = shop.target.url.replace("postgres@", "postgres:s3cr3t@", 1)
        words = ("--source", "env:SHOP", "--target", url, "--table", "orders")
        cli("copy", *words, "--metrics-file", str(path))
        assert "s3cr3t" not in path.read_text()
        assert 'target="postgresql://' in path.read_text()

    def test_need_a_folder(self, shop: Pair, tmp_path: Path) -> None:
        path = str(tmp_path / "none" / "r.prom")
        ended = cli("copy", *ENDS, "--table", "orders", "--metrics-file", path, code=64)
        assert "--metrics-file: cannot write" in ended.stderr


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


TRACE, OUTER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class TestSpans:
    def test_arrive_at_a_collector(self, shop: Pair, collector: Collector) -> None:
        words = ("--table", "orders", "--strategy", "range", "--partitions", "4", "--run-id", "r")
        parent = f"00-{TRACE}-{OUTER}-01"
        cli("copy", *ENDS, *words, variables={**collector.variables, "TRACEPARENT": parent})
        by_id = {span.span_id: span for span in collector.spans}
        assert {span.trace_id.hex() for span in by_id.values()} == {TRACE}
        (run,) = [span for span in by_id.values() if span.name == "penstock.run"]
        assert run.parent_span_id.hex() == OUTER
        assert attributes(run)["rows"] == 1000
        attempts = [span for span in by_id.values() if span.name == "penstock.attempt"]
        assert sum(attributes(span)["rows"] for span in attempts) == 1000
        assert {by_id[span.parent_span_id].name for span in attempts} == {"penstock.partition"}
        partitions = {by_id[span.parent_span_id].span_id for span in attempts}
        assert {by_id[each].parent_span_id for each in partitions} == {run.span_id}
        assert len(partitions) == 4
        for span in attempts:
            assert run.start_time_unix_nano <= span.start_time_unix_nano
            assert span.start_time_unix_nano <= span.end_time_unix_nano <= run.end_time_unix_nano
        assert collector.services == {"penstock"}

    def test_of_a_failure_arrive_too(self, shop: Pair, collector: Collector) -> None:
        shop.target.run("CREATE TABLE customers (id int, name text CHECK (length(name) < 5))")
        words = ("--table", "customers", "--mode", "append", *NEVER)
        variables = {**collector.variables, "OTEL_SERVICE_NAME": "nights"}
        cli("copy", *ENDS, *words, code=65, variables=variables)
        spans = {span.name: span for span in collector.spans}
        for name in ("penstock.run", "penstock.partition", "penstock.attempt"):
            assert spans[name].status.code == Status.STATUS_CODE_ERROR
        (event,) = spans["penstock.attempt"].events
        assert event.name == "exception"
        assert not any(b"Lovelace" in each.SerializeToString() for each in collector.requests)
        assert collector.services == {"nights"}

    def test_of_tables_are_one_trace(self, shop: Pair, collector: Collector) -> None:
        cli("copy-all", *ENDS, "--tables", "public.*", variables=collector.variables)
        (batch,) = [span for span in collector.spans if span.name == "penstock.batch"]
        runs = [span for span in collector.spans if span.name == "penstock.run"]
        assert {span.parent_span_id for span in runs} == {batch.span_id}
        assert {attributes(span)["table"] for span in runs} == {"public.orders", "public.customers"}

    def test_without_a_collector_do_not_change_the_run(
        self, shop: Pair, collector: Collector
    ) -> None:
        collector.close()
        variables = {**collector.variables, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
        ended = cli("copy", *ENDS, "--table", "orders", variables=variables)
        assert "1,000" in ended.stdout

    def test_need_an_exporter_that_is_installed(self, shop: Pair) -> None:
        variables = {"OTEL_TRACES_EXPORTER": "zipkin"}
        ended = cli("copy", *ENDS, "--table", "orders", variables=variables)
        assert "no spans are exported: no exporter named zipkin is installed" in ended.stderr
        assert "install opentelemetry-sdk" in ended.stderr
