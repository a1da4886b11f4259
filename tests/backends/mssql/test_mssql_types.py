"""The types of SQL Server in `tests/types/`, compared with the code and with a server."""

from __future__ import annotations

import re

import pytest

from penstock.backends.mssql.source import MssqlSource
from penstock.backends.mssql.types import MAX, TYPES, MsType, type_of
from penstock.backends.shared.values.arrow import arrow_type as arrow_of
from penstock.backends.shared.values.arrow import kind_of
from penstock.errors import PlanningError
from penstock.model.tables import TableRef

from ...types.arrow_types import ARROW_TYPES
from ...types.type_files import lines
from .mssql_tables import execute, is_babelfish, missing

FRACTIONS = ("time", "datetime2", "datetimeoffset")
LINES = lines("mssql/to_arrow")


def in_catalog(type_: str) -> tuple[str, int, int, int]:
    """Return a type in the catalog's form: name, length in bytes, precision, scale."""
    name, first, second = re.fullmatch(r"(\w+)(?:\((\w+)(?:,(\d+))?\))?", type_).groups()  # type: ignore[union-attr]
    if name == "float":
        return ("real" if first == "24" else "float"), 8, 53, 0
    if name in ("decimal", "numeric"):
        return name, 17, int(first), int(second)
    if name in FRACTIONS:
        return name, 8, 20 + int(first), int(first)
    if name in ("nchar", "nvarchar"):
        return name, MAX if first == "max" else 2 * int(first), 0, 0
    return name, MAX if first == "max" else int(first or 0), 0, 0


@pytest.mark.parametrize(("mine", "theirs", "kind"), LINES)
def test_types_read_from_sql_server(mine: str, theirs: str, kind: str) -> None:
    found = type_of(*in_catalog(mine))
    assert (str(TYPES.arrow_type(found)), kind_of(TYPES.arrow_type(found))) == (theirs, kind)
    assert str(found) == ("real" if mine == "float(24)" else mine)


@pytest.mark.parametrize(("mine", "theirs", "kind"), LINES)
def test_types_read_from_a_real_server(
    mssql_module: str, mine: str, theirs: str, kind: str
) -> None:
    if is_babelfish(mssql_module) and missing(mssql_module, mine):
        pytest.skip(f"the server has no {mine}")
    execute(mssql_module, "DROP TABLE IF EXISTS t", f"CREATE TABLE t (c {mine} NULL)")
    source = MssqlSource(mssql_module)
    try:
        table = TableRef("dbo", "t")
        (column,) = source.in_arrow(table, source.columns(table))
        (queried,) = source.column_types(table).values()
    finally:
        source.close()
    assert (str(arrow_of(column)), kind_of(arrow_of(column))) == (theirs, kind)
    assert str(TYPES.arrow_type(queried)) == theirs


@pytest.mark.parametrize(
    ("type_", "selected"),
    [
        (MsType("int"), '"c"'),
        (MsType("nvarchar", MAX), '"c"'),
        (MsType("xml"), 'CAST("c" AS nvarchar(max))'),
        (MsType("text"), 'CAST("c" AS nvarchar(max))'),
        (MsType("image"), 'CAST("c" AS varbinary(max))'),
        (MsType("rowversion"), 'CAST("c" AS binary(8))'),
        (MsType("hierarchyid"), '"c".ToString()'),
        (MsType("geography"), '"c".STAsBinary()'),
        (MsType("sql_variant"), 'CAST("c" AS nvarchar(4000))'),
    ],
)
def test_the_expression_that_is_selected(type_: MsType, selected: str) -> None:
    assert TYPES.travelling('"c"', type_) == selected


@pytest.mark.parametrize("name", ["datetime2", "datetimeoffset", "time"])
def test_types_finer_than_a_microsecond(name: str) -> None:
    assert TYPES.finer('"c"', MsType(name, 7)) == 'DATEPART(nanosecond, "c") % 1000 <> 0'
    assert not TYPES.finer('"c"', MsType(name, 6))


def test_other_types_are_never_finer() -> None:
    for name in ("datetime", "smalldatetime", "int"):
        assert not TYPES.finer('"c"', MsType(name, 7))


@pytest.mark.parametrize(("mine", "theirs"), lines("mssql/new_columns"))
def test_types_created_in_sql_server(mine: str, theirs: str) -> None:
    try:
        found = TYPES.created.of(ARROW_TYPES[mine], "c")
    except PlanningError:
        found = "refused"
    assert found == theirs
