"""The statements that recreate a table, generated from SQL Server's catalog."""

from __future__ import annotations

import pytest

from penstock.backends.mssql.catalog.native_parts import NativeIndex, NativeParts
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.load.table_clone import (
    check_statement,
    check_text,
    column_text,
    constraint_clause,
    index_statement,
    key_text,
    no_clause,
    with_name,
)
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.model.table_model import (
    CheckModel,
    ColumnModel,
    Expression,
    Generated,
    Identity,
)
from penstock.model.tables import TableRef

TABLE = TableRef("dbo", "t")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (ColumnModel("a", native="bigint", identity=Identity(5, -2)), "bigint IDENTITY(5,-2)"),
        (
            ColumnModel(
                "a", native="varchar(9) COLLATE Latin1_General_BIN2", default=Expression("('x')")
            ),
            "varchar(9) COLLATE Latin1_General_BIN2 DEFAULT ('x')",
        ),
        (
            ColumnModel("named", native="int SPARSE", default=Expression("((0))")),
            'int SPARSE CONSTRAINT "df" DEFAULT ((0))',
        ),
        (
            ColumnModel(
                "a", native="AS ([b]*(2)) PERSISTED", generated=Generated(Expression("([b]*(2))"))
            ),
            "AS ([b]*(2)) PERSISTED",
        ),
    ],
)
def test_columns(column: ColumnModel, text: str) -> None:
    own = NativeParts({"named": "df"}, (), ())
    assert (
        column_text(column, own, constraint_clause if column.name == "named" else no_clause) == text
    )


def index(**facts: object) -> NativeIndex:
    usual = {
        "name": "i]x", "constraint": "", "called": True, "unique": False, "kind": "NONCLUSTERED",
        "keys": ("a", "b"), "descending": (), "included": (), "options": "", "obstacle": "",
    }  # fmt: skip
    return NativeIndex(**{**usual, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "text"),
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
def test_indexes(index: NativeIndex, text: str) -> None:
    assert index_statement(index, TABLE) == text


def test_keys() -> None:
    key = index(constraint="PRIMARY KEY", unique=True, kind="CLUSTERED", descending=("a",))
    text = 'PRIMARY KEY CLUSTERED ("a" DESC, "b")'
    assert key_text(key, constraint_clause) == f'CONSTRAINT "i]x" {text}'
    assert key_text(key, no_clause) == text


def test_check_constraints() -> None:
    check = CheckModel("c", Expression("([a]>(0))"))
    assert check_text(check, constraint_clause) == 'CONSTRAINT "c" CHECK ([a]>(0))'
    assert check_statement(check, TABLE, constraint_clause) == (
        'ALTER TABLE "dbo"."t" WITH NOCHECK ADD CONSTRAINT "c" CHECK ([a]>(0))'
    )
    off = CheckModel("c", Expression("([a]>(0))"), enforced=False)
    assert check_statement(off, TABLE, constraint_clause).endswith(
        ';\nALTER TABLE "dbo"."t" NOCHECK CONSTRAINT "c"'
    )


def test_a_disabled_check_gets_a_name() -> None:
    off = with_name(CheckModel("", Expression("([a]>(0))"), enforced=False), TABLE)
    assert check_statement(off, TABLE, constraint_clause) == (
        'ALTER TABLE "dbo"."t" WITH NOCHECK ADD CONSTRAINT "t_check" CHECK ([a]>(0));\n'
        'ALTER TABLE "dbo"."t" NOCHECK CONSTRAINT "t_check"'
    )


def test_deferred_indexes() -> None:
    """Deferred indexes remain defined."""
    change = IndexChange(TABLE, {"a": "a", "b]c": "b]c"}, creates=False)
    assert change.statement(MSSQL) == (
        'ALTER INDEX "a" ON "dbo"."t" DISABLE;\nALTER INDEX "b]c" ON "dbo"."t" DISABLE'
    )
    back = IndexChange(TABLE, {"a": "a", "b]c": "b]c"}, creates=True).remaining({"a": "a"})
    assert back.statement(MSSQL) == 'ALTER INDEX "b]c" ON "dbo"."t" REBUILD'


def test_statements_with_a_new_table_name() -> None:
    renamed = MSSQL.rename_statement(TableRef("my]schema", "it's~1"), 'it"s')
    assert renamed == "EXEC sp_rename N'[my]]schema].[it''s~1]', N'it\"s', N'OBJECT'"
