"""What a copy's processes import, that each starts once, and which side's error is reported
first."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import PenstockError
from penstock.events import Committed, from_line
from penstock_testkit.waiting import until

if TYPE_CHECKING:
    from tests.backends.conftest import Pair, Side

# Imported by Python in each process; when the process ends, it records its command and its modules.
PROBE = """
import os, sys
_exit = os._exit

def read(name):
    with open(f"/proc/self/{name}", "rb") as file:
        return [os.fsdecode(item) for item in file.read().split(b"\\0") if item]

def end(code):
    found = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "code": code,
        "command": read("cmdline"),
        "environment": read("environ"),
        "modules": {
            name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()
        },
    }
    path = os.path.join(os.path.dirname(__file__), str(os.getpid()))
    with open(path, "w") as file:
        file.write(repr(found))
    os.rename(path, f"{path}.process")  # it may be killed
    _exit(code)

os._exit = end
"""
NURSERY = "penstock.workers.fork_server"
LIBRARY = """
import os, sys
from penstock import CopySpec, copy
source, target = sys.argv[1:]
for event in copy(CopySpec(source=source, target=target, table="public.t", degree=1)):
    print(event.to_line())
os._exit(0)
"""
# Modules allowed beyond the driver's: any other one takes time at each start.
STANDARD = {
    "__main__",
    "argparse",
    "array",  # of socket.send_fds and recv_fds
    "fnmatch",
    "gc",
    "gettext",
    "glob",
    "hashlib",
    "hmac",
    "secrets",
    "shlex",
    "sitecustomize",
    "textwrap",
    "unicodedata",
    "uuid",
}
# What only batches, nights, lists and other commands need.
UNNEEDED = {
    "penstock.backends.postgresql.catalog.cursors",
    "penstock.backends.postgresql.compare.deleted_keys",
    "penstock.cli.run_commands",
    "penstock.cli.tune_command",
    "penstock.engine.batch",
    "penstock.engine.listing",
    "penstock.show.json_log",
    "penstock.show.live",
    "penstock.spec.batch_spec",
    "penstock.verification.checks",
    "penstock.watching",
}
ENGINE = {"penstock.engine.api", "penstock.planning.step", "penstock.show.run_report"}


@dataclass(frozen=True)
class Process:
    """A process that has ended."""

    pid: int
    parent: int
    code: int
    command: list[str]
    environment: list[str]
    modules: dict[str, str]

    @property
    def works(self) -> bool:
        return NURSERY in self.command

    def other_objects(self, than: Process) -> set[str]:
        """Return the top-level modules of other packages that it has and the other process
        lacks."""
        return {
            name.partition(".")[0]
            for name in self.modules.keys() - than.modules.keys()
            if not name.startswith(("penstock", "_"))
        } - {name.partition(".")[0] for name in than.modules}


class Probe:
    """Runs programs, and reports their processes."""

    def __init__(self, folder: Path, added: str = "") -> None:
        self._folder = folder
        (folder / "sitecustomize.py").write_text(PROBE + added)

    def run(self, *words: str, **environ: str) -> tuple[str, list[Process]]:
        done = subprocess.run(
            [sys.executable, *words],
            env={**os.environ, **environ, "PYTHONPATH": str(self._folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        files = sorted(self._folder.glob("*.process"))
        found = [Process(**ast.literal_eval(file.read_text())) for file in files]
        for file in files:
            file.unlink()
        # A failed fork exits with an error; a nursery may end by itself before it is killed.
        supervisors = {process.pid for process in found if not process.works}
        return done.stdout, [
            process
            for process in found
            if process.code == 0 and not (process.works and process.parent in supervisors)
        ]

    def copy(self, pair: Pair, *options: str) -> tuple[str, Process, list[Process]]:
        """Copy `t` with the command line; return its output, its process, and its workers."""
        words = [str(Path(sys.executable).with_name("penstock")), "copy", "--table", "public.t"]
        ends = ["--source", "env:SHOP", "--target", pair.target.url]
        output, found = self.run(*words, *ends, *options, SHOP=pair.source.url)
        (supervisor,) = (process for process in found if not process.works)
        return output, supervisor, [process for process in found if process.works]

    def driver(self) -> Process:
        """Return a process that imported the driver and nothing else."""
        _, (found,) = self.run("-c", "import os, psycopg; os._exit(0)")
        return found


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    return Probe(tmp_path)


@pytest.fixture(autouse=True)
def tables(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int, word text)")
    pair.source.run("INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 1000) AS n")


def test_the_command_line_imports_little_but_the_driver(pair: Pair, probe: Probe) -> None:
    _, supervisor, (worker,) = probe.copy(pair, "--degree", "1")
    driver = probe.driver()
    assert supervisor.other_objects(driver) <= STANDARD
    assert worker.other_objects(driver) <= STANDARD
    assert supervisor.modules.keys() >= ENGINE
    assert not supervisor.modules.keys() & UNNEEDED
    assert not worker.modules.keys() & ENGINE
    pair.assert_same()


def test_only_an_exporter_of_spans_imports_opentelemetry_and_no_worker_does(
    pair: Pair, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, supervisor, workers = probe.copy(pair, "--degree", "1")
    processes = [supervisor, *workers]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    output, supervisor, workers = probe.copy(pair, "--degree", "1", "--mode", "truncate")
    assert '"name": "penstock.attempt"' in output
    assert "opentelemetry.sdk" in supervisor.modules
    for process in (*processes, *workers):
        assert "opentelemetry" not in process.modules


def test_a_worker_of_another_program_imports_less(pair: Pair, probe: Probe) -> None:
    ends = (pair.source.url, pair.target.url)
    _, (first, second) = probe.run("-c", LIBRARY, *ends)
    supervisor, worker = (second, first) if first.works else (first, second)
    driver = probe.driver()
    assert supervisor.other_objects(driver) <= STANDARD
    assert worker.other_objects(driver) <= {
        "array",
        "gc",
        "glob",
        "hashlib",
        "runpy",
        "sitecustomize",
    }
    assert not worker.modules.keys() & ENGINE
    assert worker.command[:4] == [sys.executable, "-P", "-m", NURSERY]


def test_a_copy_into_files_leaves_out_numpy_and_pandas(
    pair: Pair, probe: Probe, tmp_path: Path
) -> None:
    # Both are installed, and pyarrow would import them.
    _, (found,) = probe.run("-c", "import os, pyarrow; pyarrow.array([1]); os._exit(0)")
    assert found.modules.keys() >= {"numpy", "pandas"}
    _, supervisor, workers = probe.copy(pair, "--target", f"file://{tmp_path}/t", "--degree", "1")
    for process in (supervisor, *workers):
        assert "pyarrow.parquet" in process.modules
        assert not process.modules.keys() & {"numpy", "pandas"}


def test_a_stream_keeps_one_worker_from_its_first_partition_to_its_last(
    pair: Pair, probe: Probe
) -> None:
    options = ["--degree", "2", "--strategy", "ctid", "--partitions", "12", "--json"]
    output, _, workers = probe.copy(pair, *options)
    events = [from_line(line) for line in output.splitlines()]
    committed = [event for event in events if isinstance(event, Committed)]
    assert len(committed) == 12
    assert len(workers) == 2
    assert {event.pid for event in committed} <= {worker.pid for worker in workers}


def test_a_fork_reveals_nothing_of_the_command_line(pair: Pair, probe: Probe) -> None:
    _, supervisor, (worker,) = probe.copy(pair, "--degree", "1")
    assert pair.target.url in supervisor.command
    assert f"SHOP={pair.source.url}" in supervisor.environment
    assert worker.command == [NURSERY]
    names = {item.partition("=")[0] for item in worker.environment}
    assert {"PATH", "PYTHONPATH"} <= names
    assert "SHOP" not in names


NO_FORK = {
    "there is a second thread": """
