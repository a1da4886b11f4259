"""The mode of docs/adding-a-mode.md, added by the page's own lines to a copy of the package: it
copies once, and other runs notice it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import duckdb
import pytest

from penstock.spec.modes import MODES
from penstock_testkit.mysql import connect_mysql

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "adding-a-mode.md"
PENSTOCK = Path(sys.executable).parent / "penstock"
PACKAGE = Path("core/src/penstock")
# Files are named above the blocks that change them.
FILES = re.compile(r"^(?:`core/src/\S+`(?: and )?)+:$", re.M)
BLOCK = re.compile(r"^```diff\n(.*?)^```$", re.M | re.S)
CLAIM = re.compile(r"They add (\d+) lines to (\d+)\sfiles, and remove (\d+)\.")
IN_ORDER = "SELECT id, name FROM public.t ORDER BY id"
TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, name text)"
ROWS = 4000


def changes() -> Iterator[tuple[str, list[str]]]:
    """Yield each change on the page: the file, and the lines with their signs."""
    text = PAGE.read_text(encoding="utf-8")
    named = list(FILES.finditer(text))
    ends = [*(each.start() for each in named[1:]), len(text)]
    for each, end in zip(named, ends, strict=True):
        for block in BLOCK.findall(text[each.end() : end]):
            for name in re.findall(r"`(core/src/\S+)`", each.group()):
                yield name, block.splitlines()


def change(path: Path, lines: Sequence[str]) -> None:
    """Change a file, which has the lines to replace once, or create one."""
    old, new = (
        "".join(f"{line[1:]}\n" for line in lines if line[0] in f" {sign}") for sign in "-+"
    )
    if not old:
        assert not path.exists()
        path.write_text(new, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path}: expected these lines once:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the module path with a copy of the package that has the page's mode."""
    found = tmp_path_factory.mktemp("mode")
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / PACKAGE, found / PACKAGE, ignore=unwanted)
    for name, lines in changes():
        change(found / name, lines)
    return found / PACKAGE.parent


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PENSTOCK, *arguments],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    print(done.stdout, done.stderr)
    return done


def fill(pair: Pair) -> None:
    query = f"INSERT INTO public.t SELECT g, 'new ' || g FROM generate_series(1, {ROWS}) AS g"
    pair.source.run(TABLE, query, "ANALYZE public.t")


CUT = ("--key", "id", "--strategy", "range", "--partitions", "4")


def test_the_page_counts_its_lines() -> None:
    found = list(changes())
    (claimed,) = CLAIM.findall(PAGE.read_text(encoding="utf-8"))
    signs = [line[0] for _, lines in found for line in lines]
    files = {name for name, _ in found}
    assert tuple(map(int, claimed)) == (signs.count("+"), len(files), signs.count("-"))


def test_the_mode_is_no_part_of_penstock() -> None:
    assert "purge" not in MODES


def test_from_postgresql_to_postgresql(folder: Path, pair: Pair) -> None:
    """A foreign key, which would refuse a TRUNCATE, does not, and a trigger sees the rows go."""
    fill(pair)
    pair.target.run(
        TABLE,
        "INSERT INTO public.t VALUES (1, 'old'), (-1, 'gone')",
        "CREATE TABLE public.child (t int REFERENCES public.t)",
        "CREATE TABLE public.deleted (id int)",
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.deleted VALUES (OLD.id); RETURN OLD; END $$",
        "CREATE TRIGGER note BEFORE DELETE ON public.t FOR EACH ROW EXECUTE FUNCTION public.note()",
    )
    command = ["copy", *pair.ends, "--table", "public.t", "--verify", "checksums", *CUT]
    refused = run(folder, *command, "--mode", "truncate")
    assert refused.returncode == 65
    assert "foreign key" in refused.stderr
    # The second call of a run that is done does nothing.
    for deleted, run_id in ((2, "a"), (2, "a"), (ROWS + 2, "b")):
        done = run(folder, *command, "--mode", "purge", "--run-id", run_id)
        assert done.returncode == 0
        pair.assert_same()
        assert pair.target.count("public.deleted") == deleted
    assert "verified by checksums" in done.stderr
    assert pair.target.count("penstock.commit_record", "run_id = 'b'") == 4


def test_a_run_of_another_mode_notices_it(folder: Path, pair: Pair) -> None:
    """Also if the run that deleted its rows has loaded none."""
    fill(pair)
    pair.target.run(TABLE, "ALTER TABLE public.t ADD CONSTRAINT few CHECK (id < 3000)")
    command = ["copy", *pair.ends, "--table", "public.t", *CUT]
    failed = run(folder, *command, "--run-id", "a", "--on-error", "continue")
    assert failed.returncode != 0
    assert pair.target.count() == 2999
    pair.target.run("ALTER TABLE public.t DROP CONSTRAINT few")
    assert run(folder, *command, "--mode", "purge", "--where", "id < 0").returncode == 0
    resumed = run(folder, "resume", "a", *pair.ends)
    assert resumed.returncode == 65
    assert "so rows that the run committed may be lost" in resumed.stderr


def test_through_the_kit_to_duckdb(folder: Path, pair: Pair, tmp_path: Path) -> None:
    fill(pair)
    path = tmp_path / "there.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(TABLE.replace("public.t", "t"))
        connection.execute("INSERT INTO t VALUES (1, 'old'), (-1, 'gone')")
    ends = ("--source", pair.source.url, "--target", f"duckdb:///{path}", "--table", "public.t")
    command = ["copy", *ends, "--target-table", "main.t", "--verify", "checksums", *CUT]
    for _ in range(2):
        done = run(folder, *command, "--mode", "purge")
        assert done.returncode == 0
        assert "verified by checksums" in done.stderr
        with duckdb.connect(str(path)) as connection:
            assert connection.execute("FROM t ORDER BY id").fetchall() == pair.source.rows(IN_ORDER)


def test_through_the_kit_to_mariadb(folder: Path, pair: Pair, mysql_url: str) -> None:
    """Where a TRUNCATE commits by itself, and needs the privilege to drop the table."""
    fill(pair)
    with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
        cursor.execute("INSERT INTO t VALUES (1, 'old'), (-1, 'gone')")
        cursor.execute(
            "CREATE TRIGGER few BEFORE INSERT ON t FOR EACH ROW"
            " IF NEW.id >= 3000 THEN SIGNAL SQLSTATE '45000'; END IF"
        )
        both = ("--source", pair.source.url, "--target", mysql_url)
        name = urlsplit(mysql_url).path.strip("/")
        ends = (*both, "--table", "public.t", "--target-table", f"{name}.t")
        command = ["copy", *ends, "--mode", "purge", *CUT]
        failed = run(folder, *command, "--run-id", "a", "--on-error", "continue")
        assert failed.returncode != 0
        cursor.execute("DROP TRIGGER few")
        # The rows that are committed stay.
        assert run(folder, "resume", "a", *both, "--verify", "checksums").returncode == 0
        for _ in range(2):
            cursor.execute("SELECT id, name FROM t ORDER BY id")
            assert list(cursor.fetchall()) == pair.source.rows(IN_ORDER)
            assert run(folder, *command, "--verify", "checksums").returncode == 0


def test_other_systems_refuse_it(folder: Path, pair: Pair, tmp_path: Path) -> None:
    ends = ("--source", pair.source.url, "--target", f"file://{tmp_path}/t/")
    done = run(folder, "plan", *ends, "--table", "public.t", "--mode", "purge")
    assert done.returncode == 64
    assert "Parquet as a target does not support --mode purge" in done.stderr
