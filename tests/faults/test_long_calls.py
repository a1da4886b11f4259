"""A server that does not answer: a line says what for, whichever statement it is, and Ctrl-C ends
the wait."""

from __future__ import annotations

import signal

import psycopg
import pytest

from penstock.events import Warned
from penstock_testkit import PostgresServer

from .cli import Run, promised
from .pair import Pair, Side


def check_named(run: Run, *words: str) -> None:
    """Wait for the line, and end the run as a person does."""
    said = run.wait_for(Warned).message
    for word in words:
        assert word in said
    run.signal_all(signal.SIGINT)
    run.ended(130, promised())


@pytest.mark.parametrize(
    ("side", "statement", "words"),
    [
        ("target", b"user", "while connecting to the target"),
        ("source", b"user", "while connecting to the source"),
        ("source", b"pg_export_snapshot", "while taking the snapshot"),
        ("target", b"CREATE SCHEMA", "while creating the control tables"),
        ("target", b"prepared_at", "while "),
    ],
)
def test_a_silent_server_is_named(pair: Pair, side: Side, statement: bytes, words: str) -> None:
    proxy = pair.proxy(side)
    proxy.on_bytes(statement, "to_server", proxy.freeze, once=True)
    run = pair.copy("--verify", "checksums")
    check_named(run, side, "no answer for", words)


def test_a_lock_of_another_session_is_named(pair: Pair) -> None:
    pair.copy().ended(0)  # there are control tables
    with psycopg.connect(pair.target) as holder:
        holder.execute("LOCK TABLE penstock.run")
        pid = holder.info.backend_pid
        run = pair.copy("--run-id", "another", "--mode", "truncate")
        check_named(run, "target", f"session {pid}")


def test_a_standby_that_is_absent_is_named(pair: Pair) -> None:
    with (
        PostgresServer(fsync=False) as waiting,
        psycopg.connect(waiting.url, autocommit=True) as setting,
    ):
        setting.execute("CREATE DATABASE other")
        setting.execute("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
        setting.execute("SELECT pg_reload_conf()")
        pair.target = waiting.url_for(db="other")
        run = pair.copy("--mode", "recreate")
        check_named(run, "synchronous standby", "creating the control tables", "'absent'")
