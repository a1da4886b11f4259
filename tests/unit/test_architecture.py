"""The direction of imports, and modules that must not be importable."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
# Errors and events are classed by inheritance; these servers' sessions and records still share code
# by it.
DEEP = {
    "ArrowSource": 4, "MssqlRecords": 7, "SnowflakeRecords": 6, "LockRecords": 6, "StageRecords": 5,
    "MySqlRecords": 5, "ServerRecords": 4, "FileRecords": 4, "MssqlSession": 4,
    "SnowflakeSession": 4, "ClickHouseSession": 4, "FileSession": 4, "TextSource": 4,
}  # fmt: skip
DEEPEST = 3


def test_core_is_a_folder_that_cannot_be_imported() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("core")


def test_core_cannot_be_imported_in_a_fresh_interpreter() -> None:
    fresh = subprocess.run(
        [sys.executable, "-P", "-c", "import core"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ModuleNotFoundError: No module named 'core'" in fresh.stderr


def test_imports_keep_their_contracts() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    lint = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr


def test_backends_have_no_import_cycles() -> None:
    graph = grimp.build_graph("penstock")
    mine = {name for name in graph.modules if name.startswith("penstock.backends.")}
    imported = {
        name: graph.find_modules_directly_imported_by(name) & mine - {name} for name in mine
    }
    assert len(mine) > 300
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules


def test_no_class_is_more_than_three_deep() -> None:
    """To follow a call, one reads at most three classes of ours; protocols do not count."""
    bases: dict[str, list[str]] = {}
    for path in sorted((ROOT / "core/src/penstock").rglob("*.py")):
        if path.name in ("errors.py", "events.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                listed = [each.value if isinstance(each, ast.Subscript) else each
                          for each in node.bases]  # fmt: skip
                bases[node.name] = [each.id for each in listed if isinstance(each, ast.Name)]

    def depth(name: str) -> int:
        if name not in bases or "Protocol" in bases[name]:
            return 0
        return 1 + max(map(depth, bases[name]), default=0)

    assert len(bases) > 500
    deep = {name: depth(name) for name in bases if depth(name) > DEEPEST}
    assert deep == DEEP
