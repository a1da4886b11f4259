"""Nights by keys that are equal and not the same: the target gets the source's spelling.

The target's equality finds the row, in the search for deleted rows and in the merge.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from tests.backends.conftest import Pair, Side
from tests.faults.cli import PATIENCE, Run
from tests.nights.by_column import merged
from tests.one_copy import OneCopy

import penstock
from penstock_testkit.mysql import connect_mysql

NIGHTS = 6
ROWS = 40


@dataclass(frozen=True)
class Keys:
    """A key's columns, and the spellings of the value of a number, each as SQL."""

    columns: str
    spellings: Callable[[int], tuple[str, ...]]
    before: tuple[str, ...] = ()
    names: str = "k"


def texts(*patterns: str) -> Callable[[int], tuple[str, ...]]:
    return lambda n: tuple(each.format(n=n, h=24 * n) for each in patterns)


CITEXT = ("CREATE EXTENSION citext",)
KINDS = {
    "citext": Keys("k citext", texts("'key{n}'", "'KEY{n}'", "'Key{n}'"), CITEXT),
    "a domain": Keys(
        "k word", texts("'key{n}'", "'KEY{n}'"), (*CITEXT, "CREATE DOMAIN word AS citext")
    ),
    "numeric": Keys("k numeric", texts("{n}", "{n}.0", "{n}.00")),
    "float8": Keys("k float8, n int", texts("'0', {n}", "'-0', {n}"), names="k, n"),
    "interval": Keys("k interval", texts("'{n} days'", "'{h} hours'")),
    "jsonb": Keys("k jsonb", texts("""'{{"a": {n}}}'""", """'{{"a": {n}.0}}'""")),
    "an array": Keys("k numeric[]", texts("'{{{n},7}}'", "'{{{n}.0,7}}'")),
    "a range": Keys("k numrange", texts("'[{n},{n}]'", "'[{n}.0,{n}]'")),
    "a composite": Keys(
        "k pair",
        texts("'({n},1)'", "'({n},1.0)'"),
        ("CREATE TYPE pair AS (a int, b numeric)",),
    ),
    "blanks": Keys("k bpchar", texts("'key{n}'", "'key{n}  '")),
    "char": Keys("k char(8)", texts("'key{n}'", "'key{n}  '")),
    "two columns": Keys(
        "k numeric, l citext",
        texts("1, 'key{n}'", "1.0, 'key{n}'", "1.00, 'KEY{n}'", "1, 'KEY{n}'"),
        CITEXT,
        names="k, l",
    ),
    "after a number": Keys(
        "i int, k citext", texts("{n}, 'key'", "{n}, 'KEY'"), CITEXT, names="i, k"
    ),
}


@pytest.fixture
def pair(source_url: str, target_url: str, source: psycopg.Connection[Any], target: Any) -> Pair:
    return Pair(Side(source_url, source), Side(target_url, target))


USUAL = {
    "table": "public.items",
    "mode": "upsert",
    "incremental": "xmin",
    "degree": 1,
}


def night(pair: Pair, **more: Any) -> OneCopy:
    return OneCopy(**{**USUAL, "source": pair.source.url, "target": pair.target.url, **more})


class PostgresTarget:
    """The target's database, and how to make and read its table."""

    may_kill = True

    def __init__(self, side: Side) -> None:
        self.url, self.table, self._side = side.url, "public.items", side

    def make(self, keys: Keys, mark: str) -> None:
        key = f"PRIMARY KEY ({keys.names})"
        self._side.run(*keys.before, f"CREATE TABLE items ({keys.columns}, v int{mark}, {key})")

    def rows(self, names: str, condition: str) -> list[tuple[Any, ...]]:
        return self._side.rows(f"SELECT each::text FROM ({query(names, condition)}) AS each")


