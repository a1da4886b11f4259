"""ODBC drivers without a server: connection strings, errors, and the statements sent."""

from __future__ import annotations

import base64
import importlib
import json
import re
import socket
import struct
import threading
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pyarrow as pa
import pytest

from penstock.backends.api.registry import find_backend
from penstock.backends.mssql import backend
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.drivers.odbc_location import ODBC_URLS, odbc_string
from penstock.backends.mssql.drivers.row_texts import (
    JSON_ROWS,
    LITERAL_ROWS,
    READS_JSON,
    inserts,
    parts,
)
from penstock.backends.mssql.drivers.urls import urls_of
from penstock.backends.mssql.errors import DriverError, from_driver
from penstock.backends.mssql.types import MAX, MsType
from penstock.errors import PermanentError, TransientError, UsageError

from .mssql_tables import NO_PYODBC, freetds_missing

pyodbc = pytest.importorskip("pyodbc", reason=NO_PYODBC, exc_type=ImportError)
odbc = importlib.import_module("penstock.backends.mssql.drivers.odbc")

MARK = "Zz9"
MICROSOFT = "ODBC Driver 18 for SQL Server"


def string(url: str, name: str = "") -> str:
    resolved = backend.resolve(url, {}, "--source")
    return odbc_string(resolved, name or ODBC_URLS.parse(resolved).options["driver"])


# Connection strings


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "mssql+pyodbc://me:secret@db.example:1434/shop?driver=FreeTDS",
            "DRIVER={FreeTDS};Server=db.example;Port=1434;Database={shop};UID={me};PWD={secret};",
        ),
        (
            "mssql+pyodbc://me:a%7Db%3B@h/s?driver=FreeTDS&encrypt=no&packet_size=4096",
            "DRIVER={FreeTDS};Server=h;Port=1433;Database={s};UID={me};PWD={a}b;};Encryption={off};"
            "PacketSize={4096};",
        ),
        (
            "mssql+pyodbc://me:a%7Db@h/s?driver=ODBC+Driver+18+for+SQL+Server&encrypt=strict"
            "&trust_server_certificate=no&application_intent=readonly",
            "DRIVER={ODBC Driver 18 for SQL Server};Server=tcp:h,1433;Database={s};UID={me};"
            "PWD={a}}b};Encrypt={strict};TrustServerCertificate={no};ApplicationIntent={readonly};",
        ),
        ("mssql+pyodbc://?dsn=shop", "DSN=shop;"),
        ("mssql+pyodbc://me:x@/s?dsn=shop", "DSN=shop;Database={s};UID={me};PWD={x};"),
    ],
)
def test_connection_strings(url: str, expected: str) -> None:
    assert string(url, "" if "driver" in url else MICROSOFT) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mssql+pyodbc://me:Zz9@h/s", r"--source: expected either \?driver=NAME.*found neither"),
        ("mssql+pyodbc://me:Zz9@h/s?driver=x&dsn=y", "found both"),
        (
            "mssql+pyodbc://me:Zz9@h/s?dsn=y",
            "expected the host in the data source alone, found one",
        ),
        ("mssql+pyodbc://me:Zz9@h/s?driver=x&pwd=Zz9", "found another one$"),
        ("mssql+pyodbc://me:Zz9/@h/s?driver=x", "an unescaped '/'"),
        (
            "mssql+pyodbc://me:a%7D%3Bb@h/s?driver=FreeTDS",
            "FreeTDS does not support a user, password",
        ),
        (
            "mssql+pyodbc://me:x@h/s?driver=FreeTDS&encrypt=strict",
            "FreeTDS does not support encrypt=strict",
        ),
        (
            "mssql+pyodbc://me:x@h/s?driver=FreeTDS&trust_server_certificate=no",
            "FreeTDS does not support trust_server_certificate=no; remove it from the URL",
        ),
    ],
)
def test_rejected_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        string(url)
    assert re.search(message, raised.value.message), raised.value.message
    assert MARK not in raised.value.message


def test_both_schemes_have_one_backend() -> None:
    url = f"mssql+pyodbc://me:{MARK}@db:1434/shop?driver=FreeTDS"
    assert find_backend(url, "--source")[0] is backend
    assert urls_of(url) is ODBC_URLS
    # Lineage has one name for a table, whichever the driver.
    assert backend.place(url) == backend.place(f"mssql://me:{MARK}@db:1434/shop")
    assert backend.place(f"mssql+pyodbc://me:{MARK}@/s?dsn=shop").namespace == "mssql://shop"
    assert backend.secrets(url) == (MARK,)
    assert MARK not in repr(urls_of(url).parse(url))


