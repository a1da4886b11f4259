"""Data that ClickHouse would silently lose, duplicate or change, and the errors that prevent it."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from penstock import CopySpec, copy
from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.clickhouse.connection import CompleteFile, Connection, connect
from penstock.backends.clickhouse.errors import translated
from penstock.backends.clickhouse.load.documents import TableDocuments
from penstock.backends.clickhouse.load.stages import PREFIX, Stages
from penstock.errors import PenstockError, PermanentError, TransientError
from penstock_testkit import TcpProxy, connect_clickhouse

DAYS = pa.table({"at": pa.array([0, -1], pa.timestamp("s", "UTC"))})


@pytest.fixture
def client(clickhouse_url: str) -> Iterator[Any]:
    with closing(connect_clickhouse(clickhouse_url)) as found:
        found.command("CREATE DATABASE IF NOT EXISTS penstock")
        yield found


@pytest.fixture
def connection(client: Any, clickhouse_url: str) -> Iterator[Connection]:
    with closing(connect(clickhouse_url, "target")) as found:
        yield found


def _copied(url: str, **options: Any) -> str:
    """Copy table `a` to table `b`, and return the errors."""
    database = url.rpartition("/")[2]
    defaults = {"source": url, "target": url, "table": f"{database}.a", "snapshot": "none"}
    spec = CopySpec(**{**defaults, "target_table": f"{database}.b", "degree": 1, **options})
    messages = []
    try:
        for event in copy(spec):
            if event.name == "failed":
                messages.append(json.loads(event.to_line())["error"]["message"])
    except PenstockError as error:
        messages.append(error.message)
    return "\n".join(messages)


def test_a_truncated_stream_is_an_error() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, DAYS.schema) as writer:
        writer.write_table(DAYS)
    whole = sink.getvalue()
    for content in (whole, whole[:-8]):  # pyarrow reads the same rows of both
        file = CompleteFile(io.BytesIO(content), "source")
        with pa.ipc.open_stream(pa.PythonFile(file, mode="r")) as reader:
            assert reader.read_all().num_rows == DAYS.num_rows
        if content == whole:
            file.check()
        else:
            with pytest.raises(TransientError, match="ended early"):
                file.check()


def test_a_string_that_is_not_utf8_is_rejected(client: Any, clickhouse_url: str) -> None:
    for name in ("a", "b"):
        client.command(f"CREATE TABLE {name} (s String) ENGINE = MergeTree ORDER BY tuple()")
    client.command("INSERT INTO a SELECT if(number = 1, unhex('FF'), 'x') FROM numbers(2)")
    assert "column 's', row 2" in _copied(clickhouse_url)
    assert client.query("SELECT count() FROM b").result_rows == [(0,)]


def test_a_time_outside_the_types_range_is_rejected(client: Any, clickhouse_url: str) -> None:
    """ClickHouse itself would store 1970."""
    client.command("CREATE TABLE a (at DateTime64(0, 'UTC')) ENGINE = MergeTree ORDER BY at")
    client.command("CREATE TABLE b (at DateTime) ENGINE = MergeTree ORDER BY at")
    client.command("INSERT INTO a SELECT toDateTime64('1969-12-31 23:59:59', 0, 'UTC')")
    assert "column 'at', row 1" in _copied(clickhouse_url)
    assert client.query("SELECT count() FROM b").result_rows == [(0,)]


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_a_table_without_parts(client: Any, clickhouse_url: str, mode: str) -> None:
    client.command("CREATE TABLE a (n Int64) ENGINE = MergeTree ORDER BY n")
    client.command("CREATE TABLE b (n Int64) ENGINE = Memory")
    assert "found Memory" in _copied(clickhouse_url, mode=mode)


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_a_table_whose_engine_merges_rows(client: Any, clickhouse_url: str, mode: str) -> None:
    """The stage has every row that was sent; only the table's engine merges them."""
    client.command("CREATE TABLE a (n Int64, v Int64) ENGINE = MergeTree ORDER BY n")
    client.command(
        "CREATE TABLE b (n Int64, v Int64) ENGINE = ReplacingMergeTree(v)"
        " PARTITION BY n % 2 ORDER BY n SETTINGS min_bytes_for_wide_part = 0"
    )
    client.command("SYSTEM STOP MERGES b")
    client.command("INSERT INTO a SELECT number % 5, number FROM numbers(10)")
    for _ in range(2):
        assert _copied(clickhouse_url, mode=mode, strategy="hash", key="n", partitions=2) == ""
    assert client.query("SELECT sum(n), sum(v) FROM b FINAL").result_rows == [(10, 35)]
    client.command("SYSTEM START MERGES b")
    client.command("OPTIMIZE TABLE b FINAL")
    assert client.query("SELECT sum(n), sum(v) FROM b").result_rows == [(10, 35)]


def test_a_table_that_materialized_views_read(client: Any, clickhouse_url: str) -> None:
    for name in ("a", "b", "c"):
        client.command(f"CREATE TABLE {name} (n Int64) ENGINE = MergeTree ORDER BY n")
    client.command("CREATE MATERIALIZED VIEW v TO c AS SELECT n FROM b")
    assert "materialized views read it: v" in _copied(clickhouse_url, mode="truncate")
    assert _copied(clickhouse_url, mode="append") == ""


