"""Operators in a DAG file: mapped, serialized, linked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Generator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft7Validator

import penstock_airflow
from penstock import TableRef, place_of
from penstock_airflow.provider_info import get_provider_info

ENDS: dict[str, Any] = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}
RUN = "manual__2026-01-01T00:00:00+00:00"
OF_RUN = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"
PAGES = f"/dags/copies/runs/{OF_RUN}/tasks"
REPORT = f"/penstock/report?dag_id=copies&run_id={OF_RUN}&task_id="
PARTITION = {"run_id": "r", "mode": "append", "partitions": ["p0"], "label": "p0 k < 5"}


@pytest.fixture
def dag() -> Any:
    """Return a DAG with two tables, one after the other, and one that is wired by hand."""
    sdk = import_module("airflow.providers.common.compat.sdk")
    with sdk.DAG("copies", schedule=None) as dag:
        first = penstock_airflow.copy_table(group_id="a", table="s.a", **ENDS)
        second = penstock_airflow.copy_table(group_id="b", table="s.b", **ENDS)
        first >> second
        prepare = penstock_airflow.PrepareCopyOperator(task_id="prepare", table="s.c", **ENDS)
        plan = penstock_airflow.PlanCopyOperator(
            task_id="plan", target_conn_id="pg_dst", run_id=prepare.output
        )
        copy = penstock_airflow.CopyPartitionOperator.partial(
            task_id="copy", retries=2, **ENDS
        ).expand(partition=plan.output)
        verify = penstock_airflow.VerifyCopyOperator(
            task_id="verify", run_id=prepare.output, copied=copy.output, **ENDS
        )
        verify >> first
        penstock_airflow.copy_table(group_id="d", table="s.d", workers=3, **ENDS)
    return dag


def serialized(dag: Any) -> Any:
    module = import_module("airflow.serialization.serialized_objects")
    serialized = json.loads(json.dumps(module.DagSerialization.to_dict(dag)))
    return module.DagSerialization.from_dict(serialized)


def link(name: str, task: Any, map_index: int = -1) -> str:
    key = SimpleNamespace(dag_id="copies", run_id=RUN, task_id=task.task_id, map_index=map_index)
    url: str = getattr(import_module("penstock_airflow.links.run"), name)().get_link(
        task, ti_key=key
    )
    return url


@pytest.mark.parametrize("task_id", ["copy", "a.copy"])
def test_mapped_tasks_are_labelled_with_their_partition(dag: Any, task_id: str) -> None:
    template = "{{ task.partition['label'] }}"
    mapped = dag.get_task(task_id)
    assert mapped.map_index_template == template
    task = mapped.unmap({"partition": PARTITION})
    assert dag.get_template_env().from_string(template).render(task=task) == "p0 k < 5"
    assert serialized(dag).get_task(task_id).map_index_template == template


@pytest.mark.parametrize(
    ("variables", "label"),
    [({}, "worker 0"), ({"penstock_taken": "worker 0: 3 partitions"}, "worker 0: 3 partitions")],
    ids=["at work", "ended"],
)
def test_workers_are_labelled_with_what_they_have_copied(
    dag: Any, variables: dict[str, str], label: str
) -> None:
    mapped = dag.get_task("d.copy")
    task = mapped.unmap({"partition": {"run_id": "r", "mode": "append", "label": "worker 0"}})
    template = dag.get_template_env().from_string(mapped.map_index_template)
    assert template.render(task=task, **variables) == label
    assert serialized(dag).get_task("d.copy").map_index_template == mapped.map_index_template


def test_a_custom_label_template_is_kept(dag: Any) -> None:
    own = penstock_airflow.CopyPartitionOperator.partial(
        task_id="own", map_index_template="{{ ti.map_index }}", **ENDS
    ).expand(partition=[PARTITION])
    assert own.map_index_template == "{{ ti.map_index }}"


@pytest.mark.parametrize("has_link", [False, True], ids=["parsed", "serialized"])
@pytest.mark.parametrize(
    ("task_id", "name", "page"),
    [
        ("prepare", "ReportLink", f"{REPORT}verify"),
        ("copy", "ReportLink", f"{REPORT}verify"),
        ("verify", "ReportLink", f"{REPORT}verify"),
        ("verify", "PartitionsLink", f"{PAGES}/copy/mapped"),
        ("a.prepare", "ReportLink", f"{REPORT}a.verify"),
        ("a.copy", "ReportLink", f"{REPORT}a.verify"),
        ("b.copy", "ReportLink", f"{REPORT}b.verify"),
        ("b.verify", "PartitionsLink", f"{PAGES}/b.copy/mapped"),
        ("d.copy", "ReportLink", f"{REPORT}d.verify"),
        ("d.verify", "PartitionsLink", f"{PAGES}/d.copy/mapped"),
    ],
)
def test_links_point_to_the_nearest_table_of_the_dag(
    dag: Any, task_id: str, name: str, page: str, has_link: bool
) -> None:
    task = (serialized(dag) if has_link else dag).get_task(task_id)
    assert link(name, task) == page
    # Not the task's own report, and not one per partition.
    if task_id != "verify":
        assert link(name, task, map_index=3) == page


def test_a_running_mapped_task_has_its_link(dag: Any) -> None:
    task = dag.get_task("a.copy").unmap({"partition": PARTITION})
    (report,) = task.operator_extra_links
    assert link(type(report).__name__, task, map_index=3) == f"{REPORT}a.verify"


def test_links_survive_serialization(dag: Any) -> None:
    tasks = serialized(dag).task_dict
    names = {task_id: task.extra_links for task_id, task in tasks.items() if task.extra_links}
    report, both = ["Run report"], ["Partitions", "Run report"]
    assert names == {
        **dict.fromkeys(
            [f"{group}{task}" for group in ("", "a.", "b.", "d.") for task in ("prepare", "copy")],
            report,
        ),
        **dict.fromkeys(["verify", "a.verify", "b.verify", "d.verify"], both),
    }


def test_a_link_without_a_destination_is_empty() -> None:
    sdk = import_module("airflow.providers.common.compat.sdk")
    with sdk.DAG("copies", schedule=None):
        prepare = penstock_airflow.PrepareCopyOperator(task_id="prepare", table="s.c", **ENDS)
        verify = penstock_airflow.VerifyCopyOperator(task_id="verify", run_id="r", **ENDS)
    assert link("ReportLink", prepare) == ""
    assert link("PartitionsLink", verify) == ""


def test_links_begin_with_airflows_configured_url(
    dag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://flow.example/team/")
    assert link("ReportLink", dag.get_task("copy")) == f"https://flow.example/team{REPORT}verify"


def test_ids_are_quoted_in_links(dag: Any) -> None:
    links = import_module("penstock_airflow.links.run")
    assert links.task_url("a/b", "r?1#2", "ü") == "/dags/a%2Fb/runs/r%3F1%232/tasks/%C3%BC"


def test_a_single_task_links_to_its_own_report() -> None:
    sdk = import_module("airflow.providers.common.compat.sdk")
    with sdk.DAG("copies", schedule=None):
        one = penstock_airflow.CopyTableOperator(task_id="one", table="s.c", **ENDS)
        many = penstock_airflow.CopyAllOperator(task_id="many", tables=["s.*"], **ENDS)
    assert link("ReportLink", one) == f"{REPORT}one"
    assert link("ReportLink", one, map_index=2) == f"{REPORT}one&map_index=2"
    assert link("ReportLink", many) == f"{REPORT}many"


def test_a_trigger_stores_only_names_of_connections() -> None:
    trigger = penstock_airflow.HoldSnapshotTrigger("orders-1", "pg_src", "pg_dst", "control")
    path, arguments = json.loads(json.dumps(trigger.serialize()))
    assert arguments == {
        "run_id": "orders-1",
        "source_conn_id": "pg_src",
        "source": None,
        "source_aws_conn_id": None,
        "target_conn_id": "pg_dst",
        "target": None,
        "target_aws_conn_id": None,
        "control_schema": "control",
        "on_snapshot_lost": None,
        "readers": None,
    }
    module, _, name = path.rpartition(".")
    kind = getattr(import_module(module), name)
    assert kind is penstock_airflow.HoldSnapshotTrigger
    assert kind(**arguments).serialize() == trigger.serialize()
    assert set(arguments) == set(inspect.signature(kind).parameters)


def test_no_url_is_stored_with_a_dag(dag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PG_SRC", "PG_DST"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", "postgres://me:pa55word@secret-host/db")
    module = import_module("airflow.serialization.serialized_objects")
    serialized = json.dumps(module.DagSerialization.to_dict(dag))
    assert "pg_src" in serialized
    assert "pa55word" not in serialized
    assert "secret-host" not in serialized


def test_provider_metadata_conforms_to_airflows_schema() -> None:
    import airflow  # noqa: PLC0415

    path = Path(airflow.__file__).parent / "provider_info.schema.json"
    schema = json.loads(path.read_text())
    info = get_provider_info()
    Draft7Validator(schema).validate(info)
    # The schema allows unknown keys, so check the spelling of ours.
    assert set(info) <= set(schema["properties"])
    (point,) = entry_points(group="apache_airflow_provider").select(
        value="penstock_airflow.provider_info:get_provider_info"
    )
    assert point.load()() == info


def test_provider_metadata_lists_every_operator_trigger_and_link() -> None:
    info = get_provider_info()
    modules = {
        module
        for kind in ("operators", "triggers", "hooks")
        for integration in info[kind]
        for module in integration["python-modules"]
    }
    classes = [getattr(penstock_airflow, name) for name in penstock_airflow.__all__]
    assert modules == {kind.__module__ for kind in classes if inspect.isclass(kind)}
    links = import_module("penstock_airflow.links.run")
    base = import_module("airflow.providers.common.compat.sdk").BaseOperatorLink
    operators = {
        f"{kind.__module__}.{name}"
        for name, kind in vars(links).items()
        if inspect.isclass(kind) and issubclass(kind, base) and kind is not base
    }
    assert set(info["extra-links"]) == operators


def test_provider_metadata_names_the_operators_that_transfer_rows() -> None:
    info = get_provider_info()
    operators = {module for each in info["operators"] for module in each["python-modules"]}
    assert {each["python-module"] for each in info["transfers"]} < operators
    root = Path(__file__).resolve().parents[3]
    guides = [
        *(each["how-to-guide"] for each in info["transfers"]),
        *info["integrations"][0]["how-to-guide"],
    ]
    assert all(Path(f"{root}{guide}").is_file() for guide in guides)
    (assets,) = info["asset-uris"]
    urls = ("mysql://h/d", "postgresql://h/d", "clickhouse://h/d", "duckdb:////d", "s3://b/f")
    table = TableRef("s", "t")
    assert {place_of(url).uri(table).partition(":")[0] for url in urls} < {*assets["schemes"]}


def test_all_public_names_exist() -> None:
    for name in penstock_airflow.__all__:
        assert getattr(penstock_airflow, name).__name__ == name
    with pytest.raises(AttributeError, match="CopyTabelOperator"):
        _ = penstock_airflow.CopyTabelOperator


def test_a_task_terminated_before_its_copy_begins_copies_nothing() -> None:
    task = penstock_airflow.CopyPartitionOperator(task_id="copy", partition=PARTITION, **ENDS)
    begun: list[bool] = []

    def events() -> Generator[Any, None, None]:
        begun.append(True)
        yield from ()

    task.on_kill()
    sdk = import_module("airflow.providers.common.compat.sdk")
    with pytest.raises(sdk.AirflowException, match="task was killed") as raised:
        task._run_copy(events())
    # It may be retried.
    assert raised.type is sdk.AirflowException
    assert not begun
