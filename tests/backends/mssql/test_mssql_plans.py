"""Plans of every strategy over every kind of key: each row is in one partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock import CopySpec
from penstock.backends.mssql import backend
from penstock.backends.mssql.catalog.partitions import child_of, parts_of
from penstock.backends.mssql.catalog.partitions import with_partition_test as condition_of
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.session import MssqlSession
from penstock.errors import PermanentError
from penstock.events import Committed
from penstock.model.extents import Children
from penstock.model.tables import TableRef

from .mssql_tables import Copy, execute, is_babelfish, numbers, read_files, rows

ROWS = 2000
SCHEMA, TABLE = '"a ] ""schema"" ü"', '"t ] . [ö"""'
EACH = f"""
    INSERT INTO t SELECT n - 500, CASE WHEN n % 7 = 0 THEN NULL ELSE n % 7 END,
        CASE n % 3 WHEN 0 THEN N'É' WHEN 1 THEN N'b' ELSE N'A' END
            + CASE WHEN n % 11 = 0 THEN N'''' ELSE N'' END + CAST(n AS nvarchar(9)),
        CAST(HASHBYTES('MD5', CAST(n AS varchar(9))) AS uniqueidentifier),
        n * 1.0001 - 1000, n * 0.01 - 10, DATEADD(hour, n, CAST('2025-12-01' AS datetime2(6))),
        DATEADD(day, n / 10, CAST('2025-12-01' AS date)), DATEADD(second, n, CAST('12:00' AS time)),
        CAST(CONVERT(varchar(30), DATEADD(hour, n, CAST('2025-12-01' AS datetime2(6))), 121)
            + ' +02:00' AS datetimeoffset(6)), CAST(n AS binary(4)), n % 2, n % 10, n * 0.1,
        DATEADD(millisecond, 10 * n, CAST('2025-12-01' AS datetime)),
        CASE n % 2 WHEN 0 THEN 'a-' ELSE 'b' END + CAST(n AS varchar(9))
    FROM ({numbers(ROWS)}) AS numbers
"""


@pytest.fixture(scope="module")
def url(mssql_module: str) -> str:
    execute(
        mssql_module,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, grp int NULL, word nvarchar(30) NOT NULL,"
        " tag uniqueidentifier NOT NULL, amount decimal(20,4) NOT NULL, price money NOT NULL,"
        " at datetime2(6) NOT NULL, day date NULL, o_clock time(6) NOT NULL,"
        " moment datetimeoffset(6) NOT NULL, digits varbinary(8) NOT NULL, yes bit NOT NULL,"
        " small tinyint NOT NULL, x float NULL, stamp datetime NULL,"
        " old varchar(20) NOT NULL)",
        EACH,
        "CREATE TABLE empty (id int NOT NULL PRIMARY KEY, at datetime2(6) NULL)",
        "CREATE TABLE heap (id int NULL, word varchar(20) NULL)",
        f"INSERT INTO heap SELECT n, 'w' + CAST(n % 5 AS varchar(9)) FROM ({numbers(100)}) AS n",
        "CREATE VIEW seen AS SELECT id, grp, word AS name FROM t WHERE id >= 0",
        # In double quotes, since Babelfish does not know that ]] is a bracket.
        f"CREATE SCHEMA {SCHEMA}",
        f'CREATE TABLE {SCHEMA}.{TABLE} ("the ]""key""" int NOT NULL PRIMARY KEY,'
        " [select] nvarchar(20) NULL)",
        f"INSERT INTO {SCHEMA}.{TABLE}"
        f" SELECT n, N'n' + CAST(n AS nvarchar(9)) FROM ({numbers(100)}) AS n",
    )
    return mssql_module


def ids(folder: Path, name: str = "id") -> list[Any]:
    return sorted(read_files(folder).column(name).to_pylist())


def skip_bytes(url: str, key: str) -> None:
    if key == "digits" and is_babelfish(url):
        pytest.skip("Babelfish does not write bytes as digits: CONVERT has no styles for them")


