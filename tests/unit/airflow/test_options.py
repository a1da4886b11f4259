"""Options of a copy are checked when a DAG is parsed, in terms of Python."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import penstock_airflow
from penstock import CopySpec, UsageError
from penstock_airflow.arguments.options import OPTIONS, build_spec, options_of

ENDS: dict[str, Any] = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}

ARGUMENTS = [
    f"{side}{kind}" for side in ("source", "target") for kind in ("_conn_id", "", "_aws_conn_id")
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "table, query: found neither; pass either"),
    ({"query": "SELECT 1", "table": "a.b"}, "table, query: found both; pass either"),
    ({"query": "SELECT 1"}, "target_table: expected the table to write, found none"),
    ({"table": "a.b.c"}, "table: expected NAME or SCHEMA.NAME"),
    ({"table": "a.b", "target_table": "c."}, "target_table: expected NAME or SCHEMA.NAME"),
    ({"table": "a.b", "mode": "merge"}, "mode: expected one of append, truncate"),
    ({"table": "a.b", "mode": "replace"}, 'mode="replace": expected key, the column'),
    (
        {"table": "a.b", "mode": "replace", "strategy": "ctid"},
        'mode="replace" deletes rows by a key, which strategy="ctid" does not have',
    ),
    ({"table": "a.b", "strategy": "time"}, 'strategy="time": expected key, found none'),
    ({"table": "a.b", "strategy": "whole", "key": "k"}, 'strategy="whole" uses no key'),
    ({"table": "a.b", "strategy": "quick"}, "strategy: expected one of auto, blocks, ctid"),
    ({"table": "a.b", "interval": "1 day"}, "interval: expected key, found none"),
    (
        {"table": "a.b", "interval": "1 day", "key": "k", "strategy": "hash"},
        'interval: expected strategy="time", found hash',
    ),
    (
        {"table": "a.b", "values_query": "SELECT 1", "key": "k", "strategy": "hash"},
        'values_query: expected strategy="values", found hash',
    ),
    ({"table": "a.b", "partitions": 0}, "partitions: expected at least 1, found 0"),
    ({"table": "a.b", "partitions": "many"}, "partitions: expected a number of partitions"),
    ({"table": "a.b", "partitions": "big"}, "partitions: expected a number of partitions"),
    ({"table": "a.b", "stall_timeout": "soon"}, "stall_timeout: expected a duration"),
    ({"table": "a.b", "attempts": 0}, "attempts: expected at least 1, found 0"),
    ({"table": "a.b", "unlogged": "yes"}, "unlogged: expected true or false, found 'yes'"),
    ({"table": "a.b", "unlogged": True}, 'unlogged: expected mode="truncate", "recreate", "swap"'),
    ({"table": "a.b", "indexes": "drop"}, "indexes: expected one of keep, defer"),
    (
        {"table": "a.b", "partitioning": True},
        'partitioning: expected mode="recreate", found append',
    ),
    (
        {"table": "a.b", "conflict_columns": ["k"]},
        'conflict_columns: expected mode="upsert", found append',
    ),
    ({"table": "a.b", "columns": []}, "columns: expected one or more names"),
    ({"table": "a.b", "columns": ["k", "k"]}, "columns: expected each name once, found 'k' twice"),
    ({"table": "a.b", "columns": [1]}, "columns: expected names separated by commas, found [1]"),
    ({"table": "a.b", "snapshot": "mine"}, "snapshot: expected one of shared, none"),
    (
        {"table": "a.b", "on_snapshot_lost": "restart"},
        'on_snapshot_lost="restart": expected mode="truncate"',
    ),
    ({"table": "a.b", "on_error": "cry"}, "on_error: expected one of stop, continue"),
    ({"table": "a.b", "verify": "all"}, "verify: expected one of none, counts, checksums"),
    ({"table": "a.b", "map": "guess"}, "map: expected one of name, position"),
    ({"table": "a.b", "where": " "}, "where: expected a condition, found an empty string"),
    ({"table": "a.b", "where": {"day": 1}}, "where: expected a string, found {'day': 1}"),
    ({"table": "a.b", "control_schema": ""}, "control_schema: expected a name"),
    (
        {"query": "SELECT 1", "target_table": "a.b", "strategy": "ctid"},
        'strategy="ctid" partitions',
    ),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[message for _, message in WRONG])
@pytest.mark.parametrize("operator", ["CopyTableOperator", "PrepareCopyOperator"])
def test_wrong_options_are_named_as_arguments_when_a_dag_is_parsed(
    operator: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        getattr(penstock_airflow, operator)(task_id="copy", **ENDS, **options)
    assert message in raised.value.message
    assert "--" not in raised.value.message


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    (
        {"target": "s3://lake/o/", "mode": "upsert"},
        'does not support mode="upsert"',
    ),
    ({"target": "duckdb:////w.duckdb", "compression": "gzip"}, "does not support compression;"),
    (
        {"target": "duckdb:////w.duckdb", "unlogged": True, "mode": "swap"},
        "does not support unlogged=True",
    ),
]


@pytest.mark.parametrize(("options", "message"), UNSUPPORTED)
def test_unsupported_options_of_an_end_are_found_when_a_dag_is_parsed(
    options: dict[str, Any], message: str
) -> None:
    named = {} if options["target"].startswith("s3") else {"target_table": "main.o"}
    arguments = {"source_conn_id": "pg_src", "table": "a.b", **named, **options}
    with pytest.raises(UsageError) as raised:
        penstock_airflow.CopyTableOperator(task_id="copy", **arguments)
    assert message in raised.value.message
    assert "--" not in raised.value.message
    # The template may select another system.
    penstock_airflow.CopyTableOperator(
        task_id="copy", **{**arguments, "verify": "{{ params.verify }}"}
    )


TEMPLATED: list[dict[str, Any]] = [
    {"table": "{{ params.schema }}.orders"},
    {"table": "a.b", "target_table": "{{ params.target }}"},
    {"query": "{{ params.query }}", "target_table": "a.b"},
    {"table": "a.b", "mode": "{{ params.mode }}"},
    {"table": "a.b", "mode": "{{ params.mode }}", "conflict_columns": ["k"]},
    {"table": "a.b", "mode": "replace", "key": "{% if true %}k{% endif %}"},
    {"table": "a.b", "strategy": "{{ params.strategy }}", "key": "k"},
    {"table": "a.b", "where": "day = '{{ ds }}'"},
    {"table": "a.b", "columns": "{{ params.columns }}"},
    {"table": "a.b", "columns": ["{{ params.column }}", "b"]},
    {"table": "a.b", "partitions": "{{ params.partitions }}"},
    {"table": "a.b", "degree": "{{ params.degree }}"},
    {"table": "a.b", "partitions": "{{ params.size }}"},
    {"table": "a.b", "stall_timeout": "{{ params.stall }}"},
    {"table": "a.b", "map": "{{ params.map }}"},
    {"table": "a.b", "indexes": "{{ params.indexes }}"},
    {"table": "a.b", "on_error": "{{ params.on_error }}"},
    {"table": "a.b", "unlogged": "{{ params.unlogged }}"},
    {"table": "a.b", "key": "k", "strategy": "time", "interval": "{{ params.interval }}"},
    {"table": "a.b", "control_schema": "{{ params.control }}"},
    {"table": "a.b", "compression": "{{ params.compression }}"},
    {"table": "a.b", "types": "{{ params.types }}"},
    {"table": "a.b", "types": {"k": "{{ params.type }}"}},
    {"table": "a.b", "partition_by": "{{ params.columns }}"},
    {"table": "a.b", "file_size": "{{ params.size }}"},
]


@pytest.mark.parametrize("options", TEMPLATED, ids=str)
def test_templates_are_not_checked_during_parsing(options: dict[str, Any]) -> None:
    operator = penstock_airflow.CopyTableOperator(task_id="copy", **ENDS, **options)
    assert operator.options == options
    assert "options" in operator.template_fields


def test_options_next_to_a_template_are_checked() -> None:
    with pytest.raises(UsageError, match='mode="replace": expected key'):
        penstock_airflow.CopyTableOperator(
            task_id="copy", **ENDS, table="{{ params.table }}", mode="replace"
        )
    with pytest.raises(UsageError, match="table, query: found both; pass either"):
        penstock_airflow.CopyTableOperator(
            task_id="copy", **ENDS, table="a.b", query="{{ params.query }}"
        )


def test_results_of_other_tasks_are_not_checked_during_parsing() -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    options = ("where", "mode", "partitions", "columns", "unlogged", "target_table", "types")
    with DAG("copies", schedule=None):
        first = penstock_airflow.CopyTableOperator(task_id="first", **ENDS, table="a.b")
        for name in options:
            arguments: dict[str, Any] = {"table": "a.b", name: first.output}
            later = penstock_airflow.CopyTableOperator(task_id=name, **ENDS, **arguments)
            assert later.upstream_task_ids == {"first"}
        url = penstock_airflow.CopyTableOperator(
            task_id="url", source=first.output, target_conn_id="pg_dst", target_table="a.b"
        )
        assert url.upstream_task_ids == {"first"}


def test_an_unknown_argument_is_rejected_by_name() -> None:
    message = "unknown argument 'tabel'; did you mean 'table'?"
    for operator in (penstock_airflow.CopyTableOperator, penstock_airflow.PrepareCopyOperator):
        with pytest.raises(UsageError) as error:
            operator(task_id="copy", **ENDS, table="a.b", tabel="a.c")
        assert error.value.message == f"a.b: {message}"
    with pytest.raises(UsageError) as error:
        penstock_airflow.CopyTableOperator.partial(task_id="copy", **ENDS, tabel="a.c")
    assert error.value.message == message
    with pytest.raises(UsageError) as error:
        penstock_airflow.PlanCopyOperator(task_id="plan", target="a:b", run_id="r", runid="s")
    assert error.value.message == "unknown argument 'runid'; did you mean 'run_id'?"
    with pytest.raises(TypeError, match="tabel"):
        penstock_airflow.CopyPartitionOperator.partial(task_id="copy", **ENDS, tabel="a.c")


def test_every_option_but_those_that_operators_set_is_an_argument() -> None:
    arguments = {"table": "a.b", "retries": 3, "run_id": "mine", "source": "env:S"}
    assert options_of(arguments) == {"table": "a.b"}
    assert {*OPTIONS, "source", "target", "run_id", "claim"} == {
        item.name for item in fields(CopySpec)
    }


TAKING_OPTIONS = {
    "CopyAllOperator": ("table", "query", "target_table"),
    "CopyTableOperator": (),
    # Without rows there are no partitions, and so no tasks.
    "PrepareCopyOperator": ("schema_only",),
    "copy_table": ("schema_only",),
    "copy_tables": ("table", "query", "target_table", "schema_only"),
}


@pytest.mark.parametrize("taking", TAKING_OPTIONS)
def test_every_callable_with_options_names_them_in_its_signature(taking: str) -> None:
    """Airflow applies `default_args` to named parameters alone; editors show no others."""
    names = set(inspect.signature(getattr(penstock_airflow, taking)).parameters)
    assert {*OPTIONS, *ARGUMENTS} - names == set(TAKING_OPTIONS[taking])


def test_signatures_match_the_fields_of_a_spec() -> None:
    script = Path(__file__).parents[3] / "scripts/option_arguments.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_a_spec_has_the_specified_options() -> None:
    spec = build_spec(
        "postgresql://a/b",
        "postgresql://c/d",
        {"table": "a.b", "columns": ("k", "v"), "degree": "3", "where": None},
        "orders-1",
    )
    assert (spec.run_id, spec.columns, spec.degree, spec.where) == (
        "orders-1",
        ("k", "v"),
        3,
        None,
    )


@pytest.mark.parametrize("value", [0, -1, "2", 1.5, None])
def test_partitions_per_task_is_an_integer(value: Any) -> None:
    found = re.escape(f"partitions_per_task: expected a whole number, at least 1; found {value!r}")
    with pytest.raises(UsageError, match=found):
        penstock_airflow.PlanCopyOperator(
            task_id="plan", target_conn_id="pg_dst", run_id="r", partitions_per_task=value
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"degree": 0}, r"^a.b, group a_b: degree: expected the number of .* at least 1; found 0"),
        ({"degree": "auto"}, r"^a.b, group a_b: degree: expected the number of .* found 'auto'"),
        ({"attempts": 0}, "^a.b, group a_b: attempts: expected at least 1, found 0"),
        ({"snapshot_holder": "nobody"}, "snapshot_holder: expected one of triggerer, worker"),
        ({"mode": "replace"}, '^a.b, group a_b: mode="replace": expected key'),
        (
            {"partitions_per_task": 0},
            "^a.b, group a_b: partitions_per_task: expected a whole number",
        ),
        ({"workers": 0}, r"workers: expected .* from 1 to 1,024 .*max_map_length.*; found 0"),
        ({"workers": True}, "workers: expected the number of mapped tasks .* found True"),
        ({"workers": 1025}, "found 1025"),
        (
            {"workers": 2, "partitions_per_task": 4},
            "^a.b, group a_b: workers, partitions_per_task: found both; .* remove partitions_per_",
        ),
        (
            {"workers": 2, "partitions": 1},
            r"workers: expected several partitions to share, found one \(partitions=1\)",
        ),
        ({"workers": 2, "strategy": "whole"}, r'found one \(strategy="whole"\); remove workers'),
        (
            {"workers": 2, "approve": ["drift", "deletes"]},
            "workers, approve: a worker ends the run, and cannot wait",
        ),
        ({"workers": 2, "degree": "auto"}, "degree: expected the number .* found 'auto'"),
    ],
)
def test_a_group_rejects_the_same_options_as_its_operators(
    arguments: dict[str, Any], message: str
) -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    with DAG("copies", schedule=None), pytest.raises(UsageError, match=message):
        penstock_airflow.copy_table(**ENDS, table="a.b", **arguments)


def test_an_error_names_its_table() -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    tables: list[Any] = ["a.b", {"table": "a.c", "mode": "merge"}]
    with DAG("copies", schedule=None):
        with pytest.raises(UsageError, match=r"^a\.c: mode: expected one of append, truncate"):
            penstock_airflow.copy_tables(tables, **ENDS)
        with pytest.raises(UsageError, match=r"^a\.d: source_conn_id, source: found neither"):
            penstock_airflow.copy_tables(["a.d"], target_conn_id="pg_dst")


@pytest.mark.parametrize("tables", ["a.b", {"table": "a.b"}, [3]])
def test_many_tables_are_a_list_of_names_or_arguments(tables: Any) -> None:
    with pytest.raises(UsageError, match=r"^tables: expected"):
        penstock_airflow.copy_tables(tables, **ENDS)


def test_a_group_reports_all_mistakes_of_a_call_at_once() -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    arguments: dict[str, Any] = {
        "modus": "append",
        "jobs": "hunter2",
        "mode": "upsrt",
        "conflict_columns": ["k"],
        "where": "{{ params.where }}",
        "degree": 0,
    }
    with DAG("copies", schedule=None), pytest.raises(UsageError) as error:
        penstock_airflow.copy_table(
            group_id="orders", source_conn_id="pg_src", table="a.b", **arguments
        )
    head, *mistakes = error.value.message.splitlines()
    assert head == "a.b, group orders: 5 mistakes:"
    assert [line.strip()[:45] for line in mistakes] == [
        "unknown argument 'modus'; did you mean 'mode'",
        "unknown argument 'jobs'",
        "degree: expected the number of mapped tasks t",
        "target_conn_id, target: found neither; pass e",
        "mode: expected one of append, truncate, repla",
    ]
    assert "hunter2" not in error.value.message


def test_workers_share_the_partitions_of_groups_alone() -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    tables: list[Any] = [
        {"table": "a.b", "mapped": True},
        {"table": "a.c", "mapped": True, "workers": 3},
        {"table": "a.d", "mapped": True, "workers": None},
        "a.e",
    ]
    with DAG("copies", schedule=None) as dag:
        penstock_airflow.copy_tables(tables, **ENDS, workers=2, degree=6)
    tasks: dict[str, Any] = dag.task_dict
    workers = {name: tasks[f"{name}.plan"].workers for name in ("a_b", "a_c", "a_d")}
    assert workers == {"a_b": 2, "a_c": 3, "a_d": None}
    at_once = {
        name: tasks[f"{name}.copy"].partial_kwargs["max_active_tis_per_dagrun"] for name in workers
    }
    assert at_once == {"a_b": 2, "a_c": 3, "a_d": 6}
    streams = {name: tasks[f"{name}.copy"].partial_kwargs["degree"] for name in workers}
    assert streams == {"a_b": 6, "a_c": 6, "a_d": 1}
    # Enough partitions for all streams of all workers.
    assert tasks["a_c.prepare"].options["degree"] == 18


@pytest.mark.parametrize(
    ("tables", "arguments", "message"),
    [
        ([{"table": "a.b", "workers": 2}], {}, "^a.b: workers: expected mapped=True beside it"),
        (["a.b"], {"workers": 2}, "^workers: expected mapped=True, of all tables or of one"),
    ],
)
def test_one_task_has_no_workers(
    tables: list[Any], arguments: dict[str, Any], message: str
) -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    with DAG("copies", schedule=None), pytest.raises(UsageError, match=message):
        penstock_airflow.copy_tables(tables, **ENDS, **arguments)


def test_tables_report_their_own_mistakes() -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    message = "^a.b: unknown argument 'on_eror'; did you mean 'on_error'"
    with DAG("copies", schedule=None), pytest.raises(UsageError, match=message):
        penstock_airflow.copy_tables([{"table": "a.b", "on_eror": "stop"}], **ENDS)
    with DAG("copies", schedule=None), pytest.raises(UsageError, match="did you mean 'retries'"):
        penstock_airflow.copy_tables(["a.b"], **ENDS, retry=3)


def test_a_derived_operator_has_arguments_of_its_own() -> None:
    class Derived(penstock_airflow.CopyTableOperator):
        def __init__(self, *, owner_of_data: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.owner_of_data = owner_of_data

    assert Derived(task_id="copy", **ENDS, table="a.b", owner_of_data="me").owner_of_data == "me"
    mapped = Derived.partial(task_id="many", **ENDS, owner_of_data="me").expand(table=["a.b"])
    assert mapped.partial_kwargs["owner_of_data"] == "me"
