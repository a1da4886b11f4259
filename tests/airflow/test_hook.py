"""Connections of type `penstock` as Airflow's connections page tests them, in both Airflows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
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
    role = f"reader_of_{version}"
    with psycopg.connect(source_url, autocommit=True) as connection:
        # Of another copy into this database; the role may not read it.
        connection.execute("CREATE SCHEMA IF NOT EXISTS penstock")
        connection.execute("CREATE TABLE IF NOT EXISTS penstock.run (run_id text)")
        connection.execute(f"DROP ROLE IF EXISTS {role}".encode())
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        connection.execute(create.format(sql.Identifier(role), SECRET))
    reader = {**shop, "login": role, "password": SECRET}
    connections = {
        "shop": shop,
        "away": away,
        "untyped": {**shop, "extra": {}},
        "reader": reader,
        "writer": {**reader, "extra": {"type": "postgres", "as_target": True}},
    }
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
    place = f"postgres://{server['host']}:{server['port']}"
    assert message == f"connected to {place}, as to a source"
    assert answers["reader"] == [True, f"connected to {place}, as to a source"]
    worked, message = answers["writer"]
    assert not worked
    assert "penstock" in message
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
behaviour = ProvidersManager().field_behaviours["penstock"]
print("\\n" + json.dumps([field.field["schema"], behaviour]))
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
    schema: Any
    behaviour: Any
    schema, behaviour = json.loads(done.stdout.splitlines()[-1])
    assert schema["title"] == "Database type"
    # Nothing is in error before anything was typed.
    assert schema["type"] == ["string", "null"]
    assert {"clickhouse", "mysql", "postgres", "snowflake", None} <= {*schema["enum"]}
    assert behaviour["relabeling"] == {"schema": "Database", "login": "User"}
    assert behaviour["placeholders"]["extra"] == '{"sslmode": "require"}'
