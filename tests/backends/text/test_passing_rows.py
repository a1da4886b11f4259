"""CSV whose rows pass through into PostgreSQL as they are, and CSV that has to be parsed."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import CopySpec, copy, plan, resume
from penstock.backends.text.files.passing import Dialect, Outside
from penstock.errors import PenstockError
from penstock.events import Event, Failed, Planned
from penstock.model.plans import PartitionPlan

from ...one_copy import OneCopy
from ..conftest import Pair, Side
from .text_files import write_file

PASSES = "rows pass through as the files have them"
TABLE = """
CREATE TABLE public.t (
    id int, name text, price numeric(9,2), ratio float8, ok boolean, day date, at timestamp,
    zoned timestamptz, bytes bytea, u uuid, clock time
)
"""
HEADER = "id,name,price,ratio,ok,day,at,zoned,bytes,u,clock"
ROWS = (
    '1,"a ""q"", and\r\n\r\nmore",1.50,1.5,true,2024-01-31,2024-01-31 10:00,2024-01-31T10:00+02,'
    "\\x00ff,6f1c3b1e-0000-4000-8000-000000000001,10:00:00\n"
    '2,"",,NaN,,12024-01-31,0044-03-15 00:00:00 BC,2024-01-31 10:00:00Z,\\x,,24:00:00\n'
    '"3",,2.25,-inf,false,,,,,,\n'
)
VALUES = (
    "SELECT t::text FROM (SELECT id, name, price, ratio, ok, day, at, timezone('UTC', zoned),"
    " bytes, u, clock FROM public.t) AS t ORDER BY id"
)


@pytest.fixture
def server(pair: Pair) -> Side:
    return pair.target


def options(target: Side, source: str, **more: Any) -> dict[str, Any]:
    given = {"source": source, "target": target.url, "target_table": "public.t", "degree": 1}
    return {**given, **more}


def planned(target: Side, source: str, **more: Any) -> PartitionPlan:
    return plan(CopySpec(**options(target, source, **more)))


def why(target: Side, source: str, **more: Any) -> str:
    """Return what the plan says about the rows' way."""
    found = planned(target, source, **more)
    (said,) = [reason for reason in found.reasons if reason.startswith("rows ")]
    assert (said == PASSES) == (found.format == "csv")
    return said


def copied(target: Side, source: str, **more: Any) -> list[Any]:
    OneCopy(**options(target, source, verify="checksums", **more)).done()
    return target.rows(VALUES)


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\n{ROWS}".encode(),
        f"\ufeff{HEADER}\n{ROWS}".rstrip().encode(),
        gzip.compress(f"{HEADER}\n{ROWS}".encode()),
        ROWS.encode(),
    ],
    ids=["plain", "with a mark", "gz", "without a header"],
)
def test_rows_pass_through(server: Side, tmp_path: Path, content: bytes) -> None:
    """The table has the same values as from the same rows with blank lines, which are parsed."""
    server.run(TABLE)
    suffix = "csv.gz" if content.startswith(b"\x1f") else "csv"
    url = write_file(tmp_path / f"a.{suffix}", content)
    more = {"map": "name"}
    if content == ROWS.encode():
        url, more = f"{url}?header=false", {"map": "position"}
    assert why(server, url, **more) == PASSES
    found = copied(server, url, mode="truncate", **more)
    other = write_file(tmp_path / "b.csv", f"{HEADER}\n\n{ROWS}")
    assert why(server, other) == "rows are parsed, because they have blank lines"
    assert found == copied(server, other, mode="truncate")
    assert len(found) == 3


def test_rows_of_many_files_pass_through_into_a_new_table(server: Side, tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [
        (str(n), "".join(draw.choices('ab",\n\\. ü', k=draw.randrange(9)))) for n in range(30_000)
    ]
    for place in range(3):
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerows([("id", "b"), *rows[place::3]])
        write_file(tmp_path / f"{place}.csv", text.getvalue())
    source = f"file://{tmp_path}/*.csv"
    more = {"mode": "recreate", "strategy": "files", "partitions": 3}
    found = planned(server, source, **more)
    assert PASSES in found.reasons
    OneCopy(**options(server, source, verify="checksums", **more)).done()
    assert server.rows("SELECT id::text, b FROM public.t AS t ORDER BY t.id") == rows


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('id,name\n1,5" disk\n', "a quote is within a value that does not begin or end with it"),
        ('id,name\n1,"5"x\n', "a quote is within a value that does not begin or end with it"),
        ("id,name\r\n1,x\r\n", "they have carriage returns"),
        ("id,name\n1,x\n\n2,y\n", "they have blank lines"),
        ("name,id\n\\.,1\n", r"a line begins with \."),
    ],
    ids=["quote", "after a quote", "carriage returns", "blank", "end of data"],
)
def test_other_files_are_parsed(server: Side, tmp_path: Path, content: str, reason: str) -> None:
    server.run("CREATE TABLE public.t (id int, name text)")
    url = write_file(tmp_path / "a.csv", content)
    assert why(server, url) == f"rows are parsed, because {reason}"
    OneCopy(**options(server, url)).done()
    found = server.rows("SELECT id, name FROM public.t ORDER BY id")
    lines = list(csv.DictReader(io.StringIO(content.replace("\n\n", "\n"), newline="")))
    assert [(str(row[0]), row[1]) for row in found] == [(row["id"], row["name"]) for row in lines]


