"""Packages that Penstock's processes leave out, unless a backend of another distribution runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from penstock.backends.api.imports import leave_out
from penstock.backends.api.registry import load_backend

leave_out()
load_backend("penstock.backends.postgresql:backend")
for name in ("numpy", "pandas", "tidy"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
load_backend("elsewhere:backend")
import numpy, os, pandas
print(numpy.here, pandas.here, os.environ["OPENBLAS_NUM_THREADS"])
"""


def test_only_backends_of_other_distributions_get_numpy_and_pandas(tmp_path: Path) -> None:
    for name in ("numpy", "pandas", "tidy"):
        (tmp_path / f"{name}.py").write_text("here = True\n")
    (tmp_path / "elsewhere.py").write_text("import numpy, pandas\nbackend = numpy, pandas\n")
    environ = {name: value for name, value in os.environ.items() if "OPENBLAS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (
        "Penstock's processes leave out numpy\n"
        "Penstock's processes leave out pandas\n"
        "True True 1\n",
        "",
    )