def test_a_driver_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyodbc, "drivers", lambda: ["FreeTDS", "Other"])
    with pytest.raises(UsageError) as raised:
        connect(f"mssql+pyodbc://me:{MARK}@h/s?driver=ODBC+Driver+18", "source")
    assert raised.value.message == (
        "connection: ODBC driver 'ODBC Driver 18' is not installed on this machine; installed: "
        "FreeTDS, Other"
    )
    monkeypatch.setattr(pyodbc, "dataSources", dict)
    with pytest.raises(UsageError, match=r"ODBC data source 'shop' is not installed .*: none"):
        connect(f"mssql+pyodbc://me:{MARK}@/s?dsn=shop", "source")


# Drivers and their logins


def logged_in(url: str) -> dict[str, str]:
    """Return the login that FreeTDS sends to a listening socket; in TDS 7.0 it comes first."""
    found = b""

    def listen() -> None:
        nonlocal found
        client, _ = server.accept()
        with client:
            client.settimeout(5)
            while len(found) < 8 or len(found) < struct.unpack(">H", found[2:4])[0]:
                found += client.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = threading.Thread(target=listen)
        listener.start()
        server_url = url.format(server.getsockname()[1])
        told_so = odbc_string(backend.resolve(server_url, {}, "--source"), "FreeTDS")
        with pytest.raises(pyodbc.Error):
            pyodbc.connect(f"{told_so}TDS_Version=7.0;", timeout=5)
        listener.join()
    data = found[8:]
    parts = [struct.unpack("<HH", data[at : at + 4]) for at in range(36, 36 + 4 * 9, 4)]
    texts = [data[start : start + 2 * length] for start, length in parts]
    # https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-tds/
    plain = bytes((byte ^ 0xA5) << 4 & 0xF0 | (byte ^ 0xA5) >> 4 for byte in texts[2])
    names = {"user": texts[1], "password": plain, "database": texts[8]}
    return {name: text.decode("utf-16le") for name, text in names.items()}


@pytest.mark.skipif(bool(freetds_missing()), reason=freetds_missing())
@pytest.mark.parametrize(
    ("user", "password", "database"),
    [
        ("me", "secret", "shop"),
        ("m;e", "a}b", "d}"),
        ("a{b}c", "}}", "}"),
        ("dömäin", " é🚰=;[]", "{x"),
        ("UID=sa;", "{a", "';--"),
    ],
)
def test_values_are_delimited(user: str, password: str, database: str) -> None:
    parts = [quote(part, safe="") for part in (user, password, database)]
    url = "mssql+pyodbc://{}:{}@127.0.0.1:{{}}/{}?driver=FreeTDS".format(*parts)
    assert logged_in(url) == {"user": user, "password": password, "database": database}


# Errors


@pytest.mark.parametrize(
    ("state", "words", "expected", "message"),
    [
        (
            "08001",
            "[08001] [FreeTDS][SQL Server]Unable to connect to data source (0) (SQLDriverConnect)",
            TransientError,
            "Unable to connect to data source",
        ),
        (
            "28000",
            "[28000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Login failed for user "
            "'me'. (18456) (SQLDriverConnect); [28000] [Microsoft][...]Again (0)",
            PermanentError,
            "Login failed for user 'me'; check the user, password and database",
        ),
        (
            "HY000",
            "[HY000] [FreeTDS][SQL Server]Unexpected EOF from the server (20017) (SQLExecDirectW)",
            TransientError,
            "Unexpected EOF from the server",
        ),
        (
            "40001",
            "[40001] [FreeTDS][SQL Server]Transaction (Process ID 5) was deadlocked (1205) "
            "(SQLExecDirectW)",
            TransientError,
            "Transaction (Process ID 5) was deadlocked",
        ),
        (
            "HYT00",
            "[HYT00] [FreeTDS][SQL Server]Lock request time out period exceeded. (1222) (SQLFetch)",
            TransientError,
            "Lock request time out period exceeded",
        ),
        (
            "42S02",
            "[42S02] [FreeTDS][SQL Server]Invalid object name 't'. (208) (SQLExecDirectW)",
            PermanentError,
            "Invalid object name 't'",
        ),
        (
            "08001",
            "[08001] [Microsoft][ODBC Driver 18 for SQL Server]SSL Provider: [error:0A000086:"
            "certificate verify failed] (-1) (SQLDriverConnect)",
            PermanentError,
            "SSL Provider: [error:0A000086:certificate verify failed]",
        ),
        ("HY000", "The driver did not supply an error!", PermanentError, "The driver did not"),
    ],
)
def test_errors(state: str, words: str, expected: type[Exception], message: str) -> None:
    found = from_driver(odbc.driver_error(pyodbc.Error(state, words)), "source", "table t")
    assert type(found) is expected
    assert found.message.startswith(f"source: table t: {message}")


