"""Tables of patterns as assets: refreshed by the real `dg`, loaded without a database, copied."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest

from penstock_testkit import PostgresServer

from .dg_project import DgProject

TYPE = "dagster_penstock.CopyFileComponent"
KEY = "CopyFileComponent[warehouse.defs/sales/penstock.toml]"
PASSWORD = "hunter2-of-the-shop"
FILE = """
source = "env:PG_SRC"
target = "env:PG_DST"
target_schema = "dw"
tables = ["sales.*"]

[defaults]
mode = "replace"
key = "day"
"""
LOADS = """
from warehouse.definitions import defs
keys = defs().resolve_asset_graph().materializable_asset_keys
print(sorted(key.to_user_string() for key in keys))
"""


@pytest.fixture
def shop() -> Iterator[PostgresServer]:
    """Start a server with a password that no other test needs, so that it can stop."""
    with PostgresServer() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE shop LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
            connection.execute("CREATE SCHEMA sales")
            connection.execute("CREATE SCHEMA dw")
            for name in ("orders", "returns"):
                connection.execute(
                    f"CREATE TABLE sales.{name} (id int PRIMARY KEY, day date NOT NULL)".encode()
                )
                connection.execute(
                    f"INSERT INTO sales.{name} SELECT n, '2024-01-01'::date + n / 10"
                    " FROM generate_series(0, 99) AS n".encode()
                )
            connection.execute("COMMENT ON TABLE sales.orders IS 'What was ordered'")
        yield server


@pytest.fixture
def project(tmp_path: Path, shop: PostgresServer) -> DgProject:
    """Return a project with a scaffolded component, whose source has a password."""
    project = DgProject(tmp_path, copies=False)
    scaffolded = project.run("dg", "scaffold", "defs", TYPE, "sales", "--tables", "sales.*")
    assert scaffolded.returncode == 0, scaffolded.stderr
    text = (project.defs / "sales/penstock.toml").read_text()
    assert 'source = "env:PG_SRC"' in text
    assert '[tables."sales.*"]' in text
    (project.defs / "sales/penstock.toml").write_text(FILE)
    host, _, name = shop.url.partition("@")[2].partition("/")
    project.env["PG_SRC"] = f"postgresql://shop:{PASSWORD}@{host}/{name}"
    project.env["PG_DST"] = shop.url
    return project


def refreshed(project: DgProject) -> list[str]:
    """Refresh the state, and return what has changed."""
    done = project.run("dg", "utils", "refresh-defs-state")
    assert done.returncode == 0, done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    lines = done.stderr.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{KEY}: "))
    return [lines[first].removeprefix(f"{KEY}: "), *map(str.strip, lines[first + 1 :])]


def loaded(project: DgProject) -> list[str]:
    """Load the code location as a deployment does, and return its assets."""
    done = project.run("python", "-c", LOADS, PG_SRC="", PG_DST="")
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.replace("'", '"'))
    return found


def test_the_catalog_is_read_when_the_state_is_refreshed(
    project: DgProject, shop: PostgresServer
) -> None:
    # Before, only named tables are known.
    assert loaded(project) == []
    assert refreshed(project) == ["2 tables", "+ sales.orders", "+ sales.returns"]
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE sales.items (id int, day date)")
        connection.execute("DROP TABLE sales.returns")
        connection.execute("ALTER TABLE sales.orders ADD note text, ALTER id TYPE bigint")
    assert loaded(project) == ["dw/orders", "dw/returns"]
    first, *changes = refreshed(project)
    assert first.startswith("2 tables; changed since 20")
    assert changes == [
        "+ sales.items",
        "~ sales.orders: id integer -> bigint, + note text",
        "- sales.returns",
    ]
    first, *changes = refreshed(project)
    assert "nothing changed since" in first
    assert not changes
    shop.stop()
    assert loaded(project) == ["dw/items", "dw/orders"]
    failed = project.run("dg", "utils", "refresh-defs-state")
    assert failed.returncode == 1
    assert "source: connection failed" in failed.stdout
    assert PASSWORD not in failed.stdout + failed.stderr
    assert loaded(project) == ["dw/items", "dw/orders"]
    (state,) = project.defs.glob(".local_defs_state/*/state")
    assert "sales.orders" in state.read_text()
    assert PASSWORD not in state.read_text()
    assert project.env["PG_SRC"].partition("@")[2] not in state.read_text()


def test_dg_refreshes_the_state_by_itself_unless_it_is_told_not_to(
    project: DgProject, shop: PostgresServer
) -> None:
    listed = project.run("dg", "list", "defs", "--json")
    assert listed.returncode == 0, listed.stderr
    (orders, returns) = [
        each for each in json.loads(listed.stdout)["assets"] if each["is_executable"]
    ]
    assert (orders["asset_key"], returns["asset_key"]) == ("dw/orders", "dw/returns")
    assert orders["description"].startswith("What was ordered\n")
    assert PASSWORD not in listed.stdout + listed.stderr
    text = (project.defs / "sales/defs.yaml").read_text()
    state = "defs_state: {management_type: LOCAL_FILESYSTEM, refresh_if_dev: false}"
    (project.defs / "sales/defs.yaml").write_text(f"{text}\n  {state}\n")
    shop.stop()
    checked = project.run("dg", "check", "defs")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_state_can_be_kept_by_the_instance(project: DgProject, shop: PostgresServer) -> None:
    text = (project.defs / "sales/defs.yaml").read_text()
    state = "defs_state: {management_type: VERSIONED_STATE_STORAGE}"
    (project.defs / "sales/defs.yaml").write_text(f"{text}\n  {state}\n")
    assert refreshed(project) == ["2 tables", "+ sales.orders", "+ sales.returns"]
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute("DROP TABLE sales.returns")
    first, *changes = refreshed(project)
    assert first.startswith("1 table; changed since 20")
    assert changes == ["- sales.returns"]
    assert not [*project.defs.glob(".local_defs_state/*/state")]


@pytest.fixture
def defs(project: DgProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.Definitions]:
    """Load two components of one file: a table by day, and the others whole."""
    components = [
        {
            "type": TYPE,
            "attributes": {
                "tables": ["sales.orders"],
                "partitions": {"type": "daily", "start_date": "2024-01-01"},
                "translation": {"group_name": "by_day"},
            },
        },
        {"type": TYPE, "attributes": {"exclude": ["orders"], "translation": {"group_name": "all"}}},
    ]
    (project.defs / "sales/defs.yaml").write_text("\n---\n".join(map(json.dumps, components)))
    file = project.defs / "sales/penstock.toml"
    file.write_text(
        FILE.replace('tables = ["sales.*"]', "").replace('mode = "replace"\nkey = "day"', "")
        + '[tables."sales.*"]\nmode = "recreate"\n'
        + '[tables."sales.orders"]\nmode = "replace"\nkey = "day"\n'
    )
    done = project.run("dg", "utils", "refresh-defs-state")
    assert done.returncode == 0, done.stderr
    # They are refreshed at once.
    assert sorted(done.stderr.replace("\n  ", " ").splitlines()) == [
        "CopyFileComponent[warehouse.defs/sales/penstock.toml 1]: 1 table + sales.returns",
        "CopyFileComponent[warehouse.defs/sales/penstock.toml]: 1 table + sales.orders",
    ]
    for name in ("PG_SRC", "PG_DST"):
        monkeypatch.setenv(name, project.env[name])
    monkeypatch.syspath_prepend(project.path / "src")
    yield importlib.import_module("warehouse.definitions").defs()
    for name in [name for name in sys.modules if name.partition(".")[0] == "warehouse"]:
        del sys.modules[name]


@pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated")
@pytest.mark.filterwarnings("ignore:Class .(LocalFileCode|CodeReferences)")
def test_tables_of_patterns_are_copied_whole_and_by_partitions(
    defs: dg.Definitions, shop: PostgresServer
) -> None:
    by_key: dict[str, Any] = {
        key.to_user_string(): assets
        for assets in defs.resolve_asset_graph().assets_defs
        if assets.is_executable
        for key in assets.keys
    }
    assert set(by_key) == {"dw/orders", "dw/returns"}
    tags = {
        "dagster/asset_partition_range_start": "2024-01-02",
        "dagster/asset_partition_range_end": "2024-01-04",
    }
    with dg.instance_for_test() as instance:
        days = dg.materialize([by_key["dw/orders"]], instance=instance, tags=tags)
        whole = dg.materialize([by_key["dw/returns"]], instance=instance)
        assert len(instance.get_materialized_partitions(dg.AssetKey(["dw", "orders"]))) == 3
        texts = [str(event) for run in (days, whole) for event in run.all_events]
        texts += [str(record) for record in instance.all_logs(days.run_id)]
    assert days.success
    assert whole.success
    assert not [text for text in texts if PASSWORD in text]
    with psycopg.connect(shop.url) as connection:
        query = "SELECT (SELECT count(*) FROM dw.orders), (SELECT count(*) FROM dw.returns)"
        assert connection.execute(query).fetchone() == (30, 100)
