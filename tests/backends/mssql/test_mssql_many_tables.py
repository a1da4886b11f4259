"""Statements about many tables and with many records, as text, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from penstock.backends.api.execution.records import NOW, Kind
from penstock.backends.mssql import catalog
from penstock.backends.mssql.catalog.tables import size_of
from penstock.backends.mssql.connection import LOCK_TIMEOUT
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import DriverError
from penstock.backends.mssql.records import MOST_VALUES, MssqlRecords
from penstock.backends.mssql.session import CATALOG, ONE_TABLE, MssqlSession, query_for_many
from penstock.backends.sql.session import keeping
from penstock.model.tables import TableRef

TABLES = [TableRef("dbo", "a"), TableRef("dbo", "b"), TableRef("dbo", "gone")]


def test_a_query_about_one_table_is_rewritten_for_many() -> None:
    one = f"SELECT c.name {ONE_TABLE} JOIN sys.columns AS c ON c.object_id = o.object_id"
    assert query_for_many(f"{one} ORDER BY c.column_id", [7, 9]) == (
        "SELECT o.object_id, c.name FROM (SELECT v.object_id FROM (VALUES (7), (9)) AS v"
        " (object_id)) AS o JOIN sys.columns AS c ON c.object_id = o.object_id"
        " ORDER BY c.column_id"
    )
    assert query_for_many(one.replace("SELECT", "SELECT DISTINCT", 1), [7]).startswith(
        "SELECT DISTINCT o.object_id, c.name FROM (SELECT v.object_id"
    )


def test_each_catalog_query_can_be_rewritten_for_many_tables() -> None:
    names = [file.stem for file in Path(catalog.__path__[0]).joinpath("sql").iterdir()]
    assert len(names) > 20
    for name in names:
        assert (
            query_for_many(CATALOG[name], [7]).count("FROM (VALUES (7)) AS v (object_id)) AS o ")
            == 1
        )


class Connection:
    """A connection that returns prepared answers, and records the statements."""

    babelfish = False
    utf8 = True
    inside = home = "db"
    side = "source"

    def __init__(self) -> None:
        self.statements: list[tuple[str, Sequence[Any]]] = []

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.statements.append((query, values))
        if "OBJECT_ID(?)" in query:
            return [(7, 9, None)]
        return [(9, 20), (7, 10)]

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        self.statements.append((statement, values))
        return statement.count("(?")


def opened() -> tuple[MssqlSession, Connection]:
    connection = Connection()
    return MssqlSession(cast("Any", connection)), connection


def test_facts_of_all_tables_take_one_query() -> None:
    session, connection = opened()
    with keeping(session, TABLES):
        assert [size_of(session, table) for table in TABLES] == [
            (10, 10 * 8192),
            (20, 20 * 8192),
            (0, 0),
        ]
    numbers, rows, pages = connection.statements
    assert numbers == (
        "SELECT OBJECT_ID(?), OBJECT_ID(?), OBJECT_ID(?)",
        [MSSQL.table(table) for table in TABLES],
    )
    for query, values in (rows, pages):
        assert not values
        assert query.endswith("GROUP BY o.object_id")


def test_many_records_are_added_at_once() -> None:
    session, connection = opened()
    records = MssqlRecords(session, "penstock", loading=True)
    rows = [{"run_id": f"r{n}", "step_id": "s", "done_at": NOW} for n in range(3)]
    assert records.add(Kind.STEP, rows) == 3
    ((statement, values),) = connection.statements
    now = records.now
    assert statement == (
        'INSERT INTO "penstock"."step_record" ("run_id", "step_id", "done_at")'
        ' SELECT "run_id", "step_id", "done_at"'
        f" FROM (VALUES (?, ?, {now}), (?, ?, {now}), (?, ?, {now}))"
        ' AS v ("run_id", "step_id", "done_at") WHERE NOT EXISTS (SELECT 1'
        ' FROM "penstock"."step_record" AS o WITH (UPDLOCK, HOLDLOCK)'
        ' WHERE o."run_id" = v."run_id" AND o."step_id" = v."step_id")'
    )
    assert values == ["r0", "s", "r1", "s", "r2", "s"]


def test_no_statement_has_more_values_than_the_server_accepts() -> None:
    session, connection = opened()
    records = MssqlRecords(session, "penstock", loading=True)
    rows = [{"run_id": f"r{n}", "step_id": "s"} for n in range(MOST_VALUES)]
    records.add(Kind.STEP, rows)
    assert [len(values) for _, values in connection.statements] == [MOST_VALUES, MOST_VALUES]


class Locked(Connection):
    """Two stages of dead attempts, one of which is still locked."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if "APPLOCK_TEST" in query:
            return [(1,)]
        return [("locked", "a", 1, 0, 1), ("mine", "b", 1, 0, 1), ("free", "c", 1, 0, 0)]

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        if statement.startswith("DROP TABLE") and "stage locked" in statement:
            raise DriverError("HYT00", "Lock request time out period exceeded")
        return super().change(statement, values)


def test_a_locked_stage_is_left_to_the_next_sweep() -> None:
    connection = Locked()
    records = MssqlRecords(MssqlSession(cast("Any", connection)), "penstock", loading=True)
    records.sweep("mine")
    changed = [statement for statement, _ in connection.statements]
    assert 'DROP TABLE IF EXISTS "penstock"."stage free"' in changed
    assert not any("stage mine" in statement for statement in changed)
    deleted = [
        values for statement, values in connection.statements if statement.startswith("DELETE")
    ]
    assert deleted == [["free"]]
    assert changed[-1] == LOCK_TIMEOUT
