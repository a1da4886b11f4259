"""Airflow for the tests of this folder, and two databases to copy between."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from penstock_testkit.airflow import AirflowStack, DagRunner
from penstock_testkit.cache import locked

from ..concurrent_cases import Case, ConcurrentCases, start_cases
from ..covering import EVERY
from . import copy_cases, local_approvals, local_corrected_row, local_nights, local_table
from .lines import DEGREE, Lines, Servers, servers

ROOT = Path(__file__).resolve().parents[2]
AIRFLOW_2 = ROOT / ".venv-airflow2"
LAST_PYTHON_OF_AIRFLOW_2 = (3, 12)

# How many cases run on a stack at once, and how many tasks: each case has one more than its copies.
AT_ONCE = 4
TASKS = AT_ONCE * (DEGREE + 1)

DagFile = Callable[[str], Path]


@pytest.fixture(scope="session")
def airflow_2() -> Path:
    """Return the Python of an environment with Airflow 2.11, which is created if missing."""
    if sys.version_info[:2] > LAST_PYTHON_OF_AIRFLOW_2:
        pytest.skip(
            f"Airflow 2.11 has no release for Python {sys.version_info[0]}.{sys.version_info[1]}"
        )
    python, ready = AIRFLOW_2 / "bin/python", AIRFLOW_2 / ".ready"
    made_of = hashlib.sha256()
    for path in (
        "tests/airflow/airflow2-requirements.txt",
        "core/pyproject.toml",
        "airflow_provider/pyproject.toml",
    ):
        made_of.update((ROOT / path).read_bytes())
    # Each worker of pytest-xdist has a session of its own.
    with locked(Path(sys.prefix) / ".airflow2-lock"):
        if not ready.exists() or ready.read_text() != made_of.hexdigest():
            ready.unlink(missing_ok=True)
            created = subprocess.run(
                [sys.executable, "scripts/bootstrap.py", AIRFLOW_2.name, "--airflow2"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if created.returncode:
                pytest.skip(f"no environment with Airflow 2: {created.stdout.strip()[-2000:]}")
            ready.write_text(made_of.hexdigest())
    return python


@pytest.fixture
def dag_runner(tmp_path: Path) -> DagRunner:
    """Return a runner of DAGs with `dag.test()`, in this test's own Airflow home."""
    return DagRunner(tmp_path / "airflow")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of both versions on one of them, which its name decides, or on both."""
    if "any_dag_runner" not in metafunc.fixturenames:
        return
    versions = ["3", "2"]
    if not EVERY:
        has_both = sys.version_info[:2] <= LAST_PYTHON_OF_AIRFLOW_2
        name = metafunc.definition.nodeid.encode()
        versions = [versions[crc32(name) % 2 if has_both else 0]]
    ids = [f"airflow{version}" for version in versions]
    metafunc.parametrize("any_dag_runner", versions, ids=ids, indirect=True)


@pytest.fixture
def any_dag_runner(request: pytest.FixtureRequest, tmp_path: Path) -> DagRunner:
    """Return a `dag_runner` with this environment's Airflow, or one with Airflow 2.11."""
    python = request.getfixturevalue("airflow_2") if request.param == "2" else None
    return DagRunner(tmp_path / "airflow", python)


@pytest.fixture
def dag_file(tmp_path: Path) -> DagFile:
    """Return a function that writes a DAG file into its own folder, and returns its path."""

    def write(text: str) -> Path:
        folder = tmp_path / "dags"
        folder.mkdir(exist_ok=True)
        path = folder / f"dag_file_{len(list(folder.iterdir()))}.py"
        path.write_text(text)
        return path

    return write


# Preloaded, because each of hundreds of tasks would otherwise import them.
OF_TASKS = (
    "penstock.backends.postgresql.backend",
    "penstock.backends.postgresql.source",
    "penstock.backends.postgresql.target",
    "penstock.engine.connections",
    "penstock.engine.resume_checks",
    "penstock.engine.execution",
    "penstock.engine.continuation",
    "penstock.show.run_report",
)


@pytest.fixture(scope="module")
def real_stack() -> Iterator[AirflowStack]:
    """Return a real Airflow with both executors, for the tests of one file."""
    with AirflowStack("LocalExecutor,CeleryExecutor", parallelism=TASKS, preload=OF_TASKS) as stack:
        copy_cases.prepare(stack)
        local_approvals.prepare(stack)
        local_corrected_row.prepare(stack)
        local_nights.prepare(stack)
        local_table.prepare(stack)
        yield stack


@pytest.fixture(scope="module")
def cases(
    request: pytest.FixtureRequest, real_stack: AirflowStack, lineitem_servers: Servers
) -> Iterator[ConcurrentCases]:
    """Run the cases of a file on its stack, each with databases of its own."""

    def run(case: Case) -> None:
        with closing(Lines(real_stack, lineitem_servers)) as lines:
            case(lines)

    with start_cases(request, run, AT_ONCE) as cases_at_once:
        yield cases_at_once


@pytest.fixture
def lines_alone(
    cases: ConcurrentCases, real_stack: AirflowStack, lineitem_servers: Servers
) -> Iterator[Lines]:
    """Return a case's own databases, once all cases have ended."""
    cases.wait()
    with closing(Lines(real_stack, lineitem_servers)) as lines:
        yield lines


@pytest.fixture(scope="session")
def lineitem_servers() -> Iterator[Servers]:
    """Return two servers with passwords; the source has lineitem."""
    with servers() as both:
        yield both
