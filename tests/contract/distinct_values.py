"""Values of one type that differ in a single component each, as each database writes them.

The components: the sign of a zero, the precision of a number, a fraction of a second, a time zone,
a reference system, letters' case, blanks, NULL beside the text NULL and an empty one, the bounds of
an array, the order and repetition of keys, labels, bits, names of types.
"""

from __future__ import annotations

from collections.abc import Mapping

TEXTS = ("''", "' '", "'NULL'", "'null'", "'-'", "'a'", "'A'", "'ä'", "'a '", "' a'", "'1:a'")
FLOATS = ("CAST('0' AS {0})", "CAST('-0' AS {0})", "CAST('0.1' AS {0})", "CAST('0.25' AS {0})")
NUMBERS = ("0", "1", "-1", "10", "100")
TIMES = (
    "'2024-01-01 00:00:00'", "'2024-01-01 00:00:01'", "'2024-01-01 00:00:00.1'",
    "'2024-01-01 00:00:00.01'", "'2024-01-01 00:00:00.000001'", "'2024-01-02 00:00:00'",
    "'1969-12-31 23:59:59.999999'", "'1970-01-01 00:00:00'",
)  # fmt: skip
NANOSECONDS = (
    "'2024-01-01 00:00:00.000000001'", "'2024-01-01 00:00:00.000000100'",
    "'1969-12-31 23:59:59.999999999'", "'1970-01-01 00:00:00.000000001'",
)  # fmt: skip


def in_floats(name: str, *more: str) -> tuple[str, ...]:
    return (*(each.format(name) for each in FLOATS), *more)


