"""The example project, and the commands of `dg` in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "dags_examples/dagster/component_project"
_FOREIGN = ("DAGSTER", "DG_", "PG", "PYTHON", "VIRTUAL_ENV")


class DgProject:
    """A copy of the example project.

    Args:
        folder: an empty folder.
        copies: whether to keep the example's components.
    """

    def __init__(self, folder: Path, *, copies: bool = True) -> None:
        ignored = shutil.ignore_patterns("__pycache__", *([] if copies else ["copies"]))
        self.path = Path(shutil.copytree(PROJECT, folder / "project", ignore=ignored))
        self.defs = self.path / "src/warehouse/defs"
        home = folder / "home"
        home.mkdir()
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        bin_ = Path(sys.executable).parent
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)
        } | {
            "DAGSTER_HOME": str(home),
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            # Replaces an installation of the project.
            "PYTHONPATH": str(self.path / "src"),
            "NO_COLOR": "1",
        }

    def run(self, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, without databases in the environment by default."""
        return subprocess.run(
            [Path(sys.executable).parent / argv[0], *argv[1:]],
            cwd=self.path,
            env=self.env | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
