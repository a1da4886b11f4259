"""Copies of lineitem in a real Dagster: held in mid-copy, and the checks afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg
from tests.faults.cli import promised

import penstock
from penstock_testkit import PostgresServer, tpch
from penstock_testkit.dagster import DagsterStack, Run
from penstock_testkit.waiting import until

SCALE = 0.02
KEYS = [f"{number:03}" for number in range(8)]
ALL = (KEYS[0], KEYS[-1])
# Enough for a busy machine: a test that waits this long has failed.
PATIENCE = 120.0
# Passwords that appear only in a URL that is written out in full.
SECRETS = ("s3cret-of-the-source", "s3cret-of-the-target")
SCHEMAS = ("backfilled", "one_by_one", "step_killed", "worker_killed", "canceled")

MENDED_SOURCE = (
    "CREATE TABLE orders_to_mend (id int PRIMARY KEY, region text)",
    "INSERT INTO orders_to_mend SELECT n, CASE n WHEN 350 THEN 'bad' ELSE 'good' END"
    " FROM generate_series(1, 400) AS n",
    "ANALYZE orders_to_mend",
)
MENDED_TARGET = (
    "CREATE SCHEMA mended",
    "CREATE TABLE mended.orders (id int PRIMARY KEY, region text CHECK (region <> 'bad'))",
)
# A sum does not depend on order, and a sum of hashes shows a wrong value.
DIGEST = """
    SELECT
        count(*), count(DISTINCT (l_orderkey, l_linenumber)),
        coalesce(sum(pg_catalog.hashtextextended(row::text, 0)::numeric), 0)
    FROM {}.lineitem AS row
"""
# A row in the middle of a partition: the bounds cut the keys into eight parts of similar size.
MIDDLE = """
    SELECT l_orderkey, l_linenumber FROM public.lineitem
    WHERE l_orderkey >= (SELECT max(l_orderkey) FROM public.lineitem) * (%s + 0.5) / 8
    ORDER BY 1, 2 LIMIT 1
"""
GATE = """
    CREATE FUNCTION {schema}.gate_{key}() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock_shared({key}); RETURN NULL; END';
    CREATE TRIGGER gate_{key} AFTER INSERT ON {schema}.lineitem FOR EACH ROW
        WHEN (NEW.l_orderkey = {order} AND NEW.l_linenumber = {line})
        EXECUTE FUNCTION {schema}.gate_{key}()
"""
AT_GATE = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted AND (classid, objid) = (0, %s)
"""
SESSIONS = "SELECT application_name FROM pg_stat_activity WHERE starts_with(application_name, %s)"
RUNS = "SELECT run_id FROM penstock.run WHERE spec::jsonb ->> 'target_table' = %s"

Connection = psycopg.Connection[tuple[Any, ...]]
Digest = tuple[int, int, int]


def connect(url: str) -> Connection:
    # Values have the same text on both servers, whatever their settings.
    options = "-c timezone=UTC -c extra_float_digits=3"
    return psycopg.connect(url, autocommit=True, options=options)


def rows(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(connect(url)) as connection:
        return connection.execute(query, values).fetchall()


def digest(url: str, schema: str) -> Digest:
    """Return rows, distinct keys, and a checksum over all values."""
    (found,) = rows(url, DIGEST.format(schema))
    return int(found[0]), int(found[1]), int(found[2])


@dataclass(frozen=True)
class Servers:
    """A source with lineitem, and a target with an empty one in each of `SCHEMAS`."""

    source: str
    target: str
    content: Digest


@contextmanager
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        # No test cuts the machine's power, so fsync would gain nothing.
        source, target = (
            stack.enter_context(PostgresServer(fsync=False, password=password)).url
            for password in SECRETS
        )
        tpch.load(source, scale=SCALE, primary_keys=True)
        for schema in SCHEMAS:
            tpch.create(target, schema=schema)
        for url, *statements in ((source, *MENDED_SOURCE), (target, *MENDED_TARGET)):
            with closing(connect(url)) as connection:
                for statement in statements:
                    connection.execute(statement)
        yield Servers(source, target, digest(source, "public"))


class Lines:
    """One asset's copies of lineitem into a schema of the target.

    Args:
        stack: a Dagster with `dev_definitions.py`.
    """

    def __init__(self, stack: DagsterStack, of: Servers, schema: str) -> None:
        self.stack = stack
        self.schema = schema
        self.asset = f"{schema}/lineitem"
        self._of = of
        self._gates: dict[int, Connection] = {}

    def close(self) -> None:
        for key in list(self._gates):
            self.open(key)

    # Arrangements

    def hold(self, partition: int) -> None:
        """Hold a partition in the middle of its stream from now on."""
        ((order, line),) = rows(self._of.source, MIDDLE, partition)
        key = 100 * SCHEMAS.index(self.schema) + partition
        holder = self._gates[key] = connect(self._of.target)
        holder.execute("SELECT pg_advisory_lock(%s)", [key])
        holder.execute(GATE.format(schema=self.schema, key=key, order=order, line=line))

    def wait_for_gates(self) -> None:
        """Wait until every partition to be held is at its gate."""
        for key in self._gates:
            until(
                lambda key=key: True if rows(self._of.target, AT_GATE, key) == [(1,)] else None,  # type: ignore[misc]
                PATIENCE,
                lambda key=key: f"nobody is held at {key}\n{self.stack.log_tail()}",  # type: ignore[misc]
            )

    def open(self, key: int) -> None:
        self._gates.pop(key).close()

    # State

    def records(self) -> dict[str, str]:
        """Return when each partition was committed, by its id and run."""
        return {
            f"{run}:{record.partition_id}": record.committed_at
            for run in self._runs()
            for record in self._committed(run)
        }

    def rows(self) -> dict[str, int]:
        """Return the number of rows in each committed partition, by its id."""
        return {
            record.partition_id: record.rows
            for run in self._runs()
            for record in self._committed(run)
        }

    def sessions(self) -> list[str]:
        """Return Penstock's sessions on either server for this asset."""
        return [
            name
            for url in (self._of.source, self._of.target)
            for run in self._runs()
            for (name,) in rows(url, SESSIONS, f"penstock:{run}:")
        ]

    def _runs(self) -> list[str]:
        found = [run for (run,) in rows(self._of.target, RUNS, self.asset.replace("/", "."))]
        return [run for run in found if run.startswith("dagster-")]

    def _committed(self, run: str) -> tuple[penstock.CommitRecord, ...]:
        return penstock.status(run, target=self._of.target).committed

    # Checks

    def check_ended(self, processes: list[psutil.Process]) -> None:
        """Check that the processes and their sessions end soon."""

        def remaining() -> list[object]:
            return [*filter(psutil.Process.is_running, processes), *self.sessions()]

        until(
            lambda: None if remaining() else True, promised(), lambda: f"still there: {remaining()}"
        )

    def check_only_committed_rows(self) -> None:
        """Check that the target has the rows of committed partitions, and no others."""
        assert digest(self._of.target, self.schema)[0] == sum(self.rows().values())

    def check_content(self) -> None:
        """Check that the target has every row once, with the source's values."""
        assert digest(self._of.target, self.schema) == self._of.content

    def check_all_reported(self, *runs: Run) -> None:
        """Check that each partition is materialized, and was reported once over all these runs."""
        assert sorted(str(key) for run in runs for key in run.partitions()) == KEYS
        assert self.stack.statuses(self.asset).materialized == KEYS
