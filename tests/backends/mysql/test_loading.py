"""Record batches into a table: every value unchanged, or an error that names column and row."""

from __future__ import annotations

import contextlib
import random
import re
import select
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from threading import Timer
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from penstock.backends.api.execution.attempt import LoadStream
from penstock.backends.api.worker import Mover
from penstock.backends.mysql.catalog.tables import table_columns
from penstock.backends.mysql.connection import Connection, connect, kill
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.load.loading import load_stream, read_settings
from penstock.backends.mysql.session import MySqlSession
from penstock.errors import PermanentError, TransientError
from penstock.model.tables import TableRef
from penstock_testkit import MysqlServer, connect_mysql, mysql_missing

pytestmark = pytest.mark.both_servers

UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"
POINT = "0101000000000000000000F03F0000000000000040"
WHOLE = datetime.fromisoformat("2020-01-02 03:04:05")


class Waiting:
    """A worker's wait, which counts how often the socket was full."""

    def __init__(self, when_full: Callable[[], None] = lambda: None) -> None:
        self.full = 0
        self._when_full = when_full

    def __call__(self, side: str, fd: int, writing: bool) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN | (select.POLLOUT if writing else 0))
        if writing:
            self.full += 1
            if not poll.poll(1000):
                self._when_full()
        assert poll.poll(60_000), f"{side}: nothing for a minute"

    @contextmanager
    def answering(self, side: str) -> Iterator[None]:
        yield

    def turn(self, mover: Mover) -> bool:
        raise AssertionError("nothing here moves bytes by itself")


class Table:
    """A table `t` that is loaded in a transaction, in one of the two ways."""

    def __init__(self, url: str, infile: bool) -> None:
        self.url = url
        self.infile = infile
        self.connection: Connection = connect(url, "target", loads=True)
        self.wait = Waiting()
        self.reader = connect_mysql(url)

    def make(self, columns: str, after: str = "") -> None:
        with self.reader.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS t")
            cursor.execute(f"CREATE TABLE t ({columns}) ENGINE = InnoDB {after}")

    def opened(self, names: Sequence[str] = ()) -> LoadStream:
        table = TableRef(self.connection.db.decode(), "t")
        known = table_columns(MySqlSession(self.connection, MYSQL), table)
        columns = tuple(c for name in names for c in known if c.name == name) or known
        settings = replace(read_settings(self.connection), files=self.infile)
        self.connection.begin()
        return load_stream(self.connection, "`t`", columns, known, settings, self.wait)

    def load(self, *batches: pa.RecordBatch) -> int:
        stream = self.opened(batches[0].schema.names)
        for batch in batches:
            stream.write(batch, self.wait)
        rows = stream.end(self.wait)
        self.connection.commit()
        return rows

    def refused(self, *batches: pa.RecordBatch) -> str:
        """Return the error of a load, after which the session can still roll back its
        transaction."""
        with pytest.raises(PermanentError) as caught:
            self.load(*batches)
        assert caught.value.diagnosis.side == "target"
        with contextlib.suppress(Exception):  # in mid-stream the only way out is to close
            self.connection._force_close()
        self.connection = connect(self.url, "target", loads=True)
        assert self.texts("count(*)") == ["0"]
        return str(caught.value)

    def texts(self, expression: str = "x", order: str = "") -> list[Any]:
        query = f"SELECT CONVERT({expression} USING utf8mb4) FROM t {order}"
        with self.reader.cursor() as cursor:
            cursor.execute(query)
            return [row[0] for row in cursor.fetchall()]


@pytest.fixture(params=[True, False], ids=["infile", "inserts"])
def table(request: pytest.FixtureRequest, mysql_url: str) -> Iterator[Table]:
    found = Table(mysql_url, request.param)
    with closing(found.reader):
        yield found
    found.connection.abandon()


def batch(array: pa.Array, name: str = "x") -> pa.RecordBatch:
    return pa.record_batch([array], [name])


def many(*values: Any) -> pa.RecordBatch:
    return batch(pa.array(values))