# Compared with another PostgreSQL, where values are cast to texts.
POSTGRESQL: Mapping[str, tuple[str, ...]] = {
    "text": TEXTS,
    "varchar": TEXTS,
    "bytea": ("''", "'\\x00'", "'\\x0000'", "'\\x30'", "'0'::bytea || '\\x00'"),
    "numeric": (*NUMBERS, "1.0", "1.00", "'NaN'", "'Infinity'", "'-Infinity'", "0.0"),
    "float8": in_floats("float8", "'NaN'", "'Infinity'", "'-Infinity'", "0.1::float4::float8"),
    "float4": in_floats("float4", "'NaN'", "'Infinity'", "1e-45"),
    "boolean": ("true", "false"),
    "date": ("'2024-01-01'", "'2024-01-01 BC'", "'infinity'", "'-infinity'"),
    "time": ("'00:00'", "'24:00'", "'00:00:00.000001'"),
    "timetz": ("'00:00+00'", "'01:00+01'", "'00:00-00:00:01'", "'24:00+00'"),
    "timestamp": (*TIMES, "'infinity'", "'-infinity'", "'2024-01-01 BC'"),
    "timestamptz": (*TIMES, "'infinity'", "'-infinity'", "'2024-01-01 BC'"),
    "interval": (
        "'0'", "'1 mon'", "'30 days'", "'31 days'", "'720 hours'", "'1 day'", "'24 hours'",
        "'-1 mon'", "'-1 mon +1 day'", "'1 mon -1 day'", "'1 day -0.000001'", "'0.000001'",
        "'1 year'", "'365 days'",
    ),
    "bit varying": ("''", "B'0'", "B'00'", "B'1'", "B'01'"),
    "inet": ("'10.0.0.0/8'", "'10.0.0.0'", "'10.0.0.1/8'", "'::'", "'::ffff:10.0.0.0'"),
    "json": (
        "'{\"a\":1,\"b\":2}'", "'{\"b\":2,\"a\":1}'", "'{\"a\":1, \"b\":2}'", "'null'",
        "'{\"a\":0,\"a\":1,\"b\":2}'", "'1'", "'1.0'", "'\"1\"'", "'\"\\u00e4\"'", "'\"ä\"'",
    ),
    "jsonb": (
        "'1'", "'1.0'", "'\"1\"'", "'null'", "'\"null\"'", "'[]'", "'{}'", "'[1]'", "'[[1]]'",
    ),
    "int4range": ("'empty'", "'(,)'", "'[1,)'", "'(,1)'", "'[1,2)'", "'[1,3)'"),
    "numrange": ("'[1,2]'", "'[1,2)'", "'(1,2]'", "'[1.0,2]'"),
    "int4multirange": ("'{}'", "'{[1,2)}'", "'{[1,2),[3,4)}'", "'{[1,4)}'"),
    "int[]": (
        "'{}'", "'{1,2}'", "'[0:1]={1,2}'", "'{{1,2}}'", "'{{1},{2}}'", "'{NULL}'", "'{1,NULL}'",
        "'[2:2][1:2]={{1,2}}'",
    ),
    "text[]": (
        "'{NULL}'", "'{\"NULL\"}'", "'{\"\"}'", "'{}'", "'{\"a,b\"}'", "'{a,b}'", "'{\"{a,b}\"}'",
    ),
    "penstock_pair": (
        "'(,)'", "'(\"\",)'", "'(,\"\")'", "'(NULL,)'", "'(\"a,b\",)'", "'(a,b)'", "'(b,a)'",
    ),
    "penstock_pair[]": (
        "'{NULL}'", "'{\"(,)\"}'", "'{\"(a,b)\"}'", "ARRAY[ROW('a', '\"b\"')::penstock_pair, NULL]",
    ),
    "penstock_label": ("'a'", "'A'", "'a '"),
    "tsvector": ("''", "'a'", "'a:1'", "'a:1A'", "'a:1,2'", "'''a b'''", "'a b'"),
    "tsquery": ("''", "'a & b'", "'a | b'", "'a <-> b'", "'a <2> b'", "'a:*'", "'a:A'"),
    "money": ("0", "0.01", "-0.01"),
    "point": ("'(0,0)'", "'(-0,0)'", "'(0,1)'", "'(1,0)'", "'(NaN,0)'", "'(0.1,0)'"),
    "path": ("'[(0,0),(1,1)]'", "'((0,0),(1,1))'"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"),
    '"char"': ("''", "'a'", "'A'"),
    "name": ("''", "'a'", "'A'", "'a '"),
}  # fmt: skip
# Compared with other systems, by kind. What these cannot represent does not count: digits of a
# fraction that are zero, the bounds of an array.
POSTGRESQL_KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text": ("text", TEXTS),
    "bytea": ("bytes", POSTGRESQL["bytea"]),
    "numeric": ("decimal", (*NUMBERS, "0.1", "0.01", "'NaN'", "'Infinity'", "'-Infinity'")),
    "numeric(12,2)": ("decimal", (*NUMBERS, "0.1", "0.01", "'NaN'")),
    "float8": ("float", POSTGRESQL["float8"]),
    "float4": ("float", POSTGRESQL["float4"]),
    "date": ("date", POSTGRESQL["date"]),
    "time": ("time", POSTGRESQL["time"]),
    "timestamp": ("timestamp", POSTGRESQL["timestamp"]),
    "timestamptz": ("timestamp", POSTGRESQL["timestamptz"]),
    "int[]": (
        "list:integer",
        ("'{}'", "'{1,2}'", "'{{1,2}}'", "'{{1},{2}}'", "'{NULL}'", "'{1,NULL}'", "'{12}'"),
    ),
    "int[][]": (
        "list:list:integer",
        ("'{}'", "'{1,2}'", "'{3,4}'", "'{{1,2}}'", "'{{1},{2}}'", "'{NULL}'", "'{{NULL}}'"),
    ),
    "text[]": ("list:text", POSTGRESQL["text[]"]),
    "penstock_pair[]": ("list:text", POSTGRESQL["penstock_pair[]"]),
    "penstock_label": ("text", POSTGRESQL["penstock_label"]),
    "json": ("text", POSTGRESQL["json"]),
}
_SPATIAL = (
    "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(2 1)')",
    "ST_GeomFromText('POINT(1 2)', 3857)", "ST_GeomFromText('POINT(1 2)', 4326)",
    "ST_GeomFromText('POINT(2 1)', 4326)", "ST_GeomFromText('MULTIPOINT(1 2)', 4326)",
    "ST_GeomFromText('POINT(1 2)', 2180)",
)  # fmt: skip
MYSQL: Mapping[str, tuple[str, ...]] = {
    "varchar(20)": TEXTS,
    "text": TEXTS,
    "longtext collate utf8mb4_general_ci": TEXTS,
    "char(9)": tuple(text for text in TEXTS if text not in ("' '", "'a '")),
    "varbinary(20)": ("''", "'0'", "x'00'", "x'0000'", "'A'", "'a'"),
    "binary(3)": ("'0'", "x'000000'", "'a'", "'A'"),
    "blob": ("''", "'0'", "x'00'", "x'0000'"),
    "int": NUMBERS,
    "bigint unsigned": ("0", "1", "9223372036854775808", "18446744073709551615"),
    "int(9) zerofill": ("0", "1", "10"),
    "decimal(12,2)": (*NUMBERS, "0.1", "0.01", "-0.01"),
    "decimal(12,2) zerofill": ("0", "1", "10", "100", "0.1", "0.01"),
    # Not every server stores minus zero.
    "float": ("0", "0.1", "0.25", "1e-45", "3.4e38"),
    "double": ("0", "0.1", "0.25", "5e-324", "1.7e308", "0.1e0 + 1.4e-17"),
    "double(9,2)": ("0", "0.1", "0.01"),
    "date": ("'1000-01-01'", "'2024-01-01'", "'9999-12-31'", "'1970-01-01'"),
    "time(6)": ("'00:00'", "'24:00'", "'-00:00:00.000001'", "'00:00:00.000001'", "'838:59:59'"),
    "datetime(6)": TIMES,
    "timestamp(6) null": ("'2024-01-01 00:00:00'", "'2024-01-01 00:00:00.000001'"),
    "year": ("0", "2000", "1901"),
    "bit(9)": ("0", "1", "256", "257"),
    "enum('a','b','')": ("'a'", "'b'", "''"),
    "set('a','b')": ("''", "'a'", "'b'", "'a,b'"),
    "json": ("'null'", "'\"null\"'", "'1'", "'\"1\"'", "'[]'", "'{}'", "'[1]'", "'[[1]]'"),
    "geometry": _SPATIAL,
    "point": tuple(value for value in _SPATIAL if "MULTI" not in value),
}
DUCKDB: Mapping[str, tuple[str, ...]] = {
    "varchar": TEXTS,
    "blob": ("''::blob", "'0'::blob", "'\\x00'::blob", "'\\x00\\x00'::blob"),
    "integer": NUMBERS,
    "hugeint": ("0", "1", "170141183460469231731687303715884105727"),
    "decimal(12,2)": (*NUMBERS, "0.1", "0.01", "-0.01"),
    "decimal(2,2)": ("0", "0.1", "0.01", "-0.01"),
    "double": in_floats("double", "'nan'::double", "'inf'::double", "'-inf'::double"),
    "float": in_floats("float", "'nan'::float", "1e-45::float"),
    "boolean": ("true", "false"),
    "date": ("'2024-01-01'", "'2024-01-01 (BC)'", "'infinity'", "'-infinity'"),
    "time": ("'00:00'", "'24:00'", "'00:00:00.000001'"),
    "timestamp": (*TIMES, "'infinity'", "'-infinity'"),
    "timestamptz": (*TIMES, "'infinity'"),
    "timestamp_ns": (*TIMES, *NANOSECONDS),
    "timestamptz_ns": (*TIMES, *NANOSECONDS),
    "time_ns": ("'00:00:00'", "'00:00:00.000000001'", "'00:00:00.000001'"),
    "interval": ("INTERVAL 1 MONTH", "INTERVAL 30 DAY", "INTERVAL 720 HOUR", "INTERVAL 0 DAY"),
    "integer[]": ("[]", "[NULL]", "[1, 2]", "[12]", "[1, NULL]"),
    "varchar[]": ("[]", "[NULL]", "['']", "['NULL']", "['a', 'b']", "['a,b']", "['-']"),
    "varchar[][]": ("[]", "[[]]", "[NULL]", "[[NULL]]", "[['']]", "[['a', 'b']]", "[['a'], ['b']]"),
    "uuid": POSTGRESQL["uuid"],
    "enum('a', 'A', 'a ')": ("'a'", "'A'", "'a '"),
    "timetz": ("'00:00:00+00'", "'01:00:00+01'"),
    "bit": ("'0'", "'00'", "'1'"),
}
CLICKHOUSE: Mapping[str, tuple[str, ...]] = {
    "Nullable(String)": TEXTS,
    "FixedString(3)": ("'a'", "'A'", "' a'", "'a '"),
    "Nullable(Int32)": NUMBERS,
    "Nullable(Decimal(12, 2))": (*NUMBERS, "0.1", "0.01", "-0.01"),
    "Nullable(Float64)": ("0", "-0.0", "0.1", "nan", "inf", "-inf", "5e-324"),
    "Nullable(Float32)": ("0", "-0.0", "0.1", "nan", "inf"),
    "Nullable(Bool)": ("true", "false"),
    "Nullable(Date32)": ("'1970-01-01'", "'2024-01-01'", "'1900-01-01'"),
    "Nullable(DateTime64(6, 'UTC'))": TIMES,
    "Nullable(DateTime64(9, 'UTC'))": (*TIMES, *NANOSECONDS),
    "Nullable(UUID)": POSTGRESQL["uuid"],
    "Array(Nullable(Int32))": ("[]", "[NULL]", "[1, 2]", "[12]", "[1, NULL]"),
    "Array(Nullable(String))": ("[]", "[NULL]", "['']", "['NULL']", "['a', 'b']", "['a,b']"),
    "Nullable(Enum8('a' = 1, 'A' = 2))": ("'a'", "'A'"),
}
SNOWFLAKE: Mapping[str, tuple[str, ...]] = {
    "varchar": TEXTS,
    "number(12,2)": (*NUMBERS, "0.1", "0.01", "-0.01"),
    "number(9,0)": NUMBERS,
    "float": ("0", "0.1", "0.25", "CAST('NaN' AS FLOAT)", "CAST('inf' AS FLOAT)"),
    "boolean": ("true", "false"),
    "date": ("'1970-01-01'", "'2024-01-01'"),
    "timestamp_ntz(9)": TIMES,
}
VALUES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "postgresql": POSTGRESQL,
    "mysql": MYSQL,
    "duckdb": DUCKDB,
    "clickhouse": CLICKHOUSE,
    "snowflake": SNOWFLAKE,
}
