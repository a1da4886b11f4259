"""A session that waits for another one to create the control tables finds them afterwards."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import psycopg

from penstock import control_ddl
from penstock.backends.postgresql.records import CREATE_LOCK
from penstock.backends.postgresql.target import PostgresTarget


def test_a_session_with_cached_catalog_entries(target_url: str) -> None:
    errors: list[BaseException] = []
    with (
        closing(PostgresTarget(target_url, "penstock")) as target,
        psycopg.connect(target_url) as other,
    ):
        # As a rehearsal does; a session's first statement of this kind opens a table of the
        # catalog.
        target._connection.execute("CREATE TEMPORARY TABLE rehearsed (n int)")
        assert target.control.runs.find("any") is None  # it caches that there is no schema
        other.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])

        def create() -> None:
            try:
                target.control.create()
            except BaseException as error:
                errors.append(error)

        waiting = threading.Thread(target=create)
        waiting.start()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until = time.monotonic() + 20
        while other.execute(waits).fetchone() != (1,) and time.monotonic() < until:
            time.sleep(0.05)
        other.execute(control_ddl(target_url).encode())
        other.commit()
        waiting.join(30)
    assert not errors, errors
    assert not waiting.is_alive()
