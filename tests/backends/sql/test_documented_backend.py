"""The backend of docs/adding-a-database.md, built from the page's own lines: it copies, and
survives kills."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import psycopg
import pytest

if TYPE_CHECKING:
    from tests.backends.conftest import Pair, Side

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-database.md"
PENSTOCK = Path(sys.executable).parent / "penstock"
FILE = re.compile(r"^`(penstock_plain/\w+\.py)`:\n\n```python\n(.*?)^```$", re.M | re.S)
ENTRY_POINT = re.compile(
    r'^```toml\n(\[project\.entry-points\."penstock\.backends"\]\n.*?)^```$', re.M | re.S
)
ROWS = 20_000
TABLE = (
    'CREATE TABLE public.t (id bigint, name text COLLATE "C", day date, share float8, fine bool,'
    " made timestamptz, at timestamp, hash bytea)"
)
FILL = (
    "INSERT INTO public.t SELECT g, CASE WHEN g % 7 > 0 THEN E't\\t\\'\\\\ ü ' || g END,"
    " date '2024-01-01' + (g % 300)::int, CASE g % 5 WHEN 0 THEN 'NaN' ELSE g / 7.0 END, g % 2 = 0,"
    " '2024-01-01'::timestamptz + g * interval '1.000001 s', '1969-01-01'::timestamp + g * interval"
    f" '1 us', decode(md5(g::text), 'hex') FROM generate_series(1, {ROWS}) AS g"
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the module path, as if the page's package were installed."""
    text, folder = PAGE.read_text(encoding="utf-8"), tmp_path_factory.mktemp("added")
    files = FILE.findall(text)
    assert len(files) == 10, [name for name, _ in files]
    for name, content in files:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (declared,) = ENTRY_POINT.findall(text)
    group, *entries = declared.replace("project.entry-points.", "").replace('"', "").splitlines()
    installed = folder / "penstock_plain-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-plain\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("\n".join([group, *entries, ""]))
    return folder


def plain(url: str) -> str:
    return url.replace("postgresql://", "plain://", 1).partition("?")[0]


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(package)}


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PENSTOCK, *arguments],
        env=environment(package),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    print(done.stdout, done.stderr)
    return done


def between(source: str, target: str, *options: str) -> Sequence[str]:
    ends = ("--source", source, "--target", target, "--table", "public.t")
    return ("copy", *ends, "--snapshot", "none", *options)


def rows_in(side: Side) -> list[tuple[object, ...]]:
    found = side.connection.execute("SELECT * FROM public.t ORDER BY id")
    return list(found.fetchall())


@pytest.mark.parametrize(
    "options",
    [
        ("--mode", "truncate"),
        ("--mode", "append", "--strategy", "hash", "--key", "id", "--partitions", "4"),
        ("--mode", "replace", "--strategy", "range", "--key", "id", "--partitions", "4"),
        ("--mode", "replace", "--strategy", "ntile", "--key", "name", "--partitions", "3"),
        ("--mode", "truncate", "--strategy", "values", "--key", "fine"),
    ],
    ids=lambda options: " ".join(options[1:4:2]),
)
def test_every_row_arrives(package: Path, pair: Pair, options: Sequence[str]) -> None:
    pair.both(TABLE)
    pair.source.run(FILL, "ANALYZE public.t")
    command = between(plain(pair.source.url), plain(pair.target.url), *options)
    done = run(package, *command, "--verify", "checksums")
    assert done.returncode == 0
    assert "verified by checksums" in done.stderr
    # NaN is not equal to itself, but its text is.
    assert repr(rows_in(pair.target)) == repr(rows_in(pair.source))


def test_to_another_system_and_back(package: Path, pair: Pair, tmp_path: Path) -> None:
    pair.both(TABLE)
    pair.source.run(FILL)
    target_url = f"duckdb:///{tmp_path / 'there.duckdb'}"
    for source, target, mode in (
        (plain(pair.source.url), target_url, "recreate"),
        (target_url, plain(pair.target.url), "truncate"),
    ):
        schema = ("--target-table", "main.t") if target == target_url else ()
        command = ["copy", "--source", source, "--target", target, *schema]
        command += ["--table", "public.t" if target == target_url else "main.t"]
        command += ["--target-table", "public.t"] if target != target_url else []
        done = run(package, *command, "--mode", mode, "--snapshot", "none", "--verify", "checksums")
        assert done.returncode == 0
    assert repr(rows_in(pair.target)) == repr(rows_in(pair.source))


def kill_after_commits(package: Path, pair: Pair, command: Sequence[str], more: int) -> bool:
    """Kill a command and its workers once it has committed some more partitions. Return whether it
    was still running."""
    process = subprocess.Popen(
        [PENSTOCK, *command],
        env=environment(package),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before = committed(pair)
    while process.poll() is None and committed(pair) < before + more:
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() < 0


def committed(pair: Pair) -> int:
    try:
        found = pair.target.connection.execute("SELECT count(*) FROM penstock.commit_record")
    except psycopg.errors.UndefinedTable:
        return 0
    return int(found.fetchall()[0][0])


def test_a_copy_killed_at_any_moment_commits_each_partition_once(package: Path, pair: Pair) -> None:
    pair.both(TABLE)
    pair.source.run(FILL, "ANALYZE public.t")
    ends = ("--source", plain(pair.source.url), "--target", plain(pair.target.url))
    options = ("--mode", "append", "--key", "id", "--strategy", "range", "--partitions", "12")
    command = between(ends[1], ends[3], *options, "--run-id", "killed")
    assert kill_after_commits(package, pair, command, 1)
    for _ in range(2):
        kill_after_commits(package, pair, ("resume", "killed", *ends), 2)
    done = run(package, "resume", "killed", *ends, "--verify", "checksums")
    assert done.returncode == 0
    assert repr(rows_in(pair.target)) == repr(rows_in(pair.source))
    stages = pair.target.connection.execute("SELECT count(*) FROM penstock.stage").fetchone()
    assert stages == (0,)


def test_a_type_missing_from_the_table_of_types_is_named(package: Path, pair: Pair) -> None:
    pair.both("CREATE TABLE public.t (id bigint, place point)")
    done = run(package, *between(plain(pair.source.url), plain(pair.target.url)))
    assert done.returncode != 0
    assert "column place: values of type point" in done.stderr


def test_a_value_that_the_driver_refuses_is_an_error_of_its_rows(
    package: Path, pair: Pair, tmp_path: Path
) -> None:
    target_path = tmp_path / "there.duckdb"
    with duckdb.connect(str(target_path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 'a' || chr(0) || 'b' AS name")
    pair.target.run("CREATE TABLE public.t (id int, name text)")
    ends = ("--source", f"duckdb:///{target_path}", "--target", plain(pair.target.url))
    done = run(package, "copy", *ends, "--table", "main.t", "--target-table", "public.t")
    assert done.returncode == 65, done.stderr
    assert "target: partition p0001: " in done.stderr
