"""Cached instances of DuckDB: one user at a time, no file locked, none open in a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from penstock.backends.duckdb.connection import close_idle, instance
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.source import DuckSource
from penstock.errors import PenstockError

FORKED = """
import os, sys
from penstock.backends.duckdb.connection import instance

def asked():
    with instance() as connection:
        return connection.execute("SELECT sum(i) FROM range(1000000) AS r (i)").fetchall()

before = asked()
child = os.fork()
if not child:
    os._exit(0 if asked() == before else 1)
sys.exit(os.waitpid(child, 0)[1])
"""

# The first row signals that the query runs. The rest does not need Python.
LONG = """
    WITH told AS MATERIALIZED (SELECT tell(0))
    SELECT count(*) FROM told, range(10000000) AS a, range(100000) AS b
    WHERE a.range * b.range % 7 = 3
"""


def test_an_instance_is_used_again() -> None:
    with instance() as first, instance() as second:
        assert first is not second
    with instance() as again:
        assert again in (first, second)
    close_idle()
    with pytest.raises(duckdb.ConnectionException):
        again.execute("SELECT 1")


def test_an_instance_with_an_error_is_not_used_again() -> None:
    with pytest.raises(duckdb.CatalogException), instance() as failed:
        failed.execute("SELECT * FROM nothing")
    with instance() as other:
        assert other is not failed


def test_another_process_can_write_between_two_operations(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    database = Database(str(path))
    for _ in range(3):
        with database.writing() as session:
            session.run("CREATE TABLE IF NOT EXISTS t (id BIGINT)")
            session.run("INSERT INTO t VALUES (1)")
            session.run("COMMIT")
        insert = (
            "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('INSERT INTO t VALUES (2)')"
        )
        subprocess.run([sys.executable, "-c", insert, str(path)], check=True)
        with database.reading() as session:
            found = session.fetch("SELECT count(*), sum(id) FROM t", "t")
    assert found == [(6, 9)]


def test_uncommitted_changes_are_rolled_back(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.duckdb"))
    with database.writing() as session:
        session.run("CREATE TABLE t (id BIGINT)")
    with database.reading() as session:
        assert session.fetch("SELECT count(*) FROM duckdb_tables()", "tables") == [(0,)]


def test_a_forked_process_has_no_open_instance() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


def test_a_source_may_be_closed_during_a_query(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    source = DuckSource(str(tmp_path / "a.duckdb"))
    session, is_asked, errors = source._session, threading.Event(), []
    session.connection.create_function("tell", lambda _: is_asked.set(), ["BIGINT"], "BOOLEAN")

    def ask() -> None:
        try:
            session.fetch(LONG, "test")
        except PenstockError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert is_asked.wait(30)
    source.close()
    thread.join(30)
    assert not thread.is_alive()
    assert len(errors) == 1
    with pytest.raises(duckdb.ConnectionException):
        session.connection.execute("SELECT 1")
