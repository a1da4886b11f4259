"""Every type with its extremes and NULL, from a server into Parquet and PostgreSQL."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

from penstock_testkit import Server

from ...conftest import fresh_database
from .mssql_tables import Copy, execute, into_files, is_babelfish, missing, over_odbc

D = Decimal
BERLIN = timezone(timedelta(hours=1))
LONG = "x" * 100_000
POINT = struct.pack("<BIdd", 1, 1, 1.0, 2.0)


def at(*parts: int, zone: Any = None) -> datetime:
    return datetime(*parts, tzinfo=zone)  # type: ignore[arg-type,misc]


# For each type: its name, its Arrow type, the type that PostgreSQL creates from that, and SQL texts
# with their values.
TYPES: list[tuple[str, pa.DataType, str, dict[str, Any]]] = [
    ("bit", pa.bool_(), "boolean", {"0": False, "1": True}),
    ("tinyint", pa.uint8(), "smallint", {"0": 0, "255": 255}),
    ("smallint", pa.int16(), "smallint", {"-32768": -32768, "32767": 32767}),
    ("int", pa.int32(), "integer", {"-2147483648": -(1 << 31), "2147483647": (1 << 31) - 1}),
    (
        "bigint",
        pa.int64(),
        "bigint",
        {"-9223372036854775808": -(1 << 63), "9223372036854775807": (1 << 63) - 1},
    ),
    (
        "decimal(38,0)",
        pa.decimal128(38, 0),
        "numeric(38,0)",
        {"9" * 38: D("9" * 38), "-" + "9" * 38: D("-" + "9" * 38)},
    ),
    (
        "decimal(38,30)",
        pa.decimal128(38, 30),
        "numeric(38,30)",
        {"-0." + "0" * 29 + "1": D("-1e-30"), "12345678.5": D("12345678.5")},
    ),
    ("decimal(15,2)", pa.decimal128(15, 2), "numeric(15,2)", {"-1.25": D("-1.25"), "0": D("0")}),
    ("numeric(5,5)", pa.decimal128(5, 5), "numeric(5,5)", {"0.99999": D("0.99999")}),
    (
        "money",
        pa.decimal128(19, 4),
        "numeric(19,4)",
        {
            "-922337203685477.5808": D("-922337203685477.5808"),
            "922337203685477.5807": D("922337203685477.5807"),
        },
    ),
    (
        "smallmoney",
        pa.decimal128(10, 4),
        "numeric(10,4)",
        {"-214748.3648": D("-214748.3648"), "214748.3647": D("214748.3647")},
    ),
    (
        "real",
        pa.float32(),
        "real",
        {
            "CAST(0.1 AS real)": 0.10000000149011612,
            "CAST(-3.4028235e38 AS real)": -3.4028234663852886e38,
            "CAST(1.1754944e-38 AS real)": 1.1754943508222875e-38,
        },
    ),
    (
        "float",
        pa.float64(),
        "double precision",
        {
            "0.1e0": 0.1,
            "-1.7976931348623157e308": -1.7976931348623157e308,
            "2.2250738585072014e-308": 2.2250738585072014e-308,
        },
    ),
    ("float(24)", pa.float32(), "real", {"1.5": 1.5}),
    (
        "date",
        pa.date32(),
        "date",
        {"'0001-01-01'": date(1, 1, 1), "'9999-12-31'": date(9999, 12, 31)},
    ),
    ("time(0)", pa.time64("us"), "time", {"'00:00:00'": time(0), "'23:59:59'": time(23, 59, 59)}),
    ("time(6)", pa.time64("us"), "time", {"'23:59:59.999999'": time(23, 59, 59, 999999)}),
    ("time(7)", pa.time64("us"), "time", {"'12:34:56.1234560'": time(12, 34, 56, 123456)}),
    (
        "datetime",
        pa.timestamp("us"),
        "timestamp",
        {
            "'1753-01-01T00:00:00'": at(1753, 1, 1),
            "'9999-12-31T23:59:59.997'": at(9999, 12, 31, 23, 59, 59, 997000),
            "'2026-01-02T03:04:05.003'": at(2026, 1, 2, 3, 4, 5, 3000),
        },
    ),
    (
        "smalldatetime",
        pa.timestamp("us"),
        "timestamp",
        {"'1900-01-01T00:00:00'": at(1900, 1, 1), "'2079-06-06T23:59:00'": at(2079, 6, 6, 23, 59)},
    ),
    (
        "datetime2(0)",
        pa.timestamp("us"),
        "timestamp",
        {"'0001-01-01'": at(1, 1, 1), "'9999-12-31 23:59:59'": at(9999, 12, 31, 23, 59, 59)},
    ),
    (
        "datetime2(6)",
        pa.timestamp("us"),
        "timestamp",
        {"'9999-12-31 23:59:59.999999'": at(9999, 12, 31, 23, 59, 59, 999999)},
    ),
    (
        "datetime2(7)",
        pa.timestamp("us"),
        "timestamp",
        {"'1969-12-31 23:59:59.9999990'": at(1969, 12, 31, 23, 59, 59, 999999)},
    ),
    (
        "datetimeoffset(0)",
        pa.timestamp("us", "UTC"),
        "timestamptz",
        {"'2026-01-02 03:04:05 +01:00'": at(2026, 1, 2, 3, 4, 5, zone=BERLIN)},
    ),
    (
        "datetimeoffset(6)",
        pa.timestamp("us", "UTC"),
        "timestamptz",
        {
            "'0001-01-02 00:00:00 -14:00'": at(1, 1, 2, 14, zone=UTC),
            "'9999-12-31 23:59:59.999999 +00:00'": at(9999, 12, 31, 23, 59, 59, 999999, zone=UTC),
        },
    ),
    (
        "uniqueidentifier",
        pa.uuid(),
        "uuid",
        {
            "'6F9619FF-8B86-D011-B42D-00C04FC964FF'": UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
            "'00000000-0000-0000-0000-000000000000'": UUID(int=0),
        },
    ),
    ("char(5)", pa.string(), "text", {"'ab'": "ab   "}),
    ("varchar(20)", pa.string(), "text", {"''": "", "'a''b '": "a'b ", "N'é€'": "é€"}),
    ("varchar(max)", pa.string(), "text", {f"'{LONG}'": LONG}),
    ("nchar(5)", pa.string(), "text", {"N'é'": "é    "}),
    (
        "nvarchar(20)",
        pa.string(),
        "text",
        {"N''": "", "N'🚰 é\t\n'": "🚰 é\t\n", "N'NULL'": "NULL"},
    ),
    ("nvarchar(max)", pa.string(), "text", {f"N'{'é' * 9000}'": "é" * 9000, "N'🚰'": "🚰"}),
    ("text", pa.string(), "text", {"'é'": "é", "''": ""}),
    ("ntext", pa.string(), "text", {"N'🚰'": "🚰"}),
    ("xml", pa.string(), "text", {"N'<a b=\"é\">1</a>'": '<a b="é">1</a>'}),
    ("sql_variant", pa.string(), "text", {"CAST(5 AS int)": "5", "CAST(N'é' AS nvarchar(9))": "é"}),
    ("hierarchyid", pa.string(), "text", {"'/1/2/'": "/1/2/"}),
    ("binary(3)", pa.binary(), "bytea", {"0x00FF": b"\0\xff\0"}),
    ("varbinary(20)", pa.binary(), "bytea", {"0x": b"", "0x00FF270A": b"\0\xff'\n"}),
    ("varbinary(max)", pa.binary(), "bytea", {f"0x{'ab' * 9000}": b"\xab" * 9000}),
    ("image", pa.binary(), "bytea", {"0xFB": b"\xfb"}),
    ("geometry", pa.binary(), "bytea", {"geometry::STGeomFromText('POINT(1 2)', 0)": POINT}),
    ("geography", pa.binary(), "bytea", {"geography::STGeomFromText('POINT(1 2)', 4326)": POINT}),
]
NAMES = [name for name, *_ in TYPES]


@pytest.fixture(scope="module")
def column_numbers(mssql_module: str) -> dict[str, int]:
    """Create a table with a column for each type of the server; return the columns' numbers.

    The table has a row for each value and one of NULLs.
    """
    url = mssql_module
    found = {
        name: number
        for number, (name, *_) in enumerate(TYPES)
        if not (is_babelfish(url) and missing(url, name))
    }
    columns = ", ".join(f"c{number} {name} NULL" for name, number in found.items())
    execute(url, f"CREATE TABLE t (n int NOT NULL PRIMARY KEY, {columns})")
    execute(url, "INSERT INTO t (n) VALUES (0)")
    for row in range(max(len(values) for *_, values in TYPES)):
        texts_by_column = {
            f"c{number}": [*TYPES[number][3]][row]
            for number in found.values()
            if row < len(TYPES[number][3])
        }
        names, texts = ", ".join(texts_by_column), ", ".join(texts_by_column.values())
        execute(url, f"INSERT INTO t (n, {names}) VALUES ({row + 1}, {texts})")
    return found


@pytest.fixture(scope="module", params=["mssql", "mssql+pyodbc"])
def in_files(
    request: pytest.FixtureRequest,
    mssql_module: str,
    column_numbers: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> pa.Table:
    """Copy into files, through each driver."""
    folder: Path = tmp_path_factory.mktemp("values") / "t"
    url = mssql_module if request.param == "mssql" else over_odbc(mssql_module)
    return into_files(url, folder, strategy="whole").sort_by("n")


@pytest.fixture(scope="module")
def in_postgresql(
    mssql_module: str, column_numbers: dict[str, int], target_server: Server
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with fresh_database(target_server) as target:
        copied = Copy(
            mssql_module, target, target_table="public.t", mode="recreate", strategy="whole",
            verify="counts",
        )  # fmt: skip
        copied.done()
        with psycopg.connect(target, autocommit=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection


def expected(values: dict[str, Any], count: int) -> list[Any]:
    return [None, *values.values(), *[None] * (count - len(values) - 1)]


@pytest.mark.parametrize(("name", "arrow", "new_type", "values"), TYPES, ids=NAMES)
def test_values_in_parquet(
    column_numbers: dict[str, int],
    in_files: pa.Table,
    name: str,
    arrow: pa.DataType,
    new_type: str,
    values: dict[str, Any],
) -> None:
    if name not in column_numbers:
        pytest.skip(f"the server has no {name}")
    found = in_files.column(f"c{column_numbers[name]}")
    assert found.type == arrow
    assert found.to_pylist() == expected(values, len(found))


@pytest.mark.parametrize(("name", "arrow", "new_type", "values"), TYPES, ids=NAMES)
def test_values_in_postgresql(
    column_numbers: dict[str, int],
    in_postgresql: psycopg.Connection[tuple[Any, ...]],
    name: str,
    arrow: pa.DataType,
    new_type: str,
    values: dict[str, Any],
) -> None:
    if name not in column_numbers:
        pytest.skip(f"the server has no {name}")
    column = f"c{column_numbers[name]}"
    # The driver would read a float4 from its shortest text.
    value = f"{column}::float8" if arrow == pa.float32() else column
    found = [row[0] for row in in_postgresql.execute(f"SELECT {value} FROM t ORDER BY n".encode())]
    assert found == expected(values, len(found))
    ((type_,),) = in_postgresql.execute(
        b"SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        b" WHERE attrelid = 't'::regclass AND attname = %s",
        (column,),
    ).fetchall()
    short = {"timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz"}
    assert short.get(type_, type_).replace("time without time zone", "time") == new_type


CHECKED = (
    *("bit", "int", "bigint", "decimal(15,2)", "numeric(5,5)", "date", "time(6)", "datetime"),
    *("smalldatetime", "datetime2(6)", "datetimeoffset(6)", "uniqueidentifier"),
)
# Types whose texts differ in Babelfish, or do not exist.
ODD = ("real", "float", "money", "smallmoney", "varbinary(20)", "binary(3)", "nvarchar(20)")


@pytest.mark.parametrize("odd", [False, True], ids=["plain", "odd"])
def test_checksums_match_postgresql(
    mssql_module: str, column_numbers: dict[str, int], target_url: str, *, odd: bool
) -> None:
    """Each value has the same canonical text as in PostgreSQL."""
    if odd and is_babelfish(mssql_module):
        pytest.skip("Babelfish lacks collations of UTF-8, and CONVERT's styles")
    names = [*CHECKED, *(ODD if odd else ())]
    columns = tuple(f"c{column_numbers[name]}" for name in names)
    copied = Copy(
        mssql_module, target_url, target_table="public.t", mode="recreate", strategy="whole",
        columns=("n", *columns), verify="checksums",
    )  # fmt: skip
    copied.done()
