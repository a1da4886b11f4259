"""PostgreSQL's own CSV in files, and the files that workers write from the same rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest

from penstock import CopySpec, plan
from penstock.backends import text
from penstock.backends.api.worker import ARROW, ROWS

from ...one_copy import OneCopy
from ..conftest import Pair, Side
from .text_files import rows_of, table_of

FORMATTED = "rows are formatted by the worker, because "
WRITTEN = "rows are written as the source formats them"
TABLE = """
CREATE TYPE public.mood AS ENUM ('sad', 'so, so');
CREATE DOMAIN public.cents AS numeric(9,2);
CREATE DOMAIN public.ratio AS float8;
CREATE TABLE public.t (
    id int, small int2, big int8, o oid, ok bool, name text, code char(5), short varchar(9),
    letter "char", mood public.mood, price numeric(9,2), cents public.cents, fine numeric(20,9),
    rounded numeric(6,0), free numeric, huge numeric(50,3), single float4, double float8,
    ratio public.ratio, day date, at timestamp, zoned timestamptz, clock time, zoned_clock timetz,
    span interval, bytes bytea, u uuid, j json, jb jsonb, ip inet, amount money, "a ""b"", c" text,
    hour timestamp(0), r int4range
)
"""
USUAL = r"""
INSERT INTO public.t SELECT n, n, n * 1000000007::int8, n, n % 3 = 0,
    E'a "q", b\r\n\\.\n' || n, 'ab', E'\\.', 'x', 'so, so', n * 1.25, 0.5, 0.000000001 * n, n,
    n / 7.0, n::numeric * 1e40, n / 4.0, n / 8.0, n * 1024, date '2024-01-31' + n,
    timestamp '2024-01-31 10:00' + n * interval '0.1 s',
    timestamptz '2024-01-31 10:00+02' + n * interval '1 us', time '10:00' + n * interval '0.25 s',
    '10:00:00.5+03', n * interval '1 day 1.5 s', E'\\x00ff'::bytea,
    '6f1c3b1e-0000-4000-8000-000000000001', '{"a" :  [1, "é\u00fc\"x"]}', '{"a" :  [1, 2]}',
    '10.0.0.1', n, 'ü,"', '2024-01-31 10:00', int4range(n, n + 3)
FROM generate_series(1, 2000) AS n;
INSERT INTO public.t (id) VALUES (3000);
INSERT INTO public.t (id, name, code, short, bytes, ip) VALUES
    (3001, '', '', '', '', NULL), (3002, E'\\.', '\N', 'NULL', '\x22', '::1'),
    (3003, E'\n', ',', '"', '\x0a', NULL), (3004, E'\r', E'\r\n', '""', NULL, NULL),
    (3005, E'\t \x0c\x0b\x08 \\f \\v \\N 日本 🚰', ' a', E'\\', NULL, NULL);
INSERT INTO public.t (id, single, double, ratio, free) VALUES
    (4001, 'NaN', 'NaN', 'NaN', 'NaN'), (4002, 'Infinity', 'Infinity', 'Infinity', 'Infinity'),
    (4003, '-Infinity', '-Infinity', '-Infinity', '-Infinity'), (4004, '-0', '-0', '-0', 0);
"""
UNUSUAL = """
INSERT INTO public.t (id, single, double, day, at, zoned, clock) VALUES
    (1, 1e-7, 1e-7, '12024-01-31', '12024-01-31 10:00', '12024-01-31 10:00:00.5+00', NULL),
    (2, 1.5e30, 5e-324, '0044-03-15 BC', '0044-03-15 10:00:00.25 BC',
     '0044-03-15 10:00+00 BC', NULL),
    (3, 16777216, 1e22, '4713-01-01 BC', '294247-01-10 04:00:54.775806',
     '0001-12-31 23:59:59.999999+00 BC', NULL),
    (4, 123456.7, 123456789012345680, '0001-01-01', '0001-01-01', '0001-01-01+00', '0:0:0.000001'),
    (5, 1e10, 0.00001, '9999-12-31', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00',
     '23:59:59.999999')
