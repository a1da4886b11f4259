"""A password appears nowhere except in memory and on the way to its server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from penstock import PenstockError, copy
from penstock.events import Event
from penstock_testkit import PostgresServer

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

# Characters with a special meaning in a URL, a conninfo string, JSON and SQL.
PASSWORD = "Zz9 p@ss'w\\o\"r/d?#%&=:{}ü"
# Recognisable whichever way it is quoted.
MARK = "Zz9"


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False, password=PASSWORD) as server:
        yield server


@pytest.fixture
def guarded(guarded_server: PostgresServer, make_pair: Callable[..., Pair]) -> Iterator[Pair]:
    """One server with a password is both source and target, in different schemas."""
    url = guarded_server.url
    with psycopg.connect(url, autocommit=True) as source:
        source.execute("DROP TABLE IF EXISTS t, copied")
        source.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
        source.execute("CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 1000) AS n")
        source.execute("CREATE TABLE copied (id int)")
        yield make_pair(url, url, source, source)


@dataclass
class Seen:
    """Everything that other users of the machine could see of a running copy."""

    commands: str = ""
    environments: str = ""
    children: set[int] = field(default_factory=set)
    """The supervisor's children: workers, and the process that starts them."""

    def look(self, supervisor: int, ignored: Collection[psutil.Process] = ()) -> None:
        for process in psutil.process_iter():
            try:
                self.commands += " ".join(process.cmdline()) + "\n"
            except psutil.Error:
                continue
        parent = psutil.Process(supervisor)
        children = set(parent.children(recursive=True)) - set(ignored)
        self.children |= {child.pid for child in children}
        for child in children:
            # A child may end while it is inspected.
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                # Before it executes another program, a child shows its parent's command line.
                if child.cmdline() != parent.cmdline():
                    environment = Path(f"/proc/{child.pid}/environ")
                    self.environments += environment.read_text(errors="replace")


def control_tables(pair: Pair) -> str:
    return "\n".join(
        str(row)
        for table in ("run", "commit_record")
        for row in pair.target.rows(f"SELECT t::text FROM penstock.{table} AS t")
    )


def waiting_for_a_lock(pair: Pair) -> bool:
    waiting = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return bool(pair.target.value(waiting))


REFERENCES = {
    "url": ({}, "{url}"),
    "env": ({"SHOP": "{url}"}, "env:SHOP"),
    # A name that would be passed on to a worker's environment.
    "env of a name that passes": ({"PYTHON_SHOP": "{url}"}, "env:PYTHON_SHOP"),
    "file": ({}, "{file}"),
    "command": ({}, "{command}"),
    "PGPASSWORD": ({"PGPASSWORD": PASSWORD}, "{bare}"),
    "PGPASSWORD and another name": (
        {"PGPASSWORD": PASSWORD, "LC_SHOP": PASSWORD},
        "{bare}",
    ),
}


@pytest.mark.parametrize(("environ", "reference"), REFERENCES.values(), ids=REFERENCES)
def test_a_copy_shows_no_password(
    guarded: Pair,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    environ: dict[str, str],
    reference: str,
) -> None:
    url = guarded.source.url
    (tmp_path / "url").write_text(f"{url}\n")
    (tmp_path / "token").write_text(f"{PASSWORD}\n")
    login, _, address = url.partition("://")[2].rpartition("@")
    words = {
        "url": url,
        "file": f"file:{tmp_path}/url",
        "bare": f"postgresql://{login.partition(':')[0]}@{address}",
    }
    words["command"] = f"{words['bare']}?auth=command:cat%20{tmp_path}/token"
    for name, value in environ.items():
        monkeypatch.setenv(name, words.get(value.strip("{}"), value))
    end = words.get(reference.strip("{}"), reference)
    spec = guarded.spec(
        source=end,
        target=end,
        target_table="public.copied",
        partitions=3,
        strategy="ctid",
        degree=2,
    )
    # The test servers are children of this process too.
    servers = psutil.Process().children(recursive=True)
    seen, events = Seen(), list[Event]()
    for event in copy(spec):
        events.append(event)
        if event.name in ("opened", "committed"):
            seen.look(os.getpid(), servers)
    assert guarded.target.count("copied") == 1000
    assert len(seen.children) >= 2
    assert "penstock" in seen.commands
    assert "PATH=" in seen.environments
    assert MARK not in seen.commands
    assert MARK not in seen.environments
    assert MARK not in "\n".join(event.to_line() for event in events) + repr(events)
    assert MARK not in control_tables(guarded)
    assert MARK not in repr(spec)


@pytest.mark.parametrize("json", [False, True])
def test_the_command_line_shows_no_password(guarded: Pair, json: bool) -> None:
    arguments = [
        sys.executable, "-m", "penstock.cli.main", "copy", "--table", "public.t",
        "--source", "env:SHOP", "--target", "env:SHOP", "--target-table", "public.copied",
        *(["--json"] if json else []),
    ]  # fmt: skip
    seen = Seen()
    with psycopg.connect(guarded.target.url) as other:
        other.execute("LOCK TABLE copied IN ACCESS EXCLUSIVE MODE")
        process = subprocess.Popen(
            arguments,
            env={**os.environ, "SHOP": guarded.source.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not waiting_for_a_lock(guarded) and process.poll() is None:
            seen.look(process.pid)
        seen.look(process.pid)
        other.rollback()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert seen.children
    assert "PATH=" in seen.environments
    assert MARK not in seen.commands + seen.environments
    assert MARK not in stdout + stderr
    assert MARK not in control_tables(guarded)


def test_a_wrong_password_is_not_shown(guarded: Pair) -> None:
    url = guarded.source.url.replace("Zz9", "Zz9wrong")
    with pytest.raises(PenstockError) as caught:
        guarded.events(source=url, target=url)
    assert "password authentication failed" in caught.value.message
    assert MARK not in repr(caught.value.as_json())
    assert MARK not in repr(caught.value)


def test_a_failing_partition_shows_no_password(guarded: Pair) -> None:
    guarded.target.run("ALTER TABLE copied ADD CHECK (id < 500)")
    events: list[Event] = []
    with pytest.raises(PenstockError) as caught:
        events.extend(copy(guarded.spec(target_table="public.copied")))
    assert MARK not in repr(caught.value)
    assert MARK not in control_tables(guarded)
    assert "23514" in control_tables(guarded)
