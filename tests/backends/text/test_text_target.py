"""Tables into CSV and JSON lines and back: one file, and folders of files."""

from __future__ import annotations

import csv
import io
import os
import signal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock import CopySpec, PlanningError, UsageError
from penstock.errors import PenstockError
from penstock.events import Committed, Event, Finished, Opened
from penstock_testkit import S3Server

from ...cli import run_script
from ..conftest import Pair

ROWS = 5000
TABLE = """
CREATE TABLE public.t (
    id int PRIMARY KEY, code text, price numeric(12,2), ratio float8, ok boolean, day date,
    at timestamp, zoned timestamptz, bytes bytea, doc jsonb, u uuid, clock time, big numeric(30,0)
);
INSERT INTO public.t
SELECT g,
    CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'a "q",\\n x\\\\'
        ELSE lpad(g::text, 6, '0') END,
    g * 1.5, CASE g % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' ELSE sqrt(g) END, g % 2 = 0,
    date '2024-01-01' + g % 900, timestamp '2024-01-01' + g * interval '1.000001 s',
    timestamptz '2024-01-01 UTC' + g * interval '1 s', decode(md5(g::text), 'hex'),
    jsonb_build_object('a', g, 'b', array[1, 2], 'c', E'x"\\n'), md5(g::text)::uuid,
    time '00:00' + g * interval '1 s', 12345678901234567890 + g
FROM generate_series(1, 5000) g
"""
EXTENSIONS = ("csv", "tsv.gz", "ndjson.zst")


@pytest.fixture
def full(pair: Pair) -> Pair:
    pair.source.run(TABLE)
    return pair


def copied(**options: Any) -> Finished:
    *_, finished = penstock.copy(CopySpec(**{"degree": 2, **options}))
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    return finished


def to_file(pair: Pair, target: Path | str, **options: Any) -> Finished:
    url = str(target)
    return copied(source=pair.source.url, table="public.t", target=url, **options)


def queried(query: str) -> list[tuple[Any, ...]]:
    """Return the rows that DuckDB reads."""
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


