"""Events in mid-stream: both kinds of relay notice at once what either end does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGTERM
from typing import Any

import psycopg
import pytest

from penstock.events import Committed, Event, Failed, Opened, Progress
from penstock_testkit import PostgresServer, installed

from ..conftest import fresh_database
from .cli import PATIENCE, Run, eventually, promised
from .pair import Pair, Side, ask, connect, execute
from .tls import speak_tls

pytestmark = pytest.mark.usefixtures("both_paths")

# Generated lazily, as rows of a table are read, and more than sockets buffer.
ENDLESS = "SELECT generate_series(1, 1000000000) AS id, repeat('x', 1000) AS pad"
SILENT = (
    "SELECT id, CASE WHEN id = 50000 THEN pg_catalog.pg_sleep(600)::text ELSE 'x' END AS pad"
    " FROM (SELECT generate_series(1, 1000000000) AS id) AS n"
)
SESSION = "pg_stat_activity WHERE application_name = 'penstock:faults:p0001:1'"


@pytest.fixture
def pair(empty_pair: Pair) -> Pair:
    execute(empty_pair.target, "CREATE TABLE wide (id int, pad text)")
    return empty_pair


def on_insert(pair: Pair, body: str) -> None:
    """Make the target run code for each row, before it accepts the row."""
    execute(
        pair.target,
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {body} RETURN NEW; END $$",
        "CREATE TRIGGER act BEFORE INSERT ON wide FOR EACH ROW EXECUTE FUNCTION act()",
    )


def still(run: Run) -> bool:
    """Whether no bytes have moved for some time, after some have."""
    bytes_moved = [event.bytes for event in run.of(Progress)]
    return len(bytes_moved) > 2 and 0 < bytes_moved[-3] == bytes_moved[-1]


def blocked(pair: Pair, side: Side, *words: str) -> Run:
    """Run a copy in which one side falls silent in mid-stream."""
    if side == "target":
        on_insert(pair, "IF NEW.id = 100 THEN PERFORM pg_sleep(600); END IF;")
    run = pair.copy_query(SILENT if side == "source" else ENDLESS, "public.wide", *words)
    eventually(f"the {side} is waited for", lambda: still(run), PATIENCE)
    return run


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_worker_ends_at_once_on_sigterm(pair: Pair, side: Side) -> None:
    run = blocked(pair, side)
    worker = run.wait_for(Opened).pid
    since = time.monotonic()
    os.kill(worker, SIGTERM)
    failed = run.wait_for(Failed)
    # A turn takes 50 ms; the rest is for cancelling both statements on a busy machine.
    assert time.monotonic() - since < promised() / 2
    assert failed.error["error"] == "Interrupted"
    assert failed.pid == worker


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_stall_is_blamed_on_the_silent_side(pair: Pair, side: Side) -> None:
    run = blocked(pair, side, "--stall-timeout", "3s", "--attempts", "1")
    failed = run.wait_for(Failed)
    assert failed.error["error"] == "StallError"
    assert failed.error["message"].startswith(f"{side}: no bytes moved")
    assert failed.error["side"] == side


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_terminated_session_fails_the_attempt(pair: Pair, side: Side) -> None:
    run = blocked(pair, side, "--attempts", "1")
    sessions = ask(pair.url(side), f"SELECT count(pg_terminate_backend(pid)) FROM {SESSION}")
    assert sessions == 1
    failed = run.wait_for(Failed)
    assert failed.error["error"] == "TransientError"
    assert failed.error["side"] == side
    assert failed.error.get("code") in {"57P01", None}
    run.ended(75)


def check_refused(run: Run) -> None:
    """Check that the target rejected a row; the rows have no end, so the run ends only by that."""
    run.ended(65)
    (failure,) = run.finished.failures
    assert failure.error["code"] == "23514"
    assert failure.error["constraint"] == "not_this_one"
    assert failure.error["side"] == "target"


REFUSED = pytest.mark.parametrize("row", [1, 50_000])


def forbid(pair: Pair, row: int) -> None:
    execute(pair.target, f"ALTER TABLE wide ADD CONSTRAINT not_this_one CHECK (id <> {row})")


@REFUSED
def test_a_rejected_row_ends_the_run(pair: Pair, row: int) -> None:
    forbid(pair, row)
    check_refused(pair.copy_query(ENDLESS, "public.wide"))


def test_a_rejected_row_ends_the_run_if_the_target_is_slow(pair: Pair) -> None:
    """The error arrives while the worker waits to write."""
    on_insert(pair, "IF NEW.id = 900 THEN PERFORM pg_sleep(2); END IF;")
    forbid(pair, 901)
    check_refused(pair.copy_query(ENDLESS, "public.wide"))


@pytest.fixture(scope="module")
def tls_server() -> Iterator[PostgresServer]:
    """Yield a server of Debian's PostgreSQL; that of the test environment lacks TLS."""
    if not (programs := installed()):
        pytest.skip("no PostgreSQL in /usr/lib/postgresql; postgresql-15 of Debian would do")
    with PostgresServer(fsync=False, programs=programs[max(programs)]) as server:
        speak_tls(server)
        yield server


