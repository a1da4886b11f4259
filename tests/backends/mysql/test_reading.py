"""A server's rows as record batches: every type, every refusal, in bounded memory."""

from __future__ import annotations

import itertools
import json
import random
import ssl
import struct
import subprocess
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pymysql
import pytest

from penstock import PermanentError
from penstock.backends.mysql import types as mysql_types
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.stream import rows as mysql_rows
from penstock.backends.mysql.stream.decoding import RowDecoder
from penstock.backends.mysql.stream.rows import NO_ROWS, read_rows
from penstock.errors import StallError
from penstock.workers.stream import Meter, Waiter
from penstock_testkit import MysqlServer, connect_mysql, mysql_missing

pytestmark = pytest.mark.both_servers

MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO"
NONE: Mapping[str, str] = {}
ZERO_NULL = {"zero_dates": "null"}
ZONE = "SET time_zone = '+00:00'"


@pytest.fixture
def connection(mysql_url: str) -> Iterator[Any]:
    with closing(connect_mysql(mysql_url, sql_mode=MODE, init_command=ZONE)) as found:
        yield found


def run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def is_mariadb(connection: Any) -> bool:
    return "MariaDB" in connection.server_version


def batches(
    connection: Any, query: str, order: str = "", options: Mapping[str, str] = NONE
) -> Iterator[pa.RecordBatch]:
    """Return a query's rows as record batches."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM ({query}) AS q LIMIT 0")
        columns = [(field.name, mysql_types.type_of(field)) for field in cursor._result.fields]
    names = [name for name, _ in columns]
    decoder = RowDecoder(columns, names, "source: t", options)
    yield decoder.decode(NO_ROWS)
    quoted = [(MYSQL.ident(name), type_) for name, type_ in columns]
    selected = ", ".join(itertools.starmap(mysql_types.TYPES.travelling, quoted))
    query = f"SELECT {selected} FROM ({query}) AS q {order}"
    try:
        for found in read_rows(connection, query, Waiter(Meter(), 60)):
            yield decoder.decode(found)
    except (PermanentError, pymysql.Error):
        # The unread rows are still pending.
        connection._force_close()
        connection.connect()
        raise


def read(
    connection: Any,
    query: str = "SELECT * FROM t",
    order: str = "",
    options: Mapping[str, str] = NONE,
) -> pa.Table:
    return pa.Table.from_batches(list(batches(connection, query, order, options)))


def column(
    connection: Any, type_: str, *values: str, options: Mapping[str, str] = NONE
) -> pa.ChunkedArray:
    """Return values, given in SQL, as a column of that type delivers them."""
    listed = ", ".join(f"({place}, {value})" for place, value in enumerate(values))
    run(connection, f"CREATE TABLE t (n int, c {type_} NULL)", f"INSERT INTO t VALUES {listed}")
    return read(connection, order="ORDER BY n", options=options).column("c")


D = Decimal
MOST_65 = "9" * 35 + "." + "9" * 30
# For each type: its declaration, its Arrow type, and values with their expected results.
TYPES: Sequence[tuple[str, str, pa.DataType, dict[str, Any]]] = [
    ("tinyint", "tinyint", pa.int8(), {"-128": -128, "127": 127}),
    ("tinyint unsigned", "tinyint unsigned", pa.uint8(), {"0": 0, "255": 255}),
    ("tinyint(1)", "tinyint(1)", pa.int8(), {"-128": -128, "1": 1, "127": 127}),
    ("boolean", "tinyint(1)", pa.int8(), {"true": 1, "false": 0}),
    ("smallint", "smallint", pa.int16(), {"-32768": -32768, "32767": 32767}),
    ("smallint unsigned", "smallint unsigned", pa.uint16(), {"65535": 65535}),
    ("mediumint", "mediumint", pa.int32(), {"-8388608": -8388608, "8388607": 8388607}),
    ("mediumint unsigned", "mediumint unsigned", pa.uint32(), {"16777215": 16777215}),
    ("int", "int", pa.int32(), {"-2147483648": -(1 << 31), "2147483647": (1 << 31) - 1}),
    ("int unsigned", "int unsigned", pa.uint32(), {"4294967295": (1 << 32) - 1}),
    ("int(7) zerofill", "int unsigned", pa.uint32(), {"5": 5, "4294967295": (1 << 32) - 1}),
    (
        "bigint",
        "bigint",
        pa.int64(),
        {str(-(1 << 63)): -(1 << 63), str((1 << 63) - 1): (1 << 63) - 1},
    ),
    (
        "bigint unsigned",
        "bigint unsigned",
        pa.uint64(),
        {"0": 0, str((1 << 64) - 1): (1 << 64) - 1},
    ),
    (
        "decimal(15,2)",
        "decimal(15,2)",
        pa.decimal128(15, 2),
        {"-9999999999999.99": D("-9999999999999.99"), "0.1": D("0.10")},
    ),
    (
        "decimal(5,5) unsigned",
        "decimal(5,5) unsigned",
        pa.decimal128(5, 5),
        {"0.99999": D("0.99999")},
    ),
    ("decimal(10,3) zerofill", "decimal(10,3) unsigned", pa.decimal128(10, 3), {"1.5": D("1.500")}),
    ("decimal(38,0)", "decimal(38,0)", pa.decimal128(38, 0), {"9" * 38: D("9" * 38)}),
    (
        "decimal(38,30)",
        "decimal(38,30)",
        pa.decimal128(38, 30),
        {"-0." + "0" * 29 + "1": D("-1e-30")},
    ),
    (
        "decimal(39,2)",
        "decimal(39,2)",
        pa.decimal256(39, 2),
        {"9" * 37 + ".99": D("9" * 37 + ".99")},
    ),
    (
        "decimal(65,30)",
        "decimal(65,30)",
        pa.decimal256(65, 30),
        {MOST_65: D(MOST_65), "-" + MOST_65: D("-" + MOST_65)},
    ),
    (
        "float",
        "float",
        pa.float32(),
        {
            "16777217": 16777216.0,
            "0.1": 0.10000000149011612,
            "3.4028234663852886e38": 3.4028234663852886e38,
            "-1e-45": -1.401298464324817e-45,
        },
    ),
    ("float(9,2)", "float", pa.float32(), {"1234567.25": 1234567.25}),
    (
        "double",
        "double",
        pa.float64(),
        {
            "0.1": 0.1,
            "1.7976931348623157e308": 1.7976931348623157e308,
            "-2.2250738585072014e-308": -2.2250738585072014e-308,
            "5e-324": 5e-324,
        },
    ),
    ("double(20,3)", "double", pa.float64(), {"123456789012.125": 123456789012.125}),
    ("bit(1)", "bit(1)", pa.uint8(), {"b'1'": 1, "b'0'": 0}),
    ("bit(64)", "bit(64)", pa.uint64(), {"18446744073709551615": (1 << 64) - 1, "44": 44}),
    ("year", "year", pa.int16(), {"1901": 1901, "2155": 2155, "'0000'": 0}),
    (
        "date",
        "date",
        pa.date32(),
        {
            "'1000-01-01'": date(1000, 1, 1),
            "'0001-01-01'": date(1, 1, 1),
            "'9999-12-31'": date(9999, 12, 31),
        },
    ),
    (
        "datetime",
        "datetime",
        pa.timestamp("us"),
        {
            "'1000-01-01 00:00:00'": datetime(1000, 1, 1),  # noqa: DTZ001
            "'9999-12-31 23:59:59'": datetime(9999, 12, 31, 23, 59, 59),  # noqa: DTZ001
        },
    ),
    (
        "datetime(3)",
        "datetime(3)",
        pa.timestamp("us"),
        {"'2026-01-02 03:04:05.678'": datetime(2026, 1, 2, 3, 4, 5, 678000)},  # noqa: DTZ001
    ),
    (
        "datetime(6)",
        "datetime(6)",
        pa.timestamp("us"),
        {"'9999-12-31 23:59:59.999999'": datetime(9999, 12, 31, 23, 59, 59, 999999)},  # noqa: DTZ001
    ),
    (
        "timestamp",
        "timestamp",
        pa.timestamp("us", "UTC"),
        {"'2026-01-02 03:04:05'": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)},
    ),
    (
        "timestamp(6)",
        "timestamp(6)",
        pa.timestamp("us", "UTC"),
        {"'1970-01-01 00:00:01.000001'": datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)},
    ),
    ("time", "time", pa.time64("us"), {"'00:00:00'": time(0), "'23:59:59'": time(23, 59, 59)}),
    ("time(6)", "time(6)", pa.time64("us"), {"'23:59:59.999999'": time(23, 59, 59, 999999)}),
    ("enum('a','b''c')", "enum", pa.string(), {"'b''c'": "b'c", "'a'": "a"}),
    ("set('a','b','c')", "set", pa.string(), {"'a,c'": "a,c", "''": ""}),
    ("char(5)", "char(5)", pa.string(), {"'ab'": "ab", "''": ""}),
    (
        "varchar(20)",
        "varchar(20)",
        pa.string(),
        {
            "'a \"b\", c\\\\d\\n\\r\\t'": 'a "b", c\\d\n\r\t',
            "'a\\0b'": "a\0b",
            "''": "",
            "'🚰é'": "🚰é",
            "'NULL'": "NULL",
        },
    ),
    ("varchar(20) CHARACTER SET latin1", "varchar(20)", pa.string(), {"'é€'": "é€"}),
    ("varchar(20) CHARACTER SET utf16", "varchar(20)", pa.string(), {"'🚰é'": "🚰é"}),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "varchar(20)",
        pa.string(),
        {"'A'": "A"},
    ),
    ("tinytext", "tinytext", pa.string(), {"'a'": "a"}),
    (
        "text",
        "text",
        pa.string(),
        {
            "repeat('x', 250)": "x" * 250,
            "repeat('y', 251)": "y" * 251,
            "repeat('z', 65535)": "z" * 65535,
        },
    ),
    ("text CHARACTER SET latin1", "text", pa.string(), {"repeat('é', 300)": "é" * 300}),
    ("mediumtext", "mediumtext", pa.string(), {"repeat('é', 65536)": "é" * 65536, "'s'": "s"}),
    ("longtext", "longtext", pa.string(), {"''": ""}),
    ("binary(3)", "binary(3)", pa.binary(), {"'a'": b"a\0\0"}),
    (
        "varbinary(20)",
        "varbinary(20)",
        pa.binary(),
        {"X'00FF22270A2C5C'": b"\x00\xff\"'\n,\\", "''": b""},
    ),
    ("tinyblob", "tinyblob", pa.binary(), {"X'FE'": b"\xfe"}),
    ("blob", "blob", pa.binary(), {"X'FB'": b"\xfb"}),
    ("mediumblob", "mediumblob", pa.binary(), {"X'FF'": b"\xff"}),
    ("longblob", "longblob", pa.binary(), {"X''": b""}),
    (
        "geometry",
        "geometry",
        pa.binary(),
        {"ST_GeomFromText('POINT(1 2)')": struct.pack("<BIdd", 1, 1, 1.0, 2.0)},
    ),
]


@pytest.mark.parametrize(("type_", "shown", "arrow", "values"), TYPES, ids=[t[0] for t in TYPES])
def test_values_of_each_type_are_read(
    connection: Any, type_: str, shown: str, arrow: pa.DataType, values: dict[str, Any]
) -> None:
    found = column(connection, type_, "NULL", *values)
    assert found.type == arrow
    assert found.to_pylist() == [None, *values.values()]
    with connection.cursor() as cursor:
        cursor.execute("SELECT c FROM t LIMIT 0")
        (field,) = cursor._result.fields
    assert str(mysql_types.type_of(field)) == shown


def test_json_is_read_as_text(connection: Any) -> None:
    found = column(connection, "json", "NULL", """'{"a": "é\\\\n", "b": [1]}'""")
    assert found.type == pa.string()
    assert [text and json.loads(text) for text in found.to_pylist()] == [
        None,
        {"a": "é\n", "b": [1]},
    ]


def test_types_that_only_mariadb_has(connection: Any) -> None:
    if not is_mariadb(connection):
        pytest.skip("this is MySQL")
    text = "0123abcd-0123-4abc-8def-0123456789ab"
    run(
        connection,
        "CREATE TABLE t (u uuid, a inet4, b inet6)",
        f"INSERT INTO t VALUES ('{text}', '1.2.3.4', '::1'), (NULL, NULL, NULL)",
    )
    found = read(connection)
    assert found.schema.types == [pa.uuid(), pa.string(), pa.string()]
    assert found.to_pylist() == [
        {"u": UUID(text), "a": "1.2.3.4", "b": "::1"},
        {"u": None, "a": None, "b": None},
    ]


def test_types_that_only_mysql_has(connection: Any) -> None:
    if is_mariadb(connection):
        pytest.skip("this is MariaDB")
    run(
        connection,
        "CREATE TABLE t (g point SRID 4326)",
        "INSERT INTO t VALUES (ST_GeomFromText('POINT(48 11)', 4326))",
    )
    # Longitude first, as every WKB reader expects it; the server itself writes latitude first.
    ewkb = struct.pack("<BIIdd", 1, 0x2000_0001, 4326, 11.0, 48.0)
    assert read(connection).column("g").to_pylist() == [ewkb]


@pytest.mark.parametrize(("type_", "form"), [("double", "<d"), ("float", "<f")])
def test_floats_keep_all_their_bits(connection: Any, type_: str, form: str) -> None:
    draw = random.Random(1)
    size = struct.calcsize(form)
    values = {0.0}
    while len(values) < 5000:
        (value,) = struct.unpack(form, draw.randbytes(size))
        if abs(value) < (3e38 if size == 4 else 1.7e308):
            values.add(value)
    run(connection, f"CREATE TABLE t (c {type_})")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s)", [(repr(v),) for v in values])
    run(connection, "INSERT INTO t VALUES (-0e0)")
    found = read(connection).column("c").to_pylist()
    # Only some versions of MariaDB write the sign of zero.
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(concat(c)) FROM t WHERE c = 0")
        zero = float(cursor.fetchone()[0])
    assert sorted(map(repr, found)) == sorted(map(repr, [*values, zero]))


def test_booleans_are_read(connection: Any) -> None:
    found = column(connection, "tinyint(1)", "0", "1", "NULL", options={"tinyint1": "bool"})
    assert (found.type, found.to_pylist()) == (pa.bool_(), [False, True, None])
    run(connection, "CREATE TABLE u (c tinyint(1) unsigned)")
    assert read(connection, "SELECT c FROM u", options={"tinyint1": "bool"}).schema.types == [
        pa.uint8()
    ]
    run(connection, "INSERT INTO t VALUES (3, 2)")
    with pytest.raises(PermanentError, match=r"'c', row 4: expected a tinyint\(1\).*found '2'"):
        read(connection, order="ORDER BY n", options={"tinyint1": "bool"})


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("date", "'0000-00-00'", "0000-00-00"),
        ("date", "'2020-00-10'", "2020-00-10"),
        ("date", "'2020-01-00'", "2020-01-00"),
        ("datetime(3)", "'0000-00-00'", "0000-00-00 00:00:00.000"),
        ("datetime", "'2020-10-00 10:00:00'", "2020-10-00 10:00:00"),
        ("timestamp", "0", "0000-00-00 00:00:00"),
    ],
)
def test_zero_dates_become_null_or_fail(
    connection: Any, type_: str, value: str, shown: str
) -> None:
    with pytest.raises(PermanentError) as caught:
        column(connection, type_, "'2020-10-10'", "NULL", value)
    assert str(caught.value).startswith(
        f"source: t: column 'c', row 3: expected a {type_} that fit"
    )
    assert f"found '{shown}'; read zero dates as NULL with zero_dates=null" in str(caught.value)
    found = read(connection, order="ORDER BY n", options=ZERO_NULL).column("c")
    assert [value is None for value in found.to_pylist()] == [False, True, True]


@pytest.mark.parametrize("value", ["24:00:00", "-00:00:01", "838:59:59", "-838:59:59"])
def test_times_beyond_a_day(connection: Any, value: str) -> None:
    advice = f"found '{value}'; leave such rows out with --where, or cast the column to text"
    with pytest.raises(PermanentError, match=rf"column 'c', row 2: expected a time .*{advice}"):
        column(connection, "time", "'01:00:00'", f"'{value}'")


def test_dates_that_no_calendar_has(connection: Any) -> None:
    for options in (NONE, ZERO_NULL):
        run(connection, "DROP TABLE IF EXISTS t")
        run(connection, f"SET sql_mode = '{MODE},ALLOW_INVALID_DATES'")
        with pytest.raises(PermanentError, match=r"row 1: .*found '2021-02-30'; leave"):
            column(connection, "date", "'2021-02-30'", options=options)


def test_errors_count_rows_within_the_stream(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_rows, "MOST_ROWS", 100)
    monkeypatch.setattr(mysql_rows, "CHUNK", 1000)
    query = f"{NUMBERS} SELECT sec_to_time(if(n = 4321, 90000, n)) AS c, n FROM numbers"
    with pytest.raises(PermanentError, match=r"row 4,322: .*found '25:00:00"):
        read(connection, query, "ORDER BY n")


NUMBERS = """WITH RECURSIVE ten AS (SELECT 0 AS d UNION ALL SELECT d + 1 FROM ten WHERE d < 9),
    numbers AS (SELECT a.d * 10000 + b.d * 1000 + c.d * 100 + d.d * 10 + e.d AS n
        FROM ten AS a, ten AS b, ten AS c, ten AS d, ten AS e)"""


def test_values_of_all_lengths(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short, long and empty values in every order, across buffer boundaries."""
    draw = random.Random(2)
    lengths = [0, 1, 250, 251, 252, 253, 254, 255, 256, 65535, 65536, 70000]
    values = [
        (place, *(None if draw.random() < 0.2 else "é" * draw.choice(lengths) for _ in range(3)))
        for place in range(300)
    ]
    run(connection, "CREATE TABLE t (n int, a longtext, b longtext, c longtext)")
    with connection.cursor() as cursor:
        for row in values:
            cursor.execute("INSERT INTO t VALUES (%s, %s, %s, %s)", row)
    for block in (1 << 22, 1 << 18, 1000):
        monkeypatch.setattr(mysql_rows, "BLOCK", block)
        monkeypatch.setattr(mysql_rows, "CHUNK", min(block, 1 << 17))
        found = read(connection, order="ORDER BY n")
        assert [tuple(row.values()) for row in found.to_pylist()] == values


