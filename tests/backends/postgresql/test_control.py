"""The control tables: who may create them, what they record, and `status` and `verify`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from penstock import PlanningError, control_ddl, copy, report, status, verify
from penstock.backends.postgresql.connection import connect
from penstock.events import Committed, Planned, Sampled

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

ROWS = "INSERT INTO t SELECT n, repeat('x', n % 50) FROM generate_series(1, 1000) AS n"


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int, name text)")
    pair.source.run(ROWS, "ANALYZE t")
    return pair


class TestRecords:
    def test_commit_records_say_what_was_moved(self, filled: Pair) -> None:
        events = filled.events(strategy="range", key="id", partitions=4, run_id="r1", degree=2)
        plan = filled.plan(strategy="range", key="id", partitions=4)
        committed = {event.partition_id: event for event in events if isinstance(event, Committed)}
        records = status("r1", target=filled.target.url).committed
        assert [record.partition_id for record in records] == [part.id for part in plan.partitions]
        for record, part in zip(records, plan.partitions, strict=True):
            event = committed[part.id]
            assert (record.rows, record.bytes, record.attempt) == (event.rows, event.bytes, 1)
            assert record.started_at <= record.committed_at
            where = str(part.extent).replace("id [", "").rstrip(")")
            if ", " in where:
                lower, upper = where.split(", ")
                where = f"id >= {lower} AND id < {upper}"
            assert record.rows == filled.source.count(where=where)
            assert record.bytes == copied_bytes(filled, where)
        assert sum(record.rows for record in records) == 1000

    def test_a_runs_record_says_what_was_requested(self, filled: Pair) -> None:
        filled.copy(run_id="r1", where="id > 500", strategy="ctid", partitions=2)
        shown = status("r1", target=filled.target.url).as_json()
        assert shown["status"] == "done"
        assert shown["spec"]["where"] == "id > 500"
        assert shown["strategy"] == "ctid"
        assert shown["partitions"] == 2
        assert (
            shown["fingerprint"]
            == filled.plan(where="id > 500", strategy="ctid", partitions=2).fingerprint
        )
        assert len(shown["snapshots"]) == 1
        assert shown["pending"] == shown["running"] == shown["failures"] == []
        assert shown["created_at"] <= shown["prepared_at"] <= shown["finished_at"]


def copied_bytes(pair: Pair, where: str) -> int:
    query = f"COPY (SELECT id, name FROM t WHERE {where}) TO STDOUT (FORMAT binary)"
    with pair.source.connection.cursor().copy(query.encode()) as stream:
        return sum(len(block) for block in stream)


class TestStatus:
    def test_an_interrupted_run(self, filled: Pair) -> None:
        spec = filled.spec(strategy="range", key="id", partitions=4, run_id="r1")
        events = copy(spec)
        for event in events:
            if isinstance(event, Committed):
                break
        events.close()
        done = filled.cli("status", "r1", "--target", filled.target.url, "--json")
        assert done.returncode == 0, done.stderr
        shown = json.loads(done.stdout)
        assert shown["status"] == "interrupted"
        assert len(shown["committed"]) >= 1
        assert len(shown["committed"]) + len(shown["pending"]) == shown["partitions"]
        assert shown["running"] == []

    def test_a_run_in_progress(self, filled: Pair) -> None:
        # Another session's lock blocks the copy.
        with psycopg.connect(filled.target.url) as other:
            events = copy(filled.spec(strategy="whole", run_id="r1"))
            for event in events:
                if isinstance(event, Planned):
                    other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
                if event.name == "progress":
                    break
            (attempt,) = status("r1", target=filled.target.url).running
            assert (attempt.partition_id, attempt.attempt) == ("p0001", 1)
            other.rollback()
            assert [event.name for event in events][-1] == "finished"

    @pytest.mark.parametrize("command", ["status", "verify", "resume"])
    def test_an_unknown_run(self, filled: Pair, command: str) -> None:
        source = [] if command == "status" else ["--source", filled.source.url]
        done = filled.cli(command, "r9", "--target", filled.target.url, *source)
        assert done.returncode == 64
        assert "run 'r9' is not in the target's control schema" in done.stderr
        assert not filled.has_control_schema()


@pytest.mark.parametrize("table", ["run", "commit_record", "step_record", "volatile_run"])
@pytest.mark.parametrize("command", ["status", "resume"])
def test_a_missing_control_table_is_named(filled: Pair, command: str, table: str) -> None:
    filled.copy(run_id="r1")
    filled.target.run(f"DROP TABLE penstock.{table} CASCADE")
    source = [] if command == "status" else ["--source", filled.source.url]
    done = filled.cli(command, "r1", "--target", filled.target.url, *source)
    assert done.returncode == 65
    assert f'control schema \'penstock\' lacks "penstock"."{table}"' in done.stderr


class TestVerify:
    @pytest.mark.parametrize("mode", ["truncate", "replace"])
    def test_names_the_partition_that_lacks_a_row(self, filled: Pair, mode: str) -> None:
        filled.copy(strategy="range", key="id", partitions=4, run_id="r1", mode=mode)
        arguments = ["verify", "r1", *filled.ends]
        good = filled.cli(*arguments)
        assert good.returncode == 0, good.stdout + good.stderr
        filled.target.run("DELETE FROM t WHERE id = 1000")
        bad = filled.cli(*arguments)
        assert bad.returncode == 65
        shown = json.loads(filled.cli(*arguments, "--json").stdout)
        wrong = [check for check in shown["checks"] if not check["ok"]]
        assert [check["partition_id"] for check in wrong] == ["p0004", None]
        for check in wrong:
            assert check["note"].startswith("the target has ")
            assert check["target"] == check["committed"] - 1
        assert "p0004" in bad.stdout + bad.stderr

    def test_distinguishes_blocks_by_the_run_that_loaded_them(self, filled: Pair) -> None:
        filled.copy(strategy="ctid", partitions=2, run_id="r1", mode="truncate")
        source, target = filled.source.url, filled.target.url
        assert verify("r1", source=source, target=target).ok
        filled.target.run("INSERT INTO t VALUES (0, 'one too many')")
        result = verify("r1", source=source, target=target)
        assert [check.partition_id for check in result.checks if not check.ok] == [None]
        filled.target.run("DELETE FROM t WHERE id IN (0, 1000)")
        result = verify("r1", source=source, target=target)
        assert [check.partition_id for check in result.checks if not check.ok] == ["p0002", None]

    def test_counts_only_the_runs_rows(self, filled: Pair) -> None:
        filled.target.run("INSERT INTO t VALUES (0, 'mine')")
        filled.copy(strategy="range", key="id", partitions=2, run_id="r1")
        source, target = filled.source.url, filled.target.url
        result = verify("r1", source=source, target=target)
        assert result.ok
        assert [check.target for check in result.checks] == [
            check.committed for check in result.checks
        ]
        filled.source.run("INSERT INTO t VALUES (-1, 'late')")
        wrong = verify("r1", source=source, target=target)
        assert [check.partition_id for check in wrong.checks if not check.ok] == ["p0001", None]


class TestReport:
    def test_is_shown_on_the_command_line(self, filled: Pair, tmp_path: Path) -> None:
        filled.copy(run_id="r1", strategy="ctid", partitions=3)
        page = tmp_path / "r1.html"
        target = ("--target", filled.target.url)
        done = filled.cli("report", "r1", *target, "--html", str(page))
        assert done.returncode == 0
        assert done.stdout.startswith("run r1 done\n")
        assert "waiting for target" in done.stdout
        assert "<svg" in page.read_text(encoding="utf-8")
        found = json.loads(filled.cli("report", "r1", *target, "--json").stdout)
        assert (found["status"], found["committed"], found["rows"]) == ("done", 3, 1000)
        for word in (urlsplit(filled.target.url).netloc, filled.source.url):
            assert word not in page.read_text(encoding="utf-8")

    def test_of_an_unknown_run(self, filled: Pair, tmp_path: Path) -> None:
        filled.copy(run_id="r1")
        target = ("--target", filled.target.url)
        for command in ("status", "report"):
            failed = filled.cli(command, "other", *target)
            assert failed.returncode == 64
            assert "run 'other' is not in the target's control schema 'penstock'" in failed.stderr
        failed = filled.cli("report", "r1", *target, "--html", str(tmp_path / "no" / "page"))
        assert failed.returncode == 64
        assert "--html: cannot write" in failed.stderr

    def test_names_what_the_servers_waited_for(self, filled: Pair) -> None:
        """A wait for another session's lock, by the target's own name for it."""
        with psycopg.connect(filled.target.url) as other:
            other.execute("LOCK TABLE t IN SHARE MODE")
            events = copy(filled.spec(run_id="r1"))
            for event in events:
                if isinstance(event, Sampled) and event.side == "target":
                    break
            other.rollback()
            for _ in events:
                pass
        waits = report("r1", target=filled.target.url).waits["target"]
        assert ("Lock:relation", "locks") in [(wait.wait, wait.kind) for wait in waits]

    @pytest.mark.parametrize(
        "spoil",
        [
            "ALTER TABLE penstock.journal ADD CHECK (run_id <> 'r1')",
            "ALTER TABLE penstock.journal RENAME content TO was",
        ],
    )
    def test_a_journal_that_cannot_be_written_does_no_harm(self, filled: Pair, spoil: str) -> None:
        filled.copy(run_id="old")
        filled.target.run(spoil)
        filled.copy(run_id="r1")
        assert status("r1", target=filled.target.url).run.status == "done"

    def test_a_locked_journal_does_no_harm(self, filled: Pair) -> None:
        filled.copy(run_id="old")
        with psycopg.connect(filled.target.url) as other:
            other.execute("LOCK TABLE penstock.journal IN ACCESS EXCLUSIVE MODE")
            filled.copy(run_id="r1")
            assert status("r1", target=filled.target.url).run.status == "done"


@pytest.fixture
def loader(filled: Pair) -> Iterator[str]:
    """A user who may load the table, but create nothing."""
    name = f"loader_{os.getpid()}"
    filled.target.run(f"CREATE ROLE {name} LOGIN", f"GRANT SELECT, INSERT ON t TO {name}")
    try:
        yield name
    finally:
        with psycopg.connect(filled.target.url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {name}".encode())
            connection.execute(f"DROP ROLE {name}".encode())


def as_user(url: str, user: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}"))


class TestPrivileges:
    @pytest.mark.parametrize("schema", ["penstock", 'De"part.ment'])
    def test_an_administrator_can_create_the_tables(
        self, filled: Pair, loader: str, schema: str
    ) -> None:
        url = as_user(filled.target.url, loader)
        options: dict[str, Any] = {"target": url, "control_schema": schema}
        with pytest.raises(PlanningError) as caught:
            filled.events(**options)
        for part in (loader, "may not create the control tables", schema, "penstock control-ddl"):
            assert part in caught.value.message
        assert filled.target.count() == 0
        assert not filled.has_control_schema(schema)

        done = filled.cli("control-ddl", "--target", "postgresql://", "--control-schema", schema)
        assert done.returncode == 0
        filled.target.run(done.stdout)
        quoted = '"' + schema.replace('"', '""') + '"'
        filled.target.run(
            f"GRANT USAGE ON SCHEMA {quoted} TO {loader}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {quoted} TO {loader}",
        )
        filled.copy(**options)
        assert filled.target.count() == 1000
        assert filled.target.count(f"{quoted}.commit_record") == 1

    def test_control_ddl_contains_the_grants_that_a_loader_needs(self) -> None:
        text = control_ddl("postgresql://")
        assert "GRANT USAGE ON SCHEMA" in text
        assert "GRANT SELECT, INSERT, UPDATE, DELETE" in text

    def test_control_ddl_may_be_run_again(self, filled: Pair) -> None:
        filled.copy(run_id="r1")
        filled.target.run(control_ddl("postgresql://"))
        assert filled.target.count("penstock.commit_record") == 1

    def test_another_control_schema_knows_nothing_of_the_run(self, filled: Pair) -> None:
        filled.copy(run_id="r1", control_schema="one")
        filled.copy(run_id="r1", control_schema="two")
        assert filled.target.count() == 2000
        assert not filled.has_control_schema()
        assert status("r1", target=filled.target.url, control_schema="two").committed


def test_the_server_checks_whether_its_client_is_alive(pair: Pair) -> None:
    """Without the check, locks of a crashed client machine would stay for two hours."""
    with closing(connect(pair.target.url, "target", "penstock:test")) as connection:
        assert connection.execute("SHOW tcp_keepalives_idle").fetchone() == ("60",)
        assert connection.execute("SHOW tcp_keepalives_count").fetchone() == ("6",)
