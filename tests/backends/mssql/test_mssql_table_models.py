"""Foreign keys, comments and filtered indexes: the statements sent to SQL Server, and the models of
its catalog's answers. No server is needed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.backends.api.facts import Siblings
from penstock.backends.mssql.catalog.links import is_modelled, read_comments, read_foreign_keys
from penstock.backends.mssql.catalog.native_parts import NativeIndex, NativeParts
from penstock.backends.mssql.catalog.table_model import indexes_of
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.load.exchange import with_temporary_names
from penstock.backends.sql.definitions.foreign_keys import ForeignKeyChange
from penstock.backends.sql.definitions.rendering import Rendering
from penstock.model.plans import SWAP_STEP, LoadPlan, Step
from penstock.model.table_model import (
    ACTIONS,
    ColumnModel,
    Expression,
    ForeignKeyModel,
    Identity,
    TableDefinition,
    TableModel,
)
from penstock.model.tables import NotCopied, TableRef

TABLE, OTHER = TableRef("dbo", "t"), TableRef("dbo", "other")


class Catalog:
    """A session whose server always gives the same answers."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self._rows = rows

    def catalog_rows(self, name: str, table: TableRef) -> list[tuple[Any, ...]]:
        return list(self._rows)


def test_foreign_keys() -> None:
    catalog: Any = Catalog(
        ("f", "dbo", "other", "NO_ACTION", "CASCADE", 0, 0, "a", "x"),
        ("f", "dbo", "other", "NO_ACTION", "CASCADE", 0, 0, "b", "y"),
        ("g", "dbo", "other", "SET_NULL", "NO_ACTION", 0, 1, "a", "x"),
    )
    assert read_foreign_keys(catalog, TABLE) == (
        ForeignKeyModel("f", ("a", "b"), OTHER, ("x", "y"), "", "CASCADE"),
        ForeignKeyModel("g", ("a",), OTHER, ("x",), "SET NULL", "", checked=False),
    )


def test_comments() -> None:
    catalog: Any = Catalog((None, "of the table"), ("a", "of a"), ("b", ""))
    assert read_comments(catalog, TABLE) == {"": "of the table", "a": "of a"}
    assert is_modelled(NotCopied("comments", "MS_Description"))
    assert not is_modelled(NotCopied("comments", "Classification"))


def test_a_filtered_index() -> None:
    def index(options: str, *, unique: bool = False) -> NativeIndex:
        return NativeIndex(
            "i", "", True, unique, "NONCLUSTERED", ("a",), ("a",), ("b",), options, ""
        )

    options = (" WHERE ([a]>(0))", " WITH (IGNORE_DUP_KEY = ON)", " WHERE ([a] IS NOT NULL)")
    some, ignoring, known = indexes_of([index(text, unique=True) for text in options], ())
    assert some.columns == some.descending == ("a",)
    assert some.included == ("b",)
    assert some.predicate == Expression("([a]>(0))", None)  # with columns that do not exist
    assert ignoring.columns == ()
    assert known.predicate is not None


def test_the_statements_for_a_model() -> None:
    model = TableModel(
        (
            ColumnModel("a", nullable=False, identity=Identity(5, 2, always=True), comment="it's"),
            ColumnModel("b", comment="cut;\nhere"),
        ),
        foreign_keys=(
            ForeignKeyModel("f", ("b",), OTHER, ("x",), "CASCADE", "RESTRICT", deferrable=True),
        ),
        comment="t's",
    )
    siblings = Siblings({OTHER: TableRef("dbo", "others")})
    kinds = {"a": "integer", "b": "integer"}
    found = Rendering(MSSQL, TABLE, TABLE, kinds, siblings).of(model)
    assert found.columns == {"a": "IDENTITY(5,2)"}
    say = "EXEC sys.sp_addextendedproperty N'MS_Description'"
    assert found.comments == [
        f"{say}, N'it''s', N'SCHEMA', N'dbo', N'TABLE', N't', N'COLUMN', N'a'",
        f"{say}, N't''s', N'SCHEMA', N'dbo', N'TABLE', N't'",
    ]
    (key,) = found.foreign_keys
    step = ForeignKeyChange(TABLE, key.name, key.definition, key.target).step(MSSQL)
    assert step.statement == (
        'ALTER TABLE "dbo"."t" ADD CONSTRAINT "t_f" FOREIGN KEY ("b") REFERENCES "dbo"."others"'
        ' ("x") ON DELETE CASCADE ON UPDATE NO ACTION'
    )
    assert [(item.kind, item.name) for item in found.omitted] == [
        ("comments", "b: cut;\nhere"),
        (ACTIONS, "f: DEFERRABLE"),
    ]


@pytest.mark.parametrize("babelfish", [False, True])
def test_constraints_of_a_table_that_replaces_another(*, babelfish: bool) -> None:
    """Their names are unique in a schema, so they get them with the exchange."""
    session: Any = SimpleNamespace(connection=SimpleNamespace(babelfish=babelfish))
    new = TableRef("dbo", "t~0123abcd")
    key = NativeIndex("PK_t", "PRIMARY KEY", True, True, "CLUSTERED", ("a",), (), (), "", "")
    create = (
        'CREATE TABLE "dbo"."t~0123abcd" ("a" int CONSTRAINT "DF_a" DEFAULT ((1)) NOT NULL,'
        ' CONSTRAINT "PK_t" PRIMARY KEY CLUSTERED ("a"))'
    )
    plan = LoadPlan(
        new,
        (
            Step("create", "create", create),
            Step(SWAP_STEP, "swap", 'DROP TABLE "dbo"."t"', after=True, rank=1, urgent=True),
        ),
    )
    native = NativeParts({"a": "DF_a", "b": "DF_left_out"}, (), (key,))
    definition = TableDefinition("mssql", TableModel(), native=native)
    created, swap = with_temporary_names(session, plan, TABLE, definition).steps
    if babelfish:
        assert "CONSTRAINT" not in created.statement
        assert swap.statement == plan.steps[1].statement
        return
    assert 'CONSTRAINT "DF_a~0123abcd" DEFAULT' in created.statement
    assert 'CONSTRAINT "PK_t~0123abcd" PRIMARY KEY' in created.statement
    assert swap.statement == (
        'DROP TABLE "dbo"."t";\n'
        "EXEC sp_rename N'[dbo].[DF_a~0123abcd]', N'DF_a', N'OBJECT';\n"
        "EXEC sp_rename N'[dbo].[PK_t~0123abcd]', N'PK_t', N'OBJECT'"
    )
