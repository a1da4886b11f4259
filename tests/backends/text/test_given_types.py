"""CSV whose columns get the types of the existing table, and is read once."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock import CopySpec, create, plan, resume, verify
from penstock.backends.text.files import checked_rows, csv_rows
from penstock.backends.text.files.checked_rows import CheckedRows
from penstock.backends.text.files.passing import Dialect, is_proper
from penstock.backends.text.files.streams import TextStream
from penstock.backends.text.location import TextOptions
from penstock.errors import PenstockError, UsageError

from ...one_copy import OneCopy
from ..conftest import Pair, Side
from .text_files import write_file

GIVEN = "columns are read as the table's types, and each value is checked"
PASSES = "rows pass through as the files have them"
# More bytes than planning reads of a file.
MANY = 200_000
PARTS = ['"', '""', ",", "\n", "\r", "\\.", "x", "ü"]


@pytest.fixture
def server(pair: Pair) -> Side:
    return pair.target


def options(target: Side, source: str, **more: Any) -> dict[str, Any]:
    given = {"source": source, "target": target.url, "target_table": "public.t", "degree": 1}
    return {**given, **more}


def types_of(target: Side, source: str, **more: Any) -> dict[str, str] | None:
    """Return the columns' types if the table gave them."""
    found = plan(CopySpec(**options(target, source, **more)))
    assert (GIVEN in found.reasons) == bool(found.given_types)
    if not found.given_types:
        return None
    return {column.name: column.type for column in found.columns}


def late(usual: str, *last: str) -> str:
    """Return a file of two columns, in which some values follow many usual ones."""
    return "".join(
        ("n,v\n", *(f"{n},{usual}\n" for n in range(MANY)), *(f"-1,{text}\n" for text in last))
    )


def test_each_type(server: Side, tmp_path: Path) -> None:
    """The values in the table are those that are loaded if types are inferred."""
    server.run("""
        CREATE TABLE public.t (
            a int2, b int4, c int8, d numeric(12,3), e float8, f bool, g date, h time,
            i timestamp, j timestamptz, k uuid, l text, m varchar(20), n char(4)
        )
    """)
    row = (
        "1,2,3,4.5,6,true,2024-01-31,10:00:00,2024-01-31 10:00,2024-01-31 10:00:00+02,"
        '6f1c3b1e-0000-4000-8000-000000000001,1e3,"a, ""b""",x\n'
    )
    rows = f"a,b,c,d,e,f,g,h,i,j,k,l,m,n\n{row},,,,,,,,,,,,,\n"
    url = write_file(tmp_path / "a.csv", rows)
    assert types_of(server, url) == {
        "a": "int16",
        "b": "int32",
        "c": "int64",
        "d": "decimal128(12, 3)",
        "e": "double",
        "f": "bool",
        "g": "date32[day]",
        "h": "time64[us]",
        "i": "timestamp[us]",
        "j": "timestamp[us, tz=UTC]",
        "k": "extension<arrow.uuid>",
        "l": "string",
        "m": "string",
        "n": "string",
    }
    finished = OneCopy(**options(server, url, verify="checksums")).done()
    assert finished.rows == 2
    found = server.rows("SELECT t::text FROM public.t AS t ORDER BY t.a")
    # With a condition types are inferred; only texts then get the usual notation of numbers.
    OneCopy(**options(server, url, mode="truncate", where="1 = 1")).done()
    (first, nulls) = server.rows("SELECT t::text FROM public.t AS t ORDER BY t.a")
    assert found == [(first[0].replace(",1000,", ",1e3,"),), nulls]


def test_the_file_decides_if_it_contradicts(server: Side, tmp_path: Path) -> None:
    server.run("CREATE TABLE public.t (n int, v numeric(9,2))")
    for text in ("1.255", "1e-3"):
        url = write_file(tmp_path / "a.csv", f"n,v\n1,{text}\n")
        assert types_of(server, url) is None
    for header in ("n\n1\n", "n,v,w\n1,2,3\n"):  # other columns
        url = write_file(tmp_path / "a.csv", header)
        with pytest.raises(PenstockError, match="does not fit into"):
            types_of(server, url)
    assert types_of(server, url, map="position", columns=("n", "v")) is None
    url = write_file(tmp_path / "b.csv", "x,y\n1,2.5\n")
    given = {"x": "int32", "y": "decimal128(9, 2)"}
    assert types_of(server, url, map="position") == given
    assert types_of(server, f"{url}?header=false", map="position") == {
        "c1": "string",
        "c2": "string",
    }
    for more in ({"mode": "recreate"}, {"on_drift": "ignore"}, {"mask": ("v=null",)}):
        assert types_of(server, write_file(tmp_path / "a.csv", "n,v\n1,2\n"), **more) is None


