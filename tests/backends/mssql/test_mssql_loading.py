"""Rows loaded into a server equal the source's, or an error names the value that differs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import CopySpec
from penstock.errors import PenstockError
from penstock.events import Failed, Finished
from penstock.spec.modes import ModeName

from .mssql_tables import execute, rows

TEXTS = ["abc", "Same", "tail ", None]


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "source"
    folder.mkdir()
    table = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "t": pa.array(TEXTS)})
    pq.write_table(table, folder / "a.parquet")
    return f"file://{folder}"


def copied(source: str, url: str, mode: ModeName) -> tuple[Finished | None, list[str]]:
    """Copy, and return the outcome with the errors of failed partitions."""
    failures: list[str] = []
    last = None
    spec = CopySpec(
        source=source, target=url, target_table="dbo.t", mode=mode, attempts=1, degree=1
    )
    try:
        for event in penstock.copy(spec):
            if isinstance(event, Failed):
                failures.append(event.error["message"])
            last = event
    except PenstockError:
        return None, failures
    assert isinstance(last, Finished)
    return last, failures


def test_upsert_compares_texts_by_their_bytes(source: str, mssql_url: str) -> None:
    """Under the database's collation, the first and third texts would be equal."""
    execute(
        mssql_url,
        "CREATE TABLE t (id int PRIMARY KEY, t nvarchar(20))",
        "INSERT INTO t VALUES (1, N'ABC'), (2, N'Same'), (3, N'tail')",
    )
    finished, _ = copied(source, mssql_url, "upsert")
    assert finished is not None
    assert (finished.inserted, finished.updated) == (1, 2)
    assert [text for _, text in rows(mssql_url, "SELECT id, t FROM t ORDER BY id")] == TEXTS
    assert not rows(mssql_url, "SELECT o.name FROM sys.objects AS o WHERE o.name LIKE 'stage %'")


@pytest.mark.parametrize("mode", ["append", "truncate", "upsert"])
def test_an_identity_column_has_the_numbers_of_the_source(
    source: str, mssql_url: str, mode: ModeName
) -> None:
    execute(mssql_url, "CREATE TABLE t (id int IDENTITY(100, 1) PRIMARY KEY, t nvarchar(20))")
    assert copied(source, mssql_url, mode)[0]
    assert [number for (number,) in rows(mssql_url, "SELECT id FROM t ORDER BY id")] == [1, 2, 3, 4]


def test_a_text_that_is_too_long_is_rejected(source: str, mssql_url: str) -> None:
    execute(mssql_url, "CREATE TABLE t (id int, t nvarchar(4))")
    _, failures = copied(source, mssql_url, "append")
    (message,) = failures
    assert "column 't', row 3: expected a value of nvarchar(4), found 'tail '" in message
    assert rows(mssql_url, "SELECT id FROM t") == []


def test_a_duplicate_key_is_rejected(source: str, mssql_url: str) -> None:
    execute(
        mssql_url,
        "CREATE TABLE t (id int PRIMARY KEY, t nvarchar(9))",
        "INSERT INTO t (id) VALUES (4)",
    )
    finished, failures = copied(source, mssql_url, "append")
    assert finished is None
    assert len(failures) == 1
    assert rows(mssql_url, "SELECT id FROM t") == [(4,)]


@pytest.mark.parametrize(
    ("collation", "text", "arrives"),
    [
        ("Latin1_General_CI_AS", "d\u00e9j\u00e0 \u20ac", True),
        ("Latin1_General_CI_AS", "d\u00e9j\u00e0 \u65e5", False),
        ("SQL_Latin1_General_CP1_CI_AS", "\u0416", False),
        ("Cyrillic_General_CI_AS", "\u0416", True),
        ("Japanese_CI_AS", "\u65e5\u672c", True),
        ("Japanese_CI_AS", "\u00e9", False),
    ],
)
def test_a_character_outside_the_code_page_is_rejected(
    tmp_path: Path, mssql_url: str, collation: str, text: str, arrives: bool
) -> None:
    """Drivers and servers would silently replace it with a question mark."""
    texts = ["plain", None, text]
    table = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "t": pa.array(texts)})
    pq.write_table(table, tmp_path / "a.parquet")
    execute(mssql_url, f"CREATE TABLE t (id int, t varchar(20) COLLATE {collation})")
    finished, failures = copied(f"file://{tmp_path}", mssql_url, "append")
    found = [each for _, each in rows(mssql_url, "SELECT id, t FROM t ORDER BY id")]
    if arrives:
        assert finished is not None
        assert found == texts
    else:
        assert "column 't', row 3: expected characters of code page" in failures[0]
        assert not found