D = Decimal
STRINGS = [
    "",
    "NULL",
    "\\N",
    "N",
    "'",
    '"',
    "a\tb",
    "a\nb",
    "\r\n",
    "\0",
    "\x1a",
    "\\",
    "\\\\n",
    "a ",
]
KEPT = {
    "bits": ("bit(9)", pa.array([0, 48, 511], pa.uint64()), "x + 0", ["0", "48", "511"]),
    "one bit": ("bit(1)", pa.array([True, False]), "x + 0", ["1", "0"]),
    "64 bits": ("bit(64)", pa.array([2**64 - 1], pa.uint64()), "x + 0", [str(2**64 - 1)]),
    "truth": ("tinyint(1)", pa.array([True, False]), "x", ["1", "0"]),
    "unsigned": ("bigint unsigned", pa.array([2**64 - 1], pa.uint64()), "x", [str(2**64 - 1)]),
    "signed": ("bigint", pa.array([-(2**63)]), "x", [str(-(2**63))]),
    "narrower": ("tinyint", pa.array([-128, 127], pa.int64()), "x", ["-128", "127"]),
    "digits": (
        "decimal(65,30)",
        pa.array([D("1E-30"), D("12345678901234567890123456789012345.5")], pa.decimal256(65, 30)),
        "x",
        ["0." + "0" * 29 + "1", "12345678901234567890123456789012345.5" + "0" * 29],
    ),
    "whole decimal": ("decimal(20,0)", pa.array([2**63 - 1]), "x", [str(2**63 - 1)]),
    "fewer digits": ("decimal(4,1)", pa.array([D("123.40")]), "x", ["123.4"]),
    "a year": ("year", pa.array([0, 1901, 2155], pa.int16()), "x", ["0000", "1901", "2155"]),
    "days": (
        "date",
        pa.array([date(1, 1, 1), date(9999, 12, 31)]),
        "x",
        ["0001-01-01", "9999-12-31"],
    ),
    "moments": (
        "datetime(6)",
        pa.array(["0001-01-01", "9999-12-31 23:59:59.999999"]).cast(pa.timestamp("us")),
        "x",
        ["0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999"],
    ),
    "whole seconds": ("datetime", pa.array([WHOLE], pa.timestamp("us")), "x", [f"{WHOLE}"]),
    "tenths": (
        "datetime(1)",
        pa.array([WHOLE.replace(microsecond=100_000)]),
        "x",
        ["2020-01-02 03:04:05.1"],
    ),
    "in UTC": (
        "timestamp(3) NULL",
        pa.array([0, 2**31 * 10**6 - 1000], pa.timestamp("us", "Asia/Tokyo")).slice(1),
        "x",
        ["2038-01-19 03:14:07.999"],
    ),
    "of a day": ("datetime", pa.array([date(2020, 1, 2)]), "x", ["2020-01-02 00:00:00"]),
    "times": ("time(6)", pa.array([time(23, 59, 59, 999_999)]), "x", ["23:59:59.999999"]),
    "texts": ("varchar(20)", pa.array(STRINGS), "x", STRINGS),
    "views": ("text", pa.array(STRINGS, pa.string_view()), "x", STRINGS),
    "repeated": ("text", pa.array(STRINGS).dictionary_encode(), "x", STRINGS),
    "part": ("longtext", pa.array(["\t", *STRINGS, "\t"]).slice(1, len(STRINGS)), "x", STRINGS),
    "no text": ("text", pa.nulls(2), "x", [None, None]),
    "latin1": ("varchar(9) CHARACTER SET latin1", pa.array(["€\\é\t"]), "x", ["€\\é\t"]),
    # Trailing blanks are not part of such a text.
    "char": ("char(3)", pa.array(["ab ", "abc  ", " a"]), "x", ["ab", "abc", " a"]),
    "utf16": ("varchar(9) CHARACTER SET utf16", pa.array(["😀\n"]), "x", ["😀\n"]),
    "sjis": ("varchar(9) CHARACTER SET sjis", pa.array(["ソ能'"]), "x", ["ソ能'"]),
    "members": (
        "enum('1','2','a''b','c\\\\d')",
        pa.array(["2", "a'b", "c\\d"]),
        "x",
        ["2", "a'b", "c\\d"],
    ),
    "a set": ("set('a','b','c')", pa.array(["a,c", "", "b"]), "x", ["a,c", "", "b"]),
    "octets": (
        "blob",
        pa.array([bytes(range(256)), b"", b"\\N"]),
        "hex(x)",
        [bytes(range(256)).hex().upper(), "", "5C4E"],
    ),
    "fixed": ("binary(3)", pa.array([b"\0\t\n"]), "hex(x)", ["00090A"]),
    "uuid as text": ("char(36)", pa.array([UUID(UUID_TEXT).bytes], pa.uuid()), "x", [UUID_TEXT]),
    "uuid as bytes": (
        "binary(16)",
        pa.array([UUID(UUID_TEXT).bytes], pa.uuid()),
        "lower(hex(x))",
        [UUID_TEXT.replace("-", "")],
    ),
    "json": ("json", pa.array(['{"a": "\\n\\t€"}', "[]"]), "x", ['{"a": "\\n\\t€"}', "[]"]),
    "a place": ("geometry", pa.array([bytes.fromhex(POINT)]), "hex(ST_AsBinary(x))", [POINT]),
    "number as text": ("varchar(9)", pa.array([1, -2]), "x", ["1", "-2"]),
    "text as time": (
        "time(2)",
        pa.array(["23:59:59.12", "00:00:00"]),
        "x",
        ["23:59:59.12", "00:00:00.00"],
    ),
    "text as moment": ("datetime", pa.array(["2020-01-02 03:04:05"]), "x", [f"{WHOLE}"]),
    "rounded already": (
        "float(9,2)",
        pa.array([1234.56, -0.01, 9999999], pa.float32()),
        "x",
        ["1234.56", "-0.01", "9999999.00"],
    ),
    "rounded to whole numbers": ("double(17,0)", pa.array([1e15, -3.0]), "x", [f"{10**15}", "-3"]),
    "text as number": ("int", pa.array(["1", "-2"]), "x", ["1", "-2"]),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_value_stays_the_same(table: Table, case: str) -> None:
    type_, array, expression, expected = KEPT[case]
    table.make(f"n int NOT NULL AUTO_INCREMENT PRIMARY KEY, x {type_}, y int")
    filler = pa.nulls(len(array), pa.int32())
    assert table.load(pa.record_batch([array, filler], ["x", "y"])) == len(array)
    assert table.texts(expression, "ORDER BY n") == expected
    # NULL, and as the only column
    table.make(f"x {type_}")
    assert table.load(batch(pa.nulls(1, array.type)), batch(array)) == 1 + len(array)
    assert sorted(map(str, table.texts(expression))) == sorted(map(str, [None, *expected]))


# Values that the server changes without a warning, or with a note; each was observed in MySQL 9.7
# or MariaDB 10.11.
CHANGED = {
    "rounded to a whole number": ("int", pa.array([1.5]), "1.5"),
    "wrapped": ("int unsigned", pa.array([-1]), "-1"),
    "too large": ("tinyint", pa.array([128]), "128"),
    "digits lost": ("decimal(5,2)", pa.array([D("1.234")]), "1.234"),
    "digits of a double lost": ("double(9,2)", pa.array([1.234]), "1.234"),
    "digits of a float lost": ("float(9,2)", pa.array([-0.001], pa.float32()), "-0.001"),
    "the last bit lost": ("double(18,2)", pa.array([65663745653094.266]), "65663745653094.26"),
    "the last bit of a rounded one": ("double(9,2)", pa.array([-1.18]), "-1.18"),
    "all digits lost": ("double(9,0)", pa.array([0.5]), "0.5"),
    "not a number": ("double", pa.array([float("nan")]), "nan"),
    "infinite": ("float", pa.array([float("-inf")]), "-inf"),
    "beyond a float": ("float", pa.array([2**24 + 1]), "16777217"),
    "another century": ("year", pa.array([69], pa.int16()), "69"),
    "year 0 of time": ("date", pa.array([-719_163], pa.int32()).cast(pa.date32()), "0001-12-31 BC"),
    "year 10000": ("datetime", pa.array([253_402_300_800], pa.timestamp("s")), "10000-01-01"),
    "seconds rounded": ("datetime", pa.array([WHOLE.replace(microsecond=500_000)]), ":05.5"),
    "hundredths rounded": (
        "datetime(1)",
        pa.array([WHOLE.replace(microsecond=10_000)]),
        ":05.01",
    ),
    "millionths rounded": (
        "timestamp(5) NULL",
        pa.array([WHOLE.replace(microsecond=1)]),
        ":05.000001",
    ),
    "nanoseconds rounded": ("datetime(6)", pa.array([1], pa.timestamp("ns")), "nanoseconds"),
    "time rounded": ("time(3)", pa.array([time(0, 0, 0, 1)]), "00:00:00.000001"),
    "text, rounded": ("time", pa.array(["00:00:00.5"]), "'00:00:00.5'"),
    "text of another zone": ("datetime", pa.array(["2020-01-02 03:04:05+02:00"]), "+02:00"),
    "two digits of a year": ("date", pa.array(["20-01-02"]), "'20-01-02'"),
    "no day": ("date", pa.array(["0000-00-00"]), "'0000-00-00'"),
    "text as time of another day": ("time", pa.array(["120000"]), "'120000'"),
    "the place of a member": ("enum('a','b')", pa.array(["2"]), "'2'"),
    "no place": ("enum('a','b')", pa.array(["0"]), "'0'"),
    "another case": ("enum('a','b')", pa.array(["A"]), "'A'"),
    "blanks after a member": ("enum('a','b')", pa.array(["a "]), "'a '"),
    "bits of a set": ("set('a','b','c')", pa.array(["3"]), "'3'"),
    "another order": ("set('a','b','c')", pa.array(["b,a"]), "'b,a'"),
    "twice in a set": ("set('a','b','c')", pa.array(["a,a"]), "'a,a'"),
    "filled with zeros": ("binary(3)", pa.array([b"ab"]), "b'ab'"),
    "no UTF-8": (
        "varchar(9)",
        pa.array([b"\xf0\t"]).cast(pa.string(), safe=False),
        "which is not UTF-8",
    ),
    "16 bits of more": ("text CHARACTER SET tis620", pa.array(["\U00010041"]), "'\U00010041'"),
    "another character": ("text CHARACTER SET cp932", pa.array(["\u6661"]), "'\u6661'"),
    "the next number": (
        "int NOT NULL AUTO_INCREMENT PRIMARY KEY",
        pa.array([None], pa.int32()),
        "NULL",
    ),
    "the present": ("timestamp NOT NULL", pa.array([None], pa.timestamp("us")), "NULL"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_value_that_the_server_would_change_is_refused(table: Table, case: str) -> None:
    type_, array, found = CHANGED[case]
    table.make(f"x {type_}")
    good = array.slice(0, 0)
    error = table.refused(batch(good), batch(array))
    assert "column 'x', row 1: expected a value that fits into" in error
    assert found in error


# Errors that the server detects. LOAD DATA LOCAL turns them into warnings, and truncates values or
# skips rows.
FOUND = {
    "out of range": ("mediumint", pa.array([1, 2**23], pa.int32()), "Out of range"),
    "decimal": ("decimal(5,2)", pa.array([1, 1000]), "Out of range"),
    "long": ("varchar(3)", pa.array(["abc", "abcd"]), "'x' at row 2"),
    "blanks": ("varchar(3)", pa.array(["abc", "abc "]), "'x' at row 2"),
    "long bytes": ("tinyblob", pa.array([b"", b"x" * 256]), "'x' at row 2"),
    "long bits": ("bit(3)", pa.array([7, 8]), "at row 2"),
    "charset": ("varchar(9) CHARACTER SET latin1", pa.array(["é", "ł"]), "Incorrect string value"),
    "utf8mb3": (
        "varchar(9) CHARACTER SET utf8mb3",
        pa.array(["é", "😀"]),
        "Incorrect string value",
    ),
    "before 1970": ("timestamp NULL", pa.array([1, 0], pa.timestamp("s")), "at row 2"),
    "after 2038 or 2106": (
        "timestamp NULL",
        pa.array([1, 2**32], pa.timestamp("s")),
        "at row 2",
    ),
    "json": ("json", pa.array(["[]", "["]), ""),
    "duplicate": ("int PRIMARY KEY", pa.array([7, 7]), "Duplicate entry '7'"),
    "case": ("varchar(9) UNIQUE", pa.array(["a", "A"]), "Duplicate entry 'A'"),
    "check": ("int, CHECK (x < 7)", pa.array([1, 7]), ""),
    "foreign key": ("int, FOREIGN KEY (x) REFERENCES other (n)", pa.array([1, 2]), "oreign key"),
    "no geometry": ("geometry", pa.array([bytes.fromhex(POINT), b"\1\1"]), "Cannot get geometry"),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_value_that_the_server_warns_of_is_refused(table: Table, case: str) -> None:
    type_, array, found = FOUND[case]
    with table.reader.cursor() as cursor:
        cursor.execute("CREATE TABLE other (n int PRIMARY KEY)")
        cursor.execute("INSERT INTO other VALUES (1)")
    table.make(f"x {type_}")
    assert table.load(batch(array.slice(0, 1))) == 1
    with table.reader.cursor() as cursor:
        cursor.execute("DELETE FROM t")
    error = table.refused(batch(array))
    assert error.startswith("target: `t`: ")
    assert found in error


def test_a_column_that_is_not_loaded_gets_its_default(table: Table) -> None:
    table.make("x int, z int NOT NULL")
    error = table.refused(many(1))
    assert (
        "column 'z': expected a default value, since the column is not loaded, found int" in error
    )
    table.make(
        "x int, a int, b int NOT NULL DEFAULT 7, c int NOT NULL AUTO_INCREMENT PRIMARY KEY,"
        " d int AS (x), e timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP"
    )
    assert table.load(many(1)) == 1


def test_a_row_outside_all_partitions_is_refused(table: Table) -> None:
    table.make("x int", "PARTITION BY RANGE (x) (PARTITION p VALUES LESS THAN (7))")
    assert "7" in table.refused(many(6, 7))


def test_a_trigger_that_signals_an_error(table: Table) -> None:
    table.make("x int")
    with table.reader.cursor() as cursor:
        cursor.execute(
            "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.x = 7 THEN"
            " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no sevens'; END IF; END"
        )
    assert "no sevens" in table.refused(many(6, 7))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("int AS (1)", "a column that is not computed"),
    ],
)
def test_a_column_that_cannot_keep_values_is_refused(
    table: Table, column: str, expected: str
) -> None:
    """The server rounds, or drops digits, without a warning."""
    table.make(f"x {column}")
    assert f"column 'x': expected {expected}" in table.refused(many(1))


def test_errors_count_rows_within_the_stream(table: Table) -> None:
    table.make("x int, y varchar(2)")
    rows = 40_000  # in more than one INSERT
    long = ["y" * 60] * rows

    def batch_of(first: int, *texts: str) -> pa.RecordBatch:
        return pa.record_batch([list(range(first, first + len(texts))), list(texts)], ["x", "y"])

    table.make("x int, y varchar(60)")
    error = table.refused(batch_of(0, *long), batch_of(rows, *long[:-1], "y" * 61))
    assert error.endswith("for column 'y' at row 80,000")
    error = table.refused(batch_of(0, *long), batch_of(2**31 - 7, *long[:10]))
    assert "column 'x', row 40,008: expected a value that fits into int" in error
    assert error.endswith("found 2147483648")


def test_many_warnings_are_summarised(table: Table) -> None:
    table.make("x varchar(1)")
    error = table.refused(many(*["xy"] * 1000))
    assert "'x' at row 1" in error
    assert len(error) < 300
    if table.infile:
        # max_error_count is 64 in MariaDB, 1,024 in MySQL.
        assert re.search(r"; and (61|997) more", error)


def test_zero_in_an_auto_increment_column(table: Table) -> None:
    table.make("x int NOT NULL AUTO_INCREMENT PRIMARY KEY")
    assert table.load(many(0, 5)) == 2
    assert table.texts() == ["0", "5"]


def test_names_that_must_be_quoted(table: Table) -> None:
    name = "a`b%s '\\é"
    table.make(f"{MYSQL.ident(name)} int, `@x` blob")
    assert table.load(pa.record_batch([[1], [b"2"]], [name, "@x"])) == 1
    assert table.texts(MYSQL.ident(name)) == ["1"]
    assert table.texts("`@x`") == ["2"]


def test_types_of_mariadb_arrive(table: Table) -> None:
    if not table.connection.is_mariadb:
        pytest.skip("this is MySQL")
    table.make("a uuid, b uuid, c inet6, x int")
    octets = UUID(UUID_TEXT).bytes
    rows = pa.record_batch(
        [pa.array([octets, None], pa.uuid()), [UUID_TEXT, None], ["::1", None], [1, 2]],
        ["a", "b", "c", "x"],
    )
    assert table.load(rows) == 2
    assert table.texts("concat_ws(' ', a, b, c)", "ORDER BY x") == [f"{UUID_TEXT} " * 2 + "::1", ""]
    table.make("x inet6")
    assert "Incorrect inet6 value: 'x'" in table.refused(many("x"))


def test_an_empty_stream_loads_nothing(table: Table) -> None:
    table.make("x int")
    assert table.load(batch(pa.array([], pa.int32()))) == 0


def test_floats_keep_all_their_bits(table: Table) -> None:
    numbers = random.Random(1)
    raw = [numbers.getrandbits(32) for _ in range(20_000)]
    raw += [1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF]
    found = [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in raw]
    # MariaDB loses the sign of zero.
    finite = [number for number in found if number - number == 0 and number]
    table.make("n int, x float, y double")
    table.load(
        pa.record_batch(
            [
                pa.array(range(len(finite))),
                pa.array(finite, pa.float32()),
                pa.array([number / 3 for number in finite]),
            ],
            ["n", "x", "y"],
        )
    )
    with table.reader.cursor() as cursor:
        cursor.execute("SELECT x * 1e0, y FROM t ORDER BY n")
        assert list(cursor.fetchall()) == [(number, number / 3) for number in finite]


def test_any_text_and_any_bytes_arrive(table: Table) -> None:
    numbers = random.Random(2)
    alphabet = "\\\t\n\r\0'\"N,()ab\x1aé€😀 "
    table.make("n int, x text, y blob, z varchar(20)")
    values = ["".join(numbers.choices(alphabet, k=numbers.randrange(12))) for _ in range(5000)]
    octets = [numbers.randbytes(numbers.randrange(9)) for _ in values]
    table.load(
        *pa.table([range(len(values)), values, octets, values], ["n", "x", "y", "z"]).to_batches(
            777
        )
    )
    with table.reader.cursor() as cursor:
        cursor.execute("SELECT x, y, z FROM t ORDER BY n")
        assert list(cursor.fetchall()) == list(zip(values, octets, values, strict=True))


def test_a_row_larger_than_max_allowed_packet(table: Table) -> None:
    table.make("x longtext")
    (most,) = table.connection.rows("SELECT @@max_allowed_packet")[0]
    text = "x" * (most + 1)
    if table.infile:
        assert table.load(many("a"), many(text)) == 2
        assert table.texts("length(x)", "ORDER BY length(x)") == ["1", str(len(text))]
    else:
        error = table.refused(many("a"), many(text))
        assert (
            f"row 2: expected a statement of at most {most:,} bytes (max_allowed_packet), found"
            in error
        )


def test_a_row_larger_than_a_packet_of_the_protocol(table: Table) -> None:
    table.make("x longtext")
    with table.reader.cursor() as cursor:
        cursor.execute("SELECT @@global.max_allowed_packet")
        (before,) = cursor.fetchone()
        cursor.execute("SET GLOBAL max_allowed_packet = 67108864")
    try:
        table.connection = connect(table.url, "target", loads=True)
        # A full packet is followed by another one, even an empty one.
        statement = len("?INSERT INTO `t` (`x`) VALUES ('')")
        lengths = [2**24 - 1 - statement + more for more in (-1, 0, 1)]
        assert table.load(*(many("x" * length) for length in lengths)) == 3
        assert table.texts("length(x)", "ORDER BY 1") == list(map(str, lengths))
    finally:
        with table.reader.cursor() as cursor:
            cursor.execute("SET GLOBAL max_allowed_packet = %s", (before,))


def test_a_full_socket_is_waited_for(table: Table) -> None:
    """A server that waits for a lock reads no rows; the worker can time that wait."""
    table.make("x int PRIMARY KEY, y text")
    table.reader.begin()
    with table.reader.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (0, '')")
    table.wait = Waiting(when_full=table.reader.rollback)
    texts = pa.array(["y" * 1000] * 10_000)
    batches = [
        pa.record_batch([pa.array(range(first, first + 10_000)), texts], ["x", "y"])
        for first in range(0, 50_000, 10_000)
    ]
    if table.infile:
        assert table.load(*batches) == 50_000
        assert table.wait.full
    else:
        # Each statement is answered, so the wait is for its answer.
        release = Timer(1, table.reader.rollback)
        release.start()
        assert table.load(*batches) == 50_000


def test_an_abandoned_stream_loads_nothing(table: Table) -> None:
    table.make("x int PRIMARY KEY")
    stream = table.opened()
    stream.write(many(*range(10_000)), table.wait)
    table.connection.abandon()
    with table.reader.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")  # waits for whoever locks such a row
    assert table.texts() == ["1"]


def test_a_session_killed_before_rows_are_sent(table: Table) -> None:
    table.make("x int")
    stream = table.opened()
    stream.write(many(1), table.wait)
    kill(table.url, "target", table.connection.number)
    assert select.select([stream.fileno()], [], [], 10)[0]
    with pytest.raises(TransientError, match="target: "):
        stream.check()
    assert table.texts() == []


def test_a_session_killed_while_rows_are_sent(table: Table) -> None:
    table.make("x text")
    stream = table.opened()
    kill(table.url, "target", table.connection.number)
    much = many(*["x" * 1000] * 100_000)
    with pytest.raises(TransientError, match="target: "):
        stream.write(much, table.wait)
    assert table.texts() == []


def test_check_passes_while_the_server_is_silent(table: Table) -> None:
    table.make("x int")
    stream = table.opened()
    stream.check()
    stream.write(many(1), table.wait)
    stream.check()
    assert stream.end(table.wait) == 1
    table.connection.commit()
    assert table.texts() == ["1"]


def test_a_server_gets_no_file(mysql_url: str, tmp_path: Path) -> None:
    """A hostile server may request one in answer to any statement."""
    secret = tmp_path / "secret"
    secret.write_text("1\n")
    with closing(connect_mysql(mysql_url)) as reader, reader.cursor() as cursor:
        cursor.execute("CREATE TABLE t (x int)")
        connection = connect(mysql_url, "target", loads=True)
        with pytest.raises(RuntimeError, match="local_infile option is false"):
            connection.change(f"LOAD DATA LOCAL INFILE '{secret}' INTO TABLE t")
        connection.abandon()
        assert cursor.execute("SELECT * FROM t") == 0


@pytest.fixture(scope="module")
def tls_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why := mysql_missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key -out cert"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    settings = {"ssl_cert": str(folder / "cert"), "ssl_key": str(folder / "key")}
    with MysqlServer(settings=settings) as server:
        yield server.url


@pytest.mark.parametrize("infile", [True, False], ids=["infile", "inserts"])
def test_a_server_without_local_infile(tls_url: str, infile: bool) -> None:
    table = Table(tls_url, infile)
    table.make("x int")
    assert read_settings(table.connection).files
    table.connection.change("SET GLOBAL local_infile = OFF")
    try:
        assert not read_settings(table.connection).files
        if infile:
            assert "set local_infile = ON on the server" in table.refused(many(1))
        else:
            assert table.load(many(1)) == 1
    finally:
        table.connection.change("SET GLOBAL local_infile = ON")
    table.connection.abandon()
    table.reader.close()


@pytest.mark.parametrize("infile", [True, False], ids=["infile", "inserts"])
def test_rows_are_loaded_over_tls(tls_url: str, infile: bool) -> None:
    table = Table(f"{tls_url}?ssl_mode=required", infile)
    assert isinstance(table.connection._sock, ssl.SSLSocket)
    table.make("x int, y text")
    batch = pa.record_batch([range(10_000), pa.array(["y" * 1000] * 10_000)], ["x", "y"])
    assert table.load(*[batch] * 5) == 50_000
    assert table.texts("sum(x)") == ["249975000"]
    stream = table.opened()
    stream.check()
    kill(tls_url, "target", table.connection.number)
    assert select.select([stream.fileno()], [], [], 10)[0]
    with pytest.raises(TransientError, match="target: "):
        stream.check()
    table.connection.abandon()
    table.reader.close()
