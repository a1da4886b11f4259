"""The whole suite can be collected on a machine with only Python and its wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Libraries that wheels may expect on every Linux:
# https://peps.python.org/pep-0599/#the-manylinux2014-policy
EXPECTED = {
    "libc", "libdl", "libgcc_s", "libm", "libnsl", "libpthread", "libresolv", "librt", "libstdc++",
    "libutil", "libz", "linux-vdso",
}  # fmt: skip
LDCONFIG = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")


def name(library: str) -> str:
    """Return ``libodbc`` for ``libodbc.so.2``."""
    return library.partition(".so")[0]


def of_python() -> set[str]:
    """Return the libraries that the interpreter and its standard library load."""
    modules = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
    listed = subprocess.run(
        ["ldd", os.path.realpath(sys.executable), *map(str, modules)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return {name(found) for found in re.findall(r"^\s+(lib\S+\.so\S*) =>", listed, re.M)}


@pytest.mark.skipif(
    LDCONFIG is None or shutil.which("ldd") is None, reason="no ldconfig and ldd: they are glibc's"
)
def test_collection_needs_no_optional_library(tmp_path: Path) -> None:
    assert LDCONFIG is not None
    listed = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"^\s+(lib\S+\.so\S*) \(", listed, re.M)) | {"libodbc.so.2"}
    needed = EXPECTED | of_python()
    hidden = tmp_path / "libraries"
    hidden.mkdir()
    for library in libraries:
        if name(library) not in needed:
            # The loader looks here first, and fails on a file that is no library.
            (hidden / library).touch()
    programs = tmp_path / "programs"
    programs.mkdir()
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")
    }
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**environment, "LD_LIBRARY_PATH": str(hidden), "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    # Proof that the libraries are hidden: the one driver that needs one cannot be imported.
    assert "pyodbc needs unixODBC" in found.stdout
