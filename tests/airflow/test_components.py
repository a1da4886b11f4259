"""Processes started for a test end with it, whatever its outcome."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from penstock_testkit.airflow import until

PROGRAM = """
import os, signal, sys
from pathlib import Path
from penstock_testkit.airflow import Component

command = ["sh", "-c", "setsid sleep 600 & exec sleep 601"]
part = Component("part", command, dict(os.environ), Path(sys.argv[1]))
part.start()
print(part.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "part.log"],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
        text=True,
    )
    assert owner.stdout is not None
    part = psutil.Process(int(owner.stdout.readline()))
    keeper = part.parent()
    assert keeper is not None
    family = until(
        lambda: found if len(found := keeper.children(recursive=True)) == 2 else None,
        60,
        lambda: f"expected two processes, found {keeper.children(recursive=True)}",
    )
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(
        lambda: None if any(process.is_running() for process in family) else True,
        60,
        lambda: f"expected none of {family}",
    )
