"""The direction of imports, and modules that must not be importable."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]


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
