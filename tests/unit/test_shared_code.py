"""Shared code and orchestrators name no database, and use no term of only one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "core" / "src" / "penstock"
ORCHESTRATORS = (
    ROOT / "airflow_provider" / "src" / "penstock_airflow",
    ROOT / "dagster_plugin" / "src" / "dagster_penstock",
)
# Code that backends share is in folders of its own.
SHARED_FOLDERS = ("api", "shared", "sql", "roll_forward")
NAMES = (
    "postgres|duckdb|parquet|mysql|mariadb|sqlserver|sql server|mssql|oracle|snowflake|clickhouse"
)
WORDS = re.compile(f"{NAMES}|ctid|vacuum|analyze|sqlstate|psycopg|boto3|pg_", re.IGNORECASE)
# The name of a strategy that users see.
ALLOWED = {
    ("spec/strategies.py", 'ALIASES: Mapping[str, Strategy] = {"ctid": BLOCKS}'),
    ("spec/strategies.py", '"ctid",'),
}


def shared_lines() -> list[tuple[str, str]]:
    """Yield every line of shared code, with its module."""
    lines = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        of_backend = name.parts[0] == "backends" and len(name.parts) > 2
        if of_backend and name.parts[1] not in SHARED_FOLDERS:
            continue
        text = path.read_text(encoding="utf-8")
        lines += [(str(name), line.strip()) for line in text.splitlines()]
    return lines


def test_no_database_is_named() -> None:
    lines = shared_lines()
    assert len({name for name, _ in lines}) > 60
    found = [(name, line) for name, line in lines if WORDS.search(line)]
    assert set(found) == ALLOWED


@pytest.mark.parametrize("package", ORCHESTRATORS, ids=lambda path: path.name)
def test_orchestrators_accept_any_backend(package: Path) -> None:
    paths = sorted(package.rglob("*.py"))
    assert len(paths) > 20
    found = [
        (path.name, line.strip())
        for path in paths
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(NAMES, line, re.IGNORECASE)
    ]
    assert found == []
