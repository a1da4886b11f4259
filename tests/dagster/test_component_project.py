"""The example project as a user runs it: the commands of `dg`, and its tables copied."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from penstock_testkit import tpch

from ..conftest import Connection
from .dg_project import DgProject

TABLES = ("customer", "lineitem", "nation", "orders")
COMPONENT = "dagster_penstock.CopyTablesComponent"

Dg = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dg_project(tmp_path: Path) -> DgProject:
    return DgProject(tmp_path)


@pytest.fixture
def project(dg_project: DgProject) -> Path:
    return dg_project.path


@pytest.fixture
def run_dg(dg_project: DgProject) -> Dg:
    """Return a function that runs `dg` in the project, without its databases in the environment."""
    return partial(dg_project.run, "dg")


def test_the_project_and_scaffolded_files_pass_the_checks(run_dg: Dg) -> None:
    options = ("--source", "env:SHOP", "--table", "sales.items", "--key", "id")
    scaffolded = run_dg("scaffold", "defs", COMPONENT, "items", *options)
    assert scaffolded.returncode == 0, scaffolded.stderr
    checked = run_dg("check", "defs")
    output = checked.stdout + checked.stderr
    assert checked.returncode == 0, output
    assert "All component YAML validated successfully" in output
    assert "All definitions loaded successfully" in output
    listed = run_dg("list", "defs", "--json")
    assert listed.returncode == 0, listed.stderr
    found = json.loads(listed.stdout)
    assets = {one["asset_key"]: one for one in found["assets"] if one["is_executable"]}
    names = ("customer", "lineitem", "nation", "orders")
    assert set(assets) == {f"warehouse/{name}" for name in names} | {"sales/items"}
    orders = assets["warehouse/orders"]
    assert orders["dependency_keys"] == ["shop/orders"]
    assert orders["kinds"] == ["penstock", "postgresql"]
    assert {check["key"] for check in found["asset_checks"]} == {
        "sales/items:same_row_count",
        "warehouse/customer:same_row_count",
        "warehouse/lineitem:same_row_count",
        "warehouse/nation:same_row_count",
        "warehouse/orders:same_rows",
    }


def test_a_mistake_is_reported_with_its_line(run_dg: Dg, project: Path) -> None:
    path = project / "src/warehouse/defs/copies/defs.yaml"
    first = path.read_text().split("---\n")[0]
    wrong = first.replace("mode: replace", "mode: replce").replace("- PG_SRC", "- PG_SOURCE")
    assert wrong.count("replce") == wrong.count("PG_SOURCE") == 1
    path.write_text(wrong)
    checked = run_dg("check", "yaml", "--validate-requirements")
    line = wrong.splitlines().index("    mode: replce") + 1
    assert checked.returncode == 1
    assert f"defs.yaml:{line} - {COMPONENT} attributes.options.mode 'replce' is not one of" in (
        checked.stdout
    )
    # Dagster lists the variables used, although only a copy reads them.
    assert "not specified in the component file: PG_SRC" in checked.stdout


def test_a_password_is_refused_and_not_shown(run_dg: Dg, project: Path) -> None:
    path = project / "src/warehouse/defs/copies/defs.yaml"
    text = path.read_text()
    path.write_text(
        text.replace('source: "{{ env.PG_SRC }}"', "source: postgresql://me:pa55word@h/shop", 1)
    )
    assert "pa55word" in path.read_text()
    checked = run_dg("check", "defs")
    output = checked.stdout + checked.stderr
    assert checked.returncode == 1
    assert "copies[0]: table public.orders: source: expected a URL without a password" in output
    assert "pa55word" not in output


@pytest.fixture
def defs(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.Definitions]:
    monkeypatch.syspath_prepend(project / "src")
    yield importlib.import_module("warehouse.definitions").defs()
    for name in [name for name in sys.modules if name.partition(".")[0] == "warehouse"]:
        del sys.modules[name]


@pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated")
@pytest.mark.filterwarnings("ignore:Class .(LocalFileCode|CodeReferences)")
def test_the_tables_are_copied(
    source_url: str,
    target_url: str,
    source: Connection,
    target: Connection,
    defs: dg.Definitions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = tpch.load(source_url, TABLES, 0.01)
    tpch.create(target_url, TABLES, schema="dw")
    monkeypatch.setenv("PG_SRC", source_url)
    monkeypatch.setenv("PG_DST", target_url)
    by_name = {
        assets.op.name: assets
        for assets in defs.resolve_asset_graph().assets_defs
        if assets.is_executable
    }
    assert set(by_name) == {"copies", "small_tables"}
    for asset in by_name["small_tables"].specs:
        assert asset.freshness_policy == dg.FreshnessPolicy.time_window(timedelta(days=1))
    tags = {
        "dagster/asset_partition_range_start": "1994-06-01",
        "dagster/asset_partition_range_end": "1994-06-05",
    }
    with dg.instance_for_test() as instance:
        days = dg.materialize([by_name["copies"]], instance=instance, tags=tags)
        whole = dg.materialize([by_name["small_tables"]], instance=instance)
        for name in ("orders", "lineitem"):
            key = dg.AssetKey(["warehouse", name])
            assert len(instance.get_materialized_partitions(key)) == 5
    for done in (days, whole):
        assert done.success
        assert all(check.passed for check in done.get_asset_check_evaluations())
    where = {"orders": "o_orderdate", "lineitem": "l_shipdate"}
    for name in TABLES:
        condition = "true"
        if name in where:
            condition = f"{where[name]} >= '1994-06-01' AND {where[name]} < '1994-06-06'"
        content = "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {} AS t"
        found = target.execute(content.format(f"dw.{name}").encode()).fetchone()
        expected = source.execute(f"{content.format(name)} WHERE {condition}".encode()).fetchone()
        assert found == expected
        assert found is not None
        assert 0 < found[0] <= rows[name]
