"""`penstock.read`: rows as Arrow, as a copy into files has them, and nothing left open."""

from __future__ import annotations

import gc
import glob
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import polars as pl
import psutil
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.conftest import Connection

from penstock import ArrowRows, CopySpec, PlanningError, ReadSpec, UsageError, read, run

TYPES = """
CREATE TABLE t (
    id bigint PRIMARY KEY, small int2, price numeric(12, 2), share float8, word text, code char(3),
    day date, at timestamptz, plain timestamp, yes bool, raw bytea, doc jsonb, name uuid,
    words text[]
);
INSERT INTO t SELECT i, i % 100, i / 100.0, i / 3.0, 'w' || i, 'abc', date '2026-01-01' + i % 365,
    timestamptz '2026-01-01 00:00+00' + i * interval '1 s', timestamp '2026-01-01', i % 2 = 0,
    decode('00ff', 'hex'), '{"a": 1}', '12345678-1234-1234-1234-123456789abc', ARRAY['x', NULL]
FROM generate_series(1, 1000) AS i;
INSERT INTO t (id) VALUES (0);
"""


@pytest.fixture
def filled(source: Connection) -> Connection:
    source.execute(TYPES.encode())
    return source


def sessions(source: Connection) -> int:
    """Return the number of Penstock's sessions in the source."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'penstock%' AND "
        "datname = current_database()"
    )
    row = source.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def wait_for_no_session(source: Connection) -> None:
    deadline = time.monotonic() + 5
    while sessions(source) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sessions(source) == 0


def test_types_and_values_are_those_of_a_copy_into_files(
    filled: Connection, source_url: str, tmp_path: Path
) -> None:
    run(CopySpec(source=source_url, target=f"{tmp_path}/files/", table="public.t"))
    expected = ds.dataset(sorted(map(str, tmp_path.glob("files/*.parquet")))).to_table()
    found = read(ReadSpec(source=source_url, table="public.t")).read_all()
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    by_id = [("id", "ascending")]
    assert found.sort_by(by_id).to_pylist() == expected.sort_by(by_id).to_pylist()
    wait_for_no_session(filled)


def test_a_selection_is_computed_by_the_source(filled: Connection, source_url: str) -> None:
    spec = ReadSpec(
        source=source_url,
        table="t",
        where="id BETWEEN 1 AND 2",
        columns=("id", "word"),
        set=("word=upper(word)",),
        mask=("id=hash",),
    )
    rows = read(spec).read_all()
    assert rows.column("word").to_pylist() == ["W1", "W2"]
    assert [len(text) for text in rows.column("id").to_pylist()] == [64, 64]


def test_a_query_and_no_rows(filled: Connection, source_url: str) -> None:
    rows = read(ReadSpec(source=source_url, query="SELECT id FROM t WHERE false")).read_all()
    assert (rows.num_rows, rows.schema.types) == (0, [pa.int64()])


def test_other_libraries_read_it(filled: Connection, source_url: str) -> None:
    frame = pl.from_arrow(read(ReadSpec(source=source_url, table="t", columns=("id",))))
    assert isinstance(frame, pl.DataFrame)
    assert frame["id"].sum() == 500_500
    rows = read(ReadSpec(source=source_url, table="t", columns=("id",)))
    found = duckdb.sql("SELECT sum(id) FROM rows")
    assert found is not None
    assert found.fetchall() == [(500_500,)]
    del found
    del rows
    gc.collect()
    wait_for_no_session(filled)


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_an_early_end_leaves_no_session_and_no_process(
    how: str, source: Connection, source_url: str
) -> None:
    source.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 3000000) AS i")
    before = set(threading.enumerate())
    rows = read(ReadSpec(source=source_url, table="t"))
    if how == "with":
        with rows:
            assert rows.read_next_batch().num_rows
    else:
        assert rows.read_next_batch().num_rows
        assert sessions(source) == 1
    if how == "close":
        rows.close()
    if how == "drop":
        del rows
        gc.collect()
    wait_for_no_session(source)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)  # it was told to end, and may not have had a CPU since
        assert not thread.is_alive(), thread.name
    workers = [each for each in psutil.Process().children() if "worker" in each.cmdline()]
    assert workers == []


def test_an_unread_reader_has_no_session(filled: Connection, source_url: str) -> None:
    rows = read(ReadSpec(source=source_url, table="t"))
    wait_for_no_session(filled)
    rows.close()
    assert glob.glob(f"{tempfile.gettempdir()}/penstock-read-*") == []


def test_memory_is_bounded(source: Connection, source_url: str) -> None:
    source.execute(
        "CREATE TABLE t AS SELECT i, repeat(md5(i::text), 30) AS w "
        "FROM generate_series(1, 300000) AS i"
    )
    process = psutil.Process()
    before, most, size = process.memory_info().rss, 0, 0
    for batch in read(ReadSpec(source=source_url, table="t")):
        size += batch.nbytes
        most = max(most, process.memory_info().rss)
    assert size > 280_000_000
    assert most - before < 100 << 20


def test_a_value_without_a_place_is_named_by_its_column(
    source: Connection, source_url: str
) -> None:
    source.execute("CREATE TABLE t AS SELECT 1 AS id, date 'infinity' AS day")
    rows = read(ReadSpec(source=source_url, table="t", show_values="errors"))
    with pytest.raises(pa.ArrowInvalid, match="day"):
        rows.read_all()
    del rows
    gc.collect()
    wait_for_no_session(source)


def test_values_of_rows_are_hidden_in_errors(source: Connection, source_url: str) -> None:
    source.execute("CREATE TABLE t AS SELECT i, 'secret word' AS w FROM generate_series(1, 9999) i")
    query = "SELECT CASE WHEN i < 9000 THEN i ELSE w::int END AS n FROM t"
    rows = read(ReadSpec(source=source_url, query=query, show_values="never"))
    with pytest.raises(pa.ArrowInvalid) as caught:
        rows.read_all()
    assert "secret word" not in str(caught.value)


def test_a_lost_session_is_an_error_not_an_end(source: Connection, source_url: str) -> None:
    source.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 3000000) AS i")
    rows = read(ReadSpec(source=source_url, table="t"))
    assert rows.read_next_batch().num_rows
    source.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE "
        "'penstock:%' AND datname = current_database()"
    )
    with pytest.raises(pa.ArrowInvalid, match="source"):
        list(rows)


def test_what_is_read_can_be_copied(
    filled: Connection, source_url: str, target: Connection, target_url: str
) -> None:
    rows = ArrowRows(read(ReadSpec(source=source_url, table="t", columns=("id", "word", "at"))))
    result = run(CopySpec(source=rows, target=target_url, target_table="public.t"))
    assert result.rows == 1001
    query = (
        "SELECT md5(string_agg(t::text, '|' ORDER BY id)) FROM (SELECT id, word, at FROM t) AS t"
    )
    assert target.execute(query).fetchone() == filled.execute(query).fetchone()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"table": "nothing"}, PlanningError, "nothing"),
        ({"table": "t", "where": "no_column = 1"}, PlanningError, "no_column"),
        ({"table": "t", "columns": ("nope",)}, PlanningError, "nope"),
        ({}, UsageError, "table"),
        ({"table": "t", "where": ""}, UsageError, "where: expected a condition"),
    ],
)
def test_mistakes_are_found_before_a_row_is_read(
    options: dict[str, object],
    error: type[Exception],
    message: str,
    filled: Connection,
    source_url: str,
) -> None:
    with pytest.raises(error, match=message):
        read(ReadSpec(source=source_url, **options))  # type: ignore[arg-type]
    wait_for_no_session(filled)