def test_a_row_that_ends_where_the_buffer_does(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(connection, "CREATE TABLE t (a text, b int)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, NULL)", [("x" * 300,)] * 100)
    # A header, the value after its length, and NULL: ten rows fill the buffer.
    monkeypatch.setattr(mysql_rows, "BLOCK", 10 * (4 + 3 + 300 + 1))
    assert read(connection).to_pylist() == [{"a": "x" * 300, "b": None}] * 100


LONGEST = (1 << 24) - 1


@pytest.mark.parametrize(
    "length",
    # The packet ends with the row, and so does the buffer. Four or nine bytes precede the value.
    [*range(LONGEST - 6, LONGEST + 3), *range((1 << 22) - 10, (1 << 22) + 2), 2 * LONGEST - 9],
)
def test_rows_of_many_packets(connection: Any, mysql_url: str, length: int) -> None:
    with with_limit(connection, mysql_url, 64 << 20) as other:
        run(
            other,
            "CREATE TABLE t (n int, c longblob)",
            f"INSERT INTO t VALUES (1, 'a'), (2, repeat('x', {length})), (3, NULL)",
        )
        found = read(other, "SELECT c, n FROM t", "ORDER BY n").to_pylist()
        assert [(row["n"], row["c"] and len(row["c"])) for row in found] == [
            (1, 1),
            (2, length),
            (3, None),
        ]
        assert found[1]["c"] == b"x" * length


@contextmanager
def with_limit(connection: Any, mysql_url: str, most: int) -> Iterator[Any]:
    """Open a session with that max_allowed_packet."""
    ((_, before),) = rows_of(connection, "SHOW GLOBAL VARIABLES LIKE 'max_allowed_packet'")
    run(connection, f"SET GLOBAL max_allowed_packet = {most}")
    try:
        with closing(connect_mysql(mysql_url, sql_mode=MODE)) as found:
            yield found
    finally:
        run(connection, f"SET GLOBAL max_allowed_packet = {before}")


def rows_of(connection: Any, query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def test_values_larger_than_the_servers_limit(connection: Any, mysql_url: str) -> None:
    """They arrive or cause an error, and never become NULL."""
    with with_limit(connection, mysql_url, 32 << 20) as other:
        run(
            other,
            "CREATE TABLE t (n int, a longblob, b longtext)",
            "INSERT INTO t VALUES (1, repeat(X'FF', 20000000), repeat('\"', 20000000))",
        )
    with with_limit(connection, mysql_url, 1 << 20) as other:
        found = read(other, "SELECT * FROM t").to_pylist()
    assert found == [{"n": 1, "a": b"\xff" * 20000000, "b": '"' * 20000000}]


def test_rows_too_long_for_arrow(
    connection: Any, mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_rows, "MOST_BYTES", 30_000_000)
    with with_limit(connection, mysql_url, 32 << 20) as other:
        run(other, "CREATE TABLE t (n int, a longblob)")
        run(other, "INSERT INTO t VALUES (1, repeat('x', 29999900)), (2, repeat('x', 30000000))")
        assert read(other, "SELECT * FROM t WHERE n = 1").num_rows == 1
        with pytest.raises(PermanentError, match="at most 30,000,000 bytes, found a longer one"):
            read(other)


def test_an_empty_result_has_a_schema(connection: Any) -> None:
    run(connection, "CREATE TABLE t (c int)")
    assert read(connection).num_rows == 0
    assert [row["c"] for row in read(connection, "SELECT 1 AS c").to_pylist()] == [1]


def test_names_are_quoted(connection: Any) -> None:
    run(connection, "CREATE TABLE t (`a``b c` double)", "INSERT INTO t VALUES (1)")
    assert read(connection).to_pylist() == [{"a`b c": 1.0}]


def test_a_session_is_usable_after_a_stream(connection: Any) -> None:
    assert read(connection, f"{NUMBERS} SELECT n FROM numbers").num_rows == 100_000
    assert rows_of(connection, "SELECT 1") == [(1,)]


def test_an_error_between_two_streams(connection: Any) -> None:
    query = f"{NUMBERS} SELECT if(n = 99999, (SELECT d FROM ten WHERE n >= 0), n) FROM numbers"
    found: list[int] = []
    with pytest.raises(pymysql.Error, match="more than 1 row"):
        found.extend(len(r.starts) for r in read_rows(connection, query, Waiter(Meter(), 60)))
    assert found


def test_a_session_that_is_killed(connection: Any, mysql_url: str) -> None:
    query = f"{NUMBERS} SELECT a.n, repeat('x', 1000) AS c FROM numbers AS a"
    stream = batches(connection, query)
    assert next(stream).num_rows == 0
    assert next(stream).num_rows > 0
    with closing(connect_mysql(mysql_url)) as other:
        run(other, f"KILL {connection.thread_id()}")
    with pytest.raises(pymysql.OperationalError):
        list(stream)


@pytest.mark.parametrize("statement", ["DO 1", "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t"])
def test_answers_without_rows_are_refused(mysql_url: str, connection: Any, statement: str) -> None:
    run(connection, "CREATE TABLE t (c text)")
    with (
        closing(connect_mysql(mysql_url, local_infile=True)) as other,
        pytest.raises(pymysql.InternalError, match="expected rows, found none"),
    ):
        list(read_rows(other, statement, Waiter(Meter(), 60)))


def test_a_stall_is_noticed(connection: Any) -> None:
    with pytest.raises(StallError):
        list(read_rows(connection, "SELECT sleep(60)", Waiter(Meter(), 0.5)))


@pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
def test_a_stream_over_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
        f" -keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    settings = {"ssl_cert": str(certificate), "ssl_key": str(key)}
    with MysqlServer(settings=settings) as server, closing(connect_mysql(server.url)) as found:
        assert isinstance(found._sock, ssl.SSLSocket)
        query = f"{NUMBERS} SELECT n, repeat('x', n % 1000) AS c FROM numbers"
        for row in read(found, query).to_pylist():
            assert len(row["c"]) == row["n"] % 1000
        assert rows_of(found, "SELECT 1") == [(1,)]


def test_memory_does_not_grow_with_the_table(connection: Any) -> None:
    def peak(rows: int) -> int:
        most = 0
        tracemalloc.reset_peak()
        query = f"{NUMBERS} SELECT n, repeat('x', 1000) AS c FROM numbers LIMIT {rows}"
        for batch in batches(connection, query):
            most = max(most, pa.total_allocated_bytes())
            del batch
        return most + tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        peak(100)
        assert peak(100_000) < 1.5 * peak(10_000)
    finally:
        tracemalloc.stop()