def test_texts_for_other_types(server: Side, tmp_path: Path) -> None:
    """What inference would certainly find to be a text needs no other rows."""
    server.run("""
        CREATE TABLE public.t (n int, a int[], f bool, j jsonb, s interval, d timestamp, i inet)
    """)
    text = 'n,a,f,j,s,d,i\n007,"{1,2}",t,"{""a"": 1}",1 day,infinity,10.0.0.1\n'
    url = write_file(tmp_path / "a.csv", text)
    assert set((types_of(server, url) or {}).values()) == {"string"}
    OneCopy(**options(server, url, verify="checksums")).done()
    assert server.rows("SELECT t::text FROM public.t AS t") == [
        ('(7,"{1,2}",t,"{""a"": 1}","1 day",infinity,10.0.0.1)',)
    ]
    # A number is one in JSON, and seconds: as before, this is refused unless the rest are texts.
    for values in ("1,,,5,,,", "1,,,,5,,", "1,,,true,,,"):
        url = write_file(tmp_path / "a.csv", f"n,a,f,j,s,d,i\n{values}\n")
        with pytest.raises(PenstockError, match="no form that"):
            types_of(server, url)


@pytest.mark.parametrize(
    ("type_", "usual", "value", "shown"),
    [
        ("int", "1", "1.0", "int32, found '1.0'"),
        ("int", "1", '""', "int32, found ''"),
        ("int2", "1", "99999", "int16, found '99999'"),
        ("numeric(9,2)", "1.5", "1.255", "decimal128(9, 2), found '1.255'"),
        ("numeric(9,2)", "1.5", "NaN", "decimal128(9, 2), found 'NaN'"),
        ("float8", "1.5", "9007199254740993", "double, found '9007199254740993'"),
        ("date", "2024-01-31", "20240131", "date32[day], found '20240131'"),
        ("date", "2024-01-31", "2024-01-31 10:00", "date32[day], found '2024-01-31 10:00'"),
        ("date", "2024-01-31", "01/02/2024", "date32[day], found '01/02/2024'"),
        ("timestamp", "2024-01-31 10:00", "2024-01-31 10:00+02", "found '2024-01-31 10:00+02'"),
        ("timestamptz", "2024-01-31 10:00Z", "2024-01-31 10:00", "found '2024-01-31 10:00'"),
        ("time", "10:00:00", "101010", "time64[us], found '101010'"),
        ("bool", "true", "yes", "bool, found 'yes'"),
        ("uuid", "6f1c3b1e-0000-4000-8000-000000000001", "x", "found 'x'"),
    ],
)
def test_late_values_of_another_type(
    server: Side, tmp_path: Path, type_: str, usual: str, value: str, shown: str
) -> None:
    server.run(f"CREATE TABLE public.t (n int, v {type_})")
    url = write_file(tmp_path / "a.csv", late(usual, usual, value, usual))
    assert types_of(server, url) is not None
    failed = OneCopy(**options(server, url))
    assert f"a.csv: row {MANY + 3:,}, column 'v': expected a value of " in failed.message
    assert shown in failed.message
    assert "add ?types=inferred" in failed.message
    assert server.rows("SELECT * FROM public.t") == []


def test_types_may_be_inferred_instead(server: Side, tmp_path: Path) -> None:
    server.run("CREATE TABLE public.t (n int, v int)")
    url = write_file(tmp_path / "a.csv", late("1", "1.0")) + "?types=inferred"
    assert types_of(server, url) is None
    OneCopy(**options(server, url)).done()
    assert server.count() == MANY + 1
    assert server.count(where="v <> 1") == 0


