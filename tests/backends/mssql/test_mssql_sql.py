"""The SQL of conditions, bounds, windows and checksums, as in `dialect.sql`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from penstock.backends.mssql.dialect import MSSQL, OLDER, MssqlDialect
from penstock.backends.mssql.types import MsType
from penstock.backends.sql.rows.conditions import condition
from penstock.errors import PlanningError, UsageError
from penstock.model.extents import (
    BlockRange,
    Bound,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)
from penstock.model.tables import TableRef

GOLDEN = Path(__file__).with_name("dialect.sql")
ID, WORD = Key("id"), Key('a]"b')
ONE, NINE = Bound("int4", "1"), Bound("int4", "9")

CASES: dict[str, Callable[[], str]] = {
    "a table": lambda: MSSQL.table(TableRef('my "schema"', "t]")),
    "a text": lambda: MSSQL.literal("it's é"),
    "some rows": lambda: MSSQL.limited_query("SELECT 1 AS a", 5),
}
for tag, text in [
    ("bool", "true"),
    ("int2", "-5"),
    ("int4", "5"),
    ("int8", "-9223372036854775808"),
    ("numeric", "-1.50"),
    ("numeric", "1E+3"),
    ("numeric", "0"),
    ("numeric", "9" * 38),
    ("float4", "1.5"),
    ("float8", "-1e300"),
    ("date", "2026-01-02"),
    ("time", "12:34:56.123456"),
    ("timestamp", "2026-01-02 03:04:05.123456"),
    ("timestamptz", "2026-01-02 03:04:05.123456+00"),
    ("timestamptz", "2026-01-02 03:04:05Z"),
    ("text", "it's é"),
    ("varchar", "a"),
    ("bytea", "\\x00ff"),
    ("bytea", "\\x"),
    ("uuid", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ("uniqueidentifier", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
]:
    CASES[f"bound {tag} {text}"] = partial(MSSQL.bound, Bound(tag, text))
for tag in (
    *("bool", "int2", "int4", "int8", "numeric", "float8", "date", "time", "timestamp"),
    *("timestamptz", "text", "bytea", "uniqueidentifier"),
):
    CASES[f"text of a bound {tag}"] = partial(MSSQL.bound_text, tag, "c")

EXTENTS: list[Extent] = [
    Whole(),
    KeyRange(ID, None, NINE),
    KeyRange(ID, ONE, NINE),
    KeyRange(WORD, Bound("text", "b"), None),
    KeyRange(WORD, Bound("varchar", "b"), Bound("varchar", "c")),
    KeyRange(ID, None, None),
    KeyIsNull(WORD),
    KeyValues(ID, (ONE, NINE)),
    KeyOther(ID, (ONE, NINE)),
    KeyOther(ID, ()),
    BlockRange(0, 0x4000),
    BlockRange(0x4000, 0xFFFF),
    BlockRange(0xFFFF, None),
    BlockRange(0, None),
    HashBucket(ID, 8, 3),
    HashBucket(Key("LEFT(word, 1) -- letter", expression=True), 8, 0),
]
for extent in EXTENTS:
    CASES[f"extent {extent}"] = partial(condition, MSSQL, None, extent)
CASES["extent with a condition"] = lambda: condition(MSSQL, "a = 1 OR b = 2 -- c", EXTENTS[1])

CI, BY_BYTES = (Key("word", collation=name) for name in ("SQL_Latin1_General_CP1_CI_AS", "C"))
for key, tag in ((CI, "text"), (CI, "varchar"), (BY_BYTES, "text"), (BY_BYTES, "int4")):
    extent = KeyRange(key, None, Bound(tag, "1"))
    CASES[f"{tag} under {key.collation}"] = partial(condition, MSSQL, None, extent)
CASES |= {
    "a listed value under a collation": lambda: MSSQL.collated_value(CI, "varchar", "value"),
    "by bytes without a collation of UTF-8": lambda: OLDER.collated_value(
        BY_BYTES, "text", "value"
    ),
    "keys that are written differently": lambda: MssqlDialect(texts=["k"]).respelled_condition(
        ["id", "k"]
    ),
    "merge by a text": lambda: MssqlDialect(texts=["k"]).merge("t", "s", ["id", "k"], ["n"]),
    "merge of keys alone": lambda: MssqlDialect(texts=["k"]).merge("t", "s", ["k"], []),
    "merge of numbers alone": lambda: MssqlDialect(texts=["k"]).merge("t", "s", ["id"], []),
}

for interval in ("1 day", "2 Weeks", "3 months", "15 minutes", "1 year", "36 hours"):
    CASES[f"windows of {interval}"] = partial(
        MSSQL.window_starts, MSSQL.interval(interval), "timestamp", "FIRST", "LAST", 5
    )

for type_, kind in [
    (MsType("int"), "integer"),
    (MsType("bit"), "boolean"),
    (MsType("decimal", 15, 2), "decimal"),
    (MsType("money"), "decimal"),
    (MsType("float"), "float"),
    (MsType("nvarchar", 9), "text"),
    (MsType("xml"), "text"),
    (MsType("hierarchyid"), "text"),
    (MsType("sql_variant"), "text"),
    (MsType("varbinary", 9), "bytes"),
    (MsType("geometry"), "bytes"),
    (MsType("date"), "date"),
    (MsType("time", 6), "time"),
    (MsType("datetime"), "timestamp"),
    (MsType("datetimeoffset", 6), "timestamp"),
    (MsType("uniqueidentifier"), "uuid"),
]:
    CASES[f"canonical {kind} of {type_}"] = partial(MSSQL.canonical, '"c"', type_, kind)
CASES |= {
    "hash": lambda: MSSQL.hash_number('"c"'),
    "a canonical text with its length": lambda: MSSQL.framed_text("c"),
    "the same without a collation of UTF-8": lambda: OLDER.framed_text("c"),
    "digest": lambda: MSSQL.digest("c"),
    "digest without a collation of UTF-8": lambda: OLDER.digest("c"),
    "sum of digests": lambda: MSSQL.total("digest"),
    "texts that are joined": lambda: MSSQL.joined(["a", "b"]),
}


def golden_statements() -> dict[str, str]:
    """Return the file's statements by the comments before them, with line breaks removed."""
    found = {}
    for block in GOLDEN.read_text(encoding="utf-8").strip().split("\n\n"):
        name, *lines = block.splitlines()
        found[name.removeprefix("-- ")] = "\n".join(lines)
    return found


