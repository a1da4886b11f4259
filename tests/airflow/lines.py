"""Copies of TPC-H's lineitem as DAG runs: their databases, and the checks after each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

import psutil
import psycopg
from psycopg import sql

import penstock
from penstock_testkit import PostgresServer, TcpProxy, tpch
from penstock_testkit.airflow import AirflowStack, Run, until
from penstock_testkit.statistics import settle_statistics

Side = Literal["source", "target"]

SCALE = 0.01
PARTITIONS = 16
DEGREE = 4
# For variants in which a mapped task copies several partitions, so that there are fewer tasks.
PACK = 4
# For variants that need only a few partitions.
FEW = 4
# Enough to show that no more than DEGREE are copied at once.
UNPACKED = 6
# Enough for a busy machine: a test that waits this long has failed.
PATIENCE = 60.0
# The provider promises that a terminated task ends in this time; a slow machine may take longer.
PROMISED = 5.0
SLOWER = 8.0
# Passwords that appear only in a URL that is written out in full.
SECRETS = ("s3cret-of-the-source", "s3cret-of-the-target")
TEMPLATE = "lineitem"

DAGS = f"""
from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

PACKED = dict(partitions_per_task={PACK})
# One mapped task at a time, so that many runs fit beside each other.
ONE_BY_ONE = dict(degree=1, **PACKED)
FEW = dict(partitions={FEW})
VARIANTS = {{
    "unpacked": dict(mode="truncate", partitions={UNPACKED}),
    "few": dict(mode="truncate", **FEW),
    "packed": dict(mode="truncate", **PACKED),
    "celery": dict(mode="truncate", executor="CeleryExecutor", **PACKED),
    "workers": dict(mode="truncate", workers={DEGREE}, degree=1),
    "recopy": dict(mode="truncate", recopy=True, **PACKED),
    "append": dict(mode="append", **PACKED),
    "replace": dict(
        mode="replace", strategy="range", key="l_orderkey", where="l_orderkey > 0", **PACKED
    ),
    "worker": dict(mode="truncate", snapshot_holder="worker", **PACKED),
    "lost": dict(mode="truncate", **ONE_BY_ONE),
    "accept": dict(mode="truncate", on_snapshot_lost="accept", **ONE_BY_ONE),
    "restart": dict(mode="truncate", on_snapshot_lost="restart", **ONE_BY_ONE),
    # Where the machine is so slow that others than the one which is held are too late, too.
    "limited": dict(
        mode="truncate", retries=9, execution_timeout=timedelta(seconds=15), **FEW
    ),
    "once": dict(mode="truncate", retries=0, **FEW),
}}
OF_ALL = dict(
    group_id="lines", table="public.lineitem", partitions={PARTITIONS}, degree={DEGREE},
    retries=2, retry_delay=timedelta(seconds=1),
)

for name, arguments in VARIANTS.items():
    with DAG(f"lines_{{name}}", schedule=None):
        copy_table(
            source_conn_id="{{{{ dag_run.conf['source'] }}}}",
            target_conn_id="{{{{ dag_run.conf['target'] }}}}",
            **{{**OF_ALL, **arguments}},
        )
"""
VARIANTS = tuple(re.findall(r'^    "([a-z]+)": dict', DAGS, re.MULTILINE))

# A sum does not depend on order, and a sum of hashes shows a wrong value.
DIGEST = """
    SELECT
        count(*), count(DISTINCT (l_orderkey, l_linenumber)),
        coalesce(sum(pg_catalog.hashtextextended(row::text, 0)::numeric), 0)
    FROM public.lineitem AS row
"""
BACKENDS = """
    SELECT application_name FROM pg_stat_activity
    WHERE application_name LIKE 'penstock:%' AND datname = current_database()
    ORDER BY application_name
"""
# A database created from another one has none of its write counters.
COUNT_WRITES = """
    DO $$ BEGIN
        INSERT INTO public.lineitem SELECT * FROM public.lineitem LIMIT 1;
        RAISE EXCEPTION 'counted';
    EXCEPTION WHEN raise_exception THEN NULL; END $$
"""
# The row at which a partition is held: the first row of its middle block.
MIDDLE = """
    SELECT l_orderkey, l_linenumber FROM public.lineitem
    WHERE ctid = format('(%%s,1)', floor(
        pg_relation_size('public.lineitem') / 8192 * (%s - 0.5) / %s))::tid
"""
GATE = """
    CREATE FUNCTION public.{name}() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock_shared({key}); RETURN NULL; END';
    CREATE TRIGGER {name} AFTER INSERT ON public.lineitem FOR EACH ROW
        WHEN (NEW.l_orderkey = {order} AND NEW.l_linenumber = {line})
        EXECUTE FUNCTION public.{name}()
