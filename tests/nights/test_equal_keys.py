"""Nights by keys that are equal and not the same: the target gets the source's spelling.

The target's equality finds the row, in the search for deleted rows and in the merge.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from tests.backends.conftest import Pair, Side
from tests.faults.cli import PATIENCE, Run
from tests.nights.by_column import merged
from tests.one_copy import OneCopy

import penstock

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


def options(pair: Pair, **more: Any) -> dict[str, Any]:
    usual = {"table": "public.items", "mode": "upsert", "incremental": "xmin", "degree": 1}
    ends = {"source": pair.source.url, "target": pair.target.url}
    return {**ends, **usual, "max_deletes": "100%", **more}


def night(pair: Pair, **more: Any) -> OneCopy:
    return OneCopy(**options(pair, **more))


class Month:
    """Nights of one table whose keys are respelled.

    Args:
        deletes: the value of the option.
    """

    def __init__(self, pair: Pair, keys: Keys, deletes: str, chance: random.Random) -> None:
        self.pair, self.keys, self.deletes, self.chance = pair, keys, deletes, chance
        self.there = set(range(ROWS))
        pair.both(
            *keys.before,
            f"CREATE TABLE items ({keys.columns}, v int, PRIMARY KEY ({keys.names}))",
        )
        if deletes == "soft":
            pair.target.run("ALTER TABLE items ADD deleted_at timestamptz")
        for n in self.there:
            self._insert(n)
        merged(self._night())
        self._check()

    def _insert(self, n: int) -> None:
        spelling = self.chance.choice(self.keys.spellings(n))
        self.pair.source.run(f"INSERT INTO items VALUES ({spelling}, {n})")

    def _night(self, **more: Any) -> OneCopy:
        return night(self.pair, deletes=self.deletes, **more)

    def change(self) -> None:
        """Respell, delete, insert and update some rows."""
        run, listed = self.pair.source.run, sorted(self.there)
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
        if self.chance.random() < 0.3:
            self._killed()
        elif self.chance.random() < 0.2:
            (watermark,) = penstock.watermarks(target=self.pair.target.url)
            penstock.reset_watermark(watermark.name, target=self.pair.target.url)
        merged(self._night())
        self._check()

    def _killed(self) -> None:
        flags = {
            f"--{name.replace('_', '-')}": str(value)
            for name, value in options(self.pair, deletes=self.deletes).items()
        }
        run = Run("copy", *(word for flag in flags.items() for word in flag))
        time.sleep(self.chance.random())
        run.kill()
        run.popen.wait(PATIENCE)
        run.close()

    def _check(self) -> None:
        alive = " WHERE deleted_at IS NULL" if self.deletes == "soft" else ""
        query = f"SELECT {self.keys.names}, v FROM items"
        rows = f"SELECT each::text FROM ({query}{{}}) AS each ORDER BY v"
        mine = self.pair.source.rows(rows.format(""))
        assert self.pair.target.rows(rows.format(alive)) == mine
        assert len(mine) == len(self.there)


@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_month_of_equal_keys(pair: Pair, kind: str, deletes: str) -> None:
    month = Month(pair, KINDS[kind], deletes, random.Random(f"{kind} {deletes}"))
    for _ in range(NIGHTS):
        month.change()
        month.next()


def test_a_key_is_respelled_and_another_row_deleted(pair: Pair) -> None:
    pair.both(*CITEXT, "CREATE TABLE items (k citext PRIMARY KEY, v int)")
    pair.source.run("INSERT INTO items SELECT 'key' || n, n FROM generate_series(1, 30) AS n")
    merged(night(pair, deletes="hard"))
    pair.source.run("UPDATE items SET k = upper(k) WHERE v = 2", "DELETE FROM items WHERE v = 5")
    found = merged(night(pair, deletes="hard"))
    assert (found.updated, found.deleted) == (1, 1)
    assert pair.target.value("SELECT k::text FROM items WHERE v = 2") == "KEY2"
    pair.assert_same("public.items")


def test_keys_in_one_bucket_whose_sums_differ_by_no_key(pair: Pair) -> None:
    pair.both("CREATE TABLE items (k numeric PRIMARY KEY)")
    pair.source.run("INSERT INTO items SELECT n FROM generate_series(1, 100) AS n")
    merged(night(pair, deletes="hard"))
    for gone in (34, 35, 36, 37, 38):
        pair.source.run(
            "UPDATE items SET k = k + 0.00 WHERE k % 3 = 1", f"DELETE FROM items WHERE k = {gone}"
        )
        assert merged(night(pair, deletes="hard")).deleted == 1
        pair.assert_same("public.items")


def test_a_key_that_was_respelled_in_the_target_is_named_and_comes_back(pair: Pair) -> None:
    pair.both("CREATE TABLE items (k numeric PRIMARY KEY)")
    pair.source.run("INSERT INTO items SELECT n FROM generate_series(1, 100) AS n")
    merged(night(pair, deletes="hard"))
    pair.target.run("UPDATE items SET k = k + 0.00 WHERE k % 3 = 0")
    pair.source.run("DELETE FROM items WHERE k = 34")
    before = pair.target.count("items")
    refused = night(pair, deletes="hard")
    assert refused.code == 65
    assert "or spelled a key differently there? Nothing was deleted" in refused.message
    assert pair.target.count("items") == before
    # What the message advises.
    (watermark,) = penstock.watermarks(target=pair.target.url)
    penstock.reset_watermark(watermark.name, target=pair.target.url)
    assert merged(night(pair, deletes="hard")).deleted == 1
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
    assert merged(night(words, deletes="hard")).updated == 1
    words.source.run("UPDATE items SET k = 'KEY4' WHERE v = 4")
    assert night(words).code == 65
    merged(night(words, full_every="0s"))
    words.assert_same("public.items", columns="t.k::text, t.v")


def test_partitions_whose_keys_only_the_source_tells_apart(words: Pair) -> None:
    words.source.run("INSERT INTO items SELECT upper(k), v + 100 FROM items")
    plain: dict[str, Any] = {"incremental": None, "max_deletes": "30%,1000"}
    cut = {"strategy": "range", "key": "k", "partitions": 2}
    refused = night(words, **plain, **cut)
    assert refused.code == 65
    assert "copy in one partition (--partitions 1)" in refused.message
    assert "expected each key (k) once" in night(words, **plain, partitions=1).message
    words.source.run("DELETE FROM items WHERE v < 100")
    night(words, **plain, partitions=1).done()
    words.assert_same("public.items", columns="t.k::text, t.v")
