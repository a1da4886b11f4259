"""`default_args` apply to options and connections as they do to Airflow's own arguments."""

from __future__ import annotations

from typing import Any

import pytest

import penstock_airflow

ENDS: dict[str, Any] = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}
DEFAULTS = {**ENDS, "mode": "truncate", "control_schema": "control", "degree": 7}


def dag_of(**defaults: Any) -> Any:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    return DAG("copies", schedule=None, default_args=defaults)


def group_of(**defaults: Any) -> Any:
    from airflow.providers.common.compat.sdk import TaskGroup  # noqa: PLC0415

    group: Any = TaskGroup
    return group("all", default_args=defaults)


def assert_defaults(task: Any, **expected_changes: Any) -> None:
    assert (task.source_conn_id, task.target_conn_id) == ("pg_src", "pg_dst")
    expected = {"table": "a.b", "mode": "truncate", "control_schema": "control", "degree": 7}
    assert {name: task.options.get(name) for name in expected} == {**expected, **expected_changes}
    assert task.control_schema == task.options["control_schema"]


@pytest.mark.parametrize("operator", ["CopyTableOperator", "PrepareCopyOperator"])
def test_the_nearest_default_args_win(operator: str) -> None:
    kind = getattr(penstock_airflow, operator)
    with dag_of(**DEFAULTS):
        assert_defaults(kind(task_id="plain", table="a.b"))
        assert_defaults(kind(task_id="own", table="a.b", mode="append"), mode=None)
        assert_defaults(
            kind(task_id="mine", table="a.b", default_args={"mode": "swap"}), mode="swap"
        )
        with group_of(mode="recreate"):
            assert_defaults(kind(task_id="grouped", table="a.b"), mode="recreate")


def test_a_group_applies_default_args_before_its_decisions() -> None:
    with dag_of(**DEFAULTS) as dag:
        penstock_airflow.copy_table(group_id="plain", table="a.b")
        assert_defaults(dag.get_task("plain.prepare"), degree=7)
        copy = dag.get_task("plain.copy")
        # The group's degree: each of its mapped tasks has one stream.
        assert copy.max_active_tis_per_dagrun == 7
        assert copy.unmap({"partition": {"run_id": "r", "partitions": []}}).degree == 1
        assert {task.control_schema for task in dag.tasks if task.task_id != "plain.copy"} == {
            "control"
        }
        with group_of(strategy="whole"):
            penstock_airflow.copy_table(group_id="whole", table="a.b")
        assert_defaults(dag.get_task("all.whole.copy"))
        assert dag.get_task("all.whole.copy").options["strategy"] == "whole"
        penstock_airflow.copy_table(group_id="mine", table="a.b", default_args={"mode": "swap"})
        assert_defaults(dag.get_task("mine.prepare"), mode="swap", degree=7)
        penstock_airflow.copy_table(group_id="held", table="a.b", deferrable=False)
        assert not dag.get_task("held.snapshot").deferrable


def test_default_args_decide_whether_a_group_holds_a_snapshot() -> None:
    defaults = {"mode": "replace", "strategy": "range", "key": "k", "where": "k > 1"}
    with dag_of(**ENDS, **defaults) as dag:
        penstock_airflow.copy_table(group_id="plain", table="a.b")
    assert "plain.snapshot" not in dag.task_ids
    assert dag.get_task("plain.prepare").options["snapshot"] == "none"


def test_an_explicit_argument_wins_even_if_it_is_the_default() -> None:
    with dag_of(**DEFAULTS) as dag:
        penstock_airflow.copy_table(group_id="group", table="a.b", mode="append")
        penstock_airflow.copy_tables(["a.b"], mode="append", attempts=5)
        penstock_airflow.copy_tables([{"table": "a.b", "mode": "append", "group_id": "one"}])
    for task_id in ("group.prepare", "a_b", "one"):
        assert "mode" not in dag.get_task(task_id).options


def test_default_args_apply_to_all_forms_of_tables() -> None:
    with dag_of(**DEFAULTS) as dag:
        penstock_airflow.copy_tables(["a.b", {"table": "a.b", "mapped": True, "group_id": "big"}])
        penstock_airflow.copy_tables([{"table": "a.b", "group_id": "own", "mode": "swap"}])
    assert_defaults(dag.get_task("a_b"))
    assert_defaults(dag.get_task("big.prepare"))
    assert_defaults(dag.get_task("own"), mode="swap")


def test_a_url_may_replace_the_default_connection_of_one_end() -> None:
    with dag_of(**ENDS):
        task = penstock_airflow.CopyTableOperator(
            task_id="out", table="a.b", target_conn_id=None, target="s3://lake/o/"
        )
    assert (task.source_conn_id, task.target) == ("pg_src", "s3://lake/o/")


def test_a_mapped_operator_has_default_args_and_labels() -> None:
    with dag_of(**DEFAULTS) as dag:
        penstock_airflow.CopyTableOperator.partial(task_id="many", partitions=3).expand(
            table=["a.b", "a.c"]
        )
        penstock_airflow.CopyTableOperator.partial(
            task_id="own", default_args={"mode": "swap"}
        ).expand(table=["a.b"])
    mapped = dag.get_task("many")
    task = mapped.unmap({"table": "a.b"})
    assert_defaults(task)
    assert task.options["partitions"] == 3
    template = dag.get_template_env().from_string(mapped.map_index_template)
    assert template.render(task=task) == "a.b"
    assert template.render(task=mapped.unmap({"table": "a.b", "where": "k > 1"})) == (
        "a.b where k > 1"
    )
    assert len(template.render(task=mapped.unmap({"table": "a.b", "where": "x" * 999}))) == 200
    assert_defaults(dag.get_task("own").unmap({"table": "a.b"}), mode="swap")


def test_a_mapped_operator_has_its_outlet_once() -> None:
    from airflow.providers.common.compat.sdk import Asset  # noqa: PLC0415

    orders = Asset("orders")
    with dag_of(**DEFAULTS) as dag:
        penstock_airflow.CopyTableOperator.partial(task_id="many", outlet=orders).expand(
            table=["a.b", "a.c"]
        )
    mapped = dag.get_task("many")
    assert mapped.outlets == mapped.unmap({"table": "a.b"}).outlets == [orders]
