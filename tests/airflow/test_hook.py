"""Connections of type `penstock` as Airflow's connections page tests them, in both Airflows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock_testkit.airflow.environment import environment

SCRIPT = """
import json
import os
import sys

from airflow.models import Connection
from penstock_airflow import PenstockHook

answers = {}
for name, fields in json.loads(sys.argv[1]).items():
    extra = json.dumps(fields.pop("extra", {}))
    connection = Connection(conn_id=name, conn_type="penstock", extra=extra, **fields)
    # As the page does.
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = connection.get_uri()
    answers[name] = connection.test_connection()
print("\\n" + json.dumps([answers, PenstockHook("shop").get_url()]))
"""
SECRET = "pa55word"


@pytest.mark.parametrize("version", ["3", "2"])
def test_the_connections_page_tests_a_connection(
    version: str, request: pytest.FixtureRequest, tmp_path: Path, source_url: str
) -> None:
    python = request.getfixturevalue("airflow_2") if version == "2" else sys.executable
    server = conninfo_to_dict(source_url)
    shop = {
        "host": server["host"],
        "port": int(str(server["port"])),
        "login": server["user"],
        "password": server.get("password"),
        "schema": server["dbname"],
        "extra": {"type": "postgres"},
    }
    away = {**shop, "port": 1, "password": SECRET}
    connections = {"shop": shop, "away": away, "untyped": {**shop, "extra": {}}}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", SCRIPT, json.dumps(connections)],
        cwd=tmp_path,
        env=environment(tmp_path / "airflow", tmp_path, {}, {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers, url = json.loads(done.stdout.splitlines()[-1])
    worked, message = answers["shop"]
    assert worked, message
    assert message == f"connected to postgres://{server['host']}:{server['port']}"
    assert conninfo_to_dict(url) == {**server, "port": str(server["port"])}
    worked, message = answers["away"]
    assert not worked
    assert "Connection refused" in message
    assert SECRET not in done.stdout
    worked, message = answers["untyped"]
    assert not worked
    assert "connection 'untyped': expected type in its field Extra, one of " in message


def test_the_form_has_a_field_for_the_type_of_database(tmp_path: Path) -> None:
    script = """
import json
from airflow.providers_manager import ProvidersManager

field = ProvidersManager().connection_form_widgets["extra__penstock__type"]
print("\\n" + json.dumps(field.field["schema"]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=tmp_path,
        env=environment(tmp_path / "airflow", tmp_path, {}, {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    schema: Any = json.loads(done.stdout.splitlines()[-1])
    assert schema == {"type": "string", "title": "Database type"}
