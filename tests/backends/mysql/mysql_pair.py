"""Two databases of a server with a table of items, runs between them, and checks of the result."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

import penstock
from penstock_testkit import TcpProxy
from penstock_testkit.mysql import connect_mysql

from ...faults.cli import PATIENCE, Run, eventually
from ...faults.gate import Gate

RUN_ID = "faults"
PARTITIONS = 4
ROWS = 10_000
TABLE = """
    CREATE TABLE item (
        id bigint PRIMARY KEY, note varchar(20) NOT NULL, amount decimal(12, 2), pad varchar(300)
    ) ENGINE = InnoDB
"""
# A row's note contains its number, so that the row can be recognised in a stream's bytes.
FILLED = """
    INSERT INTO item
    SELECT n, concat('<', lpad(n, 8, '0'), '>'), if(n % 7, n / 100, NULL), repeat(sha2(n, 256), 4)
    FROM (SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d AS n
          FROM digit AS a, digit AS b, digit AS c, digit AS d) AS numbers
"""
DIGEST = "SELECT count(*), count(DISTINCT id), sum(id), sum(crc32(concat_ws('|', {}))) FROM item"
PENSTOCKS = "SELECT id FROM information_schema.processlist WHERE db LIKE 'test%' AND id <> {}"


def execute(url: str, *statements: str) -> None:
    with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def fill(url: str) -> None:
    """Create the table of items, with all rows."""
    digits = ", ".join(f"({digit})" for digit in range(10))
    execute(
        url,
        "CREATE TABLE digit (d int)",
        f"INSERT INTO digit VALUES {digits}",
        TABLE,
        FILLED,
        "ANALYZE TABLE item",
    )


def middle(partition: int) -> bytes:
    """Return the note of a row in the middle of a partition's stream, counted from 1."""
    each = ROWS // PARTITIONS
    return f"<{partition * each - each // 2:08}>".encode()


class Pair:
    """A source and a target, with the runs between them.

    Args:
        source: URL of a database with items.
        target: URL of a database with an empty table of items.
    """

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        self.proxy: TcpProxy | None = None
        self.target_proxy: TcpProxy | None = None
        self.options: dict[str, str] = {}
        """Parameters of the source's URL."""
        self._runs: list[Run] = []
        self._gates: list[Gate] = []

    def close(self) -> None:
        for gate in self._gates:
            gate.open()
        for run in self._runs:
            run.close()
        for proxy in (self.proxy, self.target_proxy):
            if proxy is not None:
                proxy.close()

    def gate(self, needle: bytes) -> Gate:
        """Hold the source's stream at these bytes, behind a proxy that all runs use."""
        if self.proxy is None:
            self.proxy = TcpProxy.of(self.source)
            self.proxy.__enter__()
        gate = Gate(self.proxy, needle, "to_client")
        self._gates.append(gate)
        return gate

    def before_target(self) -> TcpProxy:
        """Put a proxy in front of the target, which sees what all runs write."""
        self.target_proxy = TcpProxy.of(self.target)
        return self.target_proxy.__enter__()

    @property
    def ends(self) -> tuple[str, ...]:
        source, target, options = self.source, self.target, self.options
        if self.proxy is not None:  # must see what passes
            source = self.proxy.url(source)
            options = {"ssl_mode": "disabled", **options}
        if self.target_proxy is not None:
            target = f"{self.target_proxy.url(target)}?ssl_mode=disabled"
        source += f"?{urlencode(options)}"
        return ("--source", source, "--target", target)

    def start(self, *words: str) -> Run:
        self._runs.append(Run(*words))
        return self._runs[-1]

    def copy(
        self, *words: str, degree: int = 2, partitions: int = PARTITIONS, run_id: str = RUN_ID
    ) -> Run:
        database = self.source.rpartition("/")[2]
        return self.start(
            *("copy", *self.ends, "--table", f"{database}.item", "--run-id", run_id),
            *("--target-table", f"{urlsplit(self.target).path[1:]}.item", "--strategy", "range"),
            *("--key", "id", "--partitions", str(partitions), "--degree", str(degree), *words),
        )

    def resume(self, *words: str, run_id: str = RUN_ID) -> Run:
        return self.start("resume", run_id, *self.ends, *words)

    # Checks

    def attempts(self, run_id: str = RUN_ID) -> dict[str, int]:
        status = penstock.status(run_id, target=self.target)
        return {record.partition_id: record.attempt for record in status.committed}

    def check_once(self) -> None:
        """Check that each row of the source is in the target once, with the same values."""
        query = DIGEST.format("id, note, amount, pad")
        assert rows(self.target, query) == rows(self.source, query)

    def check_done(self, run_id: str = RUN_ID) -> None:
        status = penstock.status(run_id, target=self.target)
        assert status.run.status == "done"
        assert len(status.committed) == len(status.run.plan.partitions)
        self.check_once()
        self.check_no_session()

    def check_no_session(self) -> None:
        """Check that no session of a run is left."""
        with closing(connect_mysql(self.target)) as connection, connection.cursor() as cursor:

            def has_no_session() -> bool:
                cursor.execute(PENSTOCKS.format(connection.thread_id()))
                return not cursor.fetchall()

            eventually("no session is left", has_no_session, PATIENCE)
