"""Defaults and checks, translated from one database's SQL into another's."""

from __future__ import annotations

import pytest

from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.sql.definitions.expression_texts import (
    check_text,
    default_text,
    value_text,
)
from penstock.backends.sql.definitions.expressions import Style, read
from penstock.backends.sql.dialect import OCTETS

KINDS = {
    "a": "integer", "b": "integer", "amount": "decimal", "state": "text", "flag": "boolean",
    "uid": "uuid", "day": "date", "at": "timestamp", "tz": "moment",
}  # fmt: skip
EXACT = '"state" COLLATE Latin1_General_BIN2'


@pytest.mark.parametrize(
    ("text", "mssql", "postgresql"),
    [
        ("((a > 0))", '"a" > 0', '"a" > 0'),
        ("0 < a", '"a" > 0', '"a" > 0'),
        (
            "(((state)::text = ANY ((ARRAY['a'::character varying, 'it''s'::character varying])"
            "::text[])))",
            f"{EXACT} IN (N'a', N'it''s')",
            "\"state\" IN ('a', 'it''s')",
        ),
        ("(state <> ALL (ARRAY['x'::text]))", f"NOT ({EXACT} IN (N'x'))",
         "NOT (\"state\" IN ('x'))"),
        ("((a >= 1) AND (a <= '-5'::integer))", '("a" >= 1 AND "a" <= -5)',
         '("a" >= 1 AND "a" <= -5)'),
        ("(amount > (0.5)::numeric)", '"amount" > 0.5', '"amount" > 0.5'),
        ("(day > '2020-01-01'::date)", "\"day\" > N'2020-01-01'", "\"day\" > '2020-01-01'"),
        ("((a IS NOT NULL) OR (NOT (b < a)))", '(NOT ("a" IS NULL) OR NOT ("b" < "a"))',
         '(NOT ("a" IS NULL) OR NOT ("b" < "a"))'),
        ("([flag]=(1))", '"flag" = 1', '"flag" = TRUE'),
        ("([a]>=(1) AND [a]<=(-5) OR [state] IS NULL)",
         '(("a" >= 1 AND "a" <= -5) OR "state" IS NULL)',
         '(("a" >= 1 AND "a" <= -5) OR "state" IS NULL)'),
        ("([state]='a' OR [state]=N'b')", f"({EXACT} = N'a' OR {EXACT} = N'b')",
         "(\"state\" = 'a' OR \"state\" = 'b')"),
        ("`a` between 1 and 2 and `state` in (_utf8mb4'x')",
         f"((\"a\" >= 1 AND \"a\" <= 2) AND {EXACT} IN (N'x'))",
         "((\"a\" >= 1 AND \"a\" <= 2) AND \"state\" IN ('x'))"),
        ("(lower(state) = 'x'::text)", "lower(\"state\") COLLATE Latin1_General_BIN2 = N'x'",
         "lower(\"state\") = 'x'"),
        ("((a + 1) > 2)", '(CAST("a" AS bigint) + 1) > 2', '(CAST("a" AS bigint) + 1) > 2'),
        ("((amount * (2)::numeric) < (100)::numeric)", '("amount" * 2) < 100',
         '("amount" * 2) < 100'),
        ("(amount - a * 2 > 0)", '("amount" - (CAST("a" AS bigint) * 2)) > 0',
         '("amount" - (CAST("a" AS bigint) * 2)) > 0'),
        ("([state] like 'a%')", f"{EXACT} LIKE N'a%'", "\"state\" LIKE 'a%'"),
        ("((state)::text !~~ 'a_'::text)", f"NOT ({EXACT} LIKE N'a_')",
         "NOT (\"state\" LIKE 'a_')"),
        ("(COALESCE(a, 0) >= 0)", 'coalesce("a", 0) >= 0', 'coalesce("a", 0) >= 0'),
        ("(state = 'a\\b')", f"{EXACT} = N'a\\b'", "\"state\" =  E'a\\\\b'"),
        ("flag", '"flag" = 1', '"flag" = TRUE'),
        ("(a = b'101')", '"a" = 5', '"a" = 5'),
        ("(state || 'x' = 'yx')", "(\"state\" + N'x') COLLATE Latin1_General_BIN2 = N'yx'",
         "(\"state\" || 'x') = 'yx'"),
    ],
)  # fmt: skip
def test_checks_are_translated(text: str, mssql: str, postgresql: str) -> None:
    node = read(text, KINDS)
    assert node is not None
    assert check_text(node, KINDS, MSSQL) == mssql
    assert check_text(node, KINDS, DIALECT) == postgresql


@pytest.mark.parametrize(
    "text",
    [
        "(c > 1)", "amount", "", "(state ~~ 'a\\%'::text)", "([state] like '[a-c]%')",
        "(lower(a) = 'x')", "(state + 'x' = 'y')", "(a / 2 > 1)", "(a || state = 'x')",
        "(left(state, 1) = 'a')", "(state like a)", "(uid > uid)", "(day < getdate())",
        "(at <= now())", "((a > 1) = flag)", "(a + (b > 1) > 2)",
        "(state > 'a')", "(a = 'x')", "(a > 1", "(at::date = '2020-01-01')", "(flag = 2)",
        "(tz > '2020-01-01 00:00:00+00'::timestamp with time zone)", "a > 1; x",
        "(day > '01/02/2020')", "(a = state)", "(a > (1.5)::integer)", "a > 1 -- b",
    ],
)  # fmt: skip
def test_an_ambiguous_check_is_not_translated(text: str) -> None:
    node = read(text, KINDS)
    assert node is None or check_text(node, KINDS, MSSQL) is None