"""


@pytest.fixture
def server(pair: Pair) -> Side:
    pair.source.run(TABLE)
    return pair.source


def options(source: Side, target: str, **more: Any) -> dict[str, Any]:
    return {"source": source.url, "table": "public.t", "target": target, "degree": 1, **more}


def why(source: Side, target: str, **more: Any) -> str:
    """Return what the plan says about the way in which rows become CSV."""
    found = plan(CopySpec(**options(source, target, **more)))
    said = [reason for reason in found.reasons if reason.startswith(("rows are", "arrow streams"))]
    assert (said == [WRITTEN]) == (found.format == ROWS)
    return "; ".join(said)


@pytest.fixture
def written(
    server: Side, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Path, Path]]:
    """A function that copies the table to a file of the source's CSV, and one of the worker's."""

    def write(**more: Any) -> tuple[Path, Path]:
        paths = tmp_path / "rows.csv", tmp_path / "batches.csv"
        given = {"verify": "checksums", "partitions": 1, **more}
        assert why(server, str(paths[0])) == WRITTEN
        OneCopy(**options(server, str(paths[0]), **given)).done()
        with monkeypatch.context() as patched:
            only = replace(text.local.target_capabilities, formats=(ARROW,))
            patched.setattr(text.local, "target_capabilities", only)
            assert why(server, str(paths[1])) == ""
            OneCopy(**options(server, str(paths[1]), **given)).done()
        return paths

    return write


@pytest.mark.usefixtures("both_paths")
def test_files_are_as_those_of_workers(
    server: Side, written: Callable[..., tuple[Path, Path]]
) -> None:
    server.run(USUAL)
    rows, batches = written()
    assert sorted(rows.read_bytes().split(b"\n")) == sorted(batches.read_bytes().split(b"\n"))
    assert rows.read_bytes() == batches.read_bytes()


def _without_quotes(file: Path) -> list[list[Any]]:
    """Return the values of a file, its numbers as numbers."""

    def value(text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text

    return [list(map(value, row)) for row in csv.reader(io.StringIO(file.read_text(), newline=""))]


@pytest.mark.usefixtures("both_paths")
def test_years_and_exponents_keep_their_values(
    server: Side, written: Callable[..., tuple[Path, Path]]
) -> None:
    """Numbers have another notation of the exponent, and unusual dates no quotes."""
    server.run(UNUSUAL)
    rows, batches = written()
    assert _without_quotes(rows) == _without_quotes(batches)
    assert table_of(f"file://{rows}").equals(table_of(f"file://{batches}"))
    readers: list[Callable[[Path], Any]] = [
        lambda file: duckdb.read_csv(str(file), all_varchar=False).project("id, single, double"),
        lambda file: pa.csv.read_csv(file).select(["id", "single", "double", "at", "zoned"]),
    ]
    first, second = readers
    assert first(rows).fetchall() == first(batches).fetchall()
    assert second(rows).equals(second(batches))


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("day", "infinity"), ("at", "-infinity"), ("zoned", "infinity"), ("price", "NaN"),
        ("at", "294247-01-10 04:00:54.775808"), ("zoned", "294276-12-31 23:59:59.999999+00"),
        ("fine", "NaN"), ("huge", "NaN"), ("cents", "NaN"),
    ],
)  # fmt: skip
def test_what_files_cannot_hold_is_named(
    server: Side, tmp_path: Path, column: str, value: str
) -> None:
    server.run(
        "INSERT INTO public.t (id, name)"
        " SELECT n, E'\\x1f infinity NaN' FROM generate_series(1, 9) AS n"
    )
    server.run(f"INSERT INTO public.t (id, {column}) VALUES (10, '{value}')")
    copy = OneCopy(**options(server, str(tmp_path / "a.csv"), partitions=1))
    shown = re.escape(value.removesuffix("+00"))
    assert re.search(rf"column '{column}', row 10: .* found '{shown}'", copy.message)
    assert not (tmp_path / "a.csv").exists()


def test_the_end_of_a_day_is_a_time(server: Side, tmp_path: Path) -> None:
    """PostgreSQL's 24:00:00, which Arrow lacks, is written, and compared."""
    server.run("INSERT INTO public.t (clock) VALUES ('24:00'), ('0:00')")
    target = str(tmp_path / "a.csv")
    OneCopy(**options(server, target, columns="clock", verify="checksums")).done()
    assert (tmp_path / "a.csv").read_text() == '"clock"\n24:00:00.000000\n00:00:00.000000\n'


