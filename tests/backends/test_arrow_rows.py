"""Rows of a Python process as a source: tables are read again, streams once, each row once."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psutil
import psycopg
import pyarrow as pa
import pytest
from tests.conftest import Connection

import penstock
from penstock import ArrowRows, CopySpec, PlanningError, Result, RunFailed, UsageError, run
from penstock.backends.shared.served_rows import plain_schema, served_batches
from penstock.errors import PermanentError

pd = pytest.importorskip("pandas")
IDS, NAMES = list(range(5)), ["a", "b", None, "d", "e"]
BATCH = pa.record_batch({"id": IDS, "name": NAMES})
TABLES: dict[str, Any] = {
    "table": pa.table({"id": IDS, "name": NAMES}),
    "batch": BATCH,
    "polars": pl.DataFrame({"id": IDS, "name": NAMES}),
    "pandas": pd.DataFrame({"id": IDS, "name": NAMES}),
}


def stream(rows: int = 5, batch: int = 2) -> pa.RecordBatchReader:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, batch):
            ids = list(range(first, min(first + batch, rows)))
            yield pa.record_batch({"id": ids, "name": [f"n{n}" for n in ids]}, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def copied(rows: Any, url: str, **options: Any) -> Result:
    """Copy rows into the table t."""
    options = {"target_table": "public.t", "attempts": 3, **options}
    return run(CopySpec(source=ArrowRows(rows), target=url, **options))


@pytest.fixture
def table(target: Connection) -> Connection:
    target.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    return target


def ids(target: Connection) -> list[int]:
    return [row[0] for row in target.execute("SELECT id FROM t ORDER BY id").fetchall()]


# What rows are


@pytest.mark.parametrize("kind", TABLES)
def test_each_kind_of_table_arrives(kind: str, target: Connection, target_url: str) -> None:
    result = copied(TABLES[kind], target_url)
    assert (result.rows, result.partitions) == (5, 1)
    assert ids(target) == IDS
    names = target.execute("SELECT name FROM t ORDER BY id").fetchall()
    assert [name for (name,) in names] == NAMES


def test_a_relation_of_a_database_in_the_process_arrives(
    target: Connection, target_url: str
) -> None:
    copied(duckdb.sql("SELECT range AS id, range::varchar AS name FROM range(5)"), target_url)
    assert ids(target) == IDS


def test_a_stream_arrives_from_where_it_is(table: Connection, target_url: str) -> None:
    rows = stream()
    rows.read_next_batch()
    assert copied(rows, target_url).rows == 3
    assert ids(table) == [2, 3, 4]


def test_no_rows_make_a_table(target: Connection, target_url: str) -> None:
    assert copied(stream(0), target_url).rows == 0
    assert ids(target) == []


def test_an_object_without_rows_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"expected a pyarrow\.RecordBatchReader .*found list"):
        ArrowRows([1, 2])


def test_a_plain_object_as_the_source_is_rejected_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"ArrowRows"):
        CopySpec(source=BATCH, target="env:DST", target_table="public.t")


# What may be selected


def test_options_of_files_select_and_compute(target: Connection, target_url: str) -> None:
    copied(
        TABLES["polars"],
        target_url,
        where="id > 1",
        set=("twice=id * 2",),
        mask=("name=hash",),
    )
    rows = target.execute("SELECT id, twice, length(name) FROM t ORDER BY id").fetchall()
    assert rows == [(2, 4, None), (3, 6, 64), (4, 8, 64)]


def test_a_query_reads_the_rows_as_source(target: Connection, target_url: str) -> None:
    copied(
        stream(10), target_url, query="SELECT id % 2 AS id, count(*) AS n FROM source GROUP BY 1"
    )
    assert target.execute("SELECT id, n FROM t ORDER BY id").fetchall() == [(0, 5), (1, 5)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"mode": "append"}, [*IDS, 9]),
        ({"mode": "truncate"}, IDS),
        ({"mode": "recreate"}, IDS),
        ({"mode": "swap"}, IDS),
        ({"mode": "upsert"}, [*IDS, 9]),
        ({"mode": "replace", "key": "id", "where": "id < 9"}, [*IDS, 9]),
    ],
    ids=lambda value: value["mode"] if isinstance(value, dict) else "",
)
def test_each_mode_of_files(
    options: dict[str, Any], expected: list[int], table: Connection, target_url: str
) -> None:
    table.execute("INSERT INTO t VALUES (9, 'old')")
    copied(TABLES["table"], target_url, **options)
    assert ids(table) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verify": "counts"}, "Arrow as a source does not support --verify counts"),
        ({"strategy": "hash", "key": "id"}, "does not support --strategy hash"),
        ({"mode": "upsert", "incremental": "id", "lookback": "0"}, "support --incremental id"),
        ({"where": "nothing > 1"}, "nothing"),
    ],
)
def test_what_a_stream_cannot_do_is_rejected_before_it_is_read(
    options: dict[str, Any], message: str, table: Connection, target_url: str
) -> None:
    rows = stream()
    with pytest.raises((UsageError, PlanningError), match=message):
        copied(rows, target_url, **options)
    gc.collect()
    assert ids(table) == []


def test_it_is_no_target() -> None:
    rows = ArrowRows(BATCH)
    with pytest.raises(PlanningError, match="Arrow is a source only"):
        run(CopySpec(source=rows, target=rows))


# Failures


def test_an_unfit_value_is_named_by_row_and_column(table: Connection, target_url: str) -> None:
    rows = pa.table({"id": [1, 2, 1 << 40], "name": ["x"] * 3})
    with pytest.raises(RunFailed) as caught:
        copied(rows, target_url, show_values="errors")
    message = str(caught.value)
    assert "id" in message
    assert "row 3" in message
    assert str(1 << 40) in message
    assert ids(table) == []


class Killing:
    """Batches of a stream; after some of them, the sessions that load the target are ended."""

    def __init__(self, url: str, batches: int = 40) -> None:
        self.url, self.batches = url, batches
        self.killed = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self.batches):
            if number == self.batches // 2 and not self.killed:
                self._kill()
            first = number * 10_000
            yield pa.record_batch({"id": pa.array(range(first, first + 10_000), pa.int32())})

    def _kill(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            query = (
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                "application_name LIKE 'penstock:%' AND query ILIKE 'copy%'"
            )
            row = connection.execute(query).fetchone()
            assert row is not None
            self.killed = row[0]

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int32())]), iter(self))


class KillingTable(Killing):
    """The same rows, which can be read again."""

    shape = (400_000, 1)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)


def test_a_table_is_read_again_and_each_row_is_there_once(
    target: Connection, target_url: str
) -> None:
    rows = KillingTable(target_url)
    result = copied(rows, target_url)
    assert rows.killed == 1
    assert result.rows == 400_000
    query = "SELECT count(*), count(DISTINCT id) FROM t"
    assert target.execute(query).fetchone() == (400_000, 400_000)


def test_a_stream_is_read_once_and_says_so(target: Connection, target_url: str) -> None:
    rows = Killing(target_url)
    spec = CopySpec(
        source=ArrowRows(rows.reader()), target=target_url, target_table="public.t", run_id="once"
    )
    with pytest.raises(
        RunFailed, match=r"an earlier attempt has read rows of this stream"
    ) as caught:
        run(spec)
    assert rows.killed == 1
    assert "Copy from a new stream" in str(caught.value)
    assert target.execute("SELECT count(*) FROM t").fetchone() == (0,)
    # A new stream continues the run; once it is done, nothing is left to read.
    for rest in (400_000, 0):
        source = ArrowRows(Killing(target_url, 40).reader() if not rest else _calm(target_url))
        events = list(penstock.resume("once", source=source, target=target_url))
        assert isinstance(events[-1], penstock.Finished)
        assert events[-1].rows == rest
        assert target.execute("SELECT count(*) FROM t").fetchone() == (400_000,)


def _calm(url: str) -> pa.RecordBatchReader:
    rows = Killing(url)
    rows.killed = 1
    return rows.reader()


def test_the_error_of_a_stream_is_shown(table: Connection, target_url: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise ValueError("the printer is on fire")

    rows = pa.RecordBatchReader.from_batches(BATCH.schema, batches())
    with pytest.raises(RunFailed, match=r"the stream of rows has failed.*the printer is on fire"):
        copied(rows, target_url, show_values="errors")
    assert ids(table) == []


def test_rows_of_a_process_that_has_let_go_of_them(target_url: str) -> None:
    rows = ArrowRows(BATCH)
    url = str(rows)
    assert type(url) is str
    del rows
    gc.collect()
    with pytest.raises(UsageError, match=r"expected ArrowRows of a table or stream, in Python"):
        run(CopySpec(source=url, target=target_url, target_table="public.t"))


def test_a_lost_connection_is_not_taken_for_the_end(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as file:
                file.read(1)
                file.write(b"+")
                # Whole batches, and no end.
                pa.ipc.new_stream(file, BATCH.schema).write_batch(BATCH)

        thread = threading.Thread(target=serve)
        thread.start()
        found = served_batches(path, lambda: False)
        assert next(found).num_rows == 5
        with pytest.raises(PermanentError, match="the Python process that has the rows has ended"):
            next(found)
        thread.join()


# Resources


def test_nothing_is_left_behind(table: Connection, target_url: str) -> None:
    rows = ArrowRows(stream(1_000_000, 1000))
    folder = Path(rows.removeprefix("arrow+unix://")).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    events = penstock.copy(CopySpec(source=rows, target=target_url, target_table="public.t"))
    for event in events:
        if event.name == "opened":
            break
    events.close()
    del rows, events, event
    gc.collect()
    assert not folder.exists()
    # The thread ends once it notices.
    for thread in threading.enumerate():
        if thread.name == "rows":
            thread.join(10)
            assert not thread.is_alive()
    assert ids(table) == []


def test_one_large_batch_takes_little_memory_of_a_worker(
    target: Connection, target_url: str
) -> None:
    # As one column of views, as Polars has it: 300 MB in one batch.
    rows = pl.DataFrame({"id": range(300_000), "text": [f"{n:01000}" for n in range(300_000)]})
    most = 0
    spec = CopySpec(source=ArrowRows(rows), target=target_url, target_table="public.t")
    for event in penstock.copy(spec):
        if event.name in ("progress", "committed"):
            most = max(most, psutil.Process(event.pid).memory_info().rss)
    assert 0 < most < 300 << 20
    assert target.execute("SELECT sum(length(text)) FROM t").fetchone() == (300_000_000,)


def test_views_are_sent_as_what_they_show() -> None:
    kinds = [
        (pa.string_view(), pa.large_string()),
        (pa.binary_view(), pa.large_binary()),
        (pa.list_(pa.string_view()), pa.list_(pa.large_string())),
        (pa.large_list(pa.string_view()), pa.large_list(pa.large_string())),
        (pa.struct([("a", pa.string_view())]), pa.struct([("a", pa.large_string())])),
        (pa.int64(), pa.int64()),
    ]
    schema = pa.schema([(str(number), kind) for number, (kind, _) in enumerate(kinds)])
    assert plain_schema(schema).types == [expected for _, expected in kinds]