ALL = list(range(-499, ROWS - 499))
# For each plan, the options and the number of partitions with rows.
PLANS: dict[str, tuple[dict[str, Any], int]] = {
    "auto": ({"partitions": 3}, 3),
    "whole": ({"strategy": "whole"}, 1),
    "range": ({"strategy": "range", "key": "id", "partitions": 3}, 3),
    "range of NULL": ({"strategy": "range", "key": "grp", "partitions": 3}, 4),
    "range of texts": ({"strategy": "range", "key": "word", "partitions": 3}, 3),
    "range of varchar": ({"strategy": "range", "key": "old", "partitions": 3}, 3),
    "ntile of varchar": ({"strategy": "ntile", "key": "old", "partitions": 3}, 3),
    "values of varchar": ({"strategy": "values", "key": "(LEFT(old, 1))"}, 2),
    "range of UUIDs": ({"strategy": "range", "key": "tag", "partitions": 3}, 3),
    "range of decimals": ({"strategy": "range", "key": "amount", "partitions": 3}, 3),
    "range of money": ({"strategy": "range", "key": "price", "partitions": 3}, 3),
    "range of times": ({"strategy": "range", "key": "at", "partitions": 3}, 3),
    "range of dates": ({"strategy": "range", "key": "day", "partitions": 3}, 3),
    "range of times of day": ({"strategy": "range", "key": "o_clock", "partitions": 3}, 3),
    "range of moments": ({"strategy": "range", "key": "moment", "partitions": 3}, 3),
    "range of bytes": ({"strategy": "range", "key": "digits", "partitions": 3}, 3),
    "range of tinyint": ({"strategy": "range", "key": "small", "partitions": 3}, 3),
    "ntile": ({"strategy": "ntile", "key": "id", "partitions": 3}, 3),
    "ntile of NULL": ({"strategy": "ntile", "key": "grp", "partitions": 3}, 4),
    "ntile of texts": ({"strategy": "ntile", "key": "word", "partitions": 3}, 3),
    "ntile of UUIDs": ({"strategy": "ntile", "key": "tag", "partitions": 3}, 3),
    "ntile of moments": ({"strategy": "ntile", "key": "moment", "partitions": 3}, 3),
    "hash": ({"strategy": "hash", "key": "id", "partitions": 3}, 3),
    "hash of NULL": ({"strategy": "hash", "key": "grp", "partitions": 3}, 3),
    "hash of texts": ({"strategy": "hash", "key": "word", "partitions": 3}, 3),
    "hash of UUIDs": ({"strategy": "hash", "key": "tag", "partitions": 3}, 3),
    "hash of decimals": ({"strategy": "hash", "key": "amount", "partitions": 3}, 3),
    "hash of times": ({"strategy": "hash", "key": "moment", "partitions": 3}, 3),
    "hash of floats": ({"strategy": "hash", "key": "x", "partitions": 3}, 3),
    "hash of bytes": ({"strategy": "hash", "key": "digits", "partitions": 3}, 3),
    "values": ({"strategy": "values", "key": "grp"}, 7),
    "values of a query": (
        {"strategy": "values", "key": "grp", "values_query": "SELECT 3 UNION SELECT 1"},
        4,
    ),
    "values of texts": (
        {"strategy": "values", "key": "(LEFT(word, 1))"},
        3,
    ),
    "values of bits": ({"strategy": "values", "key": "yes"}, 2),
    "time by weeks": ({"strategy": "time", "key": "at", "interval": "2 weeks"}, 6),
    "time by months": ({"strategy": "time", "key": "day", "interval": "3 months"}, 3),
    "time by moments": ({"strategy": "time", "key": "moment", "interval": "30 days"}, 3),
}


@pytest.mark.parametrize(("options", "partitions"), PLANS.values(), ids=PLANS)
def test_each_row_is_in_one_partition(
    url: str, tmp_path: Path, options: dict[str, Any], partitions: int
) -> None:
    skip_bytes(url, options.get("key", ""))
    copied = Copy(url, f"file://{tmp_path / 't'}", degree=2, **options)
    assert copied.done().rows == ROWS
    assert ids(tmp_path / "t") == ALL
    filled = [event for event in copied.events if isinstance(event, Committed) and event.rows]
    assert len(filled) == partitions


# For each kind of range, the names of the partitions and their numbers of rows.
PARTS = {
    "LEFT": {"1 to 10": 20, "2 above 10 to 20": 10, "3 above 20": 70},
    "RIGHT": {"1 below 10": 19, "2 from 10 below 20": 10, "3 from 20": 71},
}


