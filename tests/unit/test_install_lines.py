"""The commands on the pages that install Penstock, from a clone and from the index."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from penstock.backends.api.installation import install_command

ROOT = Path(__file__).resolve().parents[2]


def _script() -> ModuleType:
    spec = spec_from_file_location("install_lines", ROOT / "scripts/install_lines.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lines = _script()
COMMANDS: list[str] = lines.commands()


@pytest.mark.parametrize(
    ("from_clone", "from_index"),
    [
        ("'./core[postgresql,mysql]'", "'penstock[postgresql,mysql]'"),
        ("'./core[postgresql]' ./core/native", "'penstock[postgresql,native]'"),
        ("./core ./airflow_provider", "airflow-provider-penstock"),
        ("./core './airflow_provider[parquet]'", "'airflow-provider-penstock[parquet]'"),
        ("./core ./dagster_plugin dagster-webserver", "dagster-penstock dagster-webserver"),
        ("connectorx 'psycopg[binary]'", "connectorx 'psycopg[binary]'"),
    ],
)
def test_a_command_has_two_forms(from_clone: str, from_index: str) -> None:
    for line in (from_clone, from_index):
        assert " ".join(lines.words(line, released=False)) == from_clone
        assert " ".join(lines.words(line, released=True)) == from_index


def test_all_pages_have_the_current_form() -> None:
    stale = [page for page in lines.pages() if lines.written(page.read_text()) != page.read_text()]
    assert stale == []


@pytest.mark.parametrize("command", [*COMMANDS, "'./core[mssql-odbc]'"])
def test_a_command_installs_penstock(command: str, tmp_path: Path) -> None:
    """Each is run as it stands, by uv in place of pip, into an environment of its own."""
    if "native" in command and os.system("command -v cargo >/dev/null"):
        pytest.skip("penstock-native is not built: that needs cargo, see CONTRIBUTING.md")
    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "venv/bin/python"
    subprocess.run(
        [uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True
    )
    done = subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, *shlex.split(command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        [python.with_name("penstock"), "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("penstock ")


def test_hints_name_a_command_of_the_pages() -> None:
    """Messages give commands in the same form as the pages."""
    (word,) = shlex.split(install_command("mysql").partition(" (")[0])[2:]
    assert lines.words(f"'{word}'") == [f"'{word}'"]