@REFUSED
def test_a_rejected_row_ends_the_run_under_tls(
    source_url: str, tls_server: PostgresServer, row: int
) -> None:
    with (
        fresh_database(tls_server) as target,
        closing(Pair(source_url, f"{target}?sslmode=require")) as pair,
    ):
        execute(pair.target, "CREATE TABLE wide (id int, pad text)")
        forbid(pair, row)
        check_refused(pair.copy_query(ENDLESS, "public.wide"))


def test_notices_do_not_block_the_stream(pair: Pair) -> None:
    """They fill the connection unless they are read while rows are sent."""
    on_insert(pair, "RAISE WARNING '%', repeat('y', 1000);")
    rows = 30_000
    run = pair.copy_query(ENDLESS.replace("1000000000", str(rows)), "public.wide")
    run.ended(0)
    assert ask(pair.target, "SELECT count(*) FROM wide") == rows


def test_rows_dropped_by_the_target_are_noticed(pair: Pair) -> None:
    on_insert(pair, "IF NEW.id % 1000 = 0 THEN RETURN NULL; END IF;")
    run = pair.copy_query(ENDLESS.replace("1000000000", "50000"), "public.wide")
    run.ended(65)
    (failure,) = run.finished.failures
    assert "the source sent 50,000 rows, but the target took 49,950" in failure.error["message"]


def test_rows_and_bytes_are_counted(pair: Pair) -> None:
    query = ENDLESS.replace("1000000000", "20000")
    run = pair.copy_query(query, "public.wide")
    run.ended(0)
    (done,) = run.of(Committed)
    with closing(connect(pair.source)) as source:
        size = stream_size(source, query)
    assert (done.rows, done.bytes) == (20_000, size)


@pytest.mark.parametrize("side", ["source", "target"])
def test_waiting_time_is_charged_to_the_slow_side(pair: Pair, side: Side) -> None:
    query = ENDLESS.replace("1000000000", "20000")
    pause = "CASE WHEN id % 2000 = 0 THEN pg_catalog.pg_sleep(0.1) END"
    if side == "source":
        query = f"SELECT id, pad || ({pause})::text AS pad FROM ({query}) AS n"
    else:
        on_insert(pair, f"PERFORM {pause.replace('id', 'NEW.id')};")
    run = pair.copy_query(query, "public.wide")
    run.ended(0)
    (done,) = run.of(Committed)
    waited = {"source": done.wait_source, "target": done.wait_target}
    assert waited[side] == max(waited.values())
    # Ten pauses; under load, the worker may miss part of each.
    assert waited[side] > 0.5


def stream_size(source: psycopg.Connection[Any], query: str) -> int:
    with source.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as stream:
        return sum(len(block) for block in stream)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is loaded is read there")
def test_streams_take_the_requested_path(pair: Pair) -> None:
    run = blocked(pair, "source")
    event: Event = run.wait_for(Opened)
    assert isinstance(event, Opened)
    loaded = "penstock_native" in Path(f"/proc/{event.pid}/maps").read_text(encoding="utf-8")
    assert loaded is (os.environ.get("PENSTOCK_NATIVE") != "off")
