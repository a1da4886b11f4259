"""`make bench`: start the benchmark from any directory. See README.md."""

import runpy
import sys
from pathlib import Path

# A script's path starts with its own folder, and its package is in the folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)
runpy.run_module("benchmarks.main", run_name="__main__", alter_sys=True)
