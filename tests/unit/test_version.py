"""`penstock --version`: a line for scripts, then the parts that are installed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, str]]:
    assert main(["--version"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    return first, dict(line.split(maxsplit=1) for line in lines)


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a distribution."""
    real = importlib.metadata.Distribution.from_name

    def from_name(distribution: str) -> importlib.metadata.Distribution:
        if distribution == name:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(distribution)

    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", from_name)


def test_the_first_line_is_the_version_alone(capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = shown(capsys)
    assert first == f"penstock {importlib.metadata.version('penstock')}"


def test_every_extra_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "core/pyproject.toml").read_text(encoding="utf-8"))["project"]
    _, parts = shown(capsys)
    assert set(project["optional-dependencies"]) < set(parts)


def test_a_driver_is_listed_with_its_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, parts = shown(capsys)
    assert parts["postgresql"] == f"psycopg {importlib.metadata.version('psycopg')}"
    pyarrow = f"pyarrow {importlib.metadata.version('pyarrow')}"
    assert [name for name, text in parts.items() if pyarrow in text] == ["arrow"]


def test_a_missing_driver_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without("pymysql", monkeypatch)
    assert shown(capsys)[1]["mysql"] == "pymysql not installed"


@pytest.mark.parametrize(
    ("installed", "switch", "text"),
    [
        ("0.0.9", "", "0.0.9, not used: expected 0.1.0"),
        ("0.1.0", "", "0.1.0"),
        ("0.1.0", "off", "0.1.0, switched off by PENSTOCK_NATIVE"),
    ],
)
def test_use_of_the_native_part_is_reported(
    installed: str,
    switch: str,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = tmp_path / f"penstock_native-{installed}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: penstock-native\nVersion: {installed}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PENSTOCK_NATIVE", switch)
    assert shown(capsys)[1]["native"] == text


def test_a_missing_native_part_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without("penstock-native", monkeypatch)
    assert shown(capsys)[1]["native"] == "not installed"


def test_integrations_and_third_party_backends_have_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "penstock_lake-2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: penstock-lake\nVersion: 2.3\n")
    (info / "entry_points.txt").write_text("[penstock.backends]\nlake = penstock_lake:backend\n")
    monkeypatch.syspath_prepend(tmp_path)
    _, parts = shown(capsys)
    assert parts["lake"] == "penstock-lake 2.3"
    assert parts["airflow"].startswith("airflow-provider-penstock ")
    assert parts["dagster"].startswith("dagster-penstock ")


IMPORTED = """
import sys
from penstock.cli.main import main
main(["--version"])
print(*sys.modules)
"""


def test_no_driver_is_imported() -> None:
    listing = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    ).stdout
    modules = set(listing.splitlines()[-1].split())
    assert "penstock.cli.installed_parts" in modules
    assert modules.isdisjoint({"airflow", "dagster", "duckdb", "psycopg", "pyarrow", "pymysql"})
