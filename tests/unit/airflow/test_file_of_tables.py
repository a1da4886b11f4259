"""A file of many tables in a DAG: read during parsing, without connections or variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import penstock_airflow
from penstock import UsageError

TEXT = """
source = "env:NO_SUCH_SOURCE"
target = "env:NO_SUCH_TARGET"
degree = 3
control-schema = "ops"

[defaults]
mode = "upsert"
incremental = "xmin"

[tables."public.orders"]
where = "day >= '${NO_SUCH_DAY}'"
[tables."public.log_*"]
mode = "append"
[tables."public.items"]
deletes = "hard"
"""
ENDS: dict[str, Any] = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def copy_all(file: Path, **arguments: Any) -> Any:
    return penstock_airflow.CopyAllOperator(task_id="all", file=file, **arguments)


def test_its_ends_apply_unless_the_call_names_others(file: Path) -> None:
    task = copy_all(file)
    assert (task.source, task.target) == ("env:NO_SUCH_SOURCE", "env:NO_SUCH_TARGET")
    assert (task.source_conn_id, task.target_conn_id) == (None, None)
    task = copy_all(file, target_conn_id="pg_dst")
    assert (task.source, task.target, task.target_conn_id) == ("env:NO_SUCH_SOURCE", None, "pg_dst")
    assert task.control_schema == "ops"


def test_the_modes_of_its_tables_decide_the_effect_of_clearing(file: Path) -> None:
    assert copy_all(file)._modes() == {"upsert", "append"}


def test_patterns_select_among_its_tables(file: Path) -> None:
    assert copy_all(file, tables=["public.o*"], **ENDS).tables == ["public.o*"]
    assert copy_all(file, tables=["{{ params.tables }}"], **ENDS).tables == ["{{ params.tables }}"]


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (("upsert", "merge"), {}, "[defaults]"),
        (("deletes =", "delete ="), {}, "unknown option 'delete'"),
        (("env:NO_SUCH_TARGET", "postgresql://a:s3cret@b/c"), {}, "without a secret"),
        (("env:NO_SUCH_TARGET", "${URL}"), {}, "target: expected env:NAME"),
        (("env:NO_SUCH_TARGET", "s3://lake/orders/"), {}, "target: expected a database"),
        (("", ""), {"tables": [{"table": "public.a"}]}, "put them into a section of the file"),
        (("", ""), {"mode": "truncate", "deletes": "hard"}, 'deletes="hard": expected incremental'),
    ],
)
def test_mistakes_are_found_when_the_dag_is_parsed(
    file: Path, change: tuple[str, str], arguments: dict[str, Any], words: str
) -> None:
    file.write_text(TEXT.replace(*change, 1), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        copy_all(file, **arguments)
    assert words in error.value.message
    assert "s3cret" not in error.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("gone.toml: expected a TOML file")):
        copy_all(tmp_path / "gone.toml")


def test_a_task_for_each_table(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_SUCH_DAY", "2026-01-01")
    orders, items = penstock_airflow.copy_tables(file=file, attempts=2, source_conn_id="pg_src")
    assert isinstance(orders, penstock_airflow.CopyTableOperator)
    assert isinstance(items, penstock_airflow.CopyTableOperator)
    assert (orders.task_id, items.task_id) == ("public_orders", "public_items")
    assert (items.source_conn_id, items.target) == ("pg_src", "env:NO_SUCH_TARGET")
    assert orders.options["where"] == "day >= '2026-01-01'"
    assert items.options["deletes"] == "hard"
    for task in (orders, items):
        assert (task.options["mode"], task.options["incremental"]) == ("upsert", "xmin")
        assert (task.options["attempts"], task.options["degree"]) == (2, 3)
        assert task.control_schema == "ops"


def test_a_task_for_each_table_needs_their_names(file: Path) -> None:
    with pytest.raises(UsageError, match="tables, file: found both"):
        penstock_airflow.copy_tables(["public.a"], file=file, **ENDS)
    file.write_text(TEXT.partition("[tables")[0] + '[tables."public.*"]\n', encoding="utf-8")
    with pytest.raises(UsageError, match="sections that name tables"):
        penstock_airflow.copy_tables(file=file, **ENDS)
