"""Columns that follow the source's, in a night that is killed, blocked or overtaken."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pytest
from tests.backends.conftest import Pair, Side
from tests.conftest import fresh_mysql
from tests.faults.cli import PATIENCE, Run
from tests.faults.gate import Gate
from tests.faults.pair import connect
from tests.one_copy import OneCopy

import penstock
from penstock import CopySpec, PenstockError
from penstock.events import StepChanged
from penstock_testkit import AnyMysqlServer, TcpProxy
from penstock_testkit.mysql import connect_mysql

from .test_drift import ALL, COLUMNS
from .test_rules import check_same, copy_options, full, is_committed, items, night, pair

__all__ = ["items", "pair"]


@contextmanager
def killed_at(proxy: TcpProxy, needle: bytes, *words: str) -> Iterator[None]:
    """Kill a night when it sends a needle to the target, and hold the needle back."""
    gate = Gate(proxy, needle, "to_server")
    run = Run("copy", *words)
    try:
        deadline = time.monotonic() + PATIENCE
        while not gate.wait(0.01):
            assert not run.has_ended(), run.errors
            assert time.monotonic() < deadline
        run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
        proxy.cut()
        gate.open()
        yield
    finally:
        run.close()


def words_of(source: str, target: str, table: str, run_id: str) -> list[str]:
    return [
        *("--source", source, "--target", target, "--run-id", run_id, "--degree", "1"),
        *("--table", "public.items", "--target-table", table, "--on-drift", ALL),
        *("--mode", "upsert", "--incremental", "xmin"),
    ]


def change(source: Side) -> None:
    source.run(
        "ALTER TABLE items RENAME word TO term",
        "ALTER TABLE items ADD note text DEFAULT 'none'",
        "INSERT INTO items VALUES (999, 'w', 'n')",
    )


@pytest.mark.parametrize(
    "needle",
    [b"RENAME COLUMN", b'ADD COLUMN IF NOT EXISTS "note"', b'DROP TABLE "public"."items__'],
)
def test_a_killed_night_has_changed_no_column(items: Pair, needle: bytes) -> None:
    night(items).done()
    before = items.target.rows("SELECT * FROM items ORDER BY id")
    change(items.source)
    with TcpProxy.of(items.target.url) as proxy, ExitStack() as stack:
        # The stage is altered as well.
        table = b'ALTER TABLE "public"."items" ' if b"COLUMN" in needle else b""
        words = words_of(items.source.url, proxy.url(items.target.url), "public.items", "late")
        stack.enter_context(killed_at(proxy, table + needle, *words))
        assert items.target.rows("SELECT * FROM items ORDER BY id") == before
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    list(penstock.resume("late", **ends, on_snapshot_lost="restart"))
    check_same(items)


@pytest.mark.parametrize("needle", [b"ADD COLUMN", b"lock_wait_timeout = @penstock_waits"])
def test_a_change_that_commits_by_itself_is_applied_once(
    source_url: str,
    source: psycopg.Connection[Any],
    mysql_server: AnyMysqlServer,
    needle: bytes,
) -> None:
    """The night is killed before the change, or after it but before its record."""
    mine = Side(source_url, source)
    mine.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text)",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 200) AS i",
    )
    with fresh_mysql(mysql_server) as url, ExitStack() as stack:
        table = url.rpartition("/")[2].partition("?")[0] + ".items"
        options: dict[str, Any] = {"source": source_url, "target": url, "target_table": table}
        OneCopy(**options, table="public.items", mode="upsert", incremental="xmin").done()
        change(mine)
        proxy = stack.enter_context(TcpProxy.of(url))
        words = words_of(source_url, proxy.url(url), table, "late")
        if needle == b"ADD COLUMN":  # as a statement, since the plan contains it as well
            needle = b"\x03ALTER TABLE `%b`.`items` ADD" % table.removesuffix(".items").encode()
        stack.enter_context(killed_at(proxy, needle, *words))
        ends: dict[str, Any] = {"source": source_url, "target": url}
        list(penstock.resume("late", **ends, on_snapshot_lost="restart"))
        with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, term, note FROM items ORDER BY id")
            assert list(cursor.fetchall()) == mine.rows("SELECT * FROM items ORDER BY id")


def test_readers_do_not_queue_behind_a_waiting_night(items: Pair) -> None:
    night(items).done()
    change(items.source)
    retried = threading.Event()

    def copy() -> None:
        for event in penstock.copy(CopySpec(**copy_options(items, on_drift=ALL))):
            if isinstance(event, StepChanged) and event.state == "retrying":
                retried.set()

    with closing(connect(items.target.url)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM items")
        thread = threading.Thread(target=copy)
        thread.start()
        try:
            assert retried.wait(PATIENCE)
            # Between two tries, others can read.
            with closing(connect(items.target.url)) as other:
                other.execute("SET lock_timeout = '30s'")
                other.execute("SELECT count(*) FROM items")
        finally:
            reader.execute("COMMIT")
            thread.join(PATIENCE)
    check_same(items)


def test_two_nights_may_find_the_same_drift(items: Pair) -> None:
    """They load parts of the same table, each with its own watermark."""
    halves = [{"where": f"id % 2 = {rest}", "watermark": f"half {rest}"} for rest in (0, 1)]
    for half in halves:
        night(items, **half).done()
    change(items.source)
    errors: list[PenstockError | None] = []

    def copy(half: dict[str, str]) -> None:
        errors.append(night(items, **half, on_drift=ALL).error)

    threads = [threading.Thread(target=copy, args=(half,)) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == [None, None]
    check_same(items)


def test_a_column_added_to_the_target_during_a_night_fails_it(items: Pair) -> None:
    """It has another type than the column that the night was to add."""
    night(items).done()
    items.source.run("ALTER TABLE items ADD note timestamp(6)")
    ran = []

    def add() -> None:
        items.target.run("ALTER TABLE items ADD note timestamp(0)")
        ran.append(items.target.rows(COLUMNS))

    error = None
    try:
        for event in penstock.copy(CopySpec(**copy_options(items, on_drift=ALL))):
            if not ran and is_committed(event):
                add()
    except PenstockError as found:
        error = found
    assert error is not None
    assert "expected column 'note' of public.items to be timestamp(6)" in error.message
    assert items.target.rows(COLUMNS) == ran[0]
    night(items, on_drift=ALL).done()
    check_same(items)


def test_a_column_added_to_the_source_during_a_night_fails_it(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'x' WHERE id = 1")
    penstock.create(CopySpec(**copy_options(items, run_id="early")))
    items.source.run("ALTER TABLE items ADD note text DEFAULT 'none'")
    with pytest.raises(penstock.PlanningError, match="column 'note' was added"):
        list(penstock.resume("early", source=items.source.url, target=items.target.url))
    assert full(night(items, on_drift="add")) != ""
    check_same(items)


def test_columns_of_a_batch_follow_the_source(items: Pair) -> None:
    for side in (items.source, items.target):
        side.run("CREATE TABLE others (id int PRIMARY KEY, n int)")
    batch: dict[str, Any] = {
        "source": items.source.url,
        "target": items.target.url,
        "tables": ("public.items", "public.others"),
    }
    options: dict[str, Any] = {"mode": "upsert", "incremental": "xmin"}

    def copied(**more: Any) -> None:
        list(penstock.copy_all(penstock.BatchSpec(**batch, defaults={**options, **more})))

    copied()
    change(items.source)
    items.source.run("ALTER TABLE others ALTER n TYPE bigint", "INSERT INTO others VALUES (1, 2)")
    with pytest.raises(PenstockError):
        copied()
    for atomic in ("table", "batch"):
        copied(on_drift=ALL, atomic=atomic)
        check_same(items)
        assert items.target.rows("TABLE others") == items.source.rows("TABLE others")
        items.source.run(
            f"ALTER TABLE others ADD by_{atomic} text DEFAULT 'x'", "UPDATE items SET note = NULL"
        )
        items.source.run(f"ALTER TABLE items ADD by_{atomic} text DEFAULT 'x'")


@pytest.mark.parametrize("on_drift", ["ignore", ALL])
@pytest.mark.parametrize("mode", ["upsert", "truncate"])
def test_a_created_run_with_drift_is_resumed(items: Pair, mode: str, on_drift: str) -> None:
    night(items).done()
    change(items.source)
    options = {"mode": mode, "incremental": None if mode == "truncate" else "xmin"}
    for time_ in range(2):
        run_id = f"run-{time_}"
        penstock.create(
            CopySpec(**copy_options(items, **options, on_drift=on_drift, run_id=run_id))
        )
        list(penstock.resume(run_id, source=items.source.url, target=items.target.url))
    count = "SELECT count(*) FROM items"
    assert items.target.rows(count) == items.source.rows(count)
    if on_drift == ALL:
        check_same(items)


def test_a_built_night_follows_the_source(items: Pair) -> None:
    items.target.run("CREATE INDEX by_word ON items (word)")
    night(items).done()
    items.source.run(
        "ALTER TABLE items ADD note text DEFAULT 'none', ALTER id TYPE bigint",
        "DELETE FROM items WHERE id = 3",
    )
    options = {"on_drift": ALL, "atomic_limit": "100", "deletes": "hard"}
    found = night(items, **options)
    found.done()
    assert [e for e in found.events if isinstance(e, StepChanged) and e.step_id == "swap"]
    check_same(items)
    assert items.target.rows(COLUMNS) == items.source.rows(COLUMNS)
    items.source.run("ALTER TABLE items RENAME word TO term")
    refused = night(items, **options)
    assert refused.code == 65
    assert "run first: ALTER TABLE" in refused.message
    items.target.run("ALTER TABLE items RENAME word TO term")
    night(items, **options).done()
    check_same(items)


def test_a_swapped_load_follows_the_source(items: Pair) -> None:
    items.source.run("ALTER TABLE items ADD note text DEFAULT 'none', ALTER id TYPE bigint")
    night(items, mode="swap", incremental=None, on_drift=ALL).done()
    check_same(items)
    assert items.target.rows(COLUMNS) == items.source.rows(COLUMNS)
