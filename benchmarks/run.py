"""`make bench`: starts the benchmark, from wherever it is called. See README.md."""

import runpy
import sys
from pathlib import Path

# A script has its own folder on the path; its package is found from the folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)
runpy.run_module("benchmarks.main", run_name="__main__", alter_sys=True)
