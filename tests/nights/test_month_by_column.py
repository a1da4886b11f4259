"""Months of nights by a column, from several systems.

They read with a lookback from MariaDB with writers at work, and from DuckDB; and without one from
PostgreSQL, where the server sets the column.

Rows may be missing or outdated only if a transaction lasted longer than the lookback, and the test
records those. A night that reads all rows finds every one of them. From PostgreSQL, no row is
missing.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from tests.conftest import fresh_database, fresh_mysql
from tests.faults.cli import PATIENCE, Run
from tests.faults.pair import connect

import penstock
from penstock.events import Merged
from penstock_testkit import AnyMysqlServer, Server
from penstock_testkit.mysql import connect_mysql

SEEDS = int(os.environ.get("PENSTOCK_NIGHTS", "0"))
FIRST_SEED = int(os.environ.get("PENSTOCK_NIGHTS_FROM", "0"))
NIGHTS = 5
ROWS = 300
LOOKBACK = 1.0
# Succeeded; rejected; to be retried; 64: killed before the target stored the run.
CODES = (0, 65, 75, 76)
ALL = "SELECT id, word FROM items"

seeds = pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + (SEEDS or 1)))


class Source(ABC):
    """A table of items that changes."""

    table: str
    url: str
    lookback = f"{LOOKBACK}s"
    proven = False

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.late: set[int] = set()
        """Keys of rows committed later after their time than the lookback."""

    @abstractmethod
    def open(self) -> Any: ...

    def rows(self) -> dict[int, str]:
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(ALL)
            return {int(key): word for key, word in cursor.fetchall()}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        yield

    @abstractmethod
    def wait_for_changes(self) -> None:
        """Wait until some rows have changed."""


class Written(Source):
    """Three writers, most of whose transactions last up to half the lookback, and a few longer."""

    setup: Sequence[str]
    """Statements that create the table."""
    put: str
    """A statement for a row with a key, a word and the time."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(seed)
        self.url = url
        self.count = 0
        self.failed: list[BaseException] = []
        self._ended = threading.Event()
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            for statement in self.setup:
                cursor.execute(statement)
            cursor.executemany(self.put, [(key, "first") for key in range(ROWS)])
            connection.commit()

    @abstractmethod
    def begin(self) -> Any:
        """Return a connection in which changes wait for a commit."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._write, args=(number, self.chance.random()), daemon=True)
            for number in range(3)
        ]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._ended.set()
            for each in threads:
                each.join(PATIENCE)
        assert not self.failed, self.failed

    def _write(self, number: int, seed: float) -> None:
        chance = random.Random(seed)
        try:
            with closing(self.begin()) as connection, closing(connection.cursor()) as cursor:
                while not self._ended.is_set():
                    self._change(connection, cursor, chance, number)
                    self.count += 1
                    time.sleep(chance.random() * 0.1)
        except BaseException as error:
            self.failed.append(error)

    def _change(self, connection: Any, cursor: Any, chance: random.Random, number: int) -> None:
        """Change keys that no other writer uses."""
        begun = time.monotonic()
        keys = {chance.randrange(ROWS) * 3 + number for _ in range(chance.randint(1, 4))}
        for key in keys:
            if chance.random() < 0.2:
                cursor.execute("DELETE FROM items WHERE id = %s", (key,))
            else:
                cursor.execute(self.put, (key, f"w{self.count}-{number}"))
        time.sleep(chance.choice([*[0] * 8, *[LOOKBACK / 2] * 3, LOOKBACK * 1.5]))
        connection.commit()
        if time.monotonic() - begun > LOOKBACK * 0.9:
            self.late |= keys

    def wait_for_changes(self) -> None:
        before, deadline = self.count, time.monotonic() + PATIENCE
        while self.count < before + 10 and time.monotonic() < deadline:
            assert not self.failed, self.failed
            time.sleep(0.02)


class Maria(Written):
    setup = (
        "CREATE TABLE items (id int PRIMARY KEY, word varchar(40), changed datetime(6) NOT NULL,"
        " KEY (changed)) ENGINE = InnoDB",
    )
    put = "REPLACE INTO items VALUES (%s, %s, NOW(6))"

    def __init__(self, url: str, seed: int) -> None:
        self.table = f"{url.rpartition('/')[2].partition('?')[0]}.items"
        super().__init__(url, seed)

    def open(self) -> Any:
        return connect_mysql(self.url)

    def begin(self) -> Any:
        connection = self.open()
        connection.autocommit(False)
        return connection


class Postgres(Written):
    """PostgreSQL, which sets the column to the start of each transaction."""

    table = "public.items"
    lookback = "0"
    proven = True
    setup = (
        "CREATE TABLE items (id int PRIMARY KEY, word text, changed timestamptz)",
        "CREATE INDEX ON items (changed)",
        "CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.changed := now(); RETURN NEW; END'",
        "CREATE TRIGGER note_change BEFORE INSERT OR UPDATE ON items"
        " FOR EACH ROW EXECUTE FUNCTION note_change()",
    )
    put = "INSERT INTO items VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET word = EXCLUDED.word"

    def open(self) -> Any:
        return connect(self.url)

    def begin(self) -> Any:
        return psycopg.connect(self.url)


class Duck(Source):
    """A DuckDB file.

    Only one process can open it, so rows change between nights. Some get times that are older than
    those of other rows.
    """

    table = "main.items"

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(seed)
        self._path = path
        self.url = f"duckdb:///{path}"
        with closing(self.open()) as connection:
            connection.execute(
                "CREATE TABLE items (id int PRIMARY KEY, word text, changed timestamptz)"
            )
            connection.execute(
                f"INSERT INTO items SELECT i, 'first', now() FROM range({ROWS}) AS r (i)"
            )

    def open(self) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return duckdb.connect(self._path)
            except duckdb.Error:  # a killed process releases the file in a moment
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def wait_for_changes(self) -> None:
        with closing(self.open()) as connection:
            # No night has read beyond this time.
            ((last,),) = connection.execute("SELECT max(changed) FROM items").fetchall()
            for _ in range(20):
                key = self.chance.randrange(ROWS * 2)
                ago = self.chance.choice([-1, -1, 0, LOOKBACK / 2, 3600])
                if self.chance.random() < 0.2:
                    connection.execute("DELETE FROM items WHERE id = ?", [key])
                    continue
                connection.execute(
                    "INSERT OR REPLACE INTO items VALUES (?, ?, ?::timestamptz"
                    " - to_microseconds(?))",
                    [key, f"w{self.chance.random()}", last, int(ago * 1_000_000)],
                )
                if ago > LOOKBACK:
                    self.late.add(key)


class Month:
    def __init__(self, source: Source, target: str) -> None:
        self.source, self.target = source, target
        self.serial = 0
        self.log: list[str] = []
        with closing(connect(target)) as connection:
            connection.execute(
                "CREATE TABLE items (id int PRIMARY KEY, word text, changed timestamptz)"
            )

    def _ends(self) -> tuple[str, ...]:
        return "--source", self.source.url, "--target", self.target

    def night(self, *words: str) -> Run:
        self.serial += 1
        return Run(
            *("copy", *self._ends(), "--run-id", f"n{self.serial}", "--table", self.source.table),
            *("--target-table", "public.items", "--mode", "upsert", "--incremental", "changed"),
            *("--lookback", self.source.lookback, "--deletes", "hard,100%"),
            *("--degree", "1", *words),
        )

    def ends(self, run: Run, what: str) -> int:
        code = run.popen.wait(PATIENCE)
        self.log.append(f"{what}: {code} {run.errors.strip()[-1000:]}")
        run.close()
        assert code in CODES, self.log
        return code

    def done(self, *words: str) -> Merged:
        for _ in range(20):
            run = self.night(*words)
            if self.ends(run, "night") == 0:
                (event,) = run.of(Merged)
                return event
        raise AssertionError(self.log)

    def killed(self) -> None:
        run = self.night()
        time.sleep(self.source.chance.random() * 2)
        run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
        run.close()

    def resumed(self) -> None:
        self.killed()
        run = Run("resume", f"n{self.serial}", *self._ends())
        code = run.popen.wait(PATIENCE)
        assert code in (*CODES, 64), run.errors
        run.close()

    def twice(self) -> None:
        for run in [self.night(), self.night()]:
            self.ends(run, "twice")

    def reset(self) -> None:
        for mark in penstock.watermarks(target=self.target):
            penstock.reset_watermark(mark.name, target=self.target)

    def check(self, *, exact: bool) -> None:
        """Check that the target equals the source, except for rows that were committed too late."""
        target_rows = self.rows()
        source_rows = self.source.rows()
        differing = {
            key
            for key in source_rows.keys() | target_rows.keys()
            if source_rows.get(key) != target_rows.get(key)
        }
        assert differing <= (set() if exact else self.source.late), self.log
        # Deleted rows are found in any case.
        assert target_rows.keys() <= source_rows.keys(), self.log

    def rows(self) -> dict[int, str]:
        with closing(connect(self.target)) as connection:
            return dict(connection.execute(ALL).fetchall())


def run_month(source: Source, target: str) -> None:
    month = Month(source, target)
    kinds: list[Callable[[], object]] = [
        month.killed,
        month.resumed,
        month.twice,
        month.reset,
        month.done,
        month.done,
    ]
    with source.at_work():
        month.done()
        for _ in range(NIGHTS):
            source.wait_for_changes()
            source.chance.choice(kinds)()
        # Nights after one that read all rows may miss rows.
        for _ in range(3):
            source.wait_for_changes()
            month.done()
        source.wait_for_changes()
    # All writers have ended.
    found = month.done()
    assert (found.unproven == "") == source.proven, found.unproven
    month.check(exact=source.proven)
    assert "--full-every" in month.done("--full-every", "0s").full
    month.check(exact=True)


@seeds
def test_a_month_from_mariadb(
    mysql_server: AnyMysqlServer, target_server: Server, seed: int
) -> None:
    with fresh_mysql(mysql_server) as url, fresh_database(target_server) as target:
        run_month(Maria(url, seed), target)


@seeds
def test_a_proven_month_from_postgresql(
    source_server: Server, target_server: Server, seed: int
) -> None:
    with fresh_database(source_server) as url, fresh_database(target_server) as target:
        run_month(Postgres(url, seed), target)


@seeds
def test_a_month_from_duckdb(tmp_path: Path, target_server: Server, seed: int) -> None:
    with fresh_database(target_server) as target:
        run_month(Duck(tmp_path / "source.duckdb", seed), target)