def plain(statement: str) -> str:
    return re.sub(r"\s+", " ", statement).replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize("name", CASES)
def test_a_statement_is_as_in_the_file(name: str) -> None:
    assert plain(CASES[name]()) == plain(golden_statements()[name])


def test_the_file_has_no_other_statements() -> None:
    assert list(golden_statements()) == list(CASES)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (Bound("int4", "1.5"), "expected a value of type int4, found '1.5'"),
        (Bound("int8", "1; DROP TABLE t"), "expected a value of type int8"),
        (Bound("numeric", "NaN"), "expected a value of type numeric, found 'NaN'"),
        (Bound("bytea", "\\xf"), "expected a value of type bytea"),
        (
            Bound("timestamptz", "2026-01-02 03:04:05+02"),
            "such as 2026-01-31T12:00:00Z, found '2026",
        ),
        (Bound("timestamptz", "2026-01-02 03:04:05"), "such as 2026-01-31T12:00:00Z, found '2026"),
        (Bound("inet", "10.0.0.1"), "SQL Server has no type 'inet'"),
        (Bound("text", "a\0b"), "expected a text without NUL"),
    ],
)
def test_invalid_bounds(bound: Bound, message: str) -> None:
    with pytest.raises(PlanningError, match=re.escape(message)):
        MSSQL.bound(bound)


@pytest.mark.parametrize("interval", ["", "day", "1", "1 fortnight", "1 day; --", "1 day 2 hours"])
def test_invalid_intervals(interval: str) -> None:
    with pytest.raises(UsageError, match="--interval: expected a number and a unit, such as"):
        MSSQL.interval(interval)


def test_another_systems_collation() -> None:
    key = Key("word", collation="MariaDB:latin1_german2_ci")
    with pytest.raises(PlanningError, match="--key word: SQL Server cannot compare by the source"):
        condition(MSSQL, None, KeyRange(key, None, Bound("text", "b")))


def test_whether_an_interval_is_positive() -> None:
    assert MSSQL.is_positive(MSSQL.interval("3 days")) == "CASE WHEN 3 > 0 THEN 1 ELSE 0 END"
    assert MSSQL.is_positive(MSSQL.interval("-1 day")) == "CASE WHEN -1 > 0 THEN 1 ELSE 0 END"


def test_unsupported_features() -> None:
    with pytest.raises(
        PlanningError, match="checksums of text columns need SQL Server 2019 or later"
    ):
        OLDER.canonical('"c"', MsType("nvarchar", 9), "text")
    assert OLDER.canonical('"c"', MsType("int"), "integer") == 'CAST("c" AS nvarchar(max))'


@pytest.mark.parametrize(
    ("type_", "tag"),
    [
        ("tinyint", "int2"),
        ("money", "numeric"),
        ("real", "float4"),
        ("smalldatetime", "timestamp"),
        ("datetimeoffset", "timestamptz"),
        ("nchar", "text"),
        ("char", "varchar"),
        ("rowversion", "bytea"),
        ("uniqueidentifier", "uniqueidentifier"),
        ("xml", "xml"),
    ],
)
def test_tags(type_: str, tag: str) -> None:
    assert MSSQL.tag_of(MsType(type_)) == tag
