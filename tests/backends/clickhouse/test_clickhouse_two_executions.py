"""Two executions of one run: one is held at a request while the other finishes the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import penstock
from penstock_testkit import TcpProxy, connect_clickhouse

from ...faults.cli import Run
from ...faults.gate import Gate

ROWS = 60
# The request to hold: by default a few; `PENSTOCK_REQUESTS=0:400:1` tests all of them.
SOME = os.environ.get("PENSTOCK_REQUESTS", "10:220:14")


@pytest.fixture
def client(clickhouse_url: str) -> Iterator[Any]:
    with closing(connect_clickhouse(clickhouse_url)) as found:
        found.command("CREATE TABLE a (n Int64) ENGINE = MergeTree ORDER BY n")
        found.command("CREATE TABLE b (n Int64) ENGINE = MergeTree ORDER BY n")
        found.command(f"INSERT INTO a SELECT number FROM numbers({ROWS})")
        found.command("INSERT INTO b VALUES (7)")
        yield found


@pytest.mark.parametrize("request_number", range(*map(int, SOME.split(":"))))
@pytest.mark.parametrize("mode", ["swap", "append"])
def test_either_execution_finishes_the_run(
    client: Any, clickhouse_url: str, mode: str, request_number: int
) -> None:
    database, run_id = clickhouse_url.rpartition("/")[2], f"two-{mode}-{request_number}"
    control = ("--control-schema", f"{database}_control")
    runs: list[Run] = []
    try:
        with TcpProxy.of(clickhouse_url) as proxy:
            gate = Gate(proxy, b"POST /", "to_server", skip=request_number)
            words = (
                *("--table", f"{database}.a", "--target-table", f"{database}.b", "--mode", mode),
                *("--strategy", "hash", "--key", "n", "--partitions", "2", "--degree", "1"),
                *("--run-id", run_id, "--snapshot", "none", *control),
            )
            held_run = Run(
                "copy", "--source", clickhouse_url, "--target", proxy.url(clickhouse_url), *words
            )
            runs.append(held_run)
            while not gate.is_reached() and not held_run.has_ended():
                gate.wait(0.05)
            if not gate.is_reached():
                pytest.skip("the run is over before that request")
            ends = ("--source", clickhouse_url, "--target", clickhouse_url)
            other = Run("copy", *ends, *words)
            runs.append(other)
            other.ended(0)
            gate.open()
            held_run.ended(0)
        status = penstock.status(run_id, target=clickhouse_url, control_schema=control[1])
        assert status.run.status == "done"
        expected = ROWS + (mode == "append")
        assert client.query("SELECT count() FROM b").result_rows == [(expected,)]
    finally:
        for run in runs:
            run.close()
        client.command(f"DROP DATABASE IF EXISTS `{control[1]}`")
