"""SIGINT and SIGTERM at start-up: one line, the documented exit code, no traceback.

This includes the import of a driver, which treats any exception as a missing module.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from .cli import PATIENCE, eventually
from .pair import RUN_ID, Pair

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# `PENSTOCK_SIGNALS=300` tries many more delays.
EACH = int(os.environ.get("PENSTOCK_SIGNALS", "14"))
LONGEST = 0.6
PROGRAM = "import sys; from penstock.cli.entry import run; sys.exit(run())"
LINE = "penstock: interrupted by {}"


@contextmanager
def started(*words: str, program: str = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    """Start the program, and wait until it handles SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        eventually("it handles signals", lambda: _handles(process.pid), PATIENCE)
        yield process
    finally:
        process.kill()
        process.communicate()


def _handles(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return True  # it has ended


def in_session(pid: int) -> list[int]:
    found = []
    for other in psutil.pids():
        try:
            if os.getsid(other) == pid and psutil.Process(other).status() != psutil.STATUS_ZOMBIE:
                found.append(other)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def check_end(
    process: subprocess.Popen[str],
    number: signal.Signals,
    codes: Sequence[int],
    printed: str = f"run {RUN_ID}",
) -> None:
    """Check the output and exit code of a process that received a signal.

    Args:
        printed: the beginning of its output in case it had finished when the signal arrived.
    """
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in codes, (process.returncode, errors)
    assert "Traceback" not in errors, errors
    assert "bug" not in errors, errors
    if process.returncode == 130:
        # Not always on a line of its own: the signal may arrive in the middle of another message.
        assert errors.count(LINE.format(number.name)) == 1, errors
        assert not out or out.startswith(printed), out
    eventually("nothing is left running", lambda: not in_session(process.pid), PATIENCE)


def delays() -> list[float]:
    chosen = random.Random(EACH)
    return [LONGEST * (n + chosen.random()) / EACH for n in range(EACH)]


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_at_the_start_of_a_copy(pair: Pair, number: signal.Signals, group: bool) -> None:
    for count, delay in enumerate(delays()):
        words = ["copy", *pair._ends(), "--table", "public.item", "--run-id", f"{RUN_ID}-{count}"]
        with started(*words, "--mode", "truncate") as process:
            time.sleep(delay)
            (os.killpg if group else os.kill)(process.pid, number)
            check_end(process, number, [0, 130])


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("command", "printed"),
    [("--help", "usage: penstock"), ("control-ddl", "CREATE SCHEMA"), ("status", "no run")],
)
def test_a_signal_at_the_start_of_other_commands(
    pair: Pair, number: signal.Signals, command: str, printed: str
) -> None:
    words = [command, *(["none", "--target", pair.target] if command == "status" else [])]
    for delay in delays()[::2]:
        with started(*words) as process:
            time.sleep(delay / 2)
            process.send_signal(number)
            check_end(process, number, [0, 64, 130], printed)


DRIVER = """
import os, signal, sys
try:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1_000_000):
        pass
except Exception:
    pass
"""


def test_a_signal_during_an_import_that_swallows_exceptions(tmp_path: Path) -> None:
    (tmp_path / "swallows.py").write_text(DRIVER)
    program = (
        "import sys, time; sys.path.insert(0, sys.argv.pop())\n"
        "from penstock.cli import main\n"
        "def begin(argv=None):\n"
        "    import swallows\n"
        "    time.sleep(60)\n"
        "main.main = begin\n"
        "main.run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, LINE.format("SIGTERM") + "\n")


SWALLOWING = """
import sys
from penstock.errors import PenstockError
from penstock.workers.supervisor import Supervisor
listen = Supervisor._listen
def listen_once(self):
    try:
        yield from [*listen(self)]
    except PenstockError as error:
        print("swallowed:", error, file=sys.stderr)
Supervisor._listen = listen_once
from penstock.cli.main import run
run()
"""


def test_an_interruption_that_something_swallows(pair: Pair) -> None:
    """For instance a driver that takes any exception of a callback for its own."""
    words = ["copy", *pair._ends(), "--table", "public.item", "--run-id", RUN_ID]
    words += ["--mode", "truncate", "--max-rate", "1kB", "--log-format", "json"]
    with started(*words, program=SWALLOWING) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"event":"prepared"' in line:
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors
        assert "swallowed: interrupted by SIGINT" in errors
        assert '"status":"interrupted"' in out + errors
