"""A batch killed during a step for many tables is continued by the same batch."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import penstock
from penstock_testkit import AnyMysqlServer, TcpProxy

from ...faults.cli import PATIENCE, Run, eventually
from .mysql_pair import execute, rows

TABLES = 6
BATCH = "killed"


@pytest.fixture
def ends(mysql_server: AnyMysqlServer) -> Iterator[tuple[str, str]]:
    with mysql_server.new_database() as source, mysql_server.new_database() as target:
        for number in range(TABLES):
            execute(
                source,
                f"CREATE TABLE t{number} (id int PRIMARY KEY, word varchar(9),"
                f" KEY w{number} (word)) ENGINE = InnoDB",
                f"INSERT INTO t{number} VALUES (1, 'a'), (2, 'b'), ({number + 3}, NULL)",
            )
        yield source, target


def copy_all(source: str, target: str) -> Run:
    schema, target_schema = (url.partition("?")[0].rpartition("/")[2] for url in (source, target))
    return Run(
        *("copy-all", "--source", source, "--target", target, "--tables", f"{schema}.t*"),
        *("--target-schema", target_schema, "--control-schema", target_schema),
        *("--mode", "recreate", "--run-id", BATCH, "--degree", "2"),
    )


@pytest.mark.parametrize(
    "needle",
    [
        b"penstock_rehearsed_1",
        # Runs are stored, entered and prepared.
        b"`fingerprint`",
        b"is_used_lock",
        b"DROP TABLE IF EXISTS",
        b"CASE `run_id`",
        # A partition starts, and completes.
        b"= connection_id()",
        b"release_lock",
        # Indexes are built, and recorded.
        b", altering",
        b"ALTER TABLE",
        b"INTO `test_%s`.`step_record`",
        b"'done'",
    ],
    ids=bytes.decode,
)
def test_a_batch_killed_at_a_statement_is_continued(ends: tuple[str, str], needle: bytes) -> None:
    source, target = ends
    database = target.rpartition("/")[2]
    needle = needle.replace(b"test_%s", database.encode())
    with TcpProxy.of(target) as proxy:
        run = copy_all(source, f"{proxy.url(target)}?ssl_mode=disabled")
        proxy.on_bytes(needle, "to_server", lambda: os.kill(run.pid, signal.SIGKILL))
        try:
            eventually("it was killed", run.has_ended, PATIENCE)
            assert run.popen.returncode == -9
        finally:
            run.close()
    again = copy_all(source, target)
    try:
        again.ended(0)
    finally:
        again.close()
    listed = penstock.runs(target=target, control_schema=database)
    assert [each.status for each in listed] == ["done"] * TABLES
    for number in range(TABLES):
        query = f"SELECT * FROM t{number} ORDER BY id"
        assert rows(target, query) == rows(source, query)
        (_, definition) = rows(target, f"SHOW CREATE TABLE t{number}")[0]
        assert f"KEY `w{number}` (`word`)" in definition
    assert rows(target, "SELECT count(*) FROM commit_record") == [(TABLES,)]
    assert rows(target, "SELECT count(*) FROM step_record") == [(TABLES,)]
