"""The argument `approve`, when a DAG is parsed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from penstock import UsageError

ENDS = {"source_conn_id": "src", "target_conn_id": "dst", "table": "public.orders"}


def group(**arguments: Any) -> Any:
    sdk = import_module("airflow.sdk")
    with sdk.DAG("asking", schedule=None):
        return import_module("penstock_airflow").copy_table(**ENDS, **arguments)


@pytest.mark.parametrize(("approve", "found"), [("deletions", "'deletions'"), (7, "7")])
def test_an_unknown_approval_names_those_there_are(approve: Any, found: str) -> None:
    with pytest.raises(UsageError, match=f"expected some of drift, deletes; found {found}"):
        group(approve=approve)


def test_older_versions_of_airflow_cannot_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = import_module("penstock_airflow.operators.approval")
    monkeypatch.setattr(asking, "AIRFLOW_VERSION", (3, 0))
    with pytest.raises(UsageError, match=r"expected Airflow 3\.1 or later.*found 3\.0"):
        group(approve="drift")
    group()


def test_quoted_names_cannot_end_the_statements_that_are_shown() -> None:
    code = import_module("penstock_airflow.operators.approval")._code
    assert code(["a"]) == "```\na\n```"
    assert code(["a ````` b"]).startswith("``````\n")
