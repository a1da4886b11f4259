"""Copies from SQL Server while processes and connections end: each row arrives once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.events import Committed, Failed, Opened
from penstock_testkit import TcpProxy

from ...faults.cli import PATIENCE, Run, eventually
from ...faults.gate import Gate, cut_this_connection
from ..postgresql.test_memory import MIB, peak
from .mssql_tables import execute, numbers, rows

ROWS, PARTITIONS, RUN_ID = 20_000, 4, "faults"


@pytest.fixture(scope="module")
def items(mssql_module: str) -> str:
    """Return a table of items that is only read; notes make its rows recognizable in a stream."""
    execute(
        mssql_module,
        "CREATE TABLE item (id bigint NOT NULL PRIMARY KEY, note char(10) NOT NULL,"
        " amount decimal(12,2), pad varchar(300))",
        "INSERT INTO item SELECT n, '<' + RIGHT('0000000' + CAST(n AS varchar(9)), 8) + '>',"
        f" n / 100.0, REPLICATE('x', 200) FROM ({numbers(ROWS)}) AS numbers",
    )
    return mssql_module


class Pair:
    """A table of items and a PostgreSQL database, with proxies between them and the runs."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        self.proxy = TcpProxy.of(source).__enter__()
        self._runs: list[Run] = []
        self._gates: list[Gate] = []

    def close(self) -> None:
        for gate in self._gates:
            gate.open()
        for run in self._runs:
            run.close()
        self.proxy.close()

    def gate(self, partition: int) -> Gate:
        """Hold a partition in the middle of its stream."""
        self._gates.append(Gate(self.proxy, middle(partition), "to_client"))
        return self._gates[-1]

    @property
    def ends(self) -> tuple[str, ...]:
        return ("--source", self.proxy.url(self.source), "--target", self.target)

    def copy(self, *words: str) -> Run:
        return self._start(
            *("copy", *self.ends, "--table", "dbo.item", "--target-table", "public.item"),
            *(
                "--mode",
                "recreate",
                "--snapshot",
                "none",
                "--run-id",
                RUN_ID,
                "--strategy",
                "range",
            ),
            *("--key", "id", "--partitions", str(PARTITIONS), "--degree", "2", *words),
        )

    def resume(self, *words: str) -> Run:
        return self._start("resume", RUN_ID, *self.ends, *words)

    def _start(self, *words: str) -> Run:
        self._runs.append(Run(*words))
        return self._runs[-1]

    def attempts(self) -> dict[str, int]:
        status = penstock.status(RUN_ID, target=self.target)
        return {record.partition_id: record.attempt for record in status.committed}

    def check_done(self) -> None:
        """Check that each row of the source is in the target once, and no session remains."""
        assert penstock.status(RUN_ID, target=self.target).run.status == "done"
        with psycopg.connect(self.target) as connection:
            (found,) = connection.execute(
                "SELECT count(*), count(DISTINCT id), sum(id), sum(amount), min(note), max(note)"
                " FROM item"
            ).fetchall()
        total = ROWS * (ROWS + 1) // 2
        assert found[:3] == (ROWS, ROWS, total)
        assert found[3] * 100 == total
        assert found[4:] == (note(1), note(ROWS))
        self.check_no_session()

    def check_no_session(self) -> None:
        eventually("no session is left", lambda: not self.proxy.connections, PATIENCE)


def note(number: int) -> str:
    return f"<{number:08}>"


def middle(partition: int) -> bytes:
    """Return a row in the middle of a partition's stream, counted from 1."""
    each = ROWS // PARTITIONS
    return note(partition * each - each // 2).encode()


@pytest.fixture
def pair(items: str, target_url: str) -> Iterator[Pair]:
    with closing(Pair(items, target_url)) as pair_of_servers:
        yield pair_of_servers


def test_a_killed_worker(pair: Pair) -> None:
    gate = pair.gate(2)
    run = pair.copy()
    gate.reached()
    worker = run.wait_for(Opened, partition_id="p0002").pid
    os.kill(worker, signal.SIGKILL)
    gate.open()
    run.ended(0)
    assert [event.pid for event in run.of(Failed)] == [worker]
    assert pair.attempts()["p0002"] == 2
    pair.check_done()


def test_a_killed_supervisor(pair: Pair) -> None:
    gate = pair.gate(3)
    run = pair.copy()
    gate.reached()
    run.wait_for(Committed, count=2)
    run.kill()
    gate.open()
    resumed = pair.resume()
    resumed.ended(0)
    assert not {"p0001", "p0002"} & {event.partition_id for event in resumed.of(Opened)}
    pair.check_done()


def test_ctrl_c(pair: Pair) -> None:
    """At that moment the worker waits for a server that does not answer."""
    gate = pair.gate(2)
    run = pair.copy()
    gate.reached()
    run.signal_all(signal.SIGINT)
    run.ended(130)
    gate.open()
    pair.check_no_session()
    pair.resume().ended(0)
    pair.check_done()


def test_a_cut_connection(pair: Pair) -> None:
    pair.proxy.on_bytes(middle(3), "to_client", cut_this_connection)
    run = pair.copy()
    run.ended(0)
    (failed,) = run.of(Failed)
    assert failed.partition_id == "p0003"
    assert failed.error["transient"]
    assert failed.error["side"] == "source"
    assert pair.attempts() == {"p0001": 1, "p0002": 1, "p0003": 2, "p0004": 1}
    pair.check_done()


def test_a_stream_that_stalls(pair: Pair) -> None:
    gate = pair.gate(2)
    run = pair.copy("--stall-timeout", "5s")
    failed = run.wait_for(Failed)
    # While the driver waits for the server to confirm a cancel, it lets no other thread run:
    # then the supervisor ends the worker.
    assert failed.error["error"] in ("StallError", "WorkerLost")
    assert failed.error["transient"]
    gate.open()
    run.ended(0)
    pair.check_done()


def peaks(url: str, folder: Path, **options: Any) -> int:
    """Return the peak memory of a copy's workers."""
    spec = penstock.CopySpec(
        source=url,
        target=f"file://{folder}",
        snapshot="none",
        strategy="whole",
        degree=1,
        **options,
    )
    return max(peak(event.pid) for event in penstock.copy(spec) if isinstance(event, Committed))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_is_bounded_regardless_of_the_rows(mssql_url: str, tmp_path: Path) -> None:
    """Neither all of many rows nor all of several wide rows are in memory at once."""
    execute(
        mssql_url,
        "CREATE TABLE wide (id int NOT NULL PRIMARY KEY, doc varchar(max), digits varbinary(max))",
        "INSERT INTO wide SELECT n, REPLICATE(CAST('x' AS varchar(max)), 40000),"
        " CAST(REPLICATE(CAST('y' AS varchar(max)), 20000) AS varbinary(max))"
        f" FROM ({numbers(3000)}) AS numbers",
    )
    ((size,),) = rows(mssql_url, "SELECT SUM(DATALENGTH(doc) + DATALENGTH(digits)) FROM wide")
    few = peaks(mssql_url, tmp_path / "few", table="dbo.wide", where="id <= 100")
    all_ = peaks(mssql_url, tmp_path / "all", table="dbo.wide")
    assert int(size) > 150 * MIB
    assert all_ < few + 64 * MIB
