"""A batch of many tables works on a window of them at a time, and a bad table fails alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import BatchSpec, RunFailed, RunFailedTransiently, copy_all
from penstock.engine import windows
from penstock.errors import EXIT_PERMANENT
from penstock.events import BatchFinished, BatchStarted, Event, Finished, Planned, Prepared, Warned

if TYPE_CHECKING:
    from ..conftest import Pair

TABLES, WINDOW = 14, 4
ENTERED = """
    SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
        AND d.datname = current_database()
"""
READ = """
    SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
    WHERE a.application_name = 'penstock:plan' AND a.datname = current_database()
        AND l.relation::regclass::text LIKE 't__'
"""


@pytest.fixture
def many(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Tables that each refer to the previous one, also across windows."""
    monkeypatch.setattr(windows, "WINDOW", WINDOW)
    for n in range(TABLES):
        refers = f" REFERENCES t{n - 1:02}" if n else ""
        pair.source.run(
            f"CREATE TABLE t{n:02} (id int PRIMARY KEY{refers}, word text);"
            f"INSERT INTO t{n:02} SELECT g, 'word' FROM generate_series(1, 20) AS g;"
            f"CREATE INDEX ON t{n:02} (word)"
        )
    return pair


def started(pair: Pair, **options: Any) -> BatchSpec:
    arguments = {
        "source": pair.source.url,
        "target": pair.target.url,
        "degree": 2,
        "mode": "recreate",
    }
    return BatchSpec.from_mapping({"tables": "public.*", **arguments, **options}, "t")


def check_copied(pair: Pair, *, but: tuple[str, ...] = ()) -> None:
    for n in range(TABLES):
        if f"t{n:02}" not in but:
            pair.assert_same(f"public.t{n:02}")


def test_tables_are_planned_and_locked_a_window_at_a_time(many: Pair) -> None:
    seen: list[Event] = []
    entered, read = [], []
    for event in copy_all(started(many)):
        if isinstance(event, Prepared):
            entered.append(many.target.value(ENTERED))
        if isinstance(event, Planned):
            read.append(many.source.value(READ))
        seen.append(event)
    first = seen[0]
    assert isinstance(first, BatchStarted)
    assert len(first.tables) == TABLES
    # Tables linked to others are released at the end.
    assert max(entered) <= TABLES
    assert max(read) <= WINDOW
    kinds = [type(event) for event in seen]
    # Planned in windows: the last ones after the first window was prepared.
    assert kinds.index(Prepared) < len(kinds) - 1 - kinds[::-1].index(Planned)
    assert Counter(kinds)[Finished] == TABLES
    last = seen[-1]
    assert isinstance(last, BatchFinished)
    assert last.status == "done"
    check_copied(many)
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"
    assert many.target.value(keys) == TABLES - 1
    indexes = "SELECT count(*) FROM pg_index WHERE indrelid::regclass::text LIKE 't__'"
    assert many.target.value(indexes) == 2 * TABLES
    assert many.target.value("SELECT count(*) FROM penstock.run WHERE status <> 'done'") == 0
    assert many.target.value(ENTERED) == 0


def test_tables_without_links_are_released_with_their_window(many: Pair) -> None:
    many.target.run(
        *(f"CREATE TABLE t{n:02} (id int PRIMARY KEY, word text)" for n in range(TABLES))
    )
    entered = [
        many.target.value(ENTERED)
        for event in copy_all(started(many, mode="append"))
        if isinstance(event, Prepared)
    ]
    assert len(entered) == TABLES
    assert max(entered) <= WINDOW
    check_copied(many)


def failed(pair: Pair, **options: Any) -> tuple[set[str], list[str]]:
    """Return the tables that are not done, and the warnings."""
    seen: list[Event] = []
    with pytest.raises((RunFailed, RunFailedTransiently)):
        seen.extend(copy_all(started(pair, **options)))
    (last,) = (event for event in seen if isinstance(event, BatchFinished))
    tables = {table.table for table in last.tables if table.status != "done"}
    return tables, [event.message for event in seen if isinstance(event, Warned)]


def test_a_bad_table_fails_alone_when_it_is_planned(many: Pair) -> None:
    many.target.run("CREATE TABLE t05 (id int); CREATE VIEW needs AS SELECT * FROM t05")
    tables, warnings = failed(many)
    assert tables == {"public.t05"}
    assert "public.t05 cannot be copied" in warnings[0]
    check_copied(many, but=("t05",))


REFUSING = """
    CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS c
            WHERE c.object_identity = '{}')
        THEN RAISE EXCEPTION 'not here'; END IF;
    END $$;
    CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('{}') EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize(
    ("refused", "kind"),
    [("public.t09", "CREATE TABLE"), ("public.t09_word_idx", "CREATE INDEX")],
    ids=["before", "after"],
)
def test_a_bad_table_fails_alone_in_a_step(many: Pair, refused: str, kind: str) -> None:
    """A step for many tables fails for all of them, so each half is tried again."""
    many.target.run(REFUSING.format(refused, kind))
    tables, _ = failed(many)
    # A table that refers to a missing one cannot have its foreign key.
    assert {"public.t09"} <= tables <= {"public.t09", "public.t10"}
    check_copied(many, but=("t09", "t10"))
    many.target.run("DROP EVENT TRIGGER refuse")


def test_a_table_that_is_locked_fails_alone(many: Pair) -> None:
    many.target.run("CREATE TABLE t02 (id int PRIMARY KEY, word text)")
    with psycopg.connect(many.target.url) as holder:
        holder.execute("LOCK TABLE t02")
        tables, _ = failed(many, mode="truncate", stall_timeout=2, attempts=2)
    assert tables == {"public.t02"}
    check_copied(many, but=("t02",))


def test_a_batch_that_ended_early_lists_the_tables_it_did_not_reach(many: Pair) -> None:
    """Only the tables of its first window have runs by then."""
    events = copy_all(started(many, run_id="night"))
    for event in events:
        if isinstance(event, Finished):
            break
    events.close()
    shown = json.loads(many.cli("status", "night", "--target", many.target.url, "--json").stdout)
    assert shown["unplanned"] == TABLES - WINDOW
    assert shown["status"] != "done"
    resumed = many.cli("resume", "night", *many.ends)
    assert resumed.returncode == EXIT_PERMANENT
    assert f"{TABLES - WINDOW} more tables have no run yet" in resumed.stderr
    verified = many.cli("verify", "night", *many.ends)
    assert verified.returncode == EXIT_PERMANENT
    assert "--run-id night" in verified.stderr
    assert "partial" in many.cli("status", "night", "--target", many.target.url).stdout
    list(copy_all(started(many, run_id="night")))
    check_copied(many)
    assert many.cli("verify", "night", *many.ends).returncode == 0
    shown = json.loads(many.cli("status", "night", "--target", many.target.url, "--json").stdout)
    assert (shown["unplanned"], shown["status"]) == (0, "done")
