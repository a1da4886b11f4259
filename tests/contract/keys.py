"""Keys that are hard to partition by, for each backend.

They have equal values that look different, different values that look equal, values without an
order, and values whose order, equality and text disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

TEXTS = (
    "", " ", "  ", "a", "A", "a ", "A ", " a", "b", "B", "á", "a\u0301", "Á", "é", "e\u0301", "ss",
    "ß", "SS", "ẞ", "\u200b", "a\u200b", "\ufeffa", "a\u00ad", "z", "Z", "zz", "ä", "ae", "æ", "ö",
    "o\u0308", "i", "I", "\u0131", "İ", "\u017f", "s", "ﬁ", "fi", "Å", "\u212b", "10", "9", "-1",
    '"', "back\\slash", "%s", "{}", "--", "NULL", "NaN", "\t", "\n", "a\n", "\u00a0", "🐘",
    "\U0001f468\u200d\U0001f469", "x" * 40,
)  # fmt: skip
FLOATS = ("0.0", "-0.0", "1.5", "-1.5", "1e30", "-1e30", "1e-30", "0.1")
SPECIAL = ("NaN", "-NaN", "Infinity", "-Infinity")


def quoted(texts: Sequence[str], type_: str = "") -> tuple[str, ...]:
    """Return texts as SQL literals, cast to a type if there is one."""
    literals = ("'" + text.replace("'", "''") + "'" for text in texts)
    return tuple(f"CAST({each} AS {type_})" if type_ else each for each in literals)


@dataclass(frozen=True)
class Keys:
    """The keys of a backend.

    Args:
        columns: types and value expressions by column name.
        before: statements that create what the columns need, at both ends.
        expressions: computed keys.
    """

    columns: Mapping[str, tuple[str, Sequence[str]]]
    before: Sequence[str] = ()
    expressions: Sequence[str] = ()
    ends: str = ""
    """The text after the columns of a new table."""
    drawn: int = 6
    """The number of keys in one example."""


def _cast(type_: str, *texts: str) -> tuple[str, tuple[str, ...]]:
    return type_, quoted(texts, type_)


POSTGRESQL = Keys(
    before=(
        "CREATE TYPE pair AS (a int, b numeric)",
        "CREATE TYPE nested AS (p pair, t text)",
        "CREATE TYPE mood AS ENUM ('z', 'a', 'M', 'b', '')",
        "CREATE DOMAIN code AS varchar(9)",
        "CREATE DOMAIN both_ends AS pair",
        "CREATE EXTENSION citext",
    ),
    columns={
        "composite": _cast(
            "pair", "(,)", "(1,)", "(,1)", "(1,1.0)", "(1,1.00)", "(,NaN)", "(-1,0)", "(0,-0.0)"
        ),
        "composites": _cast(
            "nested", '("(,)",)', "(,)", '("(1,)",x)', '("(1,1.0)",x)', '("(1,1.00)",x)', '(,"")'
        ),
        "domain_of_composite": _cast("both_ends", "(,)", "(1,)", "(1,1.0)", "(1,1.00)"),
        "float4": _cast("float4", *FLOATS, *SPECIAL),
        "float8": _cast("float8", *FLOATS, *SPECIAL, "4.9e-324"),
        "number": _cast(
            "numeric", *FLOATS, "NaN", "Infinity", "-Infinity", "0", "0.00", "1.50", "1.500"
        ),
        "scaled": _cast("numeric(10,2)", *(text for text in FLOATS if "30" not in text), "NaN"),
        "texts": ("text", quoted(TEXTS)),
        "ordered": ('text COLLATE "C"', quoted(TEXTS)),
        "padded": ("char(40)", quoted(TEXTS)),
        "coded": _cast("code", *(text for text in TEXTS if len(text) < 10)),
        "either_case": _cast("citext", *TEXTS),
        "mood": _cast("mood", "z", "a", "M", "b", ""),
        "bytes": _cast("bytea", "", r"\x00", r"\x0000", r"\xff", r"\x27", r"\x5c", "a", " "),
        "numbers": _cast("numeric[]", "{}", "{NULL}", "{1.0}", "{1.00}", "{NaN}", "{{1},{2}}"),
        "words": _cast("text[]", "{}", '{""}', '{"NULL"}', "{NULL}", '{"a,b"}', "[0:0]={a}"),
        "range": _cast("numrange", "empty", "(,)", "[1,1]", "[1.0,1.00]", "[1,2)", "(1,2]", "(,1)"),
        "ranges": _cast("int4multirange", "{}", "{[1,2)}", "{[1,1]}", "{[1,2),[2,3)}", "{(,)}"),
        "json": _cast("jsonb", "null", "1", "1.0", '"a"', '{"a":1,"b":2}', '{"b":2, "a":1}', "[]"),
        "uuid": _cast("uuid", "0" * 32, "f" * 32, "F" * 32, "8" + "0" * 31),
        "address": _cast("inet", "1.2.3.4", "1.2.3.4/32", "1.2.3.4/24", "::1", "::ffff:1.2.3.4"),
        "network": _cast("cidr", "1.2.3.0/24", "1.2.3.0/25", "::/0", "0.0.0.0/0"),
        "interval": _cast(
            "interval", "1 mon", "30 days", "720 hours", "0", "-1 mon +30 days", "-0.5 s", "1 year"
        ),
        "time_of_zone": _cast("timetz", "00:00+00", "01:00+01", "24:00+00", "00:00-15", "12:00+00"),
        "time": _cast("time", "00:00", "24:00", "12:00:00.000001"),
        "day": _cast("date", "-infinity", "infinity", "4713-01-01 BC", "5874897-12-31"),
        "moment": _cast("timestamp", "-infinity", "infinity", "2026-03-29 02:30", "0001-01-01 BC"),
        "instant": _cast("timestamptz", "-infinity", "infinity", "2026-10-25"),
        "char": ('"char"', ("'a'::\"char\"", "'A'::\"char\"", "''::\"char\"", '(-128)::"char"')),
        "name": _cast("name", *(text for text in TEXTS if len(text) < 30)),
        "money": _cast("money", "0", "-0.01", "1", "1234567.89"),
        "bits": _cast("varbit", "", "0", "00", "1", "10"),
        "bit": ("bit(2)", ("B'00'", "B'01'", "B'11'")),
        "truth": _cast("boolean", "true", "false"),
        "oid": _cast("oid", "0", "1", "4294967295"),
        "point": _cast("point", "(0,0)", "(-0,0)", "(1,NaN)", "(0,1e-7)"),
        "box": _cast("box", "(0,0),(1,1)", "(0,0),(2,0.5)", "(0,0),(0,0)"),
        "document": _cast("json", "1", "1.0", '{"a":1}', '{"a": 1}'),
        "search": _cast("tsvector", "", "a", "a:1", "'a b'"),
    },
    expressions=(
        "lower(texts)",
        "composite",
        "float8 + 0",
        "number / 3",
        "ROW(texts, float8)",
        "words[1]",
        "(composite).b",
        "either_case || ''",
        'texts COLLATE "C"',
        "date_trunc('month', moment)",
    ),
)

DUCKDB = Keys(
    before=("CREATE TYPE mood AS ENUM ('z', 'a', 'M', 'b', '')",),
    columns={
        "texts": ("VARCHAR", quoted(TEXTS)),
        "either_case": ("VARCHAR COLLATE NOCASE", quoted(TEXTS)),
        "no_accent": ("VARCHAR COLLATE NOACCENT", quoted(TEXTS)),
        "neither": ("VARCHAR COLLATE NOCASE.NOACCENT", quoted(TEXTS)),
        "composed": ("VARCHAR COLLATE NFC", quoted(TEXTS)),
        "float": _cast("FLOAT", *FLOATS, "nan", "-nan", "inf", "-inf"),
        "double": _cast("DOUBLE", *FLOATS, "nan", "-nan", "inf", "-inf", "4.9e-324"),
        "number": _cast("DECIMAL(20,2)", "0", "-0.00", "1.5", "1.50", "-1.5"),
        "huge": _cast("HUGEINT", "0", "9" * 38, "-" + "9" * 38, "1"),
        "unsigned": _cast("UBIGINT", "0", str(2**64 - 1), "1"),
        "mood": _cast("mood", "z", "a", "M", "b", ""),
        "bytes": _cast("BLOB", "", r"\x00", r"\x00\x00", r"\xFF", "a", " ", r"\x27"),
        "uuid": _cast("UUID", "0" * 32, "f" * 32, "8" + "0" * 31, "7" + "f" * 31),
        "interval": _cast(
            "INTERVAL", "1 month", "30 days", "720 hours", "0 days", "12 months", "1 year"
        ),
        "day": _cast("DATE", "-infinity", "infinity", "0044-03-15 (BC)", "2026-03-29"),
        "moment": _cast("TIMESTAMP", "-infinity", "infinity", "0044-03-15 (BC)"),
        "instant": _cast(
            "TIMESTAMPTZ", "-infinity", "infinity", "2026-03-29 01:00+00", "2026-10-25 00:00+00"
        ),
        "nanoseconds": _cast("TIMESTAMP_NS", "2026-03-29 02:30:00.123456789", "1970-01-01"),
        "seconds": _cast("TIMESTAMP_S", "2026-03-29 02:30:00", "1970-01-01"),
        "time": _cast("TIME", "00:00:00", "24:00:00", "12:00:00.000001"),
        "time_of_zone": _cast("TIMETZ", "00:00:00+00", "01:00:00+01", "12:00:00+00", "23:00:00-15"),
        "truth": _cast("BOOLEAN", "true", "false"),
        "list": (
            "DOUBLE[]",
            tuple(
                f"CAST({each} AS DOUBLE[])"
                for each in ("[]", "[NULL]", "[1.0]", "[0.0]", "[-0.0]", "['nan'::DOUBLE]")
            ),
        ),
        "struct": (
            "STRUCT(a INTEGER, b VARCHAR)",
            (
                "{'a': NULL, 'b': NULL}",
                "{'a': 1, 'b': NULL}",
                "{'a': 1, 'b': ''}",
                "{'a': NULL, 'b': 'x'}",
                "{'a': 1, 'b': 'it''s'}",
            ),
        ),
        "map": ("MAP(VARCHAR, INTEGER)", ("MAP {}", "MAP {'a': 1}", "MAP {'a': NULL}")),
        "bits": _cast("BIT", "0", "00", "1", "10"),
    },
    expressions=("lower(texts)", "double + 0", "struct.b", "list[1]", "either_case || ''"),
)

PARQUET = Keys(
    before=DUCKDB.before,
    columns={
        name: known
        for name, known in DUCKDB.columns.items()
        # Parquet has no types for these.
        if name not in ("either_case", "no_accent", "neither", "composed", "huge", "bits")
    },
    expressions=("lower(texts)", "double + 0", "struct.b", "list[1]"),
)

_NANS = ("nan", "-nan", "inf", "-inf")
CLICKHOUSE = Keys(
    columns={
        "texts": ("Nullable(String)", quoted(TEXTS)),
        "few": ("LowCardinality(Nullable(String))", quoted(TEXTS)),
        "fixed": ("Nullable(FixedString(3))", quoted(("", "a", "a ", "a\\0", "abc", "\\0\\0\\0"))),
        "mood": ("Nullable(Enum8('z' = 1, 'a' = -2, 'M' = 3, '' = 4))", quoted(("z", "a", ""))),
        "float": ("Nullable(Float32)", (*FLOATS, *_NANS)),
        "double": ("Nullable(Float64)", (*FLOATS, *_NANS, "5e-324")),
        "number": ("Nullable(Decimal(20, 2))", ("0", "-0.00", "1.5", "1.50", "-1.5")),
        "huge": ("Nullable(Int256)", (f"toInt256('{2**255 - 1}')", "-1", "0")),
        "unsigned": ("Nullable(UInt64)", ("0", str(2**64 - 1), "1")),
        "uuid": (
            "Nullable(UUID)",
            quoted(tuple(f"{d}0000000-0000-0000-0000-00000000000{d}" for d in "0789f")),
        ),
        "day": ("Nullable(Date)", quoted(("1970-01-01", "2149-06-06", "2026-03-29"))),
        "wide_day": ("Nullable(Date32)", quoted(("1900-01-01", "2299-12-31", "2026-03-29"))),
        "moment": (
            "Nullable(DateTime('Europe/Berlin'))",
            (
                "toDateTime(1774746000)",
                "toDateTime(1792892400)",
                "toDateTime(1792896000)",
                "toDateTime(0)",
            ),
        ),
        "instant": (
            "Nullable(DateTime64(6, 'UTC'))",
            quoted(("1900-01-01 00:00:00", "2026-03-29 02:30:00.000001", "2299-12-31 23:59:59")),
        ),
        "truth": ("Nullable(Bool)", ("true", "false")),
        "address": ("Nullable(IPv4)", quoted(("1.2.3.4", "0.0.0.0"))),
        "address6": ("Nullable(IPv6)", quoted(("::1", "::", "::ffff:1.2.3.4"))),
        "list": ("Array(Float64)", ("[]", "[0.0]", "[-0.0]", "[nan]", "[1, 2]")),
    },
    ends=" ENGINE = MergeTree ORDER BY tuple()",
    drawn=3,  # chdb is slow with many partitions
    expressions=("lower(texts)", "double + 0", "list[1]"),
)

SQLITE = Keys(
    columns={"texts": ("TEXT", quoted(TEXTS)), "number": ("INTEGER", ("0", "-1", "1"))},
)

MYSQL = Keys(
    columns={
        "number": ("bigint", ("0", "-1", "1", str(2**63 - 1), str(-(2**63)))),
        "scaled": ("decimal(20,2)", ("0", "-0.00", "1.5", "1.50", "-1.5")),
        "day": ("date", quoted(("1000-01-01", "9999-12-31", "2026-03-29"))),
        "moment": ("datetime(6)", quoted(("1000-01-01", "2026-03-29 02:30:00.000001"))),
    },
)

KEYS: Mapping[str, Keys] = {
    "postgresql": POSTGRESQL,
    "duckdb": DUCKDB,
    "parquet": PARQUET,
    "clickhouse": CLICKHOUSE,
    "sqlite": SQLITE,
    "mysql": MYSQL,
}


def keys_in_batches(name: str) -> Keys:
    """Return a backend's keys, except those whose values record batches cannot represent."""
    keys = KEYS[name]
    infinite = ("day", "moment", "instant") if name == "duckdb" else ()
    columns = {key: of for key, of in keys.columns.items() if key not in infinite}
    return replace(keys, columns=columns)
