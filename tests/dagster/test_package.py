"""The wheel, installed into a Dagster without this repository."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import psycopg
import pytest

from ..packages import ROOT, build_wheels, clean_environment, run

COMPONENT = "dagster_penstock.CopyTablesComponent"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheels(tmp_path_factory.mktemp("wheels"), "core", "dagster_plugin")


@pytest.fixture(scope="module")
def clean_dagster(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clean_environment(tmp_path_factory.mktemp("clean"), wheels, "dagster-dg-cli")


@pytest.fixture
def env(clean_dagster: Path, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    foreign = ("DAGSTER", "DG_", "PG", "PYTHON", "VIRTUAL_ENV")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(foreign)
    }
    return {
        **environment,
        "DAGSTER_HOME": str(tmp_path),
        "PATH": f"{clean_dagster}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }


def test_dg_lists_the_component(clean_dagster: Path, env: dict[str, str], tmp_path: Path) -> None:
    listed = json.loads(
        run(clean_dagster / "dg", "list", "components", "--json", cwd=tmp_path, env=env)
    )
    (found,) = [one for one in listed["items"] if one["key"] == COMPONENT]
    assert found["summary"] == (
        "Copies big tables between databases in parallel, each partition exactly once."
    )


CHECKS = """
import importlib.util
import warnings

# Of imports too: what the user did not choose is no reason for a warning.
warnings.simplefilter("error")

import dagster_penstock
from dagster_shared.libraries import DagsterLibraryRegistry

for name in dagster_penstock.__all__:
    getattr(dagster_penstock, name)
assert DagsterLibraryRegistry.get()["dagster-penstock"] == "0.1.0"
for absent in ("airflow", "penstock_airflow", "penstock_testkit"):
    assert importlib.util.find_spec(absent) is None, absent
"""


def test_every_public_name_can_be_imported(
    clean_dagster: Path, env: dict[str, str], tmp_path: Path
) -> None:
    run(clean_dagster / "python", "-c", CHECKS, cwd=tmp_path, env=env)


def test_the_package_example_needs_no_other_package(
    clean_dagster: Path, env: dict[str, str], tmp_path: Path
) -> None:
    init = (ROOT / "dagster_plugin/src/dagster_penstock/__init__.py").read_text()
    (example,) = re.findall(r'"""[^\n]*\n\n(.*?)"""', init, re.DOTALL)
    shown = "\nprint(*[key.to_user_string() for key in orders.keys])"
    (tmp_path / "example.py").write_text(example + shown)
    assert run(clean_dagster / "python", "example.py", cwd=tmp_path, env=env) == "dw/orders\n"


COPIES = """
import dagster as dg
from dagster_penstock import CopySpec, PenstockResource, penstock_assets

@penstock_assets(
    specs=[CopySpec(source=dg.EnvVar("A"), target=dg.EnvVar("B"), table="public.t")]
)
def copied(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)

assert dg.materialize([copied], resources={"penstock": PenstockResource()}).success
"""


def test_the_installed_wheel_copies_a_table(
    clean_dagster: Path,
    env: dict[str, str],
    tmp_path: Path,
    source_url: str,
    target_url: str,
) -> None:
    with psycopg.connect(source_url) as source:
        source.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    (tmp_path / "copies.py").write_text(COPIES)
    env |= {"A": source_url, "B": target_url}
    run(clean_dagster / "python", "copies.py", cwd=tmp_path, env=env)
    with psycopg.connect(target_url) as target:
        assert target.execute("SELECT count(*), sum(id) FROM t").fetchone() == (1000, 500500)


def test_the_wheel_contains_only_the_package(wheels: Path) -> None:
    (wheel,) = wheels.glob("dagster_penstock-*.whl")
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    files = [line.split()[0] for line in names.splitlines()[1:]]
    info = "dagster_penstock-0.1.0.dist-info"
    assert {name.partition("/")[0] for name in files} == {"dagster_penstock", info}
    assert "dagster_penstock/py.typed" in files
    assert f"{info}/licenses/LICENSE" in files
