"""Options of a batch are checked when a DAG is parsed, in terms of Python."""

from __future__ import annotations

import re
from typing import Any

import pytest

import penstock_airflow
from penstock import PlanningError, UsageError

ENDS: dict[str, Any] = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}
ORDERS = {"table": "a.orders"}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tables": []}, "tables: expected a list of patterns such as 'public.*'"),
    ({"tables": "a.*"}, "tables: expected a list of patterns such as 'public.*'"),
    ({"tables": [3]}, "tables: expected a pattern such as 'public.*', or a table's arguments"),
    ({"tables": [" "]}, "tables: expected patterns such as 'public.*', found an empty string"),
    ({"tables": ["a.*"], "mode": "merge"}, "mode: expected one of append, truncate"),
    ({"tables": ["a.*"], "mode": "replace"}, 'mode="replace": expected key'),
    (
        {"tables": ["a.*", {**ORDERS, "mode": "merge"}]},
        "a.orders: mode: expected one of append, truncate",
    ),
    ({"tables": [{**ORDERS, "strategy": "time"}]}, 'a.orders: strategy="time": expected key'),
    (
        {"tables": [{**ORDERS, "mod": "swap"}]},
        "a.orders: unknown argument 'mod'; did you mean 'mode'?",
    ),
    ({"tables": [ORDERS, ORDERS]}, "two tables would be copied to a.orders"),
    ({"tables": [{**ORDERS, "degree": 4}]}, "a.orders: degree applies to the whole batch"),
    ({"tables": ["a.*"], "on_table_error": "cry"}, "on_table_error: expected one of continue"),
    ({"tables": ["a.*"], "source_conn_id": None}, "source_conn_id, source: found "),
    (
        {"tables": ["a.*"], "target_conn_id": None, "target": "s3://lake/o/"},
        "target: expected a database, found a URL of files",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_options_are_named_as_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, PlanningError), match=f"^{re.escape(message)}") as e:
        penstock_airflow.CopyAllOperator(task_id="all", **{**ENDS, **arguments})
    for flag in ("--", "[["):
        assert flag not in e.value.message


@pytest.mark.parametrize(
    "arguments",
    [
        {"tables": ["{{ params.pattern }}"], "mode": "{{ params.mode }}"},
        {"tables": [{"table": "{{ params.table }}", "mode": "upsert"}]},
        {"tables": ["a.*"], "target_schema": "{{ params.schema }}", "exclude": ["b_*"]},
        {"tables": ["a.*", {"table": "a.b", "columns": ("c", "d")}], "degree": 3},
    ],
    ids=str,
)
def test_options_that_may_be_right_are_accepted(arguments: dict[str, Any]) -> None:
    operator = penstock_airflow.CopyAllOperator(task_id="all", **ENDS, **arguments)
    assert operator.tables == arguments["tables"]


def test_default_args_apply_and_events_go_to_the_alias_of_the_target() -> None:
    from airflow.providers.common.compat.sdk import DAG  # noqa: PLC0415

    with DAG("copies", schedule=None, default_args={**ENDS, "mode": "truncate", "degree": 3}):
        plain = penstock_airflow.CopyAllOperator(task_id="all", tables=["a.*"])
        other = penstock_airflow.CopyAllOperator(
            task_id="other", tables=["a.*"], target_schema="dw"
        )
    assert plain.options == {"mode": "truncate", "degree": 3}
    assert [alias.name for alias in plain.outlets] == ["penstock:pg_dst"]
    assert [alias.name for alias in other.outlets] == ["penstock:pg_dst/dw"]


def test_a_batch_starts_again_unless_that_duplicates_rows() -> None:
    merged = {**ORDERS, "mode": "upsert"}
    cases: list[tuple[list[Any], str, set[str]]] = [
        (["a.*"], "truncate", {"truncate"}),
        (["a.*", merged], "append", {"append", "upsert"}),
        ([merged], "truncate", {"truncate", "upsert"}),
    ]
    for tables, mode, modes in cases:
        arguments: dict[str, Any] = {**ENDS, "tables": tables, "mode": mode}
        task = penstock_airflow.CopyAllOperator(task_id="all", **arguments)
        assert task._modes() == modes
