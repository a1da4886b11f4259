"""OpenLineage events from real tasks, and tasks whose events cannot be sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import conninfo

from penstock_testkit.airflow import DagRunner

if TYPE_CHECKING:
    from tests.airflow.conftest import DagFile

# Partitions and proof come from an existing run, which another task has copied.
DAG_FILE = """
from airflow.providers.common.compat.sdk import DAG
from penstock_airflow import (
    CopyAllOperator, CopyPartitionOperator, CopyTableOperator, PlanCopyOperator, VerifyCopyOperator,
    copy_table,
)

ENDS = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}


class Copied(CopyPartitionOperator):
    def execute(self, context):
        if context["ti"].map_index == 1:
            raise RuntimeError("the second one fails")
        return {"partitions": self.partition["partitions"]}


with DAG("lineage", schedule=None, default_args={"retries": 0}) as dag:
    table = CopyTableOperator(
        task_id="table", **ENDS, table="public.orders", target_table='dw."Old orders"',
        strategy="range", key="id", partitions=2, degree=1, mode="truncate",
    )
    run_id = "{{ ti.xcom_pull(task_ids='table')['run_id'] }}"
    plan = PlanCopyOperator(task_id="plan", target_conn_id="pg_dst", run_id=run_id)
    table >> plan
    copied = Copied.partial(task_id="copied", **ENDS).expand(partition=plan.output)
    proved = VerifyCopyOperator(
        task_id="proved", **ENDS, run_id=run_id, copied=copied.output, trigger_rule="all_done"
    )
    copied >> proved
    query = CopyTableOperator(
        task_id="query", **ENDS, query="SELECT id FROM public.orders AS o", degree=1,
        target_table="dw.ids", trigger_rule="all_done",
    )
    broken = CopyTableOperator(
        task_id="broken", **ENDS, table="public.absent", target_table="dw.ids",
        trigger_rule="all_done",
    )
    upsert = CopyTableOperator(
        task_id="upsert", **ENDS, table="public.orders", target_table='dw."Old orders"',
        mode="upsert", conflict_columns=["id"], strategy="whole", degree=1, trigger_rule="all_done",
    )
    batch = CopyAllOperator(
        task_id="batch", **ENDS, tables=["public.orders", "public.more"], mode="recreate",
        target_schema="all", trigger_rule="all_done",
    )
    shared = copy_table(
        group_id="shared", **ENDS, table="public.orders", target_table="dw.shared", mode="recreate",
        strategy="range", key="id", partitions=4, workers=2, degree=1, snapshot="none",
    )
    proved >> query >> broken >> upsert >> shared >> batch
