"""Nights from a source that was restored to an earlier state, or upgraded into other files."""

from __future__ import annotations

import pytest
from tests.conftest import fresh_database
from tests.faults.cli import PATIENCE, eventually
from tests.faults.pair import ask, execute
from tests.one_copy import OneCopy

from penstock_testkit import PostgresServer, Server

from .test_standby import NEVER_CANCEL, Family, full, rows

SETTINGS = {"autovacuum": False, **NEVER_CANCEL}


@pytest.mark.parametrize("with_a_timeline", [False, True])
def test_a_night_after_a_restore_notices_it(target_server: Server, with_a_timeline: bool) -> None:
    """The backup is restored by recovery, which changes the timeline, or as a plain copy.

    The latter keeps the system identifier and the timeline of the server that it replaces.
    """
    with (
        PostgresServer(fsync=False, settings=SETTINGS) as primary,
        PostgresServer(fsync=False, settings=SETTINGS, standby_of=primary) as restored,
        fresh_database(target_server) as target,
    ):
        family = Family(primary, restored, target)
        family.night(family.primary).done()
        restored.stop()
        for number in range(20):
            execute(family.primary, f"UPDATE items SET word = 'lost' WHERE id = {number}")
        execute(family.primary, "DELETE FROM items WHERE id > 490")
        family.night(family.primary).done()
        primary.kill()
        signal = restored.data / "standby.signal"
        if with_a_timeline:
            signal.rename(restored.data / "recovery.signal")
            settings = "restore_command = 'false'\nrecovery_target_action = 'promote'\n"
            with (restored.data / "postgresql.auto.conf").open("a") as file:
                file.write(settings)
        else:
            signal.unlink()
        restored.start()
        ends = "SELECT NOT pg_is_in_recovery()"
        eventually("it is a primary", lambda: ask(restored.url, ends), PATIENCE)
        execute(restored.url, "UPDATE items SET word = 'kept' WHERE id = 100")
        night = family.night(restored.url)
        why = "failed over from timeline" if with_a_timeline else "gone back to an earlier state"
        assert why in full(night)
        assert family.rows(target) == family.rows(restored.url)
        execute(restored.url, "UPDATE items SET word = 'on' WHERE id = 7")
        assert full(family.night(restored.url)) == ""
        assert family.rows(target) == family.rows(restored.url)


def test_nights_continue_after_pg_upgrade(target_server: Server) -> None:
    """Transaction ids continue under another system identifier."""
    with (
        PostgresServer(settings=SETTINGS) as old,
        PostgresServer(settings=SETTINGS) as new,
        fresh_database(target_server) as target,
    ):

        def night(server: PostgresServer) -> str:
            copy_options = {"table": "public.items", "mode": "upsert", "incremental": "xmin"}
            found = OneCopy(source=server.url, target=target, deletes="hard", **copy_options)
            assert rows(target) == rows(server.url)
            return full(found)

        execute(
            old.url,
            "CREATE TABLE items (id int PRIMARY KEY, word text)",
            "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 500) AS i",
        )
        night(old)
        execute(
            old.url, "UPDATE items SET word = 'x' WHERE id < 9", "DELETE FROM items WHERE id = 9"
        )
        old.stop()
        new.stop()
        programs = str(old.bin("pg_upgrade").parent)
        new.call(
            *("pg_upgrade", "-b", programs, "-d", str(old.data), "-D", str(new.data)),
            *("-U", "postgres", "-p", str(old.port), "-P", str(new.port), "-s", str(new.home)),
        )
        new.start()
        assert night(new) == "the source is a different server"
        execute(new.url, "UPDATE items SET word = 'on' WHERE id = 7")
        assert night(new) == ""
