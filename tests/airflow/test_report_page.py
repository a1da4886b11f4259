"""The page of a run's report, requested from Airflow's own API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow.environment import environment

from .shop import Shop, open_shop

DAG_TEXT = """
with DAG("reported", schedule=None, start_date=START, default_args={**ENDS, **AT_ONCE}):
    copy_table(group_id="group", table="public.orders", mode="truncate", snapshot="none")
    CopyTableOperator.partial(task_id="mapped", mode="truncate").expand(table=["public.nation"])
    @task
    def other():
        pass

    other()
"""
# The API server in this process, with its plugins, middleware and users.
SCRIPT = """
import json, sys

from fastapi.testclient import TestClient
from airflow.api_fastapi.app import create_app

answers = {}
with TestClient(create_app(apps="core"), follow_redirects=False) as client:
    def ask(path, **more):
        answer = client.get(path, **more)
        return [answer.status_code, answer.text, dict(answer.headers)]

    paths = json.loads(sys.argv[1])
    refused = ask(paths[0])
    login = client.post("/auth/token", json={"username": "ann", "password": "pa55"})
    token = login.json()["access_token"]
    client.cookies.set("_token", token)
    print(json.dumps([refused, *map(ask, paths)]))
"""


@pytest.fixture(scope="module")
def shop(
    source_server: Server, target_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.fill(("orders", "nation"))
        yield shop


def responses(shop: Shop, *paths: str) -> list[tuple[int, str, dict[str, str]]]:
    """Return the responses: to an anonymous client for the first path, then to a user for all."""
    passwords = shop.runner.home / "passwords.json"
    passwords.write_text(json.dumps({"ann": "pa55"}))
    settings: dict[str, Any] = {
        "database.sql_alchemy_conn": f"sqlite:///{shop.runner.database}",
        "core.simple_auth_manager_users": "ann:viewer",
        "core.simple_auth_manager_passwords_file": passwords,
        "api_auth.jwt_secret": "s" * 64,
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(paths)],
        cwd=shop.runner.home,
        env=environment(shop.runner.home, shop.dags, settings, {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(answer) for answer in json.loads(done.stdout.splitlines()[-1])]


# A busy machine takes minutes to start an API server.
@pytest.mark.timeout(900)
def test_links_open_the_report_as_a_page(shop: Shop) -> None:
    run = shop.run(shop.write(DAG_TEXT), "reported").succeeded()
    copied = run.mapped("group.copy")[0]
    of_group, of_mapped = (
        task.xcoms["_link_ReportLink"] for task in (copied, run.task("mapped", 0))
    )
    assert of_mapped.endswith("task_id=mapped&map_index=0")
    without = of_group.replace("group.verify", "other")
    refused, page, mapped, away = responses(shop, of_group, of_mapped, without)
    assert refused[0] == 401
    run_ids = copied.value["run_id"], run.task("mapped", 0).value["run_id"]
    for (status, text, headers), run_id in zip((page, mapped), run_ids, strict=True):
        assert status == 200
        assert text.lower().startswith("<!doctype html>")
        assert run_id in text
        assert headers["content-type"].startswith("text/html")
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    # A task without a report shows its log.
    run_id = quote(run.run_id, safe="")
    assert (away[0], away[2]["location"]) == (307, f"/dags/reported/runs/{run_id}/tasks/other")