@pytest.mark.parametrize(
    "last",
    [
        ('5" disk',),
        ('"5"x',),
        ("x\r\n1,y",),
        ("\n\n2,y\n",),
        ('x\n\\.,"\\."', "x"),
        ('"a\r\n\nb"', '""', "", '"\\."', 'ü"'),
        ("x" * 5_000_000, '5" disk'),
    ],
    ids=["quote", "after a quote", "carriage return", "blank", "end of data", "many", "long"],
)
def test_late_rows_that_must_be_parsed(server: Side, tmp_path: Path, last: tuple[str, ...]) -> None:
    """They arrive as if all rows were parsed."""
    type_ = "text" if "\\." in "".join(last) else "int"
    server.run(f"CREATE TABLE public.t (n {type_}, v text)")
    url = write_file(tmp_path / "a.csv", late("usual", *last))
    assert types_of(server, url) is not None
    OneCopy(**options(server, url, verify="checksums")).done()
    query = "SELECT n::text, v FROM public.t WHERE v IS DISTINCT FROM 'usual' ORDER BY n, v"
    found, count = server.rows(query), server.rows("SELECT count(*) FROM public.t")
    OneCopy(**options(server, url, mode="truncate", where="1 = 1")).done()
    assert server.rows(query) == found
    assert server.rows("SELECT count(*) FROM public.t") == count
    assert len(found) >= len(last)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("1,2", f"row {MANY + 2:,}: expected 2 values, as in the first row, found 3"),
        ('"x', f'row {MANY + 2:,}: a quote (") that opens here is not closed'),
    ],
)
def test_late_defects(server: Side, tmp_path: Path, last: str, message: str) -> None:
    server.run("CREATE TABLE public.t (n int, v text)")
    failed = OneCopy(**options(server, write_file(tmp_path / "a.csv", late("x", last))))
    assert failed.error is not None
    assert message in failed.message
    content = late("x").encode() + b"1,\xff\n"
    failed = OneCopy(**options(server, write_file(tmp_path / "a.csv", content)))
    assert f"row {MANY + 2:,}, column 'v': expected UTF-8" in failed.message
    assert server.rows("SELECT * FROM public.t") == []


def test_late_blanks_around_numbers(server: Side, tmp_path: Path) -> None:
    """They mean nothing to either side, and to the comparison."""
    server.run("CREATE TABLE public.t (n int, v int)")
    url = write_file(tmp_path / "a.csv", late("1", " 5", "007", "6 "))
    assert types_of(server, url) == {"n": "int32", "v": "int32"}
    OneCopy(**options(server, url, verify="checksums")).done()
    assert server.rows("SELECT v FROM public.t WHERE n = -1 ORDER BY v") == [(5,), (6,), (7,)]


def test_one_column_with_nulls(server: Side, tmp_path: Path) -> None:
    server.run("CREATE TABLE public.t (v text)")
    rows = ["x"] * 600_000 + ["", '""', "y"]
    url = write_file(tmp_path / "a.csv", "\n".join(("v", *rows, "")))
    assert types_of(server, url) == {"v": "string"}
    OneCopy(**options(server, url, verify="checksums")).done()
    found = server.rows("SELECT v FROM public.t WHERE v IS DISTINCT FROM 'x' ORDER BY v")
    assert found == [("",), ("y",), (None,)]


def test_stored_runs_keep_their_types(server: Side, tmp_path: Path) -> None:
    """A run that is planned here and executed later reads what its plan says."""
    server.run("CREATE TABLE public.t (n int, v numeric(9,2))")
    for place in range(3):
        write_file(tmp_path / f"{place}.csv", f"n,v\n{place},1.5\n")
    source = f"file://{tmp_path}/*.csv"
    more = {"partitions": 3, "verify": "checksums", "run_id": "r"}
    create(CopySpec(**options(server, source, **more)))
    part = penstock.status("r", target=server.url).run.plan.partitions[0].id
    ends: dict[str, Any] = {"source": source, "target": server.url}
    list(resume("r", only=[part], **ends))
    list(resume("r", **ends))
    assert server.rows("SELECT n, v::text FROM public.t ORDER BY n") == [
        (0, "1.50"),
        (1, "1.50"),
        (2, "1.50"),
    ]
    assert verify("r", checksum=True, **ends).ok
    server.run("UPDATE public.t SET v = 1.51 WHERE n = 1")
    assert not verify("r", checksum=True, **ends).ok
    OneCopy(**options(server, source, **more)).done()  # nothing is left to do


def test_a_snapshot_that_another_process_holds(server: Side, tmp_path: Path) -> None:
    server.run("CREATE TABLE public.t (n int2, v numeric(9,2))")
    url = write_file(tmp_path / "a.csv", "n,v\n1,1.5\n")
    create(CopySpec(**options(server, url, verify="checksums", run_id="r")))
    with closing(penstock.hold("r", source=url, target=server.url)) as held:
        next(held)
        list(resume("r", source=url, target=server.url, await_snapshot=10))
    assert server.rows("SELECT n, v::text FROM public.t") == [(1, "1.50")]