class MariaTarget(PostgresTarget):
    """A key whose collation ignores case."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.table = url.rpartition("/")[2].partition("?")[0] + ".items"

    def _fetch(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(connect_mysql(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def make(self, keys: Keys, mark: str) -> None:
        mark = mark.replace("timestamptz", "datetime(6)")
        key = "k varchar(50) COLLATE utf8mb4_general_ci PRIMARY KEY"
        self._fetch(f"CREATE TABLE items ({key}, v int{mark})")

    def rows(self, names: str, condition: str) -> list[tuple[Any, ...]]:
        return [(f"({key},{v})",) for key, v in self._fetch(query(names, condition))]


class DuckTarget(MariaTarget):
    may_kill = False
    """A killed process keeps the file for a moment."""

    def __init__(self, path: Path) -> None:
        self.url, self.table, self._path = f"duckdb:///{path}", "main.items", path

    def _fetch(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(duckdb.connect(self._path)) as connection:
            return connection.execute(statement).fetchall()

    def make(self, keys: Keys, mark: str) -> None:
        key = "k varchar COLLATE NOCASE PRIMARY KEY"
        self._fetch(f"CREATE TABLE items ({key}, v int{mark})")


def query(names: str, condition: str = "") -> str:
    return f"SELECT {names}, v FROM items{condition} ORDER BY v"


class Month:
    """Nights of one table whose keys are respelled.

    Args:
        deletes: the value of the option.
    """

    def __init__(
        self, source: Side, target: PostgresTarget, keys: Keys, deletes: str, chance: random.Random
    ) -> None:
        self.source, self.target, self.keys = source, target, keys
        self.deletes, self.chance = deletes, chance
        self.there = set(range(ROWS))
        source.run(
            *keys.before, f"CREATE TABLE items ({keys.columns}, v int, PRIMARY KEY ({keys.names}))"
        )
        target.make(keys, ", deleted_at timestamptz" if deletes == "soft" else "")
        for n in self.there:
            self._insert(n)
        merged(self._night())
        self._check()

    @property
    def _options(self) -> dict[str, Any]:
        ends = {"source": self.source.url, "target": self.target.url}
        return {
            **ends,
            **USUAL,
            "target_table": self.target.table,
            "deletes": f"{self.deletes},100%",
        }

    def _insert(self, n: int) -> None:
        spelling = self.chance.choice(self.keys.spellings(n))
        self.source.run(f"INSERT INTO items VALUES ({spelling}, {n})")

    def _night(self) -> OneCopy:
        return OneCopy(**self._options)

    def change(self) -> None:
        """Respell, delete, insert and update some rows."""
        run, listed = self.source.run, sorted(self.there)
        for n in self.chance.sample(listed, self.chance.randint(0, 6)):
            spelling = self.chance.choice(self.keys.spellings(n))
            run(f"UPDATE items SET ({self.keys.names}) = ROW({spelling}) WHERE v = {n}")
        for n in self.chance.sample(listed, self.chance.randint(0, 4)):
            run(f"DELETE FROM items WHERE v = {n}")
            self.there.discard(n)
        gone = sorted(set(range(ROWS)) - self.there)
        for n in self.chance.sample(gone, self.chance.randint(0, len(gone))):
            self._insert(n)
            self.there.add(n)

    def next(self) -> None:
        """Run a night, perhaps after one that was killed, or reading all rows."""
        if self.target.may_kill and self.chance.random() < 0.3:
            self._killed()
        elif self.chance.random() < 0.2:
            (watermark,) = penstock.watermarks(target=self.target.url)
            penstock.reset_watermark(watermark.name, target=self.target.url)
        merged(self._night())
        self._check()

    def _killed(self) -> None:
        flags = {f"--{name.replace('_', '-')}": str(value) for name, value in self._options.items()}
        run = Run("copy", *(word for flag in flags.items() for word in flag))
        time.sleep(self.chance.random())
        run.kill()
        run.popen.wait(PATIENCE)
        run.close()

    def _check(self) -> None:
        alive = " WHERE deleted_at IS NULL" if self.deletes == "soft" else ""
        mine = self.source.rows(f"SELECT each::text FROM ({query(self.keys.names)}) AS each")
        assert self.target.rows(self.keys.names, alive) == mine
        assert len(mine) == len(self.there)

    def run(self) -> None:
        for _ in range(NIGHTS):
            self.change()
            self.next()


@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_month_of_equal_keys(pair: Pair, kind: str, deletes: str) -> None:
    chance = random.Random(f"{kind} {deletes}")
    Month(pair.source, PostgresTarget(pair.target), KINDS[kind], deletes, chance).run()


WORDS = {
    "citext": KINDS["citext"],
    "text": Keys("k text", texts("'key{n}'", "'KEY{n}'", "'Key{n}'")),
}


@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("into", ["mariadb", "duckdb"])
def test_a_month_of_equal_keys_into_another_system(
    source_url: str,
    source: psycopg.Connection[Any],
    mysql_url: str,
    tmp_path: Path,
    kind: str,
    deletes: str,
    into: str,
) -> None:
    target = MariaTarget(mysql_url) if into == "mariadb" else DuckTarget(tmp_path / "t.duckdb")
    chance = random.Random(f"{kind} {deletes}")
    Month(Side(source_url, source), target, WORDS[kind], deletes, chance).run()


def test_a_key_is_respelled_and_another_row_deleted(pair: Pair) -> None:
    pair.both(*CITEXT, "CREATE TABLE items (k citext PRIMARY KEY, v int)")
    pair.source.run("INSERT INTO items SELECT 'key' || n, n FROM generate_series(1, 30) AS n")
    merged(night(pair, deletes="hard,100%"))
    pair.source.run("UPDATE items SET k = upper(k) WHERE v = 2", "DELETE FROM items WHERE v = 5")
    found = merged(night(pair, deletes="hard,100%"))
    assert (found.updated, found.deleted) == (1, 1)
    assert pair.target.value("SELECT k::text FROM items WHERE v = 2") == "KEY2"
    pair.assert_same("public.items")


def test_keys_in_one_bucket_whose_sums_differ_by_no_key(pair: Pair) -> None:
    pair.both("CREATE TABLE items (k numeric PRIMARY KEY)")
    pair.source.run("INSERT INTO items SELECT n FROM generate_series(1, 100) AS n")
    merged(night(pair, deletes="hard,100%"))
    for gone in (34, 35, 36, 37, 38):
        pair.source.run(
            "UPDATE items SET k = k + 0.00 WHERE k % 3 = 1", f"DELETE FROM items WHERE k = {gone}"
        )
        assert merged(night(pair, deletes="hard,100%")).deleted == 1
        pair.assert_same("public.items")


def test_a_key_that_was_respelled_in_the_target_is_named_and_comes_back(pair: Pair) -> None:
    pair.both("CREATE TABLE items (k numeric PRIMARY KEY)")
    pair.source.run("INSERT INTO items SELECT n FROM generate_series(1, 100) AS n")
    merged(night(pair, deletes="hard,100%"))
    pair.target.run("UPDATE items SET k = k + 0.00 WHERE k % 3 = 0")
    pair.source.run("DELETE FROM items WHERE k = 34")
    before = pair.target.count("items")
    refused = night(pair, deletes="hard,100%")
    assert refused.code == 65
    assert "or spelled a key differently there? Nothing was deleted" in refused.message
    assert pair.target.count("items") == before
    # What the message advises.
    (watermark,) = penstock.watermarks(target=pair.target.url)
    penstock.reset_watermark(watermark.name, target=pair.target.url)
    assert merged(night(pair, deletes="hard,100%")).deleted == 1
    pair.assert_same("public.items")


@pytest.fixture
def words(pair: Pair) -> Pair:
    """A key of texts that are all distinct in the source, and not in the target."""
    pair.both(*CITEXT)
    pair.target.run("CREATE TABLE items (k citext PRIMARY KEY, v int)")
    pair.source.run(
        "CREATE TABLE items (k text PRIMARY KEY, v int)",
        "INSERT INTO items SELECT 'key' || n, n FROM generate_series(1, 30) AS n",
    )
    merged(night(pair))
    return pair


@pytest.mark.parametrize("deletes", ["hard", "ignore"])
def test_keys_that_only_the_source_tells_apart_are_refused(words: Pair, deletes: str) -> None:
    words.source.run("INSERT INTO items VALUES ('KEY3', 33)", "DELETE FROM items WHERE v = 4")
    before = words.target.rows("SELECT k::text, v FROM items ORDER BY v")
    refused = night(words, deletes=deletes)
    assert refused.code == 65
    expected = {
        "hard": "takes 1 keys of public.items for equal to others that the source also has, such "
        "as key3",
        "ignore": "treats 1 of the copied keys as equal to others, spelled differently",
    }
    assert expected[deletes] in refused.message
    assert words.target.rows("SELECT k::text, v FROM items ORDER BY v") == before
    # Neither does a night that reads all rows lose one.
    assert night(words, deletes=deletes, full_every="0s").code == 65
    assert words.target.rows("SELECT k::text, v FROM items ORDER BY v") == before


def test_a_key_that_the_source_respelled_is_merged_or_refused(words: Pair) -> None:
    words.source.run("UPDATE items SET k = 'KEY3' WHERE v = 3")
    refused = night(words)
    assert "read all rows" in refused.message
    # Deletes look for the old spelling in the source, and find none.
    assert merged(night(words, deletes="hard,100%")).updated == 1
    words.source.run("UPDATE items SET k = 'KEY4' WHERE v = 4")
    assert night(words).code == 65
    merged(night(words, full_every="0s"))
    words.assert_same("public.items", columns="t.k::text, t.v")


def test_partitions_whose_keys_only_the_source_tells_apart(words: Pair) -> None:
    words.source.run("INSERT INTO items SELECT upper(k), v + 100 FROM items")
    plain: dict[str, Any] = {"incremental": None}
    cut = {"strategy": "range", "key": "k", "partitions": 2}
    refused = night(words, **plain, **cut)
    assert refused.code == 65
    assert "copy in one partition (--partitions 1)" in refused.message
    assert "expected each key (k) once" in night(words, **plain, partitions=1).message
    words.source.run("DELETE FROM items WHERE v < 100")
    night(words, **plain, partitions=1).done()
    words.assert_same("public.items", columns="t.k::text, t.v")


def test_keys_that_share_32_bits_of_a_hash(pair: Pair) -> None:
    """The server's own hash of 1 is that of 2^32."""
    pair.both("CREATE TABLE items (k bigint, l bigint, PRIMARY KEY (k, l))")
    pair.source.run(
        "INSERT INTO items SELECT n * power, n FROM generate_series(1, 200) AS n,"
        " unnest('{1,4294967296}'::bigint[]) AS power"
    )
    merged(night(pair, deletes="hard,100%"))
    pair.source.run("DELETE FROM items WHERE k IN (77, 78)", "DELETE FROM items WHERE l = 79")
    assert merged(night(pair, deletes="hard,100%")).deleted == 4
    pair.assert_same("public.items")
