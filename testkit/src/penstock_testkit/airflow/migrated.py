"""Airflow's empty metadata database, migrated once and kept, because migrating takes seconds."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from penstock_testkit.airflow.environment import environment

VERSION = "from importlib.metadata import version; print(version('apache-airflow'))"


@cache
def airflow_version(python: Path) -> str:
    """The version of Airflow that an interpreter has.

    Raises:
        RuntimeError: it has none.
    """
    found = subprocess.run(
        [python, "-I", "-c", VERSION], capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise RuntimeError(f"{python} has no apache-airflow\n{found.stderr}")
    return found.stdout.strip()


def sqlite_template(python: Path) -> Path:
    """A migrated SQLite file, to be copied."""

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="penstock-airflow-") as work:
            database = Path(work) / "airflow.db"
            migrate(python, Path(work), {"database.sql_alchemy_conn": f"sqlite:///{database}"})
            path.write_bytes(database.read_bytes())

    return kept(f"airflow-{airflow_version(python)}.sqlite", make)


def migrate(python: Path, home: Path, settings: dict[str, object]) -> None:
    """Make Airflow's tables.

    Raises:
        RuntimeError: it failed; the message ends with Airflow's words.
    """
    made = subprocess.run(
        [python, "-m", "airflow", "db", "migrate"],
        env=environment(home, home / "dags", settings, {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"airflow db migrate ended with {made.returncode}\n{made.stdout}")


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A file that is made once and kept in $PENSTOCK_CACHE, or else ~/.cache/penstock.

    Where neither can be written it is made in the temporary directory.

    Parameters:
        name: of the file; says all that its contents depend on.
        make: writes it to the path it is given.
    """
    folder = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock") / "airflow"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".lock").touch()
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"penstock-airflow-{os.getuid()}"
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with locked(folder / f".lock-{name}"):
        if not path.exists():
            making = path.with_name(f".making-{name}")
            make(making)
            making.rename(path)
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that no other process holds at the same time; waits for it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