# Values read


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.date32(), -719162, date(1, 1, 1)),
        (pa.time64("us"), 86399999999, time(23, 59, 59, 999999)),
        (pa.timestamp("us"), -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
        (pa.timestamp("us", "UTC"), 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (pa.decimal128(38, 30), Decimal("1e-30"), Decimal("1e-30")),
        (pa.decimal128(19, 4), Decimal("1.5000"), Decimal("1.5")),
        (pa.uint8(), 255, 255),
        (pa.float32(), 0.10000000149011612, 0.10000000149011612),
        (pa.uuid(), str(UUID(int=1)), str(UUID(int=1))),
    ],
)
def test_a_value_of_the_driver(type_: pa.DataType, value: Any, expected: Any) -> None:
    assert odbc.array_of((None, value), type_).to_pylist() == [None, expected]


def test_a_value_of_another_type() -> None:
    with pytest.raises(DriverError, match="expected values of type int32: "):
        odbc.array_of(("1",), pa.int32())


# Values written

COLUMNS: list[tuple[MsType, pa.DataType, Any, Any, str, str]] = [
    (MsType("bit"), pa.bool_(), True, 1, "bit", "1"),
    (MsType("bigint"), pa.int64(), -(1 << 63), -(1 << 63), "bigint", "-9223372036854775808"),
    (
        MsType("decimal", 38, 30),
        pa.decimal128(38, 30),
        Decimal("1e-30"),
        f"0.{'0' * 29}1",
        "decimal(38,30)",
        f"CAST(N'0.{'0' * 29}1' AS decimal(38,30))",
    ),
    (
        MsType("money"),
        pa.decimal128(19, 4),
        Decimal("-1"),
        "-1.0000",
        "decimal(19,4)",
        "CAST(N'-1.0000' AS decimal(19,4))",
    ),
    (MsType("float"), pa.float64(), 5e-324, 5e-324, "float", "CAST(N'5e-324' AS float)"),
    (
        MsType("date"),
        pa.date32(),
        date(1, 1, 1),
        "0001-01-01",
        "date",
        "CAST(N'0001-01-01' AS date)",
    ),
    (
        MsType("time", 3),
        pa.time64("us"),
        time(1, 2, 3, 4),
        "01:02:03.000004",
        "time(7)",
        "CAST(N'01:02:03.000004' AS time(7))",
    ),
    (
        MsType("datetime"),
        pa.timestamp("us"),
        datetime(9999, 12, 31, 1),  # noqa: DTZ001
        "9999-12-31T01:00:00.000000",
        "datetime2(7)",
        "CAST(N'9999-12-31T01:00:00.000000' AS datetime2(7))",
    ),
    (
        MsType("datetimeoffset", 6),
        pa.timestamp("us", "UTC"),
        datetime(26, 1, 2, tzinfo=UTC),
        "0026-01-02T00:00:00.000000+00:00",
        "datetimeoffset(7)",
        "CAST(N'0026-01-02T00:00:00.000000+00:00' AS datetimeoffset(7))",
    ),
    (
        MsType("uniqueidentifier"),
        pa.uuid(),
        UUID(int=10).bytes,
        "00000000-0000-0000-0000-00000000000a",
        "uniqueidentifier",
        "CAST(N'00000000-0000-0000-0000-00000000000a' AS uniqueidentifier)",
    ),
    (MsType("char", 3), pa.string(), " 🚰'\"\\", " 🚰'\"\\", "nvarchar(max)", "N' 🚰''\"\\'"),
    (MsType("xml"), pa.string(), "", "", "nvarchar(max)", "N''"),
    (
        MsType("sql_variant"),
        pa.string(),
        "1",
        "1",
        "nvarchar(4000)",
        "CAST(N'1' AS nvarchar(4000))",
    ),
    (MsType("varbinary", MAX), pa.binary(), b"\0\xff", "AP8=", "varbinary(max)", "0x00ff"),
    (MsType("binary", 2), pa.binary(2), b"\0\xff", "AP8=", "varbinary(max)", "0x00ff"),
]
MINE = [type_ for type_, *_ in COLUMNS]


