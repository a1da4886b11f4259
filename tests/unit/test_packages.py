"""What the packages say of themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "airflow_provider", "dagster_plugin")
NEWEST = 14


@pytest.fixture(params=PACKAGES)
def project(request: pytest.FixtureRequest) -> dict[str, Any]:
    text = (ROOT / request.param / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def test_each_names_its_authors_and_its_licence(project: dict[str, Any]) -> None:
    assert project["authors"] == [{"name": "The Penstock contributors"}]
    assert project["license"] == "Apache-2.0"


def test_each_names_every_python_that_it_runs_on(project: dict[str, Any]) -> None:
    oldest = int(project["requires-python"].removeprefix(">=3."))
    named = [line for line in project["classifiers"] if " :: 3." in line]
    assert named == [
        f"Programming Language :: Python :: 3.{minor}" for minor in range(oldest, NEWEST + 1)
    ]
