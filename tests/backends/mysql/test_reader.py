"""A worker's reader of a MySQL server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from penstock import PermanentError
from penstock.backends.api.worker import ARROW
from penstock.backends.mysql.reader import MySqlReader
from penstock.errors import StallError
from penstock.model.extents import Bound, Extent, Key, KeyRange, Whole
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Query, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter
from penstock_testkit import connect_mysql

ROWS = 20_000


@pytest.fixture
def connection(mysql_url: str) -> Iterator[Any]:
    with closing(connect_mysql(mysql_url, sql_mode="")) as found:
        run(found, "CREATE TABLE t (n int PRIMARY KEY, f float, d date NULL)")
        with found.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO t VALUES (%s, %s, '2026-01-01')", [(n, n / 8) for n in range(ROWS)]
            )
        yield found


def run(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def spec(url: str, *columns: str, relation: Relation | None = None, **changes: Any) -> WorkerSpec:
    arguments: dict[str, Any] = {
        "run_id": "r1",
        "generation": 1,
        "source": url,
        "target": "",
        "source_backend": "",
        "target_backend": "",
        "relation": relation or TableRef(url.rpartition("/")[2], "t"),
        "target_table": TableRef("", "t"),
        "pairs": tuple(ColumnPair(name, f"to_{name}") for name in columns),
        "format": ARROW,
        "where": None,
        "mode": "append",
        "conflict_columns": (),
        "volatile": False,
        "series": "",
        "snapshot": None,
        "stall_timeout": 60,
        "grace": 10,
        "control_schema": "penstock",
        "schema": "",
        "writing": {},
    }
    return WorkerSpec(**{**arguments, **changes})


def read(reader: MySqlReader, extent: Extent | None = None) -> pa.Table:
    batches = []
    for batch, rows, size in reader.read(Partition("p1", extent or Whole()), Waiter(Meter(), 60)):
        assert (batch.num_rows, batch.nbytes) == (rows, size)
        batches.append(batch)
    found = pa.Table.from_batches(batches)
    assert reader.rows == found.num_rows
    return found


@pytest.fixture
def reader(connection: Any, mysql_url: str) -> Iterator[MySqlReader]:
    found = MySqlReader(spec(mysql_url, "f", "n"))
    yield found
    found.abandon()


def test_partitions_are_read_in_one_session(reader: MySqlReader, connection: Any) -> None:
    whole = read(reader)
    assert whole.column_names == ["to_f", "to_n"]
    assert whole.column("to_n").to_pylist() == list(range(ROWS))
    assert whole.column("to_f").to_pylist() == [n / 8 for n in range(ROWS)]
    session = reader._session
    some = KeyRange(Key("n"), Bound("int4", "10"), Bound("int4", "12"))
    assert read(reader, some).column("to_n").to_pylist() == [10, 11]
    nothing = KeyRange(Key("n"), Bound("int4", "-2"), Bound("int4", "-1"))
    assert read(reader, nothing).schema == whole.schema
    assert reader._session is session


def test_a_query_with_a_condition(reader: MySqlReader, mysql_url: str) -> None:
    query = Query("SELECT n % 3 AS `a b`, count(*) AS n FROM t GROUP BY 1")
    reader.switch_run(spec(mysql_url, "n", "a b", relation=query, where="`a b` > 0"))
    assert sorted(tuple(row.values()) for row in read(reader).to_pylist()) == [(6666, 2), (6667, 1)]


def test_url_options_control_values(connection: Any, mysql_url: str) -> None:
    run(connection, "UPDATE t SET d = '0000-00-00' WHERE n = 1")
    plain, null = (
        MySqlReader(spec(mysql_url, "d")),
        MySqlReader(spec(f"{mysql_url}?zero_dates=null", "d", relation=spec(mysql_url).relation)),
    )
    with pytest.raises(
        PermanentError, match=r"t, partition p1: column 'd', row 2: expected a date"
    ):
        read(plain)
    plain.abandon()
    assert read(null).column("to_d").null_count == 1
    null.abandon()


def test_the_reader_continues_after_an_abandoned_stream(reader: MySqlReader) -> None:
    stream = reader.read(Partition("p1", Whole()), Waiter(Meter(), 60))
    next(stream)
    reader.abandon()
    reader.abandon()
    assert read(reader).num_rows == ROWS


def test_a_running_statement_is_ended_and_shown(connection: Any, mysql_url: str) -> None:
    """A statement that has nothing to send would not notice that its client is gone."""
    reader = MySqlReader(spec(mysql_url, "n", where="sleep(100) = 0"))
    reader.label("penstock:r1:p1:1")
    stream = reader.read(Partition("p1", Whole()), Waiter(Meter(), 0.5))
    with pytest.raises(StallError):
        next(stream)
    assert running(connection)
    reader.abandon()
    deadline = time.monotonic() + 30
    while running(connection):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(connection: Any) -> bool:
    return any(
        info and info.startswith("/* penstock:r1:p1:1 */")
        for *_, info in run(
            connection, "SELECT id, info FROM information_schema.processlist ORDER BY id"
        )
    )


def test_the_session_is_read_only(connection: Any, mysql_url: str) -> None:
    run(
        connection,
        "CREATE FUNCTION f() RETURNS int MODIFIES SQL DATA"
        " BEGIN DELETE FROM t WHERE n = 1; RETURN 1; END",
    )
    reader = MySqlReader(spec(mysql_url, "n", where="f() = 1"))
    with pytest.raises(PermanentError, match="READ ONLY"):
        read(reader)
    reader.abandon()
    assert run(connection, "SELECT count(*) FROM t") == ((ROWS,),)
