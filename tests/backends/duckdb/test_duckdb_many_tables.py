"""Questions about many tables at once get the same answers as about one; only a bad table fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from penstock import BatchSpec, RunFailed, copy_all
from penstock.backends.api.execution.control import RunRow
from penstock.backends.duckdb.source import DuckSource
from penstock.backends.duckdb.target import DuckTarget
from penstock.backends.sql.one_file.load_hooks import FileLoadHooks
from penstock.errors import PermanentError, PlanningError
from penstock.events import BatchFinished, Event
from penstock.model.plans import Step
from penstock.model.tables import TableRef

TABLES = [TableRef("main", f"t{number}") for number in range(5)]
MISSING = TableRef("main", "missing")


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "many.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        connection.execute("CREATE TABLE t0 (id INTEGER PRIMARY KEY, m mood, Penstock_Row TEXT)")
        connection.execute("CREATE TABLE t1 (id BIGINT, l DECIMAL(9,2)[], u UUID DEFAULT uuid())")
        connection.execute("CREATE INDEX by_id ON t1 (id)")
        connection.execute("CREATE TABLE t2 (a INTEGER NOT NULL, b INTEGER AS (a + 1), j JSON)")
        connection.execute("CREATE VIEW t3 AS SELECT id, m FROM t0")
        connection.execute("CREATE TABLE t4 (s STRUCT(a INTEGER, b TEXT), n BIGINT UNIQUE)")
        connection.execute("INSERT INTO t0 SELECT r, 'sad', 'x' FROM range(300) AS g (r)")
        connection.execute("INSERT INTO t2 (a) SELECT r FROM range(200000) AS g (r)")
    return path


def answers_of(source: DuckSource, table: TableRef) -> list[Any]:
    columns = source.columns(table)
    return [
        columns,
        source.in_arrow(table, columns),
        source.definition(table, partitioning=True).model,
        source.statistics(table, None),
    ]


def test_a_source_answers_the_same_for_many_tables(path: str) -> None:
    with closing(DuckSource(path)) as source:
        alone = [answers_of(source, table) for table in TABLES]
        with source.describing([*TABLES, MISSING]):
            assert [answers_of(source, table) for table in TABLES] == alone
            with pytest.raises(PlanningError, match="no such table"):
                source.columns(MISSING)


def test_a_target_answers_the_same_for_many_tables(path: str) -> None:
    with closing(DuckTarget(path, "penstock")) as target:
        alone = [(target.columns(table), target.unique_key(table)) for table in TABLES]
        with target.describing([*TABLES, MISSING]):
            many = [(target.columns(table), target.unique_key(table)) for table in TABLES]
            with pytest.raises(PlanningError, match="no such table"):
                target.columns(MISSING)
        assert many == alone


def test_only_the_table_whose_step_fails_fails(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction that prepares all tables is rolled back, and each half is tried."""
    do = FileLoadHooks.do

    def refusing(self: FileLoadHooks, run: RunRow, step: Step) -> None:
        if run.plan.load.table.name == "t2":
            raise PermanentError("target: t2 cannot be made")
        do(self, run, step)

    monkeypatch.setattr(FileLoadHooks, "do", refusing)
    copied = tmp_path / "copied.duckdb"
    options = {
        "source": f"duckdb:///{path}",
        "target": f"duckdb:///{copied}",
        "tables": ["main.t0", "main.t1", "main.t2", "main.t4"],
        "mode": "recreate",
        "degree": 1,
    }
    events: list[Event] = []
    with pytest.raises(RunFailed):
        _keep(copy_all(BatchSpec.from_mapping(options, "test")), events)
    end = events[-1]
    assert isinstance(end, BatchFinished)
    assert {table.table: table.status for table in end.tables} == {
        "main.t0": "done",
        "main.t1": "done",
        "main.t2": "failed",
        "main.t4": "done",
    }
    with duckdb.connect(str(copied), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM t0").fetchall() == [(300,)]


def _keep(happening: Iterator[Event], events: list[Event]) -> None:
    events.extend(happening)
