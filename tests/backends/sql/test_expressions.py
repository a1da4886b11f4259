"""Defaults and checks, from the text of one database into that of another."""

from __future__ import annotations

import pytest

from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.sql.expressions import read, written_check, written_default

KINDS = {
    "a": "integer", "b": "integer", "amount": "decimal", "state": "text", "flag": "boolean",
    "day": "date", "at": "timestamp", "tz": "moment",
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
    ],
)  # fmt: skip
def test_checks(text: str, mssql: str, postgresql: str) -> None:
    node = read(text, KINDS)
    assert node is not None
    assert written_check(node, KINDS, MSSQL) == mssql
    assert written_check(node, KINDS, DIALECT) == postgresql


@pytest.mark.parametrize(
    "text",
    [
        "(lower(state) = 'x'::text)", "((a + 1) > 2)", "([state] like 'a%')", "(c > 1)", "a", "",
        "(state > 'a')", "(a = 'x')", "(a > 1", "(at::date = '2020-01-01')", "(flag = 2)",
        "(tz > '2020-01-01 00:00:00+00'::timestamp with time zone)", "(state = 'a\\b')", "a > 1; x",
        "(day > '01/02/2020')", "(a = state)", "(a > (1.5)::integer)", "a > 1 -- b", "flag",
    ],
)  # fmt: skip
def test_a_check_that_may_mean_something_else(text: str) -> None:
    node = read(text, KINDS)
    assert node is None or written_check(node, KINDS, MSSQL) is None


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
        ("current_timestamp(6)", "date", "SYSDATETIMEOFFSET()", "CURRENT_TIMESTAMP"),
        ("(sysutcdatetime())", "timestamp", "SYSUTCDATETIME()",
         "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"),
        ("(sysutcdatetime())", "moment", "SYSDATETIMEOFFSET()", "CURRENT_TIMESTAMP"),
        ("(newid())", "uuid", "NEWID()", "gen_random_uuid()"),
        ("(getdate())", "text", None, None),
        ("('x')", "integer", None, None),
        ("NULL::text", "text", None, None),
        ("(a = 1)", "boolean", None, None),
    ],
)  # fmt: skip
def test_defaults(text: str, kind: str, mssql: str | None, postgresql: str | None) -> None:
    node = read(text, KINDS)
    assert node is not None
    assert written_default(node, kind, MSSQL) == mssql
    assert written_default(node, kind, DIALECT) == postgresql


@pytest.mark.parametrize(
    "text", ["nextval('x'::regclass)", "(NEXT VALUE FOR [s])", "(dbo.f())", "(newsequentialid())",
             "CURRENT_DATE", "(1.5)::integer"],
)  # fmt: skip
def test_a_default_that_others_do_not_have(text: str) -> None:
    assert read(text) is None
