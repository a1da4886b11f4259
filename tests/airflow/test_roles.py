"""A role of an `aws` connection, assumed by Airflow's own Amazon provider at a real STS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock_testkit import S3Server

from ..packages import UV

# The provider and its imports for a session; its other dependencies are for other services.
DISTRIBUTIONS = ("apache-airflow-providers-amazon==9.39.0", "inflection", "watchtower")
ASKS = """
import json, sys
from airflow.providers.common.compat.sdk import Connection
from penstock_airflow.hooks.aws import s3_parameters

print(json.dumps(s3_parameters(Connection(**json.loads(sys.argv[1])), "lake")))
"""


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the provider, to be added to Python's path."""
    folder: Path = tmp_path_factory.mktemp("amazon")
    install = (UV, "pip", "install", "--quiet", "--no-deps", "--target", folder, *DISTRIBUTIONS)
    installed = subprocess.run(
        [*map(str, install), "--python", sys.executable],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"no Amazon provider: {installed.stdout.strip()[-2000:]}")
    return folder


def ask(amazon: Path, home: Path, sts: str) -> subprocess.CompletedProcess[str]:
    """Return the outcome of a connection with a role, in its own Airflow."""
    (home / "airflow.cfg").touch()
    foreign = ("AIRFLOW", "AWS", "PYTHON")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    connection = {
        "conn_id": "lake",
        "conn_type": "aws",
        "login": "AKIAEXAMPLE",
        "password": "s3cr3t-of-the-user",
        "extra": json.dumps(
            {
                "role_arn": "arn:aws:iam::123456789012:role/lake",
                "region_name": "eu-central-1",
                "service_config": {
                    "s3": {"endpoint_url": "http://minio:9000"},
                    "sts": {"endpoint_url": sts},
                },
                "config_kwargs": {"retries": {"max_attempts": 1}, "connect_timeout": 2},
            }
        ),
    }
    return subprocess.run(
        [sys.executable, "-c", ASKS, json.dumps(connection)],
        env={**env, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(amazon)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_roles_keys_belong_to_a_session_of_the_role(
    amazon: Path, tmp_path: Path, s3_server: S3Server
) -> None:
    outcome = ask(amazon, tmp_path, s3_server.endpoint)
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert found["access_key_id"].startswith("ASIA")
    assert found["secret_access_key"] != "s3cr3t-of-the-user"
    assert found["session_token"]
    assert (found["endpoint"], found["region"]) == ("http://minio:9000", "eu-central-1")


def test_the_error_for_a_role_that_cannot_be_assumed_has_no_secret(
    amazon: Path, tmp_path: Path
) -> None:
    outcome = ask(amazon, tmp_path, "http://127.0.0.1:9")
    assert outcome.returncode
    last = outcome.stderr.strip().splitlines()[-1]
    assert "connection 'lake': its role could not be assumed (EndpointConnectionError)" in last
    # It may be retried.
    assert last.startswith("penstock.errors.TransientError")
    assert "s3cr3t" not in outcome.stderr
