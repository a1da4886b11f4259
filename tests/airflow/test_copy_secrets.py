"""Nothing that Airflow or Penstock stores or shows contains a password."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psutil
import pytest

from penstock_testkit import PostgresServer
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, open_shop

# The parts of the passwords that would be visible in any quoting.
MARKS = ("Vq7Harbour", "Vq7Lantern")
# Characters with a meaning in a URL, a conninfo string, JSON, SQL or a template.
PASSWORD = f"{MARKS[0]} p@ss'w\\o\"r/d?#%&=:{{{{}}}}ü"
WRONG_PASSWORD = f"{MARKS[1]} p@ss'w\\o\"r/d?#%&=:{{{{}}}}ü"
DAG_TEXT = """
WRONG = {**ORDERS, "source_conn_id": "pg_wrong"}

with DAG("guarded", schedule=None, start_date=START, default_args={**AT_ONCE, "retries": 0}):
    copy_table(group_id="group", **ORDERS, mode="truncate", partitions=2, verify="counts")
    CopyTableOperator(task_id="one_task", **ORDERS, target_table="dw.orders", mode="recreate")
    copy_table(group_id="wrong", **WRONG)
    CopyTableOperator(task_id="wrong_task", **WRONG)
"""


@dataclass
class Watch:
    """The processes that other users of the machine can see while a DAG runs."""

    commands: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)
    """Environments of the processes that a task started."""
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            for process in psutil.Process().children(recursive=True):
                # It may end at any time.
                with contextlib.suppress(psutil.Error, OSError):
                    command = " ".join(process.cmdline())
                    self.commands.add(command)
                    if "penstock.workers.fork_server" in command:
                        environment = Path(f"/proc/{process.pid}/environ")
                        self.workers.add(environment.read_text(errors="replace"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with (
        PostgresServer(fsync=False, password=PASSWORD) as server,
        open_shop((server, server), folder) as shop,
    ):
        shop.fill(["orders"])
        shop.target.execute("CREATE SCHEMA dw")
        parts = urlsplit(shop.connections["pg_src"])
        place = parts.netloc.rpartition("@")[2]
        netloc = f"{parts.username}:{quote(WRONG_PASSWORD, safe='')}@{place}"
        shop.connections["pg_wrong"] = urlunsplit(parts._replace(netloc=netloc))
        yield shop


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def run(shop: Shop, watch: Watch) -> DagRunResult:
    with watch.running():
        return shop.run(shop.write(DAG_TEXT), "guarded")


def marked(text: str) -> list[str]:
    """Return the parts of a text that show a password."""
    return [text[max(0, at - 300) : at + 300] for mark in MARKS if (at := text.find(mark)) >= 0]


def test_the_copies_ran(shop: Shop, run: DagRunResult) -> None:
    assert run.task("group.verify").state == "success"
    assert run.task("one_task").state == "success"
    shop.assert_same("orders")
    shop.assert_same("orders", "dw.orders")


@pytest.mark.parametrize("task_id", ["wrong.prepare", "wrong_task"])
def test_the_error_for_a_wrong_password_does_not_show_it(run: DagRunResult, task_id: str) -> None:
    assert run.task(task_id).state == "failed"
    assert "password authentication failed" in run.task(task_id).log


def test_nothing_that_airflow_stores_or_shows_has_a_password(shop: Shop, run: DagRunResult) -> None:
    assert "committed: p0001" in run.output
    assert marked(run.output) == []
    stored = {
        path: path.read_bytes().decode(errors="replace")
        for path in shop.runner.home.rglob("*")
        if path.is_file()
    }
    # Airflow's tables are in one file without compression, so their contents can be found.
    assert "public.orders" in stored[shop.runner.database]
    assert {path: found for path, text in stored.items() if (found := marked(text))} == {}


def test_the_control_tables_have_no_password(shop: Shop, run: DagRunResult) -> None:
    names = shop.target.execute(
        "SELECT oid::regclass::text FROM pg_class"
        " WHERE relkind = 'r' AND relnamespace = 'penstock'::regnamespace"
    ).fetchall()
    rows = [
        row[0]
        for (name,) in names
        for row in shop.target.execute(f"SELECT t::text FROM {name} AS t".encode()).fetchall()
    ]
    assert any("public.orders" in row for row in rows)
    assert [row for row in rows if marked(row)] == []


def test_no_process_shows_a_password(run: DagRunResult, watch: Watch) -> None:
    assert watch.workers
    assert [command for command in watch.commands if marked(command)] == []
    assert [environment for environment in watch.workers if marked(environment)] == []