def all_types() -> pa.RecordBatch:
    """Return one row of values and one of NULLs."""
    return pa.RecordBatch.from_arrays(
        [pa.array([value, None], kind) for _, kind, value, *_ in COLUMNS],
        [f'c"{number}' for number in range(len(COLUMNS))],
    )


def test_rows_are_sent_as_json() -> None:
    batch = all_types()
    ((statement, (text,)),) = inserts("[s].[stage]", batch, MINE, reads_json=True)
    assert text.isascii()
    assert json.loads(text) == [[value for *_, value, _, _ in COLUMNS], [None] * len(COLUMNS)]
    assert statement.startswith('INSERT INTO [s].[stage] WITH (TABLOCK) ("c""0", "c""1", ')
    for number, (*_, read_as, _) in enumerate(COLUMNS):
        assert f"c{number} {read_as} '$[{number}]'" in statement


def test_rows_are_sent_as_literals() -> None:
    ((statement, values),) = inserts("stage", all_types(), MINE, reads_json=False)
    nothing = ", ".join(["NULL"] * len(COLUMNS))
    text = f"({', '.join(literal for *_, literal in COLUMNS)}), ({nothing})"
    assert statement.endswith(f'"c""{len(COLUMNS) - 1}") VALUES {text}')
    assert not values


def test_the_check_whether_a_server_reads_json() -> None:
    """JSON and SQL escape different characters."""
    found = re.search(r"c0 = N'(.*?)' AND c1 = 0x(\w+) .*OPENJSON\(N'(.*?)'\)", READS_JSON)
    assert found
    assert json.loads(found[3])[0][0] == found[1]
    assert base64.b64decode(json.loads(found[3])[0][1]).hex() == found[2].lower()


def test_nan_cannot_be_sent() -> None:
    batch = pa.record_batch({"x": [1.0, float("nan")]})
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(inserts("t", batch, [MsType("float")], reads_json=True))


def test_statements_are_small() -> None:
    batch = pa.record_batch({"n": pa.array(range(5000)), "x": ["y" * 1000] * 5000})
    found = list(parts(batch, JSON_ROWS))
    assert pa.Table.from_batches([part for part, _ in found]) == pa.Table.from_batches([batch])
    assert {part.num_rows for part, _ in found[:-1]} == {1036}
    assert {part.num_rows for part, _ in parts(batch, LITERAL_ROWS)} == {LITERAL_ROWS}
    assert not list(parts(batch.slice(0, 0), JSON_ROWS))


def test_a_long_value_is_sent_separately() -> None:
    batch = pa.record_batch({"a": ["x", "é" * 1501, None, "y"], "n": [1, 2, 3, None]})
    (short, none), (alone, long) = parts(batch, JSON_ROWS)
    assert (short.to_pydict(), none) == ({"a": ["x", None, "y"], "n": [1, 3, None]}, ())
    assert (alone.to_pydict(), long) == ({"a": ["é" * 1501], "n": [2]}, [0])
    types = [MsType("nvarchar", MAX), MsType("int")]
    assert list(inserts("t", alone, types, reads_json=True)) == [
        (
            'INSERT INTO t WITH (TABLOCK) ("a", "n") SELECT CAST(? AS nvarchar(max)), c1 FROM'
            " OPENJSON(CAST(? AS nvarchar(max))) WITH (c0 nvarchar(max) '$[0]', c1 int '$[1]')",
            ["é" * 1501, "[[null,2]]"],
        )
    ]
    ((statement, values),) = inserts("t", alone, types, reads_json=False)
    assert statement.endswith("VALUES (CAST(? AS nvarchar(max)), 2)")
    assert values == ["é" * 1501]
    # As a sql_variant, the server rejects the value instead of truncating it.
    types = [MsType("sql_variant"), MsType("int")]
    ((statement, _),) = inserts("t", alone, types, reads_json=False)
    assert statement.endswith("VALUES (?, 2)")
    columns = {"b": pa.array([b"x" * 3001, b"x"]), "u": pa.array([b"1" * 16] * 2, pa.uuid())}
    assert [long for _, long in parts(pa.record_batch(columns), JSON_ROWS)] == [(), [0]]
