"""Wheels of this repository, installed in fresh environments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).parent / "uv"


def run(*argv: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Return the output of a command, which has to succeed."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_wheels(folder: Path, *packages: str) -> Path:
    """Build the wheels of some folders of the repository, and return the folder with the wheels."""
    for package in packages:
        run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, package)
    return folder


def clean_environment(folder: Path, wheels: Path, *distributions: str) -> Path:
    """Create an environment with the wheels and their dependencies; return its program folder.

    Dependencies have their locked versions, so a new release of one cannot fail a test.

    Args:
        distributions: further distributions to install.
    """
    locked = folder / "locked.txt"
    run(UV, "export", "--quiet", "--frozen", "--no-hashes", "--no-emit-workspace", "-o", locked)
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv")
    python = folder / "venv/bin/python"
    install = (UV, "pip", "install", "--quiet", "--python", python, "--constraints", locked)
    run(*install, *distributions, *wheels.glob("*.whl"))
    return folder / "venv/bin"
