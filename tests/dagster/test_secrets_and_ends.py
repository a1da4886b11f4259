"""Nothing that Dagster or Penstock stores or shows has a password; an interrupt ends everything."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import dagster as dg
import psycopg
import pytest

from penstock_testkit import PostgresServer

from .warehouse import Warehouse, copying, days

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString

SECRET = "Vq7Harbour"
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'penstock:%'"
)
WAITING: LiteralString = SESSIONS + " AND wait_event_type = 'Lock'"
DONE = "SELECT count(*) FROM penstock.commit_record"


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password=SECRET) as server:
        yield server


@pytest.mark.parametrize("literal", [True, False])
def test_a_password_is_stored_nowhere(
    guarded: PostgresServer,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    *,
    literal: bool,
) -> None:
    url = guarded.url
    assert SECRET in url
    parts = urlsplit(url)
    wrong = urlunsplit(parts._replace(netloc=parts.netloc.replace(SECRET, f"{SECRET}x")))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
        connection.execute("DROP TABLE IF EXISTS public.t, public.u")
        connection.execute("CREATE TABLE public.t (id int, day date)")
        connection.execute("INSERT INTO public.t VALUES (1, '2024-01-01'), (2, '2024-01-02')")
        connection.execute("CREATE TABLE public.u (id int CHECK (id <> 2), day date)")
        warehouse = Warehouse(connection, connection, instance)
        log = ""
        for name, source in (("PG_SRC", url), ("PG_WRONG", wrong)):
            monkeypatch.setenv(name, source)
            monkeypatch.setenv("PG_DST", url)
            spec = warehouse.spec(
                target_table="public.u",
                key="day",
                verify="checksums",
                attempts=1,
                source=source if literal else dg.EnvVar(name),
                target=url if literal else dg.EnvVar("PG_DST"),
            )
            run = warehouse.run(
                copying([spec], partitions_def=days()), keys=("2024-01-01", "2024-01-02")
            )
            assert not run.ok
            log += run.log + str([str(event) for event in run.result.all_events])
            log += str(instance.all_logs(run.run_id)) + run.failure.description
        assert "password authentication failed" in log
        assert "violates check constraint" in log
        names = connection.execute(
            "SELECT oid::regclass::text FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'penstock'::regnamespace"
        ).fetchall()
        rows = [
            row
            for (table,) in names
            for (row,) in connection.execute(f"SELECT t::text FROM {table} AS t".encode())
        ]
    assert any("public.t" in row for row in rows)
    assert [row for row in rows if SECRET in row] == []
    at = log.find(SECRET)
    assert at < 0, log[max(0, at - 200) : at + 50]


# If only the traceback refers to the copy, it may be collected after the pipes that it closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_ends_the_copy(warehouse: Warehouse) -> None:
    """No session remains on the servers, and committed rows stay."""
    warehouse.both("CREATE TABLE IF NOT EXISTS public.gate (id int)")
    warehouse.target.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN LOCK TABLE public.gate IN SHARE MODE; RETURN NEW; END $$"
    )
    warehouse.target.execute(
        "CREATE TRIGGER wait BEFORE INSERT ON dw.t FOR EACH ROW WHEN (NEW.id = 250)"
        " EXECUTE FUNCTION wait()"
    )
    orders = copying([warehouse.spec(key="day")], partitions_def=days())
    gate = psycopg.connect(os.environ["PG_DST"])
    gate.execute("LOCK TABLE public.gate IN EXCLUSIVE MODE")

    def interrupt() -> None:
        deadline, done = time.monotonic() + 60, False
        with psycopg.connect(os.environ["PG_DST"], autocommit=True) as looking:
            while time.monotonic() < deadline:
                is_waiting = looking.execute(WAITING).fetchone() == (1,)
                with contextlib.suppress(psycopg.errors.UndefinedTable):
                    done = looking.execute(DONE).fetchone() == (2,)
                if is_waiting and done:
                    break
                time.sleep(0.05)
        time.sleep(1)  # until the events of both have been reported, on a busy machine, too
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        run = warehouse.run(orders, keys=("2024-01-02", "2024-01-04"))
        assert not run.ok
        assert run.reported() == ["2024-01-02", "2024-01-04"]
        # If Dagster was interrupted between two events, only its traceback refers to the copy.
        del run
        ended = time.monotonic()
        for side in (warehouse.source, warehouse.target):
            while side.execute(SESSIONS).fetchone() != (0,):
                assert time.monotonic() - ended < 30
                gc.collect()  # once more if a thread of Dagster's still held the traceback
                time.sleep(0.05)
    finally:
        thread.join()
        gate.close()
    assert warehouse.count() == 200
    assert len(warehouse.runs()) == 1
    resumed = warehouse.run(orders, keys=("2024-01-02", "2024-01-04"))
    assert resumed.ok
    assert warehouse.count() == 300
