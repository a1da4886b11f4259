"""The statements that make a table like another one, from what the catalog of SQL Server says."""

from __future__ import annotations

import pytest

from penstock.backends.mssql.catalog.script import WrittenCheck, WrittenColumn, WrittenIndex
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.load.likeness import (
    always,
    check_statement,
    check_text,
    column_text,
    index_statement,
    key_text,
    unnamed,
)
from penstock.backends.sql.index_changes import IndexChange
from penstock.model.tables import TableRef

TABLE = TableRef("dbo", "t")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (WrittenColumn("a", "bigint", False, identity="IDENTITY(5,-2)"), "bigint IDENTITY(5,-2)"),
        (
            WrittenColumn("a", "varchar(9) COLLATE Latin1_General_BIN2", True, default="('x')"),
            "varchar(9) COLLATE Latin1_General_BIN2 DEFAULT ('x')",
        ),
        (
            WrittenColumn("a", "int SPARSE", True, default="((0))", called="df"),
            'int SPARSE CONSTRAINT "df" DEFAULT ((0))',
        ),
        (WrittenColumn("a", "AS ([b]*(2)) PERSISTED", False, computed=True),
         "AS ([b]*(2)) PERSISTED"),
    ],
)  # fmt: skip
def test_columns(column: WrittenColumn, text: str) -> None:
    assert column_text(column, always if column.called else unnamed) == text


def index(**facts: object) -> WrittenIndex:
    usual = {
        "name": "i]x", "constraint": "", "called": True, "unique": False, "kind": "NONCLUSTERED",
        "keys": ("a", "b"), "descending": (), "included": (), "options": "", "obstacle": "",
    }  # fmt: skip
    return WrittenIndex(**{**usual, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (index(), 'CREATE NONCLUSTERED INDEX "i]x" ON "dbo"."t" ("a", "b")'),
        (
            index(unique=True, kind="CLUSTERED", descending=("b",)),
            'CREATE UNIQUE CLUSTERED INDEX "i]x" ON "dbo"."t" ("a", "b" DESC)',
        ),
        (
            index(included=("c", "d"), options=" WHERE ([a]>(1)) WITH (IGNORE_DUP_KEY = ON)"),
            'CREATE NONCLUSTERED INDEX "i]x" ON "dbo"."t" ("a", "b") INCLUDE ("c", "d")'
            " WHERE ([a]>(1)) WITH (IGNORE_DUP_KEY = ON)",
        ),
    ],
)
def test_indexes(made: WrittenIndex, text: str) -> None:
    assert index_statement(made, TABLE) == text


def test_keys() -> None:
    key = index(constraint="PRIMARY KEY", unique=True, kind="CLUSTERED", descending=("a",))
    text = 'PRIMARY KEY CLUSTERED ("a" DESC, "b")'
    assert key_text(key, always) == f'CONSTRAINT "i]x" {text}'
    assert key_text(key, unnamed) == text


def test_checks() -> None:
    check = WrittenCheck("c", "([a]>(0))", trusted=True, enabled=True)
    assert check_text(check, always) == 'CONSTRAINT "c" CHECK ([a]>(0))'
    assert check_statement(check, TABLE, always) == (
        'ALTER TABLE "dbo"."t" WITH NOCHECK ADD CONSTRAINT "c" CHECK ([a]>(0))'
    )
    off = WrittenCheck("c", "([a]>(0))", trusted=False, enabled=False)
    assert check_statement(off, TABLE, always).endswith(
        ';\nALTER TABLE "dbo"."t" NOCHECK CONSTRAINT "c"'
    )


def test_indexes_that_wait() -> None:
    """They stay defined."""
    change = IndexChange(TABLE, {"a": "a", "b]c": "b]c"}, makes=False)
    assert change.statement(MSSQL) == (
        'ALTER INDEX "a" ON "dbo"."t" DISABLE;\nALTER INDEX "b]c" ON "dbo"."t" DISABLE'
    )
    back = IndexChange(TABLE, {"a": "a", "b]c": "b]c"}, makes=True).left({"a": "a"})
    assert back.statement(MSSQL) == 'ALTER INDEX "b]c" ON "dbo"."t" REBUILD'


def test_a_new_name() -> None:
    renamed = MSSQL.renamed(TableRef("my]schema", "it's~1"), 'it"s')
    assert renamed == "EXEC sp_rename N'[my]]schema].[it''s~1]', N'it\"s', N'OBJECT'"
