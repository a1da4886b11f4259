"""Two databases with TPC-H tables, and an Airflow that copies between them with `dag.test()`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from penstock_testkit import Server, tpch
from penstock_testkit.airflow import DagRunner, DagRunResult

from ..conftest import fresh_database

if TYPE_CHECKING:
    from tests.conftest import Connection

PATIENCE = 60.0
# The beginning of every DAG of these tests, the same in Airflow 2.11 and 3.
HEAD = """
from datetime import datetime, timedelta

import psycopg
from airflow.providers.common.compat.sdk import DAG, Asset, BaseHook, task

from penstock_airflow import *

START = datetime(2026, 1, 1)
ENDS = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}
ORDERS = {**ENDS, "table": "public.orders", "strategy": "range", "key": "o_orderkey"}
AT_ONCE = {"retry_delay": timedelta(0)}
"""
# A sum does not depend on the order of rows, and changes if one is doubled or missing.
CONTENT = "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {} AS t WHERE {}"
# A sequence keeps its value: its count is not rolled back with the transaction.
REFUSE = """
CREATE SEQUENCE {table}_refused;
CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('{table}_refused') <= {times} THEN
        RAISE 'refused by a trigger' USING ERRCODE = '{sqlstate}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW
    WHEN (NEW.{key} = {value}) EXECUTE FUNCTION refuse_{table}()"""
SESSIONS = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'penstock%'"""
SERIALIZATION_FAILURE = "40001"


@dataclass
class Shop:
    """Two databases, and the DAGs that copy between them.

    Args:
        dags: an empty folder for DAG files.
    """

    source: Connection
    target: Connection
    connections: dict[str, str]
    """URLs by the ids of their Airflow connections."""
    runner: DagRunner
    dags: Path
    rows: dict[str, int] = field(default_factory=dict)
    """The number of rows in the source's tables, by table."""

    def fill(
        self, tables: Sequence[str], scale: float = 0.01, *, primary_keys: bool = False
    ) -> None:
        """Fill tables of the source, and create the same tables empty in the target."""
        source, target = self.connections["pg_src"], self.connections["pg_dst"]
        self.rows |= tpch.load(source, tables, scale, primary_keys=primary_keys)
        tpch.create(target, tables, primary_keys=primary_keys)

    def both(self, statements: str) -> None:
        self.source.execute(statements.encode())
        self.target.execute(statements.encode())

    def refuse(
        self, table: str, key: str, value: int, times: int, sqlstate: str = SERIALIZATION_FAILURE
    ) -> None:
        """Make the target reject a row a number of times."""
        self.target.execute(
            REFUSE.format(
                table=table, key=key, value=value, times=times, sqlstate=sqlstate
            ).encode()
        )

    def write(self, text: str) -> Path:
        """Write a DAG file with `HEAD` and the given text."""
        path = self.dags / f"dag_file_{len(list(self.dags.iterdir()))}.py"
        path.write_text(HEAD + text)
        return path

    def run(self, file: Path, dag_id: str, **options: Any) -> DagRunResult:
        """Run a DAG to its end, with options of `DagRunner.run`."""
        return self.runner.run(file, dag_id, connections=self.connections, **options)

    def assert_same(self, source: str, target: str | None = None, where: str = "true") -> None:
        """Check that both tables have the same rows, equally often, and are not empty."""
        mine = content(self.source, source, where)
        assert mine[0] > 0
        assert content(self.target, target or source, where) == mine

    def assert_no_session(self) -> None:
        """Check that no copy's session remains on either server, after a moment to end."""
        deadline = time.monotonic() + PATIENCE
        while (sessions := self._sessions()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert sessions == []

    def _sessions(self) -> list[str]:
        return [
            row[0]
            for side in (self.source, self.target)
            for row in side.execute(SESSIONS.encode()).fetchall()
        ]


def content(side: Connection, table: str, where: str = "true") -> tuple[int, Any]:
    """Return the number of a table's rows, and a checksum of them."""
    found = side.execute(CONTENT.format(table, where).encode()).fetchone()
    assert found is not None
    return int(found[0]), found[1]


@contextmanager
def open_shop(
    servers: tuple[Server, Server],
    folder: Path,
    *,
    python: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Shop]:
    """Open a shop.

    Args:
        servers: source and target; each gets a database of its own.
        folder: an empty one, for Airflow.
        python, settings: those of `DagRunner`.
    """
    with (
        fresh_database(servers[0]) as source_url,
        fresh_database(servers[1]) as target_url,
        psycopg.connect(source_url, autocommit=True) as source,
        psycopg.connect(target_url, autocommit=True) as target,
    ):
        dags = folder / "dags"
        dags.mkdir()
        runner = DagRunner(folder / "airflow", python, settings)
        urls = {"pg_src": source_url, "pg_dst": target_url}
        yield Shop(source, target, urls, runner, dags)
