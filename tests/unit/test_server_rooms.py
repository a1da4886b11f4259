"""Backends on the kit for servers have the same file for the same role, and no crowded folder."""

from __future__ import annotations

from pathlib import Path

import pytest

BACKENDS = Path(__file__).resolve().parents[2] / "core" / "src" / "penstock" / "backends"
SERVERS = ("mssql", "snowflake")
MOST = 15
ROLES = {
    "": (
        *("capabilities", "connection", "connection_fields", "dialect", "errors", "location"),
        *("reader", "records", "runs", "session", "snapshot", "source", "target", "types"),
        "writer",
    ),
    "catalog": ("canonical", "table_model", "tables"),
    "load": ("stage", "tables"),
}


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("folder", ROLES)
def test_each_role_has_its_file(name: str, folder: str) -> None:
    assert modules(BACKENDS / name / folder) >= set(ROLES[folder])


@pytest.mark.parametrize("name", [*SERVERS, "sql/server", "sql/one_file"])
def test_no_folder_has_many_modules(name: str) -> None:
    root = BACKENDS / name
    folders = [root, *(path.parent for path in root.rglob("__init__.py"))]
    found = {str(folder.relative_to(BACKENDS)): len(modules(folder)) for folder in folders}
    assert {folder: count for folder, count in found.items() if count > MOST} == {}
