"""Parts of the DuckDB backend without a file: bounds, types, conversions, canonical texts."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.backends.duckdb.catalog.values import arrow_types
from penstock.backends.duckdb.connection import configure
from penstock.backends.duckdb.dialect import DUCKDB, condition
from penstock.backends.duckdb.errors import translate
from penstock.backends.duckdb.load.fitting import column_type, fit_columns
from penstock.backends.duckdb.location import URLS
from penstock.backends.shared.values.arrow import TRAIT
from penstock.backends.sql.rows.checksums import row_text
from penstock.errors import PermanentError, PlanningError, TransientError, UsageError
from penstock.model.extents import (
    Bound,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
)
from penstock.model.tables import Column


@pytest.fixture(scope="module")
def session() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield configure(connection, worker=False)


def value(session: duckdb.DuckDBPyConnection, query: str) -> Any:
    return session.execute(f"SELECT {query}").fetchall()[0][0]


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("bool", "true"),
        ("int8", "-9223372036854775808"),
        ("numeric", "12345678901234567890123456789012345678"),
        ("numeric", "0.00000000000000000000000000000000000001"),
        ("numeric", "170141183460469231731687303715884105727"),
        ("float8", "NaN"),
        ("float8", "-Infinity"),
        ("float8", "0.1"),
        ("float4", "0.1"),
        ("text", "it's"),
        ("date", "0044-03-15 BC"),
        ("date", "infinity"),
        ("timestamp", "2024-01-31 10:00:00.5"),
        ("timestamptz", "2024-01-31 10:00:00.5+00"),
        ("timestamp_ns", "2024-01-31 10:00:00.123456789"),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("bytea", "\\x00ff"),
    ],
)
def test_a_bound_survives_a_round_trip(
    session: duckdb.DuckDBPyConnection, tag: str, text: str
) -> None:
    found = value(session, DUCKDB.bound_text(tag, DUCKDB.bound(Bound(tag, text))))
    if tag == "numeric":
        assert Decimal(found) == Decimal(text)
    else:
        assert found == text


@pytest.mark.parametrize(
    "bound", [("int4", "1.5"), ("numeric", "x"), ("numeric", "."), ("bytea", "ff"), ("a;b", "1")]
)
def test_an_invalid_bound_is_rejected(bound: tuple[str, str]) -> None:
    with pytest.raises(PlanningError):
        DUCKDB.bound(Bound(*bound))


@pytest.mark.parametrize("column", ["n", "t", "f", "d", "u"])
def test_every_row_is_in_one_partition(session: duckdb.DuckDBPyConnection, column: str) -> None:
    """The column may have any collation: texts that it considers equal are distinguished."""
    session.execute(
        "CREATE OR REPLACE TABLE p (n DECIMAL(10,2), t VARCHAR COLLATE NOCASE, f DOUBLE, d DATE,"
        " u UUID)"
    )
    session.execute(
        "INSERT INTO p VALUES (NULL, NULL, NULL, NULL, NULL), (1, 'a', 'nan', 'infinity',"
        " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), (1.5, 'A', '-inf', '2020-01-01',"
        " '00000000-0000-0000-0000-000000000000'), (-2, '', '0', '1969-01-01',"
        " 'ffffffff-ffff-ffff-ffff-ffffffffffff'), (3, 'é', 'inf', '2020-01-02', NULL)"
    )
    tag, low, high = {
        "n": ("numeric", "1", "1.50"),
        "t": ("text", "A", "a"),
        "f": ("float8", "0", "Infinity"),
        "d": ("date", "2020-01-01", "infinity"),
        "u": (
            "uuid",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "f0000000-0000-0000-0000-000000000000",
        ),
    }[column]
    key, lower, upper = Key(column), Bound(tag, low), Bound(tag, high)
    cuts: list[list[Extent]] = [
        [KeyRange(key, None, lower), KeyRange(key, lower, upper), KeyRange(key, upper, None)],
        [KeyValues(key, (lower,)), KeyValues(key, (upper,)), KeyOther(key, (lower, upper))],
        [KeyRange(key, None, None)],
        [KeyOther(key, ())],
    ]
    for cut in cuts:
        found = [count(session, extent) for extent in (*cut, KeyIsNull(key))]
        assert sum(found) == 5
        assert found[-1] == count(session, KeyIsNull(key))
    assert sum(count(session, HashBucket(key, 3, index)) for index in range(3)) == 5


def count(session: duckdb.DuckDBPyConnection, extent: Extent) -> int:
    return int(value(session, f"count(*) FROM p WHERE {condition(None, extent)}"))


@pytest.mark.parametrize(
    ("expression", "kind", "text"),
    [
        ("42::TINYINT", "integer", "42"),
        ("1.50::DECIMAL(10,2)", "decimal", "1.5"),
        ("100.00::DECIMAL(10,2)", "decimal", "100"),
        ("100::BIGINT", "decimal", "100"),
        ("0.00::DECIMAL(10,2)", "decimal", "0"),
        ("-0.50::DECIMAL(2,2)", "decimal", "-0.5"),
        ("0::DECIMAL(2,2)", "decimal", "0"),
        ("1::FLOAT", "float", "0011111111110000" + "0" * 48),
        ("'nan'::DOUBLE", "float", "NaN"),
        ("true", "boolean", "true"),
        ("'é'", "text", "é"),
        ("'\\xAB'::BLOB", "bytes", "ab"),
        ("DATE '1969-12-31'", "date", "-1"),
        ("TIME '00:00:01.5'", "time", "1500000"),
        ("TIMESTAMP_S '1970-01-01 00:00:01'", "timestamp", "1000000"),
        ("TIMESTAMP_NS '1970-01-01 00:00:01.5'", "timestamp", "1500000"),
        ("TIMESTAMPTZ '1970-01-01 01:00:00+01'", "timestamp", "0"),
        ("TIMESTAMPTZ_NS '1970-01-01 00:00:01.5+00'", "timestamp", "1500000"),
        ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::UUID", "uuid",
         "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("['é', NULL, '']", "list:text", "{2:é,-,0:}"),
        ("[]::INTEGER[]", "list:integer", "{}"),
        ("[[1], NULL]", "list:list:integer", "{5:{1:1},-}"),
        ("NULL::INTEGER", "integer", None),
    ],
)  # fmt: skip
def test_canonical_texts_match(
    session: duckdb.DuckDBPyConnection, expression: str, kind: str, text: str | None
) -> None:
    type_ = session.sql(f"SELECT {expression} AS v").types[0]
    assert (
        value(session, f"{DUCKDB.canonical('v', type_, kind)} FROM (SELECT {expression} AS v)")
        == text
    )


def test_the_text_of_a_row_consists_of_its_columns(session: duckdb.DuckDBPyConnection) -> None:
    assert value(session, row_text(DUCKDB, ["'é'", "NULL", "''"])) == "2:é;-;0:"


def test_types_in_record_batches_match(session: duckdb.DuckDBPyConnection) -> None:
    columns = {
        "1::HUGEINT": pa.decimal128(38, 0),
        "1::UHUGEINT": pa.string(),
        "'101'::BIT": pa.string(),
        "INTERVAL 1 DAY": pa.string(),
        "'10:00+01'::TIMETZ": pa.string(),
        "uuid()": pa.uuid(),
        "'{}'::JSON": pa.string(),
        "union_value(k := 1)": pa.string(),
        "[1::HUGEINT]": pa.list_(pa.field("l", pa.decimal128(38, 0))),
        "now()": pa.timestamp("us", "UTC"),
        "now()::TIMESTAMP_NS": pa.timestamp("ns"),
    }
    query = ", ".join(f"{expression} AS c{place}" for place, expression in enumerate(columns))
    found = session.sql(f"SELECT {query}")
    rows = f"(SELECT {query})"
    types = arrow_types(session, rows, found.columns, found.types)
    assert [str(type_) for type_ in types] == [str(type_) for type_ in columns.values()]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int8(), "TINYINT"),
        (pa.uint64(), "UBIGINT"),
        (pa.decimal128(12, 2), "DECIMAL(12,2)"),
        (pa.decimal256(50, 2), "VARCHAR"),
        (pa.dictionary(pa.int32(), pa.string()), "VARCHAR"),
        (pa.uuid(), "UUID"),
        (pa.timestamp("ns"), "TIMESTAMP_NS"),
        (pa.timestamp("ms", "Europe/Berlin"), "TIMESTAMP WITH TIME ZONE"),
        (pa.list_(pa.struct([("a b", pa.int32())])), 'STRUCT("a b" INTEGER)[]'),
        (pa.list_(pa.int16(), 3), "SMALLINT[3]"),
        (pa.map_(pa.string(), pa.float32()), "MAP(VARCHAR, FLOAT)"),
        (pa.month_day_nano_interval(), "INTERVAL"),
    ],
)
def test_created_columns_have_the_expected_types(
    session: duckdb.DuckDBPyConnection, kind: pa.DataType, expected: str
) -> None:
    assert column_type(kind, "c")[0] == expected
    session.execute(f"CREATE OR REPLACE TABLE m (c {expected})")


@pytest.mark.parametrize(
    ("mine", "theirs", "reason", "warning", "canonical_kind"),
    [
        (pa.int32(), pa.int64(), "", "", "integer"),
        (pa.int64(), pa.int32(), "", "out of the target's range", "integer"),
        (pa.int64(), pa.decimal128(38, 0), "", "", "decimal"),
        (pa.float64(), pa.float32(), "", "rounded", ""),
        (pa.timestamp("ns"), pa.timestamp("us"), "", "fractions of a microsecond", "timestamp"),
        (pa.string(), pa.date32(), "", "cannot represent", ""),
        (pa.uuid(), pa.string(), "", "", "uuid"),
        (pa.binary(), pa.string(), "bytes are not text", "", ""),
        (pa.date32(), pa.int32(), "have no form in the other", "", ""),
        (
            pa.list_(pa.int64()),
            pa.list_(pa.int32()),
            "",
            "out of the target's range",
            "list:integer",
        ),
    ],
)
def test_each_conversion_has_its_verdict(
    mine: pa.DataType, theirs: pa.DataType, reason: str, warning: str, canonical_kind: str
) -> None:
    (fit,) = fit_columns(
        [Column("a", "mine", traits={TRAIT: mine})], [Column("a", "theirs", traits={TRAIT: theirs})]
    )
    assert reason in fit.reason
    assert bool(fit.reason) == bool(reason)
    assert warning in fit.warning
    assert bool(fit.warning) == bool(warning)
    assert fit.canonical == canonical_kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (duckdb.HTTPException("HTTP 503"), TransientError),
        (duckdb.IOException("Could not write file: No space left on device"), PermanentError),
        (duckdb.IOException("IO Error: No files found that match the pattern"), PermanentError),
        (duckdb.ConversionException("Could not convert"), PermanentError),
    ],
)
def test_errors_are_classified(error: duckdb.Error, kind: type[Exception]) -> None:
    assert type(translate(error, "source")) is kind


def test_urls_are_resolved_or_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    relative = URLS.resolve("duckdb:///a%20b.duckdb", {}, "--source")
    assert URLS.path(relative) == str(tmp_path / "a b.duckdb")
    assert URLS.path(URLS.resolve("duckdb:////x/y.duckdb", {}, "--source")) == "/x/y.duckdb"
    assert URLS.path(URLS.resolve("duckdb:///:memory:", {}, "--source")) is None
    for wrong in ("duckdb://host/x", "duckdb:///", "duckdb:///x?threads=3"):
        with pytest.raises(UsageError):
            URLS.resolve(wrong, {}, "--source")