@pytest.mark.parametrize("kind", PARTS)
def test_partitions_of_a_function(url: str, tmp_path: Path, kind: str) -> None:
    if kind == "LEFT" and is_babelfish(url):
        pytest.skip("Babelfish has RANGE RIGHT only")
    name = f"by {kind.lower()}"
    execute(
        url,
        f'CREATE PARTITION FUNCTION "{name}" (int) AS RANGE {kind} FOR VALUES (10, 20)',
        f'CREATE PARTITION SCHEME "{name}" AS PARTITION "{name}" ALL TO ([PRIMARY])',
        f'CREATE TABLE "{name}" (id int NULL, other int) ON "{name}" (id)',
        f'INSERT INTO "{name}" SELECT CASE WHEN n <= 90 THEN n END, n'
        f" FROM ({numbers(100)}) AS numbers",
    )
    options: dict[str, Any] = {"table": f'dbo."{name}"', "strategy": "children"}
    copied = Copy(url, f"file://{tmp_path / 't'}", degree=2, verify="counts", **options)
    assert copied.done().rows == 100
    assert ids(tmp_path / "t", "other") == list(range(1, 101))
    plan = penstock.plan(
        CopySpec(source=url, target=f"file://{tmp_path / 'u'}", snapshot="none", **options)
    )
    found = {str(each.extent): each.id for each in plan.partitions}
    counts = {event.partition_id: event.rows for event in copied.events
              if isinstance(event, Committed)}  # fmt: skip
    assert [counts[id_] for id_ in found.values()] == list(PARTS[kind].values())
    for text, part in zip(found, PARTS[kind], strict=True):
        assert f"{name}#{part}" in text


def test_partitions_that_were_split_or_merged(url: str, tmp_path: Path) -> None:
    execute(
        url,
        "CREATE PARTITION FUNCTION halves (int) AS RANGE RIGHT FOR VALUES (50)",
        "CREATE PARTITION SCHEME halves AS PARTITION halves ALL TO ([PRIMARY])",
        "CREATE TABLE halves (id int NOT NULL) ON halves (id)",
    )
    session = MssqlSession(connect(backend.resolve(url, {}, "--source"), "source"))
    table = TableRef("dbo", "halves")
    first, second = (child_of(table, part) for part in parts_of(session, table))
    assert condition_of(session, table, Children((first, second)), "a = 1") == (
        '$PARTITION."halves"("id") IN (1, 2) AND a = 1'
    )
    with pytest.raises(
        PermanentError, match=r"partition dbo.* no longer exists: its partition function was"
    ):
        condition_of(session, table, Children((TableRef("dbo", "halves#2 from 40"),)), "a = 1")
    session.connection.close()


@pytest.mark.parametrize("key", ["word", "tag", "moment", "digits"])
def test_a_condition_applies_to_every_partition(url: str, key: str, tmp_path: Path) -> None:
    skip_bytes(url, key)
    copied = Copy(
        url, f"file://{tmp_path / 't'}", strategy="ntile", key=key, partitions=2,
        where="grp = 3 OR grp IS NULL -- and nothing else",
    )  # fmt: skip
    assert copied.done().rows == ROWS * 2 // 7
    expected = [id_ for id_ in ALL if (id_ + 500) % 7 in (0, 3)]
    assert ids(tmp_path / "t") == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"query": "SELECT id, word FROM dbo.t WHERE grp = 1 -- all", "strategy": "whole"}, ROWS),
        ({"query": "SELECT id FROM dbo.t", "strategy": "hash", "key": "id"}, ROWS),
        ({"query": "SELECT id FROM dbo.t", "strategy": "ntile", "key": "id"}, ROWS),
        ({"table": "dbo.seen", "strategy": "ntile", "key": "name"}, ROWS),
        ({"table": "seen", "strategy": "hash", "key": "id"}, ROWS),
    ],
)
def test_queries_and_views_are_partitioned(
    url: str, tmp_path: Path, options: dict[str, Any], expected: int
) -> None:
    more = {} if options["strategy"] == "whole" else {"partitions": 3}
    Copy(url, f"file://{tmp_path / 't'}", **options, **more).done()
    every = ALL
    if "WHERE" in options.get("query", ""):
        every = [id_ for id_ in ALL if (id_ + 500) % 7 == 1]
    elif "seen" in options.get("table", ""):
        every = [id_ for id_ in ALL if id_ >= 0]
    assert ids(tmp_path / "t") == every