"""
AT_GATE = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted AND (classid, objid) = (0, %s)
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

CLIENTS = """
    SELECT client_port FROM pg_stat_activity JOIN pg_locks USING (pid)
    WHERE locktype = 'advisory' AND NOT granted AND (classid, objid) = (0, %s)
        AND datname = current_database()
"""

Connection = psycopg.Connection[tuple[Any, ...]]
Digest = tuple[int, int, int]


def connect(url: str) -> Connection:
    # Values have the same text on both servers, whatever their settings.
    options = "-c timezone=UTC -c extra_float_digits=3"
    return psycopg.connect(url, autocommit=True, options=options)


def ask(url: str, query: str, *values: object) -> Any:
    """Return the first column of the first row."""
    with closing(connect(url)) as connection:
        found = connection.execute(query, values).fetchone()
    return found and found[0]


def execute(url: str, *statements: str) -> None:
    """Run statements, and bring the server's statistics up to date."""
    with closing(connect(url)) as connection:
        for text in statements:
            connection.execute(text)
        settle_statistics(connection)


def digest(url: str) -> Digest:
    """Return rows, distinct keys, and a checksum over all values."""
    with closing(connect(url)) as connection:
        found = connection.execute(DIGEST).fetchone()
    assert found is not None
    return int(found[0]), int(found[1]), int(found[2])


def partition_id(partition: int) -> str:
    return f"p{partition:04}"


@dataclass(frozen=True)
class Servers:
    """A source server with lineitem and a target server; both require a password."""

    source: PostgresServer
    target: PostgresServer
    content: Digest

    def of(self, side: Side) -> PostgresServer:
        return self.source if side == "source" else self.target


@contextmanager
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        source, target = (
            # No test cuts the machine's power, so fsync would gain nothing. Autovacuum would write
            # to the source at unpredictable times.
            stack.enter_context(
                PostgresServer(
                    fsync=False,
                    password=password,
                    settings={"autovacuum": False, "max_connections": 120},
                )
            )
            for password in SECRETS
        )
        with closing(connect(source.url)) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        url = source.url_for(db=TEMPLATE)
        tpch.load(url, scale=SCALE)
        yield Servers(source, target, digest(url))


@contextmanager
def _database(server: PostgresServer, name: str, template: str) -> Iterator[str]:
    with closing(connect(server.url)) as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        try:
            yield server.url_for(db=name)
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            admin.execute(drop.format(sql.Identifier(name)))


class Gate:
    """Holds a partition in the middle of its stream, by a trigger in the target that waits.

    Args:
        row: order key and line number of the row at which it is held.
        index: the index of the mapped task that copies it.
    """

    def __init__(self, target: str, partition: int, row: tuple[int, int], index: int) -> None:
        self.partition = partition
        self.index = index
        self._target = target
        self._holder = connect(target)
        self._holder.execute("SELECT pg_advisory_lock(%s)", [partition])
        self._holder.execute(
            GATE.format(name=f"gate_{partition}", key=partition, order=row[0], line=row[1])
        )

    def reached(self) -> None:
        """Wait until the partition's stream is at the gate."""
        self.waiting(1)

    def clients(self) -> list[int]:
        """Return the ports from which the processes at the gate are connected."""
        with closing(connect(self._target)) as connection:
            return [port for (port,) in connection.execute(CLIENTS, [self.partition])]

    def waiting(self, count: int, timeout: float = 2 * PATIENCE) -> None:
        until(
            lambda: True if ask(self._target, AT_GATE, self.partition) == count else None,
            timeout,
            lambda: f"expected {count} at the gate of partition {self.partition}",
        )

    def open(self) -> None:
        """Let it pass, and all later ones."""
        self._holder.close()


