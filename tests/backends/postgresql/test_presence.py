"""Which process executes which run on a target in files: visible while the process lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from penstock.backends.api.registry import find_backend
from penstock.backends.api.target import TargetCatalog
from penstock.errors import TargetBusy
from penstock.model.tables import TableRef

from ...control_calls import enter

ENTERING = """
import sys
from penstock.backends.api.registry import find_backend
from penstock.model.tables import TableRef
backend, _ = find_backend(sys.argv[1], "--target")
target = backend.target(sys.argv[1], "penstock")
target.control.create()
target.control.presence.enter({sys.argv[2]: TableRef("main", "t")}, lambda run_id, others: None)
print("in", flush=True)
sys.stdin.read()
target.close()
"""


@pytest.fixture(params=["duckdb", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/lake/"
    return f"duckdb:///{tmp_path}/t.duckdb"


def opened(url: str) -> TargetCatalog:
    return find_backend(url, "--target")[0].target(url, "penstock")


def visible_executions(url: str, run_id: str = "mine", table: str = "t") -> list[str]:
    """Return the other executions that are visible."""
    found: list[str] = []
    with closing(opened(url)) as target:
        enter(target.control, run_id, TableRef("main", table), found.extend)
    return found


def entering(url: str, run_id: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", ENTERING, url, run_id],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


def test_an_execution_is_visible_until_its_process_ends(url: str, tmp_path: Path) -> None:
    with entering(url, "a run") as one, entering(url, "a run") as two, entering(url, "b") as three:
        assert visible_executions(url) == ["a run", "b"]
        assert visible_executions(url, "b") == ["a run"]
        one.send_signal(signal.SIGKILL)
        one.wait()
        assert visible_executions(url) == ["a run", "b"]
        two.communicate()
        assert visible_executions(url) == ["b"]
        three.send_signal(signal.SIGSTOP)
        assert visible_executions(url) == ["b"]
        three.send_signal(signal.SIGKILL)
        three.wait()
    assert visible_executions(url) == []
    leftovers = [name for _, _, names in os.walk(tmp_path) for name in names if "~" in name]
    assert leftovers == []


def test_executions_on_another_table_are_ignored(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path}/t.duckdb"
    with entering(url, "a") as process:
        assert visible_executions(url, table="u") == []
        process.communicate()
    assert os.listdir(tmp_path) == ["t.duckdb"]


def test_a_refused_execution_is_not_visible(url: str) -> None:
    def check(executions: Sequence[str]) -> None:
        raise TargetBusy(f"not now: {executions}")

    with closing(opened(url)) as target:
        with pytest.raises(TargetBusy):
            enter(target.control, "a", TableRef("main", "t"), check)
        assert visible_executions(url) == []
        enter(target.control, "a", TableRef("main", "t"), lambda _: None)
        enter(target.control, "a", TableRef("main", "t"), lambda _: None)
        assert visible_executions(url) == ["a"]
    assert visible_executions(url) == []
