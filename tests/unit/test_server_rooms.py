"""Backends of servers have the same file for the same role, and no folder has many modules."""

from __future__ import annotations

from pathlib import Path

import pytest

BACKENDS = Path(__file__).resolve().parents[2] / "core" / "src" / "penstock" / "backends"
SERVERS = ("mssql", "mysql", "snowflake")
MOST = 15
ROLES = {
    "": (
        *("capabilities", "connection", "connection_fields", "dialect", "errors", "location"),
        *("load_hooks", "reader", "records", "session", "snapshot", "source", "target", "types"),
        "writer",
    ),
    "catalog": ("canonical", "table_model", "tables"),
    "load": ("tables",),
}


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("folder", ROLES)
def test_each_role_has_its_file(name: str, folder: str) -> None:
    assert modules(BACKENDS / name / folder) >= set(ROLES[folder])


def test_no_folder_has_many_modules() -> None:
    folders = [BACKENDS, *(path.parent for path in BACKENDS.rglob("__init__.py"))]
    found = {str(folder.relative_to(BACKENDS)): len(modules(folder)) for folder in folders}
    assert len(found) > 40
    assert {folder: count for folder, count in found.items() if count > MOST} == {}
