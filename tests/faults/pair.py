"""A source with a table of items, an empty target, and the checks after a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

import penstock
from penstock.cli.main import main
from penstock_testkit import TcpProxy
from penstock_testkit.proxy import Direction
from penstock_testkit.statistics import settle_statistics

from .cli import PATIENCE, Run, eventually, promised
from .gate import Gate

Side = Literal["source", "target"]
# The direction of rows on each side.
FLOWS: Mapping[Side, Direction] = {"source": "to_client", "target": "to_server"}

RUN_ID = "faults"
PARTITIONS = 8
ROWS_EACH = 3_000
ROWS = PARTITIONS * ROWS_EACH

# Rows of one size, loaded in key order: by blocks or by key, partition n holds the n-th of equal
# ranges of ids. Autovacuum would write to the server at an unpredictable moment.
DEFINITION = """
    CREATE TABLE item (
        id bigint PRIMARY KEY,
        note text NOT NULL,
        amount numeric(12,2),
        at timestamptz NOT NULL,
        tags jsonb,
        pad text NOT NULL
    ) WITH (autovacuum_enabled = false)
"""
# A note identifies its row in the stream's bytes, even in binary COPY.
ROW = """
    SELECT
        i,
        '<' || lpad(i::text, 8, '0') || '>',
        CASE WHEN i % 7 <> 0 THEN 1000 + i / 100.0 END,
        timestamptz '2026-01-01 00:00+00' + i * interval '1 minute',
        CASE WHEN i % 5 <> 0 THEN jsonb_build_object('n', i) END,
        repeat(md5(i::text), 8)
    FROM generate_series({first}, {last}) AS i
"""
# A sum does not depend on order, and a sum of hashes shows a wrong value.
DIGEST = """
    SELECT
        count(*), count(DISTINCT {key}),
        coalesce(sum(pg_catalog.hashtextextended(row::text, 0)::numeric), 0)
    FROM {table} AS row
"""
BACKENDS = """
    SELECT application_name FROM pg_stat_activity
    WHERE application_name LIKE 'penstock:%' AND datname = current_database()
    ORDER BY application_name
"""

Connection = psycopg.Connection[tuple[Any, ...]]
Digest = tuple[int, int, int]


def middle(partition: int) -> int:
    """Return the id of a row in the middle of a partition's stream; partitions count from 1."""
    return partition * ROWS_EACH - ROWS_EACH // 2


def needle(item_id: int) -> bytes:
    """Return the bytes of a row in the stream."""
    return f"<{item_id:08}>".encode()


def partition_id(partition: int) -> str:
    return f"p{partition:04}"


def execute(url: str, *statements: str) -> None:
    """Run statements, and bring the server's statistics up to date."""
    with closing(connect(url)) as connection:
        for text in statements:
            connection.execute(text)
        settle_statistics(connection)


def connect(url: str, **settings: Any) -> Connection:
    # Values have the same text on both servers, whatever their settings.
    options = "-c timezone=UTC -c extra_float_digits=3"
    return psycopg.connect(url, autocommit=True, options=options, **settings)


def ask(url: str, query: str, *values: object) -> Any:
    """Return the first column of the first row."""
    with closing(connect(url)) as connection:
        found = connection.execute(query, values).fetchone()
    return found and found[0]


def digest(connection: Connection, table: str = "item", key: str = "id") -> Digest:
    """Return rows, distinct keys, and a checksum over all values."""
    query = sql.SQL(DIGEST).format(table=sql.Identifier(table), key=sql.Identifier(key))
    found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0]), int(found[1]), int(found[2])


def insert_items(first: int, last: int) -> str:
    return "INSERT INTO item " + ROW.format(first=first, last=last)


