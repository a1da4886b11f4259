"""Types that Penstock creates in SQL Server, and the models of its own types, without a server."""

from __future__ import annotations

import pytest

from penstock.backends.mssql.catalog.table_model import type_model
from penstock.backends.mssql.load.tables import text_type
from penstock.backends.mssql.types import type_of
from penstock.model.table_model import (
    BYTES,
    DECIMAL,
    INTEGER,
    TEXT,
    ColumnModel,
    ColumnType,
    KeyModel,
    TableDefinition,
    TableModel,
)
from penstock.model.tables import Column


@pytest.mark.parametrize(
    ("length", "expected"),
    [(50, "nvarchar(100)"), (2000, "nvarchar(4000)"), (2001, ""), (None, "")],
)
def test_a_character_may_take_two_units(length: int | None, expected: str) -> None:
    model = TableModel((ColumnModel("a", ColumnType(TEXT, length)),))
    assert text_type(Column("a", "text"), TableDefinition("other", model)) == expected


def test_a_text_key_is_compared_by_bytes() -> None:
    model = TableModel((ColumnModel("a", ColumnType(TEXT, 50)),), (KeyModel("", ("a",), True),))
    created = text_type(Column("a", "text"), TableDefinition("other", model))
    assert created == "nvarchar(50) COLLATE Latin1_General_BIN2"


@pytest.mark.parametrize(
    ("name", "length", "modelled"),
    [
        ("nvarchar", 100, ColumnType(TEXT, 50)),
        ("varchar", 50, ColumnType(TEXT, 50)),
        ("nvarchar", -1, ColumnType(TEXT)),
        ("varbinary", 16, ColumnType(BYTES, 16)),
        ("varbinary", -1, ColumnType(BYTES)),
        ("tinyint", 1, ColumnType(INTEGER, unsigned=True, bits=8)),
        ("bigint", 8, ColumnType(INTEGER, bits=64)),
        ("money", 8, ColumnType(DECIMAL)),
    ],
)
def test_models_of_sql_server_types(name: str, length: int, modelled: ColumnType) -> None:
    assert type_model(type_of(name, length, 19, 4)) == modelled
