"""Penstock as process 1, as in a container: unhandled signals are dropped, and orphans are its own.

Run in a namespace of process ids, with neither image nor container engine.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

from penstock_testkit.waiting import until

if TYPE_CHECKING:
    from tests.conftest import Connection

PROMISED = 5.0
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def _missing() -> str:
    if shutil.which("unshare") is None:
        return "there is no unshare"
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip()


@pytest.fixture
def first(
    source: Connection, source_url: str, target_url: str
) -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """Yield a slow copy: `unshare`, and the process that is number 1 of its namespace."""
    if why := _missing():
        pytest.skip(f"no namespace of process ids: {why}")
    source.execute(
        "CREATE TABLE t AS SELECT n AS id, repeat('x', 200) AS pad"
        " FROM generate_series(1, 20000) AS n"
    )
    source.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    source.execute("ANALYZE t")
    command = [
        *NAMESPACE, sys.executable, "-m", "penstock", "copy", "--source", source_url,
        "--target", target_url, "--table", "public.t", "--create", "--mode", "recreate",
        "--strategy", "range", "--partitions", "4", "--degree", "2", "--max-rate", "50kB",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as outer:
        try:
            yield outer, until(lambda: _child(outer), 30, lambda: "no process 1")
        finally:
            outer.kill()


def _child(outer: subprocess.Popen[bytes]) -> psutil.Process | None:
    children = psutil.Process(outer.pid).children()
    return children[0] if children else None


def _workers(first: psutil.Process) -> list[psutil.Process] | None:
    for nursery in first.children():
        if len(workers := nursery.children()) == 2:
            return [nursery, *workers]
    return None


def test_sigterm_ends_it(first: tuple[subprocess.Popen[bytes], psutil.Process]) -> None:
    outer, process = first
    family = until(lambda: _workers(process), 30, lambda: "no workers")
    time.sleep(1)  # they move rows
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert outer.wait(30) == 130
    assert time.monotonic() - began < PROMISED
    assert not [each for each in family if each.is_running()]


def test_orphans_are_reaped(first: tuple[subprocess.Popen[bytes], psutil.Process]) -> None:
    outer, process = first
    nursery, victim, other = until(lambda: _workers(process), 30, lambda: "no workers")
    nursery.kill()
    until(lambda: victim.ppid() == process.pid or None, 30, lambda: "not adopted")
    victim.kill()

    def gone() -> bool | None:
        # A zombie is running, as psutil has it.
        return not victim.is_running() or None

    until(gone, 10, lambda: f"{victim}, {process.children(recursive=True)}")
    assert other.is_running()
    process.send_signal(signal.SIGTERM)
    assert outer.wait(30) == 130
