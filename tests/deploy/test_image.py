"""The image runs without rights on a read-only root, and Penstock is its process 1."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from penstock_testkit.waiting import until

if TYPE_CHECKING:
    from tests.conftest import Connection

    from .image import Image

SECONDS = 60
# What the manifests allow is more.
PROMISED = 5.0


@pytest.fixture
def ends(source: Connection, target: Connection) -> dict[str, str]:
    """Return the environment with both URLs, over TCP, and fill a table of 20,000 rows."""
    source.execute("CREATE TABLE t AS SELECT n AS id, repeat('x', 200) AS pad"
                   " FROM generate_series(1, 20000) AS n")  # fmt: skip
    source.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    source.execute("ANALYZE t")
    urls = {}
    for name, connection in (("SOURCE", source), ("TARGET", target)):
        info = connection.info
        urls[name] = f"postgresql://{info.user}@127.0.0.1:{info.port}/{info.dbname}"
    return urls


COPY = ("copy", "--source", "env:SOURCE", "--target", "env:TARGET", "--table", "public.t",
        "--create", "--mode", "recreate", "--strategy", "range", "--partitions", "4",
        "--degree", "2", "--run-id", "boxed")  # fmt: skip


def test_it_says_what_is_in_it(image: Image) -> None:
    print(image.how)
    code, output = image.start("--version", environ={}).wait(SECONDS)
    assert code == 0, output
    assert re.search(r"^ +native +\d", output, re.MULTILINE)
    code, output = image.start(environ={}, program="id").wait(SECONDS)
    assert output.startswith("uid=10001 gid=10001")
    command = "import pathlib; pathlib.Path('/opt/penstock/x').touch()"
    container = image.start("-c", command, environ={}, program="/opt/penstock/bin/python")
    code, output = container.wait(SECONDS)
    assert code == 1
    assert "Read-only file system" in output


def test_it_copies(image: Image, ends: dict[str, str], target: Connection) -> None:
    code, output = image.start(*COPY, environ=ends).wait(SECONDS)
    assert code == 0, output
    (count,) = target.execute("SELECT count(*) FROM t").fetchone() or (0,)
    assert count == 20_000


def test_it_writes_files_through_tmp(image: Image, ends: dict[str, str]) -> None:
    argv = ["file:///tmp/dataset" if word == "env:TARGET" else word for word in COPY]
    code, output = image.start(*argv, environ=ends).wait(SECONDS)
    assert code == 0, output


def test_sigterm_ends_process_1_and_its_attempts(
    image: Image, ends: dict[str, str], target: Connection
) -> None:
    container = image.start(*COPY, "--max-rate", "100kB", environ=ends)

    def attempts() -> int:
        (count,) = target.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'penstock:boxed:%' AND query LIKE 'COPY%'"
        ).fetchone() or (0,)
        return int(count)

    until(lambda: attempts() == 2 or None, SECONDS, lambda: "no attempts")
    began = time.monotonic()
    container.signal(signal.SIGTERM)
    code, output = container.wait(SECONDS)
    took = time.monotonic() - began
    assert code == 130, output
    assert took < PROMISED
    assert attempts() == 0
    resume = ("resume", "boxed", "--source", "env:SOURCE", "--target", "env:TARGET", "--max-rate")
    code, output = image.start(*resume, "1GB", environ=ends).wait(SECONDS)
    assert code == 0, output
    (count,) = target.execute("SELECT count(*) FROM t").fetchone() or (0,)
    assert count == 20_000