def names(folder: Path) -> list[str]:
    """Return the visible names in a folder."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_table_is_copied_there_and_back(full: Pair, tmp_path: Path, extension: str) -> None:
    """Both copies compare checksums, and the test compares the values of both tables."""
    file = tmp_path / f"out.{extension}"
    finished = to_file(full, file, partitions=3, verify="checksums")
    assert names(tmp_path) == [file.name]
    assert penstock.verify(finished.run_id, source=full.source.url, target=str(file)).ok
    full.target.run(TABLE.partition("INSERT")[0])
    back = {"source": str(file), "target": full.target.url, "target_table": "public.t"}
    copied(**back, verify="checksums")
    full.assert_same("public.t")


def test_a_table_is_created(full: Pair, tmp_path: Path) -> None:
    to_file(full, tmp_path / "out.csv")
    back = {"source": str(tmp_path / "out.csv"), "target": full.target.url}
    copied(**back, target_table="public.t", mode="recreate", verify="checksums")
    query = (
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't'"
        " ORDER BY ordinal_position"
    )
    assert dict(full.target.rows(query)) == {
        "id": "bigint",
        "code": "text",
        "price": "numeric",
        "ratio": "double precision",
        "ok": "boolean",
        "day": "date",
        "at": "timestamp without time zone",
        "zoned": "timestamp with time zone",
        "bytes": "bytea",
        "doc": "text",
        "u": "uuid",
        "clock": "time without time zone",
        "big": "numeric",
    }


def test_other_programs_read_the_files(full: Pair, tmp_path: Path) -> None:
    """PostgreSQL's COPY, DuckDB and Python's `csv` distinguish NULL from an empty text."""
    file = tmp_path / "out.csv"
    to_file(full, file, partitions=2)
    full.target.run(TABLE.partition("INSERT")[0])
    with full.target.connection.cursor() as cursor:
        header = "match" if full.target.version >= 15 else "true"
        statement = f"COPY public.t FROM STDIN (FORMAT csv, HEADER {header})"
        with cursor.copy(statement.encode()) as copy:
            copy.write(file.read_bytes())
    full.assert_same("public.t")
    found = queried(f"SELECT count(*), sum(id), sum(price) FROM '{file}'")
    assert found == [(ROWS, ROWS * (ROWS + 1) // 2, 1.5 * ROWS * (ROWS + 1) / 2)]
    text = file.read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0][:3] == ["id", "code", "price"]
    assert {int(row[0]) for row in rows[1:]} == set(range(1, ROWS + 1))


@pytest.mark.parametrize("extension", ["csv", "csv.zst", "jsonl.gz"])
def test_one_file_replaces_another(full: Pair, tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"out.{extension}"
    for mode in ("append", "truncate", "recreate", "replace", "swap"):
        full.source.run("DELETE FROM public.t WHERE id % 10 = 0")
        to_file(full, file, mode=mode, partitions=2, strategy="ntile", key="id", verify="counts")
        assert names(tmp_path) == [file.name]
        remaining = [p for p in (tmp_path / f".{file.name}.penstock").rglob("*") if p.is_file()]
        assert all(p.suffix in (".json", "") for p in remaining)
        full.source.run("DELETE FROM public.t WHERE id % 3 = 0")
    with pytest.raises(PlanningError, match="rows cannot be added to one file"):
        to_file(full, file)


def test_an_empty_table(full: Pair, tmp_path: Path) -> None:
    full.source.run("TRUNCATE public.t")
    for extension in ("csv", "csv.gz", "jsonl"):
        to_file(full, tmp_path / f"out.{extension}", verify="checksums")
    (first, second, *_) = queried(f"DESCRIBE SELECT * FROM '{tmp_path}/out.csv.gz'")
    assert [first[0], second[0]] == ["id", "code"]
    assert (tmp_path / "out.csv").read_bytes().count(b"\n") == 1
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize("location", ["out/*.csv.gz", "out?format=csv.gz"])
def test_a_folder(full: Pair, tmp_path: Path, location: str) -> None:
    to_file(full, f"{tmp_path}/{location}", partitions=3, verify="checksums")
    found = [name for name in names(tmp_path / "out") if not name.startswith("_")]
    assert len(found) == 3
    assert all(name.endswith(".csv.gz") for name in found)
    count = f"SELECT count(*) FROM '{tmp_path}/out/*.csv.gz'"
    assert queried(count) == [(ROWS,)]
    to_file(full, f"{tmp_path}/{location}")
    assert queried(count) == [(2 * ROWS,)]
    to_file(full, f"{tmp_path}/{location}", mode="replace", verify="checksums")
    full.target.run(TABLE.partition("INSERT")[0])
    source = f"{tmp_path}/{location}" if "*" in location else f"{tmp_path}/out/?format=csv"
    copied(source=source, target=full.target.url, target_table="public.t", verify="checksums")
    full.assert_same("public.t")


def test_folders_by_columns(full: Pair, tmp_path: Path) -> None:
    target = f"{tmp_path}/out/*.jsonl"
    to_file(full, target, partition_by=("ok",), verify="checksums")
    assert set(names(tmp_path / "out")) == {"ok=false", "ok=true", "_penstock"}
    found = queried(f"SELECT ok, count(*) FROM '{tmp_path}/out/*/*.jsonl' GROUP BY 1")
    assert sorted(found) == [("false", ROWS // 2), ("true", ROWS // 2)]


def test_a_bucket(full: Pair, s3_server: S3Server, tmp_path: Path) -> None:
    s3_server.client.create_bucket(Bucket="texts")
    target = s3_server.url("texts/out/*.csv.zst")
    to_file(full, target, partitions=2, verify="checksums")
    copied(source=target, target=f"{tmp_path}/back.jsonl", verify="checksums")
    full.target.run(TABLE.partition("INSERT")[0])
    back = {"source": f"{tmp_path}/back.jsonl", "target": full.target.url}
    copied(**back, target_table="public.t")
    full.assert_same("public.t")
    with pytest.raises(UsageError, match=r"expected a folder in a bucket.*/out/\*\.csv"):
        to_file(full, s3_server.url("texts/out/a.csv"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition_by": ("ok",)}, "--partition-by: expected a folder"),
        ({"file_size": 1000}, "--file-size: expected a folder"),
        (
            {"mode": "replace", "where": "id > 1"},
            "cannot tell the rows of a condition or partition apart",
        ),
    ],
)
def test_a_single_file_rejects_some_options(
    full: Pair, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanningError, match=message):
        to_file(full, tmp_path / "out.csv", **options)
    assert names(tmp_path) == []


def test_a_folder_in_place_of_the_file_is_rejected(full: Pair, tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(PlanningError, match="found a folder"):
        to_file(full, tmp_path / "out.csv")


def test_conditions_and_queries_over_files(full: Pair, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    to_file(full, file)
    copied(source=str(file), where="id <= 10", target=f"{tmp_path}/some.csv", verify="checksums")
    query = "SELECT ok, count(*) AS n FROM source GROUP BY ok"
    copied(source=str(file), query=query, target=f"{tmp_path}/sums.jsonl")
    ranges = {"strategy": "range", "key": "id", "partitions": 3}
    copied(source=str(file), target=f"{tmp_path}/again.csv", verify="checksums", **ranges)
    assert len((tmp_path / "sums.jsonl").read_text().splitlines()) == 2
    assert queried(f"SELECT count(*) FROM '{tmp_path}/some.csv'") == [(10,)]


def test_a_file_that_changes_is_detected(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"a\n{number}\n")
    spec = CopySpec(
        source=f"{tmp_path}/*.csv",
        target=f"{tmp_path}/out.jsonl",
        strategy="files",
        partitions=3,
        degree=1,
        on_snapshot_lost="fail",
    )
    events = penstock.copy(spec)
    next(event for event in events if isinstance(event, Committed))
    (tmp_path / "2.csv").write_text("a\n99\n")
    with pytest.raises(PenstockError, match="changed"):
        list(events)
    assert "out.jsonl" not in names(tmp_path)


# Kills


def expected_rows(file: Path) -> list[int]:
    with pa.OSFile(str(file)) as raw:
        text = raw.read().decode()
    return sorted(int(row["id"]) for row in csv.DictReader(io.StringIO(text, newline="")))


def test_workers_are_killed(full: Pair, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("old\n")
    spec = CopySpec(
        source=full.source.url, table="public.t", target=str(file), mode="truncate",
        partitions=4, strategy="ntile", key="id", degree=2,
    )  # fmt: skip
    killed: list[int] = []
    events: list[Event] = []
    for event in penstock.copy(spec):
        events.append(event)
        assert file.read_text(encoding="utf-8").startswith(("old", '"id"'))
        if isinstance(event, Opened) and len(killed) < 2:
            os.kill(event.pid, signal.SIGKILL)
            killed.append(event.pid)
    assert len(killed) == 2
    assert expected_rows(file) == list(range(1, ROWS + 1))


MOMENTS = (
    "penstock.backends.text.load.whole_file:WholeFile.draft",
    "penstock.backends.text.load.whole_file:WholeFile.publish",
    "penstock.backends.text.load.whole_file:WholeFile._rename",
    "penstock.backends.text.load.steps:TextSteps._let_go",
    "penstock.backends.parquet.load.steps:Steps._clean",
)
SCRIPT = """
import importlib, os, signal, sys
import penstock
from penstock import CopySpec
source, target, place, after = sys.argv[1:]
module, _, name = place.partition(":")
owner, _, method = name.partition(".")
kind = getattr(importlib.import_module(module), owner)
real = getattr(kind, method)
def killing(*given, **named):
    if after == "after":
        real(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(kind, method, killing)
spec = CopySpec(source=source, target=target, mode="truncate", partitions=2, degree=1, run_id="r")
for _ in penstock.copy(spec):
    pass
"""


@pytest.mark.parametrize("after", ["before", "after"])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda text: text.rpartition(".")[2])
def test_a_kill_in_the_last_steps(tmp_path: Path, moment: str, after: str) -> None:
    """Either the old file or the new one is visible at all times, and `resume` finishes the run."""
    for number in range(2):
        lines = "".join(f"{number * 100 + n}\n" for n in range(100))
        (tmp_path / f"in{number}.csv").write_text(f"id\n{lines}")
    out = tmp_path / "out"
    out.mkdir()
    file = out / "out.csv"
    file.write_text("old\n")
    source, target = f"{tmp_path}/in*.csv", str(file)
    assert run_script(SCRIPT, source, target, moment, after) == -signal.SIGKILL
    content = file.read_text()
    assert content == "old\n" or expected_rows(file) == list(range(200))
    *_, finished = penstock.resume("r", source=source, target=target)
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    assert expected_rows(file) == list(range(200))
    assert names(out) == ["out.csv"]
    remaining = [path.name for path in out.rglob("*") if path.is_file() and path.name != "out.csv"]
    assert not [name for name in remaining if name.endswith((".part", ".csv"))]