"""


@pytest.fixture
def tables(source_url: str, target_url: str) -> None:
    with psycopg.connect(source_url, autocommit=True) as source:
        source.execute("CREATE TABLE orders (id int PRIMARY KEY, note varchar(20))")
        source.execute("CREATE TABLE more AS SELECT 1 AS n")
        source.execute("INSERT INTO orders SELECT i, 'note ' || i FROM generate_series(1, 100) i")
    with psycopg.connect(target_url, autocommit=True) as target:
        target.execute('CREATE SCHEMA dw; CREATE SCHEMA "all"')
        target.execute('CREATE TABLE dw."Old orders" (id bigint PRIMARY KEY, note text)')
        target.execute("CREATE TABLE dw.ids (id int)")


def of(events: list[dict[str, Any]], task: str, kind: str) -> list[dict[str, Any]]:
    return [
        event
        for event in events
        if event["job"]["name"] == f"lineage.{task}" and event["eventType"] == kind
    ]


def place(url: str) -> tuple[str, str]:
    """Return the namespace and the database in the form that lineage uses."""
    found = conninfo.conninfo_to_dict(url)
    return f"postgres://{found['host']}:{found['port']}", str(found["dbname"])


def columns(dataset: dict[str, Any]) -> list[tuple[str, str]]:
    return [(field["name"], field["type"]) for field in dataset["facets"]["schema"]["fields"]]


def origins(event: dict[str, Any]) -> dict[str, list[tuple[str, str, str]]]:
    """Return the columns that each column of the target comes from."""
    (output,) = event["outputs"]
    return {
        name: [(each["namespace"], each["name"], each["field"]) for each in found["inputFields"]]
        for name, found in output["facets"]["columnLineage"]["fields"].items()
    }


def statistics(event: dict[str, Any]) -> tuple[int, int] | None:
    (output,) = event["outputs"]
    found = output.get("outputFacets", {}).get("outputStatistics")
    return found and (found["rowCount"], found["size"])


@pytest.mark.usefixtures("tables")
def test_events_at_the_start_end_and_failure_have_tables_columns_and_rows(
    tmp_path: Path, dag_file: DagFile, source_url: str, target_url: str
) -> None:
    path = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(path), "append": True}
    runner = DagRunner(
        tmp_path / "airflow",
        settings={
            "openlineage.transport": json.dumps(transport),
            "openlineage.namespace": "tests",
            "openlineage.execution_timeout": 120,  # generous, so that a busy machine drops no event
        },
    )
    run = runner.run(
        dag_file(DAG_FILE),
        "lineage",
        connections={"pg_src": source_url, "pg_dst": target_url},
    )
    states = {name: state for name, state in run.states.items() if state != "success"}
    assert states == {"copied[1]": "failed", "broken": "failed"}, run.output
    text = path.read_text()
    events = [json.loads(line) for line in text.splitlines()]

    schema = [("id", "integer"), ("note", "character varying(20)")]
    loaded_schema = [("id", "bigint"), ("note", "text")]
    source, source_database = place(source_url)
    target, target_database = place(target_url)
    read = (source, f"{source_database}.public.orders")
    loaded = (target, f"{target_database}.dw.Old orders")

    def names(event: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        inputs, outputs = (
            [(dataset["namespace"], dataset["name"]) for dataset in event[side]]
            for side in ("inputs", "outputs")
        )
        return inputs, outputs

    # Before a run exists, only the tables are known.
    (event,) = of(events, "table", "START")
    assert names(event) == ([read], [loaded])
    assert "schema" not in event["inputs"][0]["facets"]
    (event,) = of(events, "table", "COMPLETE")
    assert names(event) == ([read], [loaded])
    assert columns(event["inputs"][0]) == schema
    assert columns(event["outputs"][0]) == loaded_schema
    assert origins(event) == {name: [(*read, name)] for name in ("id", "note")}
    found = statistics(event)
    assert found is not None
    rows, size = found
    assert rows == 100
    assert size > 0

    started = of(events, "copied", "START")
    assert len(started) == 2
    for event in started:
        assert names(event) == ([read], [loaded])
        assert columns(event["inputs"][0]) == schema
        assert columns(event["outputs"][0]) == loaded_schema
        assert statistics(event) is None
    (event,) = of(events, "copied", "COMPLETE")
    partition = statistics(event)
    assert partition is not None
    assert 0 < partition[0] < rows
    assert 0 < partition[1] < size
    (event,) = of(events, "copied", "FAIL")
    assert names(event) == ([read], [loaded])
    assert statistics(event) is None

    (event,) = of(events, "proved", "COMPLETE")
    # Only what it has copied itself, in place of the failed task: the sum over all tasks is right.
    assert statistics(event) == (rows - partition[0], size - partition[1])

    (event,) = of(events, "query", "COMPLETE")
    assert names(event) == ([read], [(target, f"{target_database}.dw.ids")])
    assert origins(event) == {"id": [(*read, "id")]}
    assert event["job"]["facets"]["sql"]["query"] == "SELECT id FROM public.orders AS o"
    assert columns(event["outputs"][0]) == [("id", "integer")]
    found = statistics(event)
    assert found is not None
    assert found[0] == rows

    (event,) = of(events, "broken", "FAIL")
    absent = (source, f"{source_database}.public.absent")
    assert names(event) == ([absent], [(target, f"{target_database}.dw.ids")])
    assert statistics(event) is None
    # No run exists, and the task has already logged the reason.
    log = run.task("broken").log
    assert "public.absent" in log
    assert "lineage lacks" not in log
    assert "--target" not in log

    # All rows were already committed, so none was written.
    (event,) = of(events, "upsert", "COMPLETE")
    found = statistics(event)
    assert found is not None
    assert found[0] == 0

    # Each worker, with the rows of what it has taken.
    written = [statistics(event) for event in of(events, "shared.copy", "COMPLETE")]
    assert len(written) == 2
    assert sum(each[0] for each in written if each) == rows
    (event,) = of(events, "shared.verify", "COMPLETE")
    assert statistics(event) is None

    # Each table of a batch, with its rows.
    (event,) = of(events, "batch", "COMPLETE")
    inputs, outputs = names(event)
    both = ("more", "orders")
    assert sorted(inputs) == [(source, f"{source_database}.public.{name}") for name in both]
    assert sorted(outputs) == [(target, f"{target_database}.all.{name}") for name in both]
    counts = {
        each["name"].rpartition(".")[2]: each["outputFacets"]["outputStatistics"]["rowCount"]
        for each in event["outputs"]
    }
    assert counts == {"more": 1, "orders": 100}

    # The extra links that Airflow has stored for finished tasks, successful or not.
    run_id = quote(run.run_id, safe="")
    pages = f"/dags/lineage/runs/{run_id}/tasks"
    report = f"/penstock/report?dag_id=lineage&run_id={run_id}&task_id="
    for copied in run.mapped("copied"):
        assert copied.xcoms["_link_ReportLink"] == f"{report}proved"
    assert run.task("table").xcoms["_link_ReportLink"] == f"{report}table"
    assert run.task("proved").xcoms["_link_PartitionsLink"] == f"{pages}/copied/mapped"

    for url in (source_url, target_url):
        password = conninfo.conninfo_to_dict(url).get("password")
        assert url not in text
        assert not password or str(password) not in text
