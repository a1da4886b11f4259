"""A source with writers that never pause, and a process that moves its storage around."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing

import psycopg
from tests.faults.pair import Connection, connect, execute

ROWS = 300
PLACES = 1000
"""Keys per partition. There are three partitions, and one that comes and goes."""
SPARE = 3 * PLACES
COLUMNS = "(id int NOT NULL, email text, n int, big text)"
# Random, so that it is not compressed but moved out of line.
BIG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 150))"


class Source:
    """A table of items with writers.

    Args:
        parted: whether the table is partitioned; if so, it has no second unique column.
        moves_keys: whether keys change while their second unique column stays.
        swaps: whether rows exchange the values of that column.
        read_at: the URL from which nights read, if that is a subscriber.
    """

    def __init__(
        self,
        url: str,
        seed: int,
        *,
        parted: bool,
        moves_keys: bool,
        swaps: bool,
        read_at: str = "",
    ) -> None:
        self.url = url
        self.read_at = read_at or url
        self.parted = parted
        self.moves_keys = moves_keys
        self.swaps = swaps
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.count = 0
        """Committed transactions."""
        self.failed: list[BaseException] = []

    def make(self) -> None:
        if not self.parted:
            statements = [f"CREATE TABLE items {COLUMNS}"]
            statements += ["ALTER TABLE items ADD UNIQUE (email) DEFERRABLE"]
        else:
            statements = [f"CREATE TABLE items {COLUMNS} PARTITION BY RANGE (id)"]
            statements += [
                f"CREATE TABLE items_{at} PARTITION OF items"
                f" FOR VALUES FROM ({at * PLACES}) TO ({(at + 1) * PLACES})"
                for at in range(3)
            ]
            statements += [
                f"CREATE TABLE spare {COLUMNS}",
                f"INSERT INTO spare SELECT {SPARE} + i, 's' || i, i FROM generate_series(1, 50) i",
                "ALTER TABLE spare ADD PRIMARY KEY (id)",
            ]
        execute(
            self.url,
            *statements,
            "ALTER TABLE items ADD PRIMARY KEY (id)",
            f"INSERT INTO items SELECT i * 7, 'e' || i, i FROM generate_series(1, {ROWS}) AS i",
            f"UPDATE items SET big = {BIG} WHERE id % 20 = 0",
            "ANALYZE items",
        )

    def work(self, writers: int = 3) -> None:
        for number in range(writers):
            self._start(self._write, random.Random(self._random.random()), number)
        chance = random.Random(self._random.random())
        self._start(self._disturb, chance, 0, at_url=self.read_at)

    def alter(self, change: str) -> None:
        """Change the table, and the partition that comes and goes, while others write."""
        self.alter_rows(f"ALTER TABLE items {change}")
        with contextlib.suppress(psycopg.Error):  # if attached, it changes with the table
            execute(self.url, "SET lock_timeout = '5s'", f"ALTER TABLE spare {change}")

    def alter_rows(self, statement: str) -> None:
        """Run a statement as soon as no other transaction blocks it."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return execute(self.url, "SET lock_timeout = '1s'", statement)
            except (
                psycopg.errors.LockNotAvailable,
                psycopg.errors.DeadlockDetected,
                # Rows that move to another partition.
                psycopg.errors.SerializationFailure,
            ):
                if time.monotonic() > deadline:
                    raise

    def _start(
        self,
        body: Callable[[Connection, random.Random, int], None],
        chance: random.Random,
        at: int,
        *,
        at_url: str = "",
    ) -> None:
        def run() -> None:
            try:
                with closing(connect(at_url or self.url)) as connection:
                    body(connection, chance, at)
            except BaseException as error:
                self.failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Tell the writers to end, without waiting for them."""
        self._ended.set()

    def end(self) -> None:
        """Wait until all writers have ended.

        Raises:
            BaseException: the unexpected error of a writer.
        """
        self.stop()
        for thread in self._threads:
            thread.join(60)
        if self.failed:
            raise self.failed[0]

    def _write(self, connection: Connection, chance: random.Random, at: int) -> None:
        connection.execute("SET lock_timeout = '2s'")
        serial = 0
        while not self._ended.is_set():
            serial += 1
            gid = f"p{at}-{serial}"
            ends = chance.choice(["commit"] * 6 + ["rollback", "prepare", "prepare"])
            try:
                connection.execute("BEGIN")
                for _ in range(chance.randint(1, 6)):
                    self._change(connection, chance, at)
                if chance.random() < 0.15:
                    self._ended.wait(chance.random() * 1.2)  # commits late
                if ends == "prepare":
                    connection.execute(f"PREPARE TRANSACTION '{gid}'")
                    self._ended.wait(chance.random() * 0.8)
                    how = chance.choice(["COMMIT", "COMMIT", "ROLLBACK"])
                    connection.execute(f"{how} PREPARED '{gid}'")
                else:
                    connection.execute(ends)
                self.count += 1
            except psycopg.Error as error:
                # Others have locked its rows, its key exists already, or its partition is gone.
                if not isinstance(
                    error,
                    psycopg.errors.UniqueViolation
                    | psycopg.errors.LockNotAvailable
                    | psycopg.errors.DeadlockDetected
                    | psycopg.errors.CheckViolation
                    | psycopg.errors.SerializationFailure
                    # The detaching of its partition is pending.
                    | psycopg.errors.DatatypeMismatch,
                ):
                    raise
                connection.execute("ROLLBACK")
            self._ended.wait(chance.random() * 0.03)

    def _change(self, connection: Connection, chance: random.Random, at: int) -> None:
        changes: list[Callable[[], None]] = []
        top = 4 * PLACES if self.parted else 3 * PLACES
        key, other = chance.randrange(1, top), chance.randrange(1, top)
        word = f"w{at}-{chance.randrange(10**9)}"

        def run(query: str, *values: object, **keywords: object) -> None:
            connection.execute(query, keywords or values)

        def inside() -> None:
            run("SAVEPOINT one")
            self._change(connection, chance, at)
            if chance.random() < 0.4:
                run("ROLLBACK TO one")
            else:
                run("RELEASE one")

        near = "id BETWEEN %s AND %s + 12"
        changes += [
            lambda: run("INSERT INTO items VALUES (%s, %s, 0)", key, word),
            lambda: run(f"UPDATE items SET n = n + 1 WHERE {near}", key, key),
            lambda: run("UPDATE items SET email = %s WHERE id = %s", word, key),
            lambda: run(f"DELETE FROM items WHERE {near}", key, key),
            lambda: run(
                "INSERT INTO items SELECT %s + i * 5, %s || i, i FROM generate_series(1, 5) AS i",
                key % (top - 50),
                word,
            ),
            lambda: run(f"UPDATE items SET big = {BIG} WHERE {near}", key, key),
            inside,
            inside,
        ]
        if self.moves_keys:
            changes += [
                lambda: run(
                    f"UPDATE items SET id = %s WHERE {near.replace('12', '4')}", other, key, key
                )
            ] * 2
        if self.swaps:
            changes += [
                lambda: run(
                    "UPDATE items AS a SET email = b.email FROM items AS b"
                    " WHERE a.id <> b.id AND a.id IN (%(one)s, %(two)s)"
                    " AND b.id IN (%(one)s, %(two)s)",
                    **_two(connection, key),
                )
            ] * 2
        chance.choice(changes)()

    def _disturb(self, connection: Connection, chance: random.Random, _at: int) -> None:
        """Run VACUUM FULL and similar statements.

        A statement that has to wait for a night's snapshot gives up, and lets others pass.
        """
        connection.execute("SET lock_timeout = '150ms'")
        changes = [
            "VACUUM (FULL) items",
            "VACUUM (FREEZE) items",
            "ALTER TABLE items ALTER n TYPE bigint",
            "ALTER TABLE items ALTER n TYPE int",
            "ANALYZE items",
        ]
        if self.parted:
            bounds = f"FOR VALUES FROM ({SPARE}) TO ({SPARE + PLACES})"
            attach = f"ALTER TABLE items ATTACH PARTITION spare {bounds}"
            detach = "ALTER TABLE items DETACH PARTITION spare"
            changes += [
                attach,
                attach,
                attach,
                detach,
                detach,
                detach + " CONCURRENTLY",
                detach + " FINALIZE",
                "UPDATE spare SET n = n + 1 WHERE id % 5 = 0",
                "TRUNCATE items_2",
                "CLUSTER items_1 USING items_1_pkey",
            ]
        else:
            changes += ["CLUSTER items USING items_pkey"]
        while not self._ended.wait(chance.random() * 0.5):
            change = chance.choice(changes)
            with contextlib.suppress(psycopg.Error):
                connection.execute(change)


def _two(connection: Connection, key: int) -> dict[str, object]:
    """Return the keys of two adjacent rows."""
    query = "SELECT id FROM items WHERE id >= %s ORDER BY id LIMIT 2"
    found = [row[0] for row in connection.execute(query, [key])] + [-1, -1]
    return {"one": found[0], "two": found[1]}


def wait_for_commits(source: Source, transactions: int) -> None:
    """Wait for a number of further commits."""
    goal, deadline = source.count + transactions, time.monotonic() + 60
    while source.count < goal and not source.failed:
        assert time.monotonic() < deadline, "expected writers to get on"
        time.sleep(0.02)