def test_what_else_makes_them_parsed(server: Side, tmp_path: Path) -> None:
    server.run("CREATE TABLE public.t (id int, name text)")
    url = write_file(tmp_path / "a.csv", "id,name\n1,x\n")
    assert why(server, url) == PASSES
    selected = "rows are parsed, because rows or columns are selected or changed"
    for more in (
        {"where": "id > 0"},
        {"columns": ("id", "name")},
        {"mask": ("name=hash",)},
        {"strategy": "range", "key": "id"},
    ):
        assert why(server, url, **more) == selected
    semicolons = write_file(tmp_path / "b.csv", "id;name\n1;x\n") + "?delimiter=%3B"
    assert "their delimiter is not a comma" in why(server, semicolons)
    assert "?types=text" in why(server, f"{url}?types=text")
    write_file(tmp_path / "orders/a.csv", "id,name\n1,x\n")
    write_file(tmp_path / "orders/b.csv", "name,id\nx,1\n")
    assert "in different orders" in why(server, f"file://{tmp_path}/orders/*.csv")
    # Where types are inferred, a text column gets the usual notation of numbers.
    numbers = write_file(tmp_path / "c.csv", "id,name\n1,1e3\n")
    assert planned(server, numbers).format == "csv"
    server.run("ALTER TABLE public.t ALTER id TYPE numeric")
    assert planned(server, numbers).format == "arrow"
    OneCopy(**options(server, numbers)).done()
    assert server.rows("SELECT name FROM public.t") == [("1000",)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,x\n99999999999,y\n", r"column 'id', line 2: "),
        ('1,"x\ny"\n2,\n', r"null value in column .name."),
    ],
)
def test_rejected_values(server: Side, tmp_path: Path, rows: str, message: str) -> None:
    server.run("CREATE TABLE public.t (id int, name text NOT NULL)")
    url = write_file(tmp_path / "a.csv", f"id,name\n{rows}")
    assert why(server, url) == PASSES
    failed = OneCopy(**options(server, url))
    assert failed.error is not None
    assert re.search(message, failed.message), failed.message
    assert server.rows("SELECT * FROM public.t") == []


@pytest.mark.parametrize("type_", ["int", "numeric"])
def test_a_snapshot_of_changed_files(server: Side, tmp_path: Path, type_: str) -> None:
    """The plan is older: its workers must not send what the server reads differently."""
    server.run(f"CREATE TABLE public.t (id {type_}, name text)")
    url = write_file(tmp_path / "a.csv", "id,name\n1,x\n")
    events: list[Event] = []

    def follow(stream: Iterator[Event]) -> None:
        with suppress(PenstockError):
            for event in stream:
                events.append(event)
                if isinstance(event, Planned):
                    write_file(tmp_path / "a.csv", 'id,name\n1,5" disk\n')

    follow(copy(CopySpec(**options(server, url))))
    assert events
    run_id = events[0].run_id
    follow(resume(run_id, source=url, target=server.url, on_snapshot_lost="accept"))
    if type_ == "int":  # the table gave the types: what passes is examined at that moment
        assert server.rows("SELECT id, name FROM public.t") == [(1, '5" disk')]
        return
    messages = [str(event.error["message"]) for event in events if isinstance(event, Failed)]
    assert "their rows now have to be parsed, because a quote is within" in messages[-1]
    assert server.rows("SELECT * FROM public.t") == []


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_quotes_wherever_pieces_end(size: int) -> None:
    proper = b'a,b\n"x ""y""\n\nz",""\n"""",c\n'
    for content, passes in (
        (proper, True),
        (proper + b'd"e\n', False),
        (proper + b'"d"e\n', False),
    ):
        dialect, outside, rows = Dialect(), Outside(), 0
        for start in range(0, len(content), size):
            dialect.look(content[start : start + size])
            rows += outside.of(content[start : start + size]).count(b"\n")
        assert (not dialect.reason) == passes
        assert not passes or rows == 3
