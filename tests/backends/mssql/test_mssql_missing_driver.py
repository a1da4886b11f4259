"""A SQL Server driver that is not installed, or lacks a system library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.backends.api.installation import install_command
from penstock.backends.mssql.connection import connect
from penstock.errors import EXIT_USAGE, UsageError

ODBC = "mssql+pyodbc://me:Zz9@h/s?driver=FreeTDS"
NATIVE = "mssql://me:Zz9@127.0.0.1/s"


@pytest.mark.parametrize(
    ("url", "module", "extra"), [(NATIVE, "native", "mssql"), (ODBC, "odbc", "mssql-odbc")]
)
def test_a_missing_module(
    monkeypatch: pytest.MonkeyPatch, url: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, f"penstock.backends.mssql.drivers.{module}", None)
    with pytest.raises(UsageError, match=re.escape(install_command(extra))):
        connect(url, "source")


@pytest.mark.parametrize(
    ("url", "library", "package"),
    [(ODBC, "libodbc.so.2", "unixodbc"), (NATIVE, "libltdl.so.7", "libltdl7")],
)
def test_a_missing_library(tmp_path: Path, url: str, library: str, package: str) -> None:
    # The loader looks here first, and fails on a file that is not a library.
    (tmp_path / library).touch()
    command = [sys.executable, "-m", "penstock.cli.main", "plan", "--source", url, "--table", "a.b"]
    found = subprocess.run(
        [*command, "--target", str(tmp_path / "rows")],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == EXIT_USAGE, found.stderr
    (line,) = found.stderr.splitlines()
    assert f"apt-get install {package}" in line
    assert "Zz9" not in line
