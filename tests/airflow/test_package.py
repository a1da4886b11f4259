"""The wheel, installed into an Airflow without this repository."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import psycopg
import pytest

from ..packages import ROOT, build_wheels, clean_environment, run


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheels(tmp_path_factory.mktemp("wheels"), "core", "airflow_provider")


@pytest.fixture(scope="module")
def clean_airflow(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clean_environment(tmp_path_factory.mktemp("clean"), wheels)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "airflow.cfg").touch()
    foreign = ("AIRFLOW", "PYTHON", "VIRTUAL_ENV")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(foreign)
    }
    return {**environment, "AIRFLOW_HOME": str(tmp_path), "NO_COLOR": "1"}


SAYS_URL = """
from airflow.providers_manager import ProvidersManager

print(ProvidersManager().providers["airflow-provider-penstock"].data["documentation-url"])
"""


def test_airflow_lists_the_provider(
    clean_airflow: Path, env: dict[str, str], tmp_path: Path
) -> None:
    listed = json.loads(
        run(clean_airflow / "airflow", "providers", "list", "-o", "json", cwd=tmp_path, env=env)
    )
    (found,) = [one for one in listed if one["package_name"] == "airflow-provider-penstock"]
    assert found["version"] == "0.1.0"
    assert found["description"].startswith("Copies big tables")
    output = run(clean_airflow / "python", "-W", "ignore", "-c", SAYS_URL, cwd=tmp_path, env=env)
    assert output.splitlines()[-1] == "https://pypi.org/project/airflow-provider-penstock/"


CHECKS = """
import importlib.util

import penstock_airflow

print(sorted(dag.task_dict))
for name in penstock_airflow.__all__:
    getattr(penstock_airflow, name)
for absent in ("airflow.providers.openlineage", "airflow.providers.postgres", "penstock_testkit"):
    assert importlib.util.find_spec(absent) is None, absent
ends = {"source_conn_id": "a", "target_conn_id": "b"}
task = penstock_airflow.CopyTableOperator(task_id="t", **ends, table="s.t")
assert task.get_openlineage_facets_on_start() is None
"""


def test_the_readme_example_needs_no_other_package(
    clean_airflow: Path, env: dict[str, str], tmp_path: Path
) -> None:
    readme = (ROOT / "airflow_provider/README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    named = example.replace("):\n    copy_table", ") as dag:\n    copy_table")
    (tmp_path / "example.py").write_text(named + CHECKS)
    env |= {f"AIRFLOW_CONN_{name}": "postgres://h/db" for name in ("A", "B")}
    output = run(clean_airflow / "python", "-W", "ignore", "example.py", cwd=tmp_path, env=env)
    tasks = [f"dw_orders.{name}" for name in ("copy", "plan", "prepare", "release", "verify")]
    assert str(tasks) in output


COPIES = """
import datetime

from airflow.sdk import DAG
from penstock_airflow import CopyTableOperator

with DAG("copies", schedule=None, start_date=datetime.datetime(2026, 1, 1)) as dag:
    CopyTableOperator(task_id="t", source_conn_id="a", target_conn_id="b", table="public.t")
if __name__ == "__main__":
    assert str(dag.test().state) == "success"
"""


def test_the_installed_wheel_copies_a_table(
    clean_airflow: Path,
    env: dict[str, str],
    tmp_path: Path,
    source_url: str,
    target_url: str,
) -> None:
    with psycopg.connect(source_url) as source:
        source.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    env |= {"AIRFLOW_CONN_A": source_url, "AIRFLOW_CONN_B": target_url}
    env |= {"AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    (tmp_path / "copies.py").write_text(COPIES)
    run(clean_airflow / "airflow", "db", "migrate", cwd=tmp_path, env=env)
    run(clean_airflow / "python", "-W", "ignore", "copies.py", cwd=tmp_path, env=env)
    with psycopg.connect(target_url) as target:
        assert target.execute("SELECT count(*), sum(id) FROM t").fetchone() == (1000, 500500)


def test_the_wheel_contains_only_the_package(wheels: Path) -> None:
    (wheel,) = wheels.glob("airflow_provider_penstock-*.whl")
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    files = [line.split()[0] for line in names.splitlines()[1:]]
    tops = {name.partition("/")[0] for name in files}
    assert tops == {"penstock_airflow", "airflow_provider_penstock-0.1.0.dist-info"}
    assert "airflow_provider_penstock-0.1.0.dist-info/licenses/LICENSE" in files