def test_windows_of_dates_that_are_far_apart(url: str, tmp_path: Path) -> None:
    """These are placeholder dates, and weeks before the first one that a server counts."""
    execute(
        url,
        "DROP TABLE IF EXISTS far",
        "CREATE TABLE far (id int NOT NULL PRIMARY KEY, day date NOT NULL, at datetime2(6))",
        "INSERT INTO far VALUES (1, '1853-05-12', '9999-12-31 23:59:59'),"
        " (2, '1853-05-15', '9990-01-01'), (3, '1853-05-16', '9999-01-01'),"
        " (4, '1853-05-30', NULL)",
    )
    for number, options in enumerate(
        [
            {"key": "day", "interval": "1 week"},
            {"key": "day", "interval": "7 days"},
            {"key": "at", "interval": "1 year"},
            {"key": "at", "interval": "3 weeks"},
        ]
    ):
        folder = tmp_path / str(number)
        Copy(url, f"file://{folder}", table="far", strategy="time", **options).done()
        assert ids(folder) == [1, 2, 3, 4]


def test_selected_columns(url: str, tmp_path: Path) -> None:
    Copy(url, f"file://{tmp_path / 't'}", columns=("word", "id"), strategy="whole").done()
    found = read_files(tmp_path / "t")
    assert sorted(found.column_names) == ["id", "word"]
    words = dict(zip(found.column("id").to_pylist(), found.column("word").to_pylist(), strict=True))
    assert words == dict(rows(url, "SELECT id, word FROM t"))


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "whole"},
        {"strategy": "range", "key": "id", "partitions": 3},
        {"strategy": "ntile", "key": "id", "partitions": 3},
        {"strategy": "hash", "key": "id", "partitions": 2},
        {"strategy": "values", "key": "id"},
        {"strategy": "time", "key": "at", "interval": "1 day"},
    ],
)
def test_an_empty_table(url: str, tmp_path: Path, options: dict[str, Any]) -> None:
    copied = Copy(url, f"file://{tmp_path / 't'}", table="dbo.empty", **options)
    assert copied.done().rows == 0


def test_a_table_without_keys(url: str, tmp_path: Path) -> None:
    assert Copy(url, f"file://{tmp_path / 't'}", table="heap").done().rows == 100
    assert ids(tmp_path / "t") == list(range(1, 101))


@pytest.mark.parametrize("strategy", ["range", "hash", "values"])
def test_quoted_names(url: str, tmp_path: Path, strategy: str) -> None:
    copied = Copy(
        url,
        f"file://{tmp_path / 't'}",
        table=f"{SCHEMA}.{TABLE}",
        strategy=strategy,
        key='the ]"key"',
        **({} if strategy == "values" else {"partitions": 2}),
    )
    copied.done()
    found = read_files(tmp_path / "t")
    assert sorted(found.column_names) == ["select", 'the ]"key"']
    assert ids(tmp_path / "t", 'the ]"key"') == list(range(1, 101))


def replaced(url: str, target: str, key: str) -> Copy:
    return Copy(
        url, target, target_table="public.t", mode="replace", strategy="range", key=key,
        partitions=4, degree=2, columns=("id", "word", "at", "moment", "amount"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("word", "nvarchar(30) is compared by its collation"),
        ("tag", "uniqueidentifier has its own sort order"),
        ("stamp", "datetime counts ticks of 1/300 s"),
    ],
)
def test_a_key_that_the_target_compares_differently(
    url: str, target_url: str, key: str, why: str
) -> None:
    """With such a key, the target would delete rows that another partition has loaded."""
    with psycopg.connect(target_url) as connection:
        connection.execute(
            "CREATE TABLE t (id int, word text, at timestamp, moment timestamptz, amount numeric)"
        )
    rejected = replaced(url, target_url, key)
    assert rejected.code == 65
    assert rejected.message.startswith(f"--key {key}: {why}")
    assert "so the target would select other rows than the source" in rejected.message


@pytest.mark.parametrize("key", ["id", "at", "moment", "amount"])
def test_replace_by_partitions_of_the_source(url: str, target_url: str, key: str) -> None:
    with psycopg.connect(target_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE t (id int, word text, at timestamp, moment timestamptz, amount numeric)"
        )
        for _ in range(2):
            assert replaced(url, target_url, key).done().rows == ROWS
            found = connection.execute("SELECT id FROM t ORDER BY id").fetchall()
            assert [id_ for (id_,) in found] == ALL


def test_the_plan_explains_itself(url: str) -> None:
    plan = penstock.plan(
        CopySpec(
            source=url, target="file:///nowhere/t", table="dbo.t", snapshot="none",
            strategy="range", key="id", partitions=4,
        )
    )  # fmt: skip
    assert len(plan.partitions) == 4
    shown = "\n".join(str(partition.extent) for partition in plan.partitions)
    assert shown.startswith("id < ")