def test_a_table_that_changes_in_between(server: Side, tmp_path: Path) -> None:
    server.run("CREATE TABLE public.t (n int, v numeric(9,2))")
    url = write_file(tmp_path / "a.csv", "n,v\n1,1.5\n")
    create(CopySpec(**options(server, url, run_id="r")))
    server.run("ALTER TABLE public.t ALTER v TYPE date USING NULL")
    with pytest.raises(PenstockError, match="does not fit into"):
        list(resume("r", source=url, target=server.url))


def test_a_table_in_duckdb(tmp_path: Path) -> None:
    """Rows are parsed, but only once."""
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("""
            CREATE TABLE t (
                n INTEGER, v DECIMAL(9,2), s VARCHAR, d DATE, z TIMESTAMPTZ, f DOUBLE, i INTERVAL
            )
        """)
    row = "1,2.5,1e3,2024-01-31,2024-01-31 10:00Z,0.5,1 day\n"
    url = write_file(tmp_path / "a.csv", f"n,v,s,d,z,f,i\n{row},,,,,,\n")
    more: dict[str, Any] = {"source": url, "target": f"duckdb:///{path}", "target_table": "main.t"}
    assert GIVEN in plan(CopySpec(**more)).reasons
    OneCopy(**more, verify="checksums").done()
    with duckdb.connect(path) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM t").fetchall()
        assert found == [
            ("1", "2.50", "1e3", "2024-01-31", "2024-01-31 10:00:00+00", "0.5", "1 day"),
            (None,) * 7,
        ]
        connection.execute("DROP TABLE t; CREATE TABLE t (n INTEGER, v DATE)")
    failed = OneCopy(**{**more, "source": write_file(tmp_path / "b.csv", late("2024-01-31", "1"))})
    assert f"b.csv: row {MANY + 2:,}, column 'v': expected a value of date32" in failed.message


def test_types_are_no_parameter_for_users(server: Side, tmp_path: Path) -> None:
    url = write_file(tmp_path / "a.csv", "n\n1\n")
    with pytest.raises(UsageError, match="schema"):
        types_of(server, f"{url}?schema=x")


def _checked(content: bytes, schema: pa.Schema) -> CheckedRows:
    return CheckedRows(_opened(content), TextOptions(), schema)


def _opened(content: bytes) -> Callable[[], TextStream]:
    return lambda: TextStream(pa.PythonFile(io.BytesIO(content), mode="r"))


@pytest.mark.parametrize("piece", [2, 7, 64, 1 << 20])
def test_whatever_passes_is_read_alike(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Strict CSV, as of the server's, has the same values as Arrow finds in the file."""
    monkeypatch.setattr(checked_rows, "PIECE", piece)
    draw = random.Random(piece)
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    passed = changed = 0
    for _ in range(400):
        texts = [
            "".join(
                draw.choices(['"', '""', ",", "\n", "\r", "\\.", "x", "ü"], k=draw.randrange(4))
            )
            for _ in range(draw.randrange(1, 9))
        ]
        lines = [
            f'{n},"{text.replace(chr(34), chr(34) * 2)}"' if draw.random() < 0.9 else f"{n},{text}"
            for n, text in enumerate(texts)
        ]
        content = ("\n".join(("a,b", *lines)) + "\n").encode()
        options = TextOptions()
        try:
            names = csv_rows.names_of(_opened(content), options)
            batches = list(csv_rows.batches(_opened(content), options, names, names))
            columns = [batch.to_pydict().values() for batch in batches]
            expected = [row for each in columns for row in zip(*each, strict=True)]
            [int(a) for a, _ in expected if a is not None]
        except (pa.ArrowException, ValueError):
            with pytest.raises((pa.ArrowException, ValueError)):
                list(_checked(content, schema).pieces())
            continue
        pieces = list(_checked(content, schema).pieces())
        sent = b"".join(rows for rows, _ in pieces)
        assert sum(count for _, count in pieces) == len(expected)
        strict = csv.reader(io.StringIO(sent.decode(), newline=""), strict=True)
        found = [tuple(value or None for value in row) for row in strict]
        assert found == [tuple(value or None for value in row) for row in expected], content
        passed += sent == content[4:]
        changed += sent != content[4:]
    assert passed > 50
    assert changed > 20


def test_proper_rows() -> None:
    """Whole rows are examined as planning examines files piece by piece."""
    draw = random.Random(5)
    proper = 0
    for _ in range(20_000):
        rows = bytes(draw.choices(b'a,"\n', weights=[3, 3, 4, 2], k=draw.randrange(12))) + b"\n"
        dialect = Dialect()
        dialect.look(rows)
        found = is_proper(rows)
        assert found == (not dialect.reason and rows.count(b'"') % 2 == 0), rows
        proper += found
    assert proper > 3000
