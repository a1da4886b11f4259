"""What `make wheels` builds: valid packages, and a wheel that copies a table on its own.

penstock-native's wheel is tested in test_native.py, those of the integrations in tests/airflow and
tests/dagster.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import psycopg
import pytest

from ...packages import ROOT, clean_environment, run

PACKAGES = ("airflow_provider_penstock", "dagster_penstock", "penstock")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pure packages, which the script has checked with twine and other tools."""
    folder = tmp_path_factory.mktemp("packages") / "dist"
    output = run("sh", ROOT / "scripts/bootstrap.sh", ".venv", "--pure", folder)
    assert output.count("PASSED") == 2 * len(PACKAGES)
    assert output.count(": OK") == len(PACKAGES)
    return folder


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_is_typed_and_licensed(name: str, packages: Path) -> None:
    (wheel,) = packages.glob(f"{name}-*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    assert [file for file in files if file.count("/") == 1 and file.endswith("/py.typed")]
    assert [file for file in files if file.endswith(".dist-info/licenses/LICENSE")]


@pytest.mark.parametrize("name", PACKAGES)
def test_an_sdist_contains_only_its_own_files(name: str, packages: Path) -> None:
    (sdist,) = packages.glob(f"{name}-*.tar.gz")
    with tarfile.open(sdist) as opened:
        tops = {member.split("/")[1] for member in opened.getnames()}
    expected = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src"}
    assert tops == expected


def test_the_wheel_copies_a_table(
    packages: Path, tmp_path: Path, source_url: str, target_url: str
) -> None:
    (wheel,) = packages.glob("penstock-*.whl")
    alone = tmp_path / "wheels"
    alone.mkdir()
    (alone / wheel.name).symlink_to(wheel)
    programs = clean_environment(tmp_path, alone, "psycopg[binary]")
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    env |= {"A": source_url, "B": target_url}
    with psycopg.connect(source_url) as source:
        source.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    output = run(programs / "penstock", "--version", cwd=tmp_path, env=env)
    assert output.splitlines()[0] == f"penstock {wheel.name.split('-')[1]}"
    ends = ("--source", "env:A", "--target", "env:B")
    run(programs / "penstock", "copy", *ends, "--table", "public.t", cwd=tmp_path, env=env)
    with psycopg.connect(target_url) as target:
        assert target.execute("SELECT count(*), sum(id) FROM t").fetchone() == (1000, 500500)
