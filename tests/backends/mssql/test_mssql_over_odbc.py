"""A server read and loaded through an ODBC driver behaves as with the native driver."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import CopySpec
from penstock.backends.mssql.types import TYPES, type_of
from penstock.events import Failed, Opened
from penstock_testkit import TcpProxy

from ...faults.cli import Run
from ...faults.gate import Gate
from .mssql_tables import Copy, execute, into_files, is_babelfish, numbers, over_odbc, rows

TEXTS = ["🚰", "", "tail ", None, "x" * 70_000, "'é\\\"\n"]
PASSWORD = "gehe1m-w0rt"


@pytest.fixture
def files(tmp_path: Path) -> str:
    """Copy six rows into files."""
    folder = tmp_path / "source"
    folder.mkdir()
    numbers = pa.array(range(1, len(TEXTS) + 1), pa.int32())
    pq.write_table(pa.table({"id": numbers, "t": pa.array(TEXTS)}), folder / "a.parquet")
    return f"file://{folder}"


def loaded(source: str, url: str, **options: Any) -> Copy:
    options_of_copy = {"table": None, "target_table": "dbo.t", "snapshot": "shared", **options}
    return Copy(source, over_odbc(url), **options_of_copy)


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        ("append", [(9, "old")], [*enumerate(TEXTS, 1), (9, "old")]),
        ("truncate", [(9, "old")], [*enumerate(TEXTS, 1)]),
        ("replace", [(2, "old"), (9, "old")], [*enumerate(TEXTS, 1)]),
        (
            "upsert",
            [(2, "old"), (3, "tail"), (9, "old")],
            [*enumerate(TEXTS, 1), (9, "old")],
        ),
        ("recreate", [(9, "old")], [*enumerate(TEXTS, 1)]),
    ],
)
def test_each_mode_loads_the_rows(
    files: str, mssql_url: str, mode: str, before: list[Any], after: list[Any]
) -> None:
    execute(mssql_url, "CREATE TABLE t (id int PRIMARY KEY, t nvarchar(max))")
    for number, text in before:
        execute(mssql_url, f"INSERT INTO t VALUES ({number}, N'{text}')")
    options = {"strategy": "ntile", "key": "id", "partitions": 1} if mode == "replace" else {}
    loaded(files, mssql_url, mode=mode, **options).done()
    assert rows(mssql_url, "SELECT id, t FROM t ORDER BY id") == after
    assert not rows(mssql_url, "SELECT name FROM sys.objects WHERE name LIKE 'stage %'")


def test_every_type_there_and_back(mssql_url: str, tmp_path: Path) -> None:
    """Both drivers read and write the same values."""
    types = [
        *("bit", "tinyint", "smallint", "int", "bigint", "decimal(38,10)", "numeric(5,5)"),
        *("money", "smallmoney", "real", "float", "date", "time(6)", "datetime", "smalldatetime"),
        *("datetime2(0)", "datetime2(6)", "datetimeoffset(6)", "uniqueidentifier", "char(5)"),
        *("varchar(20)", "varchar(max)", "nchar(5)", "nvarchar(20)", "nvarchar(max)", "xml"),
        *("binary(3)", "varbinary(20)", "varbinary(max)"),
    ]
    values = {
        "bit": "1", "tinyint": "255", "bigint": "-9223372036854775808",
        "decimal(38,10)": "-1234567890123456789012345678.0123456789", "numeric(5,5)": "0.99999",
        "money": "-922337203685477.5808", "smallmoney": "214748.3647",
        "real": "CAST(0.1 AS real)", "float": "-1.7976931348623157e308",
        "date": "'0001-01-01'", "time(6)": "'23:59:59.999999'",
        "datetime": "'9999-12-31T23:59:59.997'", "smalldatetime": "'2079-06-06T23:59:00'",
        "datetime2(0)": "'0001-01-01'", "datetime2(6)": "'9999-12-31 23:59:59.999999'",
        "datetimeoffset(6)": "'2026-01-02 03:04:05.678901 +01:00'",
        "uniqueidentifier": "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
        "xml": "N'<a b=\"é\">1</a>'", "nvarchar(max)": f"N'{'🚰é' * 40_000}'",
        "varchar(max)": f"'{'x ' * 40_000}'", "nvarchar(20)": "N'🚰 \"\\é\t '",
        "varchar(20)": "' '",
        "binary(3)": "0x00FF00", "varbinary(20)": "0x", "varbinary(max)": f"0x{'00ab' * 40_000}",
    }  # fmt: skip
    listed = ", ".join(f"c{number} {type_} NULL" for number, type_ in enumerate(types))
    execute(
        mssql_url,
        *(f"CREATE TABLE {name} (n int NOT NULL PRIMARY KEY, {listed})" for name in ("t", "u")),
        "INSERT INTO t (n) VALUES (0)",
        f"INSERT INTO t VALUES (1, {', '.join(values.get(type_, '1') for type_ in types)})",
    )
    odbc = over_odbc(mssql_url)
    Copy(odbc, odbc, target_table="dbo.u", mode="append", strategy="whole").done()
    expected = into_files(mssql_url, tmp_path / "t", strategy="whole").sort_by("n")
    found = into_files(mssql_url, tmp_path / "u", table="dbo.u", strategy="whole").sort_by("n")
    for number, type_ in enumerate(types):
        name = f"c{number}"
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), type_
    assert found.equals(expected)


@pytest.mark.parametrize("reads_json", [False, True])
def test_both_ways_of_loading_give_the_same_rows(
    mssql_url: str, monkeypatch: pytest.MonkeyPatch, *, reads_json: bool
) -> None:
    """Babelfish reads JSON only without escapes and bytes."""
    url = over_odbc(mssql_url)
    from penstock.backends.mssql.drivers.odbc import OdbcDriver  # noqa: PLC0415 - it needs unixODBC

    odbc = OdbcDriver(url)
    if not is_babelfish(mssql_url):
        assert odbc.reads_json()
    monkeypatch.setattr(OdbcDriver, "reads_json", lambda _: reads_json)
    names = ["int", "decimal(38,10)", "float", "datetime2(6)", "nvarchar(max)", "uniqueidentifier"]
    types = [type_of(name.partition("(")[0], -1, 38, 10) for name in names]
    types[3] = type_of("datetime2", 0, 0, 6)
    listed = ", ".join(f"c{number} {name}" for number, name in enumerate(names))
    execute(mssql_url, f"CREATE TABLE t ({listed})")
    at, identity = datetime(1, 2, 3, 4, 5, 6, 789), UUID(int=5)  # noqa: DTZ001
    decimal = Decimal("-1234567890123456789012345678.0123456789")
    values: list[list[Any]] = [
        [1, 2, None],
        [decimal, None, Decimal("1e-10")],
        [0.1, 1.7976931348623157e308, None],
        [at, None, at],
        ["🚰'é", "", "long " * 10_000],
        [identity.bytes, None, identity.bytes],
    ]
    kinds = map(TYPES.arrow_type, types)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)],
        listed_names(6),
    )
    columns = dict(zip(listed_names(6), types, strict=True))
    assert odbc.load("t", columns, iter([batch, batch.slice(0, 0)])) == 3
    odbc.close()
    found = rows(mssql_url, "SELECT * FROM t ORDER BY LEN(c4)")
    expected = list(zip(*values[:5], strict=True))
    assert [row[:5] for row in found] == [expected[1], expected[0], expected[2]]
    assert [row[5] for row in found] == [None, identity, identity]


def listed_names(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def test_the_plan_reports_the_cost(files: str, mssql_url: str) -> None:
    execute(mssql_url, "CREATE TABLE t (id int PRIMARY KEY, t nvarchar(max))")
    url = over_odbc(mssql_url)
    spec = CopySpec(
        source=url, target=url, table="dbo.t", target_table="dbo.u", mode="recreate",
        snapshot="none",
    )  # fmt: skip
    plan = penstock.plan(spec)
    assert any(re.match("read through FreeTDS and pyodbc: ", text) for text in plan.reasons)
    assert any(re.match("loaded through FreeTDS and pyodbc: ", text) for text in plan.warnings)


def test_a_wrong_password(mssql_url: str, tmp_path: Path) -> None:
    execute(mssql_url, "CREATE TABLE t (id int PRIMARY KEY)")
    url = re.sub(r"//([^:]*):[^@]*@", rf"//\1:{PASSWORD}@", over_odbc(mssql_url))
    failed = Copy(url, f"file://{tmp_path / 't'}")
    assert failed.code == 65, failed.message
    assert "check the user, password and database" in failed.message
    assert PASSWORD not in failed.message


def test_an_unreachable_server(mssql_url: str, tmp_path: Path) -> None:
    url = re.sub(r":\d+/", ":1/", over_odbc(mssql_url)) + "&connect_timeout=3"
    failed = Copy(url, f"file://{tmp_path / 't'}")
    assert failed.code == 75, failed.message


def test_a_fraction_of_a_microsecond_is_rejected(mssql_url: str, tmp_path: Path) -> None:
    if is_babelfish(mssql_url):
        pytest.skip("Babelfish keeps microseconds")
    execute(
        mssql_url,
        "CREATE TABLE t (id int PRIMARY KEY, at time(7))",
        "INSERT INTO t VALUES (1, '00:00:00.0000001')",
    )
    rejected = Copy(over_odbc(mssql_url), f"file://{tmp_path / 't'}")
    assert "column 'at', row 1: expected whole microseconds" in rejected.message


# Faults

ROWS = 20_000


@pytest.fixture
def proxy(mssql_url: str) -> Iterator[TcpProxy]:
    with TcpProxy.of(over_odbc(mssql_url)) as started:
        yield started


def test_a_killed_worker_of_the_target(mssql_url: str, proxy: TcpProxy, tmp_path: Path) -> None:
    """The kill comes in the middle of a load."""
    folder = tmp_path / "source"
    folder.mkdir()
    table = pa.table({"id": pa.array(range(ROWS), pa.int32()), "t": ["x" * 100] * ROWS})
    pq.write_table(table, folder / "a.parquet")
    execute(mssql_url, "CREATE TABLE t (id int PRIMARY KEY, t nvarchar(200))")
    gate = Gate(proxy, "INSERT INTO".encode("utf-16le"), "to_server", skip=20)
    run = Run(
        "copy", "--source", f"file://{folder}", "--target", proxy.url(over_odbc(mssql_url)),
        *("--target-table", "dbo.t", "--mode", "append", "--strategy", "whole"),
    )  # fmt: skip
    try:
        gate.reached()
        worker = run.wait_for(Opened).pid
        os.kill(worker, signal.SIGKILL)
        gate.open()
        run.ended(0)
        assert [event.pid for event in run.of(Failed)] == [worker]
    finally:
        gate.open()
        run.close()
    assert rows(mssql_url, "SELECT COUNT(*), SUM(id) FROM t") == [(ROWS, ROWS * (ROWS - 1) // 2)]


def test_a_killed_worker_of_the_source(mssql_url: str, proxy: TcpProxy, tmp_path: Path) -> None:
    execute(
        mssql_url,
        "CREATE TABLE t (id int PRIMARY KEY, pad varchar(200))",
        f"INSERT INTO t SELECT n, REPLICATE('x', 100) FROM ({numbers(ROWS)}) AS numbers",
        f"UPDATE t SET pad = '<middle>' WHERE id = {ROWS // 2}",
    )
    gate = Gate(proxy, b"<middle>", "to_client")
    target = tmp_path / "t"
    run = Run(
        "copy", "--source", proxy.url(over_odbc(mssql_url)), "--target", f"file://{target}",
        *("--table", "dbo.t", "--snapshot", "none", "--strategy", "whole"),
    )  # fmt: skip
    try:
        gate.reached()
        os.kill(run.wait_for(Opened).pid, signal.SIGKILL)
        gate.open()
        run.ended(0)
    finally:
        gate.open()
        run.close()
    found = pa.concat_tables([pq.read_table(path) for path in target.glob("*.parquet")])
    assert sorted(found.column("id").to_pylist()) == list(range(1, ROWS + 1))


def test_a_stream_that_stalls(mssql_url: str, proxy: TcpProxy, tmp_path: Path) -> None:
    execute(
        mssql_url,
        "CREATE TABLE t (id int PRIMARY KEY, pad varchar(200))",
        f"INSERT INTO t SELECT n, REPLICATE('x', 100) FROM ({numbers(ROWS)}) AS numbers",
        f"UPDATE t SET pad = '<middle>' WHERE id = {ROWS // 2}",
    )
    gate = Gate(proxy, b"<middle>", "to_client")
    run = Run(
        "copy", "--source", proxy.url(over_odbc(mssql_url)), "--target", f"file://{tmp_path / 't'}",
        *("--table", "dbo.t", "--snapshot", "none", "--strategy", "whole"),
        *("--stall-timeout", "5s"),
    )  # fmt: skip
    try:
        failed = run.wait_for(Failed)
        assert failed.error["error"] in ("StallError", "WorkerLost")
        assert failed.error["transient"]
        gate.open()
        run.ended(0)
    finally:
        gate.open()
        run.close()