class Lines:
    """A source with lineitem, a target with an empty one, and the DAG runs between them.

    Args:
        airflow: a stack with `DAGS`.
    """

    def __init__(self, airflow: AirflowStack, of: Servers) -> None:
        self.airflow = airflow
        self.name = f"lines_{uuid4().hex[:8]}"
        self.content = of.content
        """The source's rows when it was created."""
        self._stack = ExitStack()
        enter = self._stack.enter_context
        self.source = enter(_database(of.source, self.name, TEMPLATE))
        self.target = enter(_database(of.target, self.name, "template0"))
        tpch.create(self.target)
        execute(self.source, COUNT_WRITES)
        for side in ("source", "target"):
            airflow.set_connection(self.conn_id(side), self.url(side))

    def close(self) -> None:
        self._stack.close()

    def url(self, side: Side) -> str:
        return self.source if side == "source" else self.target

    def conn_id(self, side: str) -> str:
        return f"{self.name}_{side}"

    # Arrangements

    def run(self, variant: str, **when: datetime) -> Run:
        """Begin a run of a DAG of `DAGS`."""
        conf = {side: self.conn_id(side) for side in ("source", "target")}
        return self.airflow.trigger(f"lines_{variant}", conf=conf, **when)

    def gate(self, partition: int, *, of: int = PARTITIONS, pack: int = 1) -> Gate:
        """Hold a partition in the middle of its stream until the end of the test.

        Args:
            of: the number of partitions.
            pack: how many a mapped task copies.
        """
        with closing(connect(self.source)) as connection:
            row = connection.execute(MIDDLE, [partition, of]).fetchone()
        assert row is not None
        gate = Gate(self.target, partition, row, (partition - 1) // pack)
        self._stack.callback(gate.open)
        return gate

    def proxy(self, side: Side) -> TcpProxy:
        """Return a proxy that all later tasks use."""
        proxy = self._stack.enter_context(TcpProxy.of(self.url(side)))
        self.airflow.set_connection(self.conn_id(side), proxy.url(self.url(side)))
        return proxy

    # State

    def run_id(self, run: Run) -> str:
        """Return the id of Penstock's run in a DAG run."""
        run.wait_for("lines.prepare", states=["success"])
        return str(run.xcom("lines.prepare"))

    def status(self, run: Run) -> penstock.RunStatus:
        return penstock.status(self.run_id(run), target=self.target)

    def records(self, run: Run) -> dict[str, str]:
        """Return when each partition was committed, by its id."""
        return {record.partition_id: record.committed_at for record in self.status(run).committed}

    def backends(self, name: str = "") -> list[str]:
        """Return Penstock's sessions on either server.

        Args:
            name: a part of their names.
        """
        names: list[str] = []
        for side in ("source", "target"):
            with closing(connect(self.url(side))) as connection:
                names += [f"{side} {each}" for (each,) in connection.execute(BACKENDS)]
        return [each for each in names if name in each]

    # Checks

    def check_no_backend(self, name: str = "", within: float = PROMISED * SLOWER) -> None:
        until(
            lambda: None if self.backends(name) else True,
            within,
            lambda: f"expected no session {name}, found {self.backends(name)}",
        )

    def check_committed(self, run: Run, partitions: int = PARTITIONS) -> None:
        found = self.status(run)
        assert found.run.status == "done"
        expected = [partition_id(number + 1) for number in range(partitions)]
        assert sorted(record.partition_id for record in found.committed) == expected

    def check_content(self, expected: Digest | None = None) -> None:
        """Check that the target has every row once, with the source's values."""
        found = digest(self.target)
        assert found == (expected or self.content)
        assert found[0] == found[1]

    def check_done(
        self, run: Run, expected: Digest | None = None, partitions: int = PARTITIONS
    ) -> None:
        """Wait for the end, and check that each row arrived once and no session remains."""
        run.succeeded(timeout=4 * PATIENCE)
        self.check_committed(run, partitions)
        self.check_content(expected)
        self.check_no_backend()


def family(run: Run, index: int) -> list[psutil.Process]:
    """Return the processes of a running mapped task: the nursery and its workers."""
    task = run.process("lines.copy", index)

    def both() -> list[psutil.Process] | None:
        found = task.children(recursive=True)
        return found if len(found) > 1 else None

    return until(both, PATIENCE, lambda: f"{task} has only {task.children(recursive=True)}")


def at_gate(run: Run, gate: Gate) -> tuple[int, psutil.Process]:
    """Return the index of the mapped task that is at a gate, and its process."""

    def find() -> tuple[int, psutil.Process] | None:
        ports = gate.clients()
        for copy in run.mapped("lines.copy"):
            if copy.state != "running" or copy.pid is None:
                continue
            # A task may end while it is looked at.
            with contextlib.suppress(psutil.NoSuchProcess):
                task = run.process("lines.copy", copy.map_index)
                children = task.children(recursive=True)
                used = {c.laddr.port for each in children for c in each.net_connections("tcp")}
                if used.intersection(ports):
                    return copy.map_index, task
        return None

    return until(find, 2 * PATIENCE, lambda: f"no task is at the gate: {run.tasks()}")


def check_ended(processes: list[psutil.Process], within: float = PROMISED * SLOWER) -> None:
    """Check that no process remains, not even as a zombie."""
    until(
        lambda: True if not any(map(_lives, processes)) else None,
        within,
        lambda: f"still there: {[each for each in processes if _lives(each)]}",
    )


def _lives(process: psutil.Process) -> bool:
    return process.is_running()


def tries(run: Run, task_id: str = "lines.copy") -> dict[int, int]:
    """Return the number of tries of mapped tasks with more than one, by map index."""
    return {task.map_index: task.try_number for task in run.mapped(task_id) if task.try_number != 1}