@pytest.mark.parametrize(
    ("text", "kind", "mssql", "postgresql"),
    [
        ("((0))", "integer", "0", "0"),
        ("'-1'::integer", "integer", "-1", "-1"),
        ("CAST('-1.5' AS numeric)", "decimal", "-1.5", "-1.5"),
        ("((-1.5))", "decimal", "-1.5", "-1.5"),
        ("(N'it''s')", "text", "N'it''s'", "'it''s'"),
        ("'new'::character varying", "text", "N'new'", "'new'"),
        ("((1))", "boolean", "1", "TRUE"),
        ("false", "boolean", "0", "FALSE"),
        ("('2020-01-01')", "date", "N'2020-01-01'", "'2020-01-01'"),
        ("(getdate())", "timestamp", "SYSDATETIMEOFFSET()", "CURRENT_TIMESTAMP"),
        ("now()", "moment", "SYSDATETIMEOFFSET()", "CURRENT_TIMESTAMP"),
        ("current_timestamp(6)", "date", "CAST(SYSDATETIMEOFFSET() AS date)", "CURRENT_DATE"),
        ("(now())::date", "date", "CAST(SYSDATETIMEOFFSET() AS date)", "CURRENT_DATE"),
        ("('now'::text)::date", "date", "CAST(SYSDATETIMEOFFSET() AS date)", "CURRENT_DATE"),
        ("curdate()", "date", "CAST(SYSDATETIMEOFFSET() AS date)", "CURRENT_DATE"),
        ("CURRENT_DATE", "timestamp", None, None),
        ("timezone('utc'::text, now())", "timestamp", "SYSUTCDATETIME()",
         "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"),
        ("'G'::public.mpaa", "text", "N'G'", "'G'"),
        ("true", "integer", "1", "1"),
        ("(2 * 3)", "integer", "(2 * 3)", "(2 * 3)"),
        ("x'4d0A'", "bytes", "0x4d0a", "'\\x4d0a'::bytea"),
        ("(sysutcdatetime())", "timestamp", "SYSUTCDATETIME()",
         "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"),
        ("(sysutcdatetime())", "moment", "SYSDATETIMEOFFSET()", "CURRENT_TIMESTAMP"),
        ("(newid())", "uuid", "NEWID()", "gen_random_uuid()"),
        ("(getdate())", "text", None, None),
        ("'0000-00-00 00:00:00'", "timestamp", None, None),
        ("'2021-02-30'", "date", None, None),
        ("'ab'::character varying(2)", "text", "N'ab'", "'ab'"),
        ("('x')", "integer", None, None),
        ("NULL::text", "text", None, None),
        ("(a = 1)", "boolean", None, None),
    ],
)  # fmt: skip
def test_defaults_are_translated(
    text: str, kind: str, mssql: str | None, postgresql: str | None
) -> None:
    node = read(text, KINDS)
    assert node is not None
    assert default_text(node, kind, MSSQL) == mssql
    assert default_text(node, kind, DIALECT) == postgresql


@pytest.mark.parametrize(
    "text", ["nextval('x'::regclass)", "(NEXT VALUE FOR [s])", "(dbo.f())", "(newsequentialid())",
             "(1.5)::integer", "'abc'::varchar(2)", "'a'::varchar = 1 +", "E'a'"],
)  # fmt: skip
def test_a_default_without_an_equivalent_is_not_translated(text: str) -> None:
    assert read(text) is None


OF_MYSQL = Style(escapes=True, functions={"length": OCTETS, "concat": "concat"})
OF_SQL_SERVER = Style(plus_joins=True)


@pytest.mark.parametrize(
    ("text", "style", "postgresql", "mysql"),
    [
        (r"(`state` = 'it\'s\\')", OF_MYSQL, r""""state" =  E'it''s\\'""",
         r"CAST(`state` AS BINARY) = 'it''s\\'"),
        ("(length(`state`) > 1)", OF_MYSQL, 'octet_length("state") > 1',
         "octet_length(`state`) > 1"),
        ("(state ~~ 'a_%'::text)", Style(), "\"state\" LIKE 'a_%'",
         "`state` COLLATE utf8mb4_bin LIKE 'a_%'"),
        ("([a]+(1)>(2))", OF_SQL_SERVER, '(CAST("a" AS bigint) + 1) > 2', "(`a` + 1) > 2"),
        ("([state]+'x'='yx')", OF_SQL_SERVER, "(\"state\" || 'x') = 'yx'",
         "CAST((concat(`state`, 'x')) AS BINARY) = 'yx'"),
    ],
)  # fmt: skip
def test_syntax_that_differs_between_databases(
    text: str, style: Style, postgresql: str, mysql: str
) -> None:
    node = read(text, KINDS, style)
    assert node is not None
    assert check_text(node, KINDS, DIALECT) == postgresql
    assert check_text(node, KINDS, MYSQL) == mysql


@pytest.mark.parametrize(
    ("text", "kind", "postgresql"),
    [
        ("(amount * (a)::numeric)", "decimal", '("amount" * "a")'),
        ("((state || '-'::text) || state)", "text", '(("state" || \'-\') || "state")'),
        ("(upper(state))", "text", None),  # as the collation compares it
        ("(a * a)", "text", None),
        ("coalesce(state, 'none')", "text", "coalesce(\"state\", 'none')"),
        ("char_length(state)", "integer", 'char_length("state")'),
        ("(amount / (2)::numeric)", "decimal", None),
    ],
)
def test_computed_columns_are_translated(text: str, kind: str, postgresql: str | None) -> None:
    node = read(text, KINDS)
    assert (node and value_text(node, kind, KINDS, DIALECT)) == postgresql