def test_a_table_that_is_created(client: Any, clickhouse_url: str) -> None:
    client.command(
        "CREATE TABLE a (n Int64, region Nullable(String), day Nullable(Date), note Nullable(Int8))"
        " ENGINE = MergeTree ORDER BY n"
    )
    client.command("INSERT INTO a VALUES (1, 'x', '2024-01-02', NULL)")
    options = {"mode": "recreate", "order_by": "day, region", "types": "note=Nullable(Int32)"}
    assert _copied(clickhouse_url, **options) == ""
    query = (
        "SELECT sorting_key FROM system.tables WHERE name = 'b' AND database = currentDatabase()"
    )
    assert client.query(query).result_rows == [("day, region",)]
    types = {name: type_ for name, type_, *_ in client.query("DESCRIBE TABLE b").result_rows}
    assert types == {"n": "Int64", "region": "String", "day": "Date", "note": "Nullable(Int32)"}
    text = "region=LowCardinality(Nullable(String))"
    assert "a type that is not Nullable" in _copied(clickhouse_url, **{**options, "types": text})
    assert "found where" in _copied(clickhouse_url, **{**options, "order_by": "where"})
    load_options = {"mode": "truncate", "order_by": "n"}
    assert "already exists, and --mode" in _copied(clickhouse_url, **load_options)
    client.command("INSERT INTO a VALUES (2, 'y', NULL, NULL)")
    # The server decides which of the two parts is read first.
    messages = _copied(clickhouse_url, **options)
    assert re.search(r"column 'day', row [12]: expected a value, found NULL", messages)


def test_an_obsolete_version_of_a_document_is_ignored(client: Any, connection: Connection) -> None:
    """A process stops before it writes a version, and continues after that version was replaced."""
    documents = TableDocuments(connection, "penstock")
    assert documents.create("runs/r/a.json", b"1")
    stale = documents._newest("runs/r/a.json")
    for content in (b"2", b"3", b"4"):
        _, version = documents.get("runs/r/a.json") or (b"", "")
        assert documents.replace("runs/r/a.json", content, version)
    assert not documents._write("runs/r/a.json", stale, b"stale")
    assert (documents.get("runs/r/a.json") or (b"",))[0] == b"4"
    assert not documents._write("runs/r/a.json", None, b"stale")
    assert not documents.create("runs/r/a.json", b"1")
    assert [content for content, _ in documents.read_all("runs/r").values()] == [b"4"]


def test_one_of_two_moves_waits(client: Any, connection: Connection, clickhouse_url: str) -> None:
    """The server never runs two queries with the same id at once."""
    database = clickhouse_url.rpartition("/")[2]
    name = f"{PREFIX}0_r"
    client.command("CREATE TABLE b (n Int64) ENGINE = MergeTree ORDER BY n")
    client.command(f"CREATE TABLE penstock.{name} (n Int64) ENGINE = MergeTree ORDER BY n")
    client.command(f"INSERT INTO penstock.{name} SELECT 1", settings={"async_insert": 0})
    busy = threading.Thread(
        target=lambda: client.command("SELECT sleep(1.5)", settings={"query_id": f"{name}_moves"})
    )
    began = time.monotonic()
    busy.start()
    time.sleep(0.3)
    piece = Piece(name, 1, 0, {"into": [database, "b"]})
    stages = Stages(connection, "penstock")
    for _ in range(2):  # a second call changes nothing
        assert stages.publish(piece)
    assert time.monotonic() - began > 1.4
    busy.join()
    assert client.query("SELECT count() FROM b").result_rows == [(1,)]
    with pytest.raises(PermanentError, match="cannot be told from others"):
        stages.discard([piece])
    stages.drop(name)
    assert not stages.publish(piece)


def test_an_insert_is_sent_once(client: Any, clickhouse_url: str) -> None:
    """After a lost answer, the driver would send it again, and duplicate the rows."""
    client.command("CREATE TABLE b (at DateTime64(0, 'UTC')) ENGINE = MergeTree ORDER BY at")
    with (
        TcpProxy.of(clickhouse_url) as proxy,
        closing(connect(proxy.url(clickhouse_url), "target")) as connection,
    ):
        proxy.on_bytes(b"HTTP/1.1 200", "to_client", proxy.cut)
        with pytest.raises(TransientError), translated("target"):
            connection.insert("b", DAYS.to_batches())
    assert client.query("SELECT count() FROM b").result_rows == [(DAYS.num_rows,)]


def test_no_password_in_an_error() -> None:
    with pytest.raises(PenstockError) as caught:
        connect("clickhouse://u:se-cret@127.0.0.1:1/x", "source")
    assert caught.value.transient
    assert "se-cret" not in repr(caught.value) + caught.value.message


def test_a_control_database_with_another_engine(client: Any, clickhouse_url: str) -> None:
    for name in ("a", "b"):
        client.command(f"CREATE TABLE {name} (n Int64) ENGINE = MergeTree ORDER BY n")
    client.command("CREATE DATABASE other ENGINE = Memory")
    try:
        found = _copied(clickhouse_url, control_schema="other")
    finally:
        client.command("DROP DATABASE other")
    assert "other: expected a database with the engine Atomic, found Memory" in found
