"""Airflow's empty metadata database, migrated once and kept, because a migration takes seconds."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from penstock_testkit.airflow.environment import environment
from penstock_testkit.cache import cached_path

VERSION = "from importlib.metadata import version; print(version('apache-airflow'))"


@cache
def airflow_version(python: Path) -> str:
    """Return the version of Airflow in an interpreter's environment.

    Raises:
        RuntimeError: Airflow is not installed there.
    """
    result = subprocess.run(
        [python, "-I", "-c", VERSION], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{python} has no apache-airflow\n{result.stderr}")
    return result.stdout.strip()


def sqlite_template(python: Path) -> Path:
    """Return a migrated SQLite file to copy."""

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="penstock-airflow-") as work:
            database = Path(work) / "airflow.db"
            migrate(python, Path(work), {"database.sql_alchemy_conn": f"sqlite:///{database}"})
            path.write_bytes(database.read_bytes())

    return cached_path("airflow", f"airflow-{airflow_version(python)}.sqlite", make)


def migrate(python: Path, home: Path, settings: dict[str, object]) -> None:
    """Create Airflow's tables.

    Args:
        python: the interpreter that has Airflow.
        home: the value of AIRFLOW_HOME.
        settings: Airflow's settings, by ``section.name``.

    Raises:
        RuntimeError: the migration failed; the message ends with Airflow's output.
    """
    process = subprocess.run(
        [python, "-m", "airflow", "db", "migrate"],
        env=environment(home, home / "dags", settings, {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"airflow db migrate ended with {process.returncode}\n{process.stdout}")
