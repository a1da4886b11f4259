"""`--max-memory` bounds all processes of a command together, as the kernel counts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

MB = 1_000_000
PENSTOCK = [sys.executable, "-m", "penstock"]
MOST = {"postgresql": 260 * MB, "parquet": 700 * MB, "duckdb": 700 * MB}
# Beside what each needs, these leave room for more streams than one, and for fewer than asked for.
ASKED = 12


def _shared_out(pid: int) -> int:
    """Return a process's memory (PSS): pages that processes share are divided among them."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:  # it has ended
        return 0
    found = re.search(r"^Pss: +(\d+) kB$", rollup, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _copied(argv: list[str]) -> tuple[int, list[dict[str, Any]]]:
    """Run a copy; return the most memory of its processes together, and its events."""
    most = 0
    with subprocess.Popen(
        [*PENSTOCK, *argv, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.set_blocking(process.stdout.fileno(), False)
        out = b""
        while process.poll() is None:
            out += process.stdout.read() or b""
            try:
                family = psutil.Process(process.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                break
            pids = [process.pid, *(each.pid for each in family)]
            most = max(most, sum(map(_shared_out, pids)))
            time.sleep(0.02)
        os.set_blocking(process.stdout.fileno(), True)
        out += process.stdout.read()
        assert process.wait() == 0, process.stderr.read().decode()
    return most, [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def filled(pair: Pair) -> Pair:
    """Return 80 MB in short rows, and 30 MB in long ones."""
    pair.source.run(
        "CREATE TABLE short AS SELECT n AS id, repeat(md5(n::text), 3) AS pad, n * 1.5 AS amount"
        " FROM generate_series(1, 500000) AS n",
        "CREATE TABLE long AS SELECT n AS id, (SELECT string_agg(md5((n * 1000 + i)::text), '')"
        " FROM generate_series(1, 1500) AS i) AS pad FROM generate_series(1, 600) AS n",
        "ALTER TABLE short ADD PRIMARY KEY (id)",
        "ALTER TABLE long ADD PRIMARY KEY (id)",
        "ANALYZE",
    )
    return pair


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel counts no PSS")
@pytest.mark.parametrize("table", ["short", "long"])
@pytest.mark.parametrize("target", MOST)
def test_it_holds(filled: Pair, tmp_path: Path, target: str, table: str) -> None:
    url = {
        "postgresql": filled.target.url,
        "parquet": f"file://{tmp_path}/dataset",
        "duckdb": f"duckdb:///{tmp_path}/a.duckdb",
    }[target]
    limit = MOST[target]
    most, events = _copied(
        ["copy", "--source", filled.source.url, "--target", url, "--table", f"public.{table}",
         "--mode", "recreate", "--create", "--strategy", "range", "--partitions", str(ASKED),
         "--degree", str(ASKED), "--max-memory", str(limit)]
    )  # fmt: skip
    assert most < limit, f"{most / MB:.0f} MB"
    (change,) = [each for each in events if each["event"] == "degree"]
    assert change["cause"] == "resources"
    assert change["message"] == f"--max-memory {limit // MB} MB"
    workers = {each["pid"] for each in events if each["event"] == "opened"}
    assert 1 < len(workers) <= change["degree"] < ASKED
    print(f"{target} {table}: {most / MB:.0f} MB of {limit / MB:.0f}, {len(workers)} workers")


def test_no_room_for_one_stream_is_refused(filled: Pair, tmp_path: Path) -> None:
    done = filled.cli(
        "copy", "--source", filled.source.url, "--target", f"file://{tmp_path}/dataset",
        "--table", "public.short", "--create", "--max-memory", "100MB",
    )  # fmt: skip
    assert done.returncode == 64
    assert re.search(
        r"--max-memory: expected at least \d+ MB for one stream of this copy, found 100 MB",
        done.stderr,
    )


def test_a_value_that_no_stream_has_room_for_is_refused(filled: Pair, tmp_path: Path) -> None:
    filled.source.run("UPDATE long SET pad = repeat('penstock ', 10000000) WHERE id = 7")
    done = filled.cli(
        "copy", "--source", filled.source.url, "--target", f"file://{tmp_path}/dataset",
        "--table", "public.long", "--create", "--max-memory", "500MB", "--degree", "1",
    )  # fmt: skip
    assert done.returncode == 65
    assert re.search(
        r"column 'pad', row \d+: expected a value of at most \d+ MB, found one of 90 MB: .* for "
        r"each stream; raise --max-memory or lower --degree",
        done.stderr,
    )


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_malformed_size_is_refused_at_once(how: str) -> None:
    option = ["--max-memory", "lots"] if how == "option" else []
    environ = {**os.environ, **({} if option else {"PENSTOCK_MAX_MEMORY": "lots"})}
    done = subprocess.run(
        [*PENSTOCK, "runs", "--target", "postgresql://nowhere/db", *option],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 64
    assert "--max-memory (PENSTOCK_MAX_MEMORY): expected a size such as 64MB" in done.stderr
