"""Losing the connection at any statement to a target is always a transient error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import CopySpec, TransientError
from penstock.backends.mysql.connection import Connection
from penstock_testkit.mysql import connect_mysql

from .mysql_pair import execute, rows

if TYPE_CHECKING:
    from tests.conftest import Connection as PostgresConnection

PLANS: dict[str, dict[str, Any]] = {
    "night": {"mode": "upsert", "incremental": "xmin", "deletes": "hard"},
    "recreate": {"mode": "recreate"},
}


@contextmanager
def lost_at(monkeypatch: pytest.MonkeyPatch, url: str, number: int) -> Iterator[list[bytes]]:
    """Terminate the session at the statement with this number; yield all statements sent."""
    statements: list[bytes] = []
    execute_command = Connection._execute_command

    def ending(self: Connection, command: int, text: Any) -> None:
        if self.side == "target":
            statements.append(text if isinstance(text, bytes) else str(text).encode())
            if len(statements) == number:
                end(url, self.number)
        execute_command(self, command, text)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "_execute_command", ending)
        yield statements


def end(url: str, number: int) -> None:
    with closing(connect_mysql(url)) as admin, admin.cursor() as cursor:
        cursor.execute(f"KILL {number}")
        query = f"SELECT 1 FROM information_schema.processlist WHERE id = {number}"
        while cursor.execute(query):
            time.sleep(0.01)


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_planning_loses_its_connection(
    source: PostgresConnection,
    source_url: str,
    mysql_url: str,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    source.execute(b"CREATE TABLE items (id int PRIMARY KEY, word varchar(20) CHECK (word <> ''))")
    execute(mysql_url, "CREATE TABLE items (id int PRIMARY KEY, word varchar(20))")
    database = mysql_url.rpartition("/")[2].partition("?")[0]
    serial = iter(range(10**6))

    def create() -> None:
        arguments = {"table": "public.items", "target_table": f"{database}.items", **options}
        run_id = f"r{next(serial)}"
        penstock.create(CopySpec(source=source_url, target=mysql_url, run_id=run_id, **arguments))
        penstock.release(run_id, target=mysql_url)

    create()
    with lost_at(monkeypatch, mysql_url, 0) as statements:
        create()
    assert len(statements) > 10
    for number, statement in enumerate(statements, 1):
        with lost_at(monkeypatch, mysql_url, number):
            try:
                create()
            except TransientError:
                continue
            except Exception as error:
                raise AssertionError(f"lost at {statement!r}") from error
    assert rows(mysql_url, "SELECT count(*) FROM items") == [(0,)]
