"""A source that is written to during the copy: the target equals the source at one moment."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count

import pytest

from .cli import PATIENCE, eventually
from .pair import Digest, Pair, connect, digest, execute

ACCOUNTS = 12_000
BALANCE = 100
DEFINITION = "CREATE TABLE item (id bigint PRIMARY KEY, balance int NOT NULL, pad text NOT NULL)"
# Wide, and marked in the stream like an item.
LOAD = f"""
    INSERT INTO item SELECT i, {BALANCE}, '<' || lpad(i::text, 8, '0') || '>' || repeat('-', 400)
    FROM generate_series(1, {ACCOUNTS}) AS i
"""


class Writer:
    """Transfers between accounts, and closed and reopened ones: count and sum stay the same."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.commits = 0
        self.error: Exception | None = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
        if self.error is not None:
            raise self.error

    def _write(self) -> None:
        chance = random.Random(0)
        try:
            with closing(connect(self._url)) as connection:
                for new in count(ACCOUNTS + 1):
                    if self._stop.is_set():
                        return
                    ids = chance.sample(range(1, ACCOUNTS + 1), 2)
                    with suppress(_AccountClosed), connection.transaction():
                        debited = connection.execute(
                            "UPDATE item SET balance = balance - 7 WHERE id = %s", ids[:1]
                        ).rowcount
                        credited = connection.execute(
                            "UPDATE item SET balance = balance + 7 WHERE id = %s", ids[1:]
                        ).rowcount
                        if debited != credited:
                            raise _AccountClosed
                    with connection.transaction():
                        connection.execute(
                            "WITH closed AS (DELETE FROM item WHERE id = %s RETURNING balance, pad)"
                            " INSERT INTO item SELECT %s, balance, pad FROM closed",
                            [chance.randrange(1, ACCOUNTS), new],
                        )
                    self.commits += 1
        except Exception as error:
            self.error = error

    def keeps_writing(self, commits: int) -> None:
        goal = self.commits + commits
        eventually(
            f"{commits} more commits",
            lambda: self.commits >= goal or self.error is not None,
            PATIENCE,
        )


class _AccountClosed(Exception):
    """An error that rolls a transfer back."""


@pytest.mark.parametrize("strategy", ["ctid", "range", "hash"])
def test_the_target_is_the_source_as_of_the_snapshot(empty_pair: Pair, strategy: str) -> None:
    pair = empty_pair
    execute(pair.source, DEFINITION, LOAD, "ANALYZE item")
    execute(pair.target, DEFINITION)
    writer = Writer(pair.source)
    with writer.writing():
        writer.keeps_writing(50)
        each = ACCOUNTS // 8
        gates = [pair.gate(n * each - each // 2) for n in (3, 4)]
        key = ("--key", "id") if strategy == "hash" else ()
        run = pair.copy(*key, strategy=strategy)
        for gate in gates:
            gate.reached()
        writer.keeps_writing(200)
        expected = content_as_of(pair, pair.status().run.snapshots[-1].token)
        for gate in gates:
            gate.open()
        run.ended(0)
    with closing(connect(pair.target)) as target, closing(connect(pair.source)) as source:
        found = digest(target)
        total = target.execute("SELECT sum(balance) FROM item").fetchone()
        now = digest(source)
    assert found == expected
    assert found[:2] == (ACCOUNTS, ACCOUNTS)
    assert total == (ACCOUNTS * BALANCE,)
    assert found != now
    pair.check_resumes(recount=False)


def content_as_of(pair: Pair, snapshot: str) -> Digest:
    with closing(connect(pair.source)) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        return digest(connection)