class Pair:
    """Two databases, the proxies in front of them, and the runs between them.

    Args:
        source, target: URLs of the two databases.
    """

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.proxies: dict[Side, TcpProxy] = {}
        self.users: dict[Side, str] = {}
        """The users of runs, if not the superuser: ``name:password``."""
        self._runs: list[Run] = []
        self._gates: list[Gate] = []
        self._stack = ExitStack()

    def url(self, side: Side) -> str:
        return self.source if side == "source" else self.target

    def load(self) -> None:
        """Create the tables, and fill the source's."""
        execute(self.source, DEFINITION, insert_items(1, ROWS), "ANALYZE item")
        execute(self.target, DEFINITION)

    def close(self) -> None:
        for gate in self._gates:
            gate.open()
        for run in self._runs:
            run.close()
        self._stack.close()

    # Arrangements

    def proxy(self, side: Side) -> TcpProxy:
        """Return a proxy that all later runs use."""
        if side not in self.proxies:
            proxy = TcpProxy.of(self.url(side))
            self.proxies[side] = self._stack.enter_context(proxy)
        return self.proxies[side]

    def gate(self, item_id: int, first: Callable[[], object] = lambda: None) -> Gate:
        """Hold the stream in which this row leaves the source."""
        gate = Gate(self.proxy("source"), needle(item_id), "to_client", first)
        self._gates.append(gate)
        return gate

    def gate_at(self, needle: bytes, direction: Direction = "to_server", skip: int = 0) -> Gate:
        """Hold a message between a run and its target."""
        gate = Gate(self.proxy("target"), needle, direction, skip=skip)
        self._gates.append(gate)
        return gate

    def gates(self, *partitions: int) -> list[Gate]:
        """Hold partitions in the middle of their streams."""
        return [self.gate(middle(partition)) for partition in partitions]

    @contextmanager
    def lock_target(self) -> Iterator[Connection]:
        """Lock the target's table against writes until the session is closed."""
        with closing(connect(self.target)) as holder:
            holder.execute("BEGIN")
            holder.execute("LOCK TABLE item IN SHARE MODE")
            yield holder

    def waiting_for_lock(self, side: Side, count: int) -> None:
        """Wait until a number of sessions wait for a lock on a table."""
        query = """
            SELECT count(*) FROM pg_locks
            WHERE NOT granted AND locktype = 'relation'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        """
        eventually(
            f"{count} wait for a lock", lambda: ask(self.url(side), query) == count, PATIENCE
        )

    def connect(self, side: Side) -> Connection:
        """Open a session as the user of the runs, which is closed with the pair."""
        return self._stack.enter_context(closing(connect(self._route(side))))

    def _route(self, side: Side) -> str:
        parts = urlsplit(self.url(side))
        if side in self.users:
            address = parts.netloc.rpartition("@")[2]
            parts = parts._replace(netloc=f"{self.users[side]}@{address}")
        url = urlunsplit(parts)
        return self.proxies[side].url(url) if side in self.proxies else url

    # Runs

    def _start(self, *words: str) -> Run:
        run = Run(*words)
        self._runs.append(run)
        return run

    def _ends(self) -> tuple[str, ...]:
        return ("--source", self._route("source"), "--target", self._route("target"))

    def copy(
        self,
        *words: str,
        degree: int | str = 2,
        strategy: str = "ctid",
        partitions: int = PARTITIONS,
        table: str = "public.item",
    ) -> Run:
        return self._start(
            *("copy", *self._ends(), "--table", table, "--run-id", RUN_ID),
            *("--strategy", strategy, "--partitions", str(partitions)),
            *("--degree", str(degree), *words),
        )

    def copy_query(self, query: str, into: str, *words: str) -> Run:
        """Start a run of one partition that copies the rows of a query."""
        return self._start(
            *("copy", *self._ends(), "--query", query, "--target-table", into),
            *("--run-id", RUN_ID, "--degree", "1", *words),
        )

    def copy_all(self, *words: str, degree: int = 2) -> Run:
        return self._start(
            *("copy-all", *self._ends(), "--run-id", RUN_ID, "--degree", str(degree), *words)
        )

    def create(self, *words: str) -> None:
        """Create a run of the same partitions, and copy nothing."""
        code = main(
            [
                *("create", *self._ends(), "--table", "public.item", "--run-id", RUN_ID),
                *("--strategy", "ctid", "--partitions", str(PARTITIONS)),
                *("--degree", "2", *words),
            ]
        )
        if code != 0:
            raise AssertionError(f"expected create to end with 0, found {code}")

    def hold(self, *words: str) -> Run:
        return self._start("hold", RUN_ID, *self._ends(), *words)

    def resume(self, *words: str) -> Run:
        return self._start("resume", RUN_ID, *self._ends(), *words)

    def work(self, *words: str, streams: int | str = 2) -> Run:
        """Start a process that takes partitions of a run that exists, or that others plan."""
        return self._start("work", RUN_ID, *self._ends(), "--streams", str(streams), *words)

    # Checks

    def status(self) -> penstock.RunStatus:
        return penstock.status(RUN_ID, target=self.target)

    def attempts(self) -> dict[str, int]:
        """Return which attempt committed each partition, by the commit records."""
        return {record.partition_id: record.attempt for record in self.status().committed}

    def check_content(self) -> None:
        """Check that every row of the source is in the target once, with the same values."""
        with closing(connect(self.source)) as source, closing(connect(self.target)) as target:
            expected, found = digest(source), digest(target)
        if found != expected or found[0] != found[1]:
            raise AssertionError(
                f"rows, distinct ids and checksum: expected {expected}, found {found}"
            )

    def backends(self) -> list[str]:
        """Return Penstock's sessions on both servers."""
        names: list[str] = []
        for side, url in (("source", self.source), ("target", self.target)):
            with closing(connect(url)) as connection:
                names += [f"{side} {name}" for (name,) in connection.execute(BACKENDS)]
        return names

    def check_no_worker_left(self) -> None:
        """Check that no worker is alive; streams at a gate do not commit after it is opened."""
        eventually(
            "no worker process is left",
            lambda: not any(run.workers() for run in self._runs),
            promised(),
        )

    def check_nothing_left(self, *expected: str) -> None:
        """Check that no worker is alive, and no session is open except the expected ones."""
        self.check_no_worker_left()
        found: list[str] = []

        def only_expected() -> bool:
            found[:] = self.backends()
            return found == sorted(expected)

        try:
            eventually("no session is left", only_expected, promised())
        except AssertionError as error:
            raise AssertionError(f"{error}, found {found}") from None

    def check_done(self, *, recount: bool = True) -> None:
        """Check that a run is done with the right rows, and that no process or session remains.

        Args:
            recount: compare with the source as it is now.
        """
        self.check_nothing_left()
        found = self.status()
        if found.run.status != "done" or len(found.committed) != len(found.run.plan.partitions):
            raise AssertionError(f"expected a run that is done, found {found.as_json()}")
        if recount:
            self.check_verifies()
            self.check_content()

    def check_verifies(self) -> None:
        code = main(["verify", RUN_ID, *self._ends()])
        if code != 0:
            raise AssertionError(f"expected verify to end with 0, found {code}")

    def check_resumes(self, *words: str, recount: bool = True) -> Run:
        """Check that no process of an earlier run remains, and that `resume` completes the run."""
        self.check_nothing_left()
        run = self.resume(*words)
        run.ended(0)
        if run.finished.status != "done":
            raise AssertionError(f"expected status done, found {run.finished}")
        self.check_done(recount=recount)
        return run
