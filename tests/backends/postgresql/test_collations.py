"""Text keys when columns, databases and servers collate text differently.

The servers read their locales from a folder that the tests build: embedded servers lack ICU, and a
system may have no locale other than C.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock_testkit import PostgresServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

CREATE_COLLATION = "CREATE COLLATION english (provider = libc, locale = 'en_US.utf8')"
WORDS = """
    INSERT INTO t SELECT w, n
    FROM unnest(ARRAY['a', 'B', 'c', 'D', 'Z', 'z', 'ä', 'Ö', 'é', '_', '-', '1']) AS w,
        generate_series(1, 20) AS n
"""


@pytest.fixture(scope="module")
def locales() -> Iterator[Path]:
    """A folder with a locale whose order is not that of code points."""
    known = Path("/usr/lib/locale/C.utf8")
    if shutil.which("localedef") is None or not known.is_dir():
        pytest.skip("there is nothing to build a locale with")
    # Other users must be able to read it, hence not tmp_path.
    folder = Path(tempfile.mkdtemp(prefix="penstock-locale-"))
    try:
        localedef = subprocess.run(
            ["localedef", "-i", "en_US", "-f", "UTF-8", str(folder / "en_US.utf8")],
            capture_output=True,
            check=False,
        )
        if localedef.returncode:
            pytest.skip("localedef cannot build en_US.utf8 here")
        shutil.copytree(known, folder / "C.utf8")
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def english_servers(locales: Path) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    with PostgresServer(fsync=False) as source, PostgresServer(fsync=False) as target:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOCPATH", str(locales))
            source.restart()
            target.restart()
        yield source, target


@pytest.fixture
def english(
    english_servers: tuple[PostgresServer, PostgresServer], make_pair: Callable[..., Pair]
) -> Iterator[Pair]:
    with ExitStack() as stack:
        urls = [server.url for server in english_servers]
        sides = [stack.enter_context(psycopg.connect(url, autocommit=True)) for url in urls]
        for side in sides:
            side.execute("DROP TABLE IF EXISTS t")
            side.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
            side.execute("DROP COLLATION IF EXISTS english")
            side.execute(CREATE_COLLATION)
        yield make_pair(*urls, *sides)


@pytest.mark.parametrize("collation", ['COLLATE "C"', "COLLATE english", ""])
@pytest.mark.parametrize("type_", ["text", "varchar(9)", "char(9)"])
@pytest.mark.parametrize("analyzed", [False, True], ids=["unknown", "analyzed"])
def test_ranges_follow_the_order_of_the_source_column(
    english: Pair, collation: str, type_: str, analyzed: bool
) -> None:
    english.both(f"CREATE TABLE t (k {type_} {collation}, n int)")
    english.source.run(WORDS, *(["ANALYZE t"] if analyzed else []))
    report = english.copy(strategy="range", key="k", partitions=6)
    assert report.partitions >= 5
    english.assert_same()


@pytest.mark.parametrize("collation", ['COLLATE "C"', "COLLATE english", ""])
@pytest.mark.parametrize("query", [False, True], ids=["table", "query"])
def test_ntile_follows_the_order_of_the_column_or_query(
    english: Pair, collation: str, query: bool
) -> None:
    english.both("CREATE TABLE t (k text, n int)")
    english.source.run(WORDS, f"ALTER TABLE t ALTER k TYPE text {collation}")
    read: dict[str, Any] = (
        {"table": None, "query": f"SELECT k {collation} AS k, n FROM t;"} if query else {}
    )
    report = english.copy(**read, target_table="public.t", strategy="ntile", key="k", partitions=6)
    assert report.partitions >= 5
    english.assert_same()


SIDES = {
    "C and english": ('COLLATE "C"', "COLLATE english"),
    "english and C": ("COLLATE english", 'COLLATE "C"'),
    "default and english": ("", "COLLATE english"),
    "english and english": ("COLLATE english", "COLLATE english"),
}
CUTS: list[dict[str, Any]] = [
    {"strategy": "range", "partitions": 6},
    {"strategy": "values"},
    {"strategy": "hash", "partitions": 3},
]


@pytest.mark.parametrize("sides", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: str(cut["strategy"]))
def test_replace_deletes_the_rows_it_loads_regardless_of_the_targets_order(
    english: Pair, sides: tuple[str, str], cut: dict[str, Any]
) -> None:
    for side, collation in zip((english.source, english.target), sides, strict=True):
        side.run(f"CREATE TABLE t (k text {collation}, n int)")
    english.source.run(WORDS, "ANALYZE t")
    english.target.run(WORDS, "INSERT INTO t VALUES ('zebra', 0), ('', 0), ('B', 100)")
    for _ in range(2):
        # The list of values contains only what the source has.
        where = "n BETWEEN 1 AND 20"
        report = english.copy(mode="replace", key="k", where=where, **cut)
        assert report.partitions >= 3
        english.assert_same(where=where)
        assert english.target.count(where="n IN (0, 100)") == 3


@pytest.mark.parametrize("sides", [("", 'COLLATE "unicode"'), ('COLLATE "C"', 'COLLATE "unicode"')])
def test_replace_never_uses_an_order_of_the_target(pair: Pair, sides: tuple[str, str]) -> None:
    pair.needs(16, "the collation unicode")
    # Without ICU in the server, evaluating this collation is an error.
    for side, collation in zip((pair.source, pair.target), sides, strict=True):
        side.run(f"CREATE TABLE t (k text {collation}, n int)")
    pair.source.run(WORDS, "ANALYZE t")
    for _ in range(2):
        pair.copy(mode="replace", strategy="range", key="k", partitions=6)
        pair.assert_same()