@pytest.mark.parametrize(
    ("target", "more", "reason"),
    [
        ("a.csv", {"columns": "id,list"}, f"{FORMATTED}list is an array, which becomes JSON"),
        ("a.tsv", {"columns": "id,name"}, rf"{FORMATTED}values are separated by '\t'"),
        ("a.csv", {"columns": "id,ok", "types": {"id": "string"}}, "arrow streams, because of id"),
        ("?format=csv", {"columns": "id,ok", "partition_by": "ok"}, ""),
        ("a.jsonl", {"columns": "id,name"}, ""),
    ],
)  # fmt: skip
def test_rows_that_the_worker_formats(
    server: Side, tmp_path: Path, target: str, more: dict[str, Any], reason: str
) -> None:
    server.run("ALTER TABLE public.t ADD list int[]")
    server.run("INSERT INTO public.t (id, name, ok, list) VALUES (1, 'a', true, '{1,NULL}')")
    url = f"{tmp_path}/{target}"
    assert why(server, url, **more) == reason
    OneCopy(**options(server, url, verify="checksums", **more)).done()


def test_rows_that_are_added_to_other_columns(server: Side, tmp_path: Path) -> None:
    """Files of one dataset have all of its columns, in its order."""
    server.run("INSERT INTO public.t (id, name, ok) VALUES (1, 'a', true)")
    url = f"{tmp_path}/*.csv"
    assert why(server, url, columns="id,name,ok") == WRITTEN
    OneCopy(**options(server, url, columns="id,name,ok")).done()
    assert why(server, url, columns="id,name,ok") == WRITTEN
    for columns in ("ok,id,name", "name,ok"):
        assert why(server, url, columns=columns) == ""
        OneCopy(**options(server, url, columns=columns, verify="checksums")).done()
    source = f"file://{tmp_path}/*.csv"
    # Files are named after their runs, so their order varies.
    assert sorted(rows_of(source), key=str) == [(1, "a", True), (1, "a", True), (None, "a", True)]


@pytest.mark.usefixtures("both_paths")
def test_rows_of_folders_and_single_columns(server: Side, tmp_path: Path) -> None:
    """Masks, conditions, partitions, compression and the size of files are as for batches."""
    server.run(
        "ALTER TABLE public.t ADD PRIMARY KEY (id);"
        "INSERT INTO public.t (id, name) SELECT n, nullif(n % 3, 0) "
        "FROM generate_series(1, 40000) AS n"
    )
    more = {"degree": 2, "partitions": 3, "strategy": "range", "key": "id", "where": "id > 10"}
    for place, suffix in enumerate(("csv", "csv.gz", "csv.zst")):
        url = f"{tmp_path}/{place}/*.{suffix}"
        assert why(server, url, columns="name", **more) == WRITTEN
        report = OneCopy(
            **options(server, url, columns="name", verify="checksums", file_size="1MB", **more)
        ).done()
        assert report.rows == 39_990
        found = [name for (name,) in rows_of(f"file://{url}")]
        assert (len(found), found.count(None)) == (39_990, 13_330)
    OneCopy(
        **options(
            server, f"{tmp_path}/m.csv", columns="id,name", mask={"name": "null"}, where="id=1"
        )
    ).done()
    assert (tmp_path / "m.csv").read_text() == '"id","name"\n1,\n'
