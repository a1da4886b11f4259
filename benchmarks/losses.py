"""Rows that repeated loads miss, leave outdated or fail to delete, during writes to the source.

All movers load the same nights of the same table, one after the other, each into its own schema.
After the last writer has ended, each loads once more.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import cost
from benchmarks.bench import Bench
from benchmarks.report import Limit, show_table, tell

SEED = 29
ROWS, NIGHTS, WRITERS = 20_000, 9, 4
LONGEST = 1.5
"""The longest transaction, in seconds."""
SLING, DLT = "sling-linux-amd64==1.4.11", "dlt[postgres,sql_database,parquet]==1.31.0"
NEEDS = (SLING, DLT, "psycopg2-binary")
Load = Callable[[], float]
"""A load; it returns its CPU seconds."""


@dataclass
class Difference:
    """The differences between a mover's table and the source at the end."""

    missing: int = 0
    """Rows of the source that the table lacks."""
    stale: int = 0
    """Rows with outdated values."""
    surplus: int = 0
    """Rows that the source no longer has."""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class Losses:
    def __init__(self, rows: int, movers: dict[str, Difference]) -> None:
        self._rows = rows
        self._movers = movers

    def show(self) -> None:
        show_table(
            f"{NIGHTS} loads beside {WRITERS} writers, and one after: {self._rows:,} rows",
            ["mover", "lost", "stale", "left behind", "seconds a load", "CPU a load"],
            [
                [
                    name,
                    str(difference.missing),
                    str(difference.stale),
                    str(difference.surplus),
                    f"{min(difference.seconds):.2f}",
                    f"{min(difference.cpu):.2f}",
                ]
                for name, difference in self._movers.items()
            ],
        )

    def limits(self) -> list[Limit]:
        mine = self._movers["penstock"]
        return [Limit("rows that nights lose", mine.missing + mine.stale + mine.surplus, 0)]

    def as_json(self) -> dict[str, Any]:
        return {"rows": self._rows, "movers": {k: asdict(v) for k, v in self._movers.items()}}


def measure_losses(bench: Bench) -> Losses:
    """Load a table again and again while others write to it."""
    bench.on_source("DROP SCHEMA IF EXISTS losses CASCADE")
    bench.on_source("CREATE SCHEMA losses")
    bench.on_source(
        "CREATE TABLE losses.items (id bigserial PRIMARY KEY, word text,"
        " updated_at timestamptz NOT NULL DEFAULT now())"
    )
    with psycopg.connect(bench.source_url, autocommit=True) as source:
        source.execute(
            f"INSERT INTO losses.items (word) SELECT 'w' || n FROM generate_series(1, {ROWS}) AS n"
        )
    with tempfile.TemporaryDirectory(prefix="penstock-losses-") as folder:
        movers = _movers(bench, Path(folder))
        differences = {name: Difference() for name in movers}
        with _writers(bench.source_url):
            for night in range(NIGHTS):
                _load(movers, differences, f"night {night + 1} of {NIGHTS}")
        _load(movers, differences, "after the last writer")
        total = 0
        for name, difference in differences.items():
            total = _compare(bench, name, difference)
    return Losses(total, differences)


def _load(movers: dict[str, Load], differences: dict[str, Difference], what: str) -> None:
    for name, load in movers.items():
        started = time.monotonic()
        differences[name].cpu.append(load())
        differences[name].seconds.append(time.monotonic() - started)
        tell(f"{what}, {name}: {differences[name].seconds[-1]:.2f} s")


def _movers(bench: Bench, folder: Path) -> dict[str, Load]:
    source, target = bench.source_url, bench.target_url
    for name in ("penstock", "sling", "dlt"):
        with psycopg.connect(target, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS losses_{name} CASCADE".encode())
            connection.execute(f"CREATE SCHEMA losses_{name}".encode())
    copy = [
        *(str(Path(sys.executable).with_name("penstock")), "copy"),
        *("--source", source, "--target", target),
        *("--table", "losses.items", "--target-table", "losses_penstock.items"),
        *("--mode", "upsert", "--incremental", "xmin", "--deletes", "hard"),
    ]
    movers: dict[str, Load] = {"penstock": lambda: cost.run([copy])}
    python = peers_python(folder)
    if python is None:
        tell("losses: left out: sling and dlt, which could not be installed")
        return movers
    streams = [
        *(sling_in(folder), "run", "--src-conn", f"{source}?sslmode=disable"),
        *("--src-stream", "losses.items", "--tgt-conn", f"{target}?sslmode=disable"),
        *("--tgt-object", "losses_sling.items", "--mode", "incremental"),
        *("--primary-key", "id", "--update-key", "updated_at"),
    ]
    script = str(Path(__file__).with_name("dlt_night.py"))
    nights = [str(python), script, source, target, "losses_dlt"]
    return {
        **movers,
        "sling": lambda: cost.run([streams]),
        "dlt": lambda: cost.run([["env", f"DLT_DATA_DIR={folder}", *nights]]),
    }


def peers_python(folder: Path, needs: Sequence[str] = NEEDS) -> Path | None:
    """Return a Python with other movers in an environment in a folder; None if it is not there.

    Args:
        folder: the folder.
        needs: the packages to install.
    """
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        return None
    python = folder / "movers" / "bin" / "python"
    if python.exists():
        return python
    commands: Sequence[Sequence[str]] = (
        [uv, "venv", "-q", "--python", sys.executable, str(folder / "movers")],
        [uv, "pip", "install", "-q", "--python", str(python), *needs],
    )
    for command in commands:
        if subprocess.run(command, check=False).returncode:
            return None
    return python


def sling_in(folder: Path) -> str:
    """Return the path of the Sling program that `peers_python` has installed, made executable."""
    (sling,) = folder.glob("**/sling_linux_amd64/bin/sling-linux-amd64")
    sling.chmod(0o755)
    return str(sling)


@contextmanager
def _writers(url: str) -> Iterator[None]:
    """Run transactions that insert, update and delete, and take some time."""
    over = threading.Event()

    def write(number: int) -> None:
        chance = random.Random(SEED + number)
        with psycopg.connect(url) as connection:
            while not over.is_set():
                for _ in range(chance.randint(1, 8)):
                    some = chance.randint(1, ROWS)
                    connection.execute("INSERT INTO losses.items (word) VALUES ('new')")
                    connection.execute(
                        "UPDATE losses.items SET word = word || '+', updated_at = now()"
                        " WHERE id = %s",
                        [some // WRITERS * WRITERS + number],
                    )
                if chance.random() < 0.2:
                    connection.execute(
                        "DELETE FROM losses.items WHERE id = %s",
                        [chance.randint(1, ROWS) // WRITERS * WRITERS + number],
                    )
                time.sleep(chance.uniform(0, LONGEST))
                connection.rollback() if chance.random() < 0.1 else connection.commit()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _compare(bench: Bench, name: str, difference: Difference) -> int:
    """Note the differences between the tables, and return the source's rows."""
    with psycopg.connect(bench.source_url) as source, psycopg.connect(bench.target_url) as target:
        mine: dict[int, str] = dict(source.execute("SELECT id, word FROM losses.items").fetchall())
        query = f"SELECT id, word FROM losses_{name}.items"
        theirs: dict[int, str] = dict(target.execute(query.encode()).fetchall())
    difference.missing = len(mine.keys() - theirs.keys())
    difference.surplus = len(theirs.keys() - mine.keys())
    difference.stale = sum(mine[key] != theirs[key] for key in mine.keys() & theirs.keys())
    return len(mine)