import threading, time
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
""",
    "its arguments cannot be replaced": """
import builtins
_open = builtins.open

def refuse(file, *args, **options):
    if file == "/proc/self/mem":
        raise PermissionError(file)
    return _open(file, *args, **options)

builtins.open = refuse
""",
}


@pytest.mark.parametrize("added", NO_FORK.values(), ids=NO_FORK)
def test_without_fork_a_nursery_is_started_as_a_program(
    pair: Pair, tmp_path: Path, added: str
) -> None:
    _, _, (worker,) = Probe(tmp_path, added).copy(pair, "--degree", "1")
    assert worker.command[:4] == [sys.executable, "-P", "-m", NURSERY]
    assert not any(item.startswith("SHOP=") for item in worker.environment)
    pair.assert_same()


# No server listens there.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def sessions(side: Side) -> int:
    """Return the sessions other than this test's own."""
    found: int = side.value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid()"
    )
    return found


def test_if_both_sides_fail_the_targets_error_is_reported(pair: Pair) -> None:
    for _ in range(5):
        with pytest.raises(PenstockError, match=r"^target: "):
            pair.events(source=NOWHERE, target=NOWHERE)


def test_a_source_that_cannot_be_opened_is_reported(pair: Pair) -> None:
    with pytest.raises(PenstockError, match=r"^source: "):
        pair.events(source=NOWHERE)
    assert not pair.has_control_schema()


def test_an_unneeded_source_is_closed(pair: Pair) -> None:
    before = sessions(pair.source)
    for _ in range(5):
        with pytest.raises(PenstockError, match=r"^target: "):
            pair.events(target=NOWHERE)
    until(
        lambda: True if sessions(pair.source) == before else None,
        30,
        lambda: f"{sessions(pair.source)} sessions, expected {before}",
    )
