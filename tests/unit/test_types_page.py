"""The types of DuckDB and Parquet in `tests/types/`, checked against the code."""

from __future__ import annotations

import duckdb
import pytest

from penstock.backends.duckdb.catalog.values import arrow_types
from penstock.backends.duckdb.load.fitting import column_type
from penstock.backends.parquet.files.column_types import stored_as
from penstock.backends.parquet.files.types import travelling
from penstock.backends.shared.values.arrow import kind_of

from ..types.arrow_types import ARROW_TYPES
from ..types.type_files import lines


@pytest.mark.parametrize(("mine", "theirs", "kind"), lines("duckdb/to_arrow"))
def test_types_read_from_duckdb(mine: str, theirs: str, kind: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        described = connection.sql(f"SELECT NULL::{mine} AS c")
        (found,) = arrow_types(
            connection, f"(SELECT NULL::{mine} AS c)", ["c"], list(described.types)
        )
    assert (str(found), kind_of(found)) == (theirs, kind)


@pytest.mark.parametrize(("mine", "theirs"), lines("duckdb/new_columns"))
def test_types_written_to_duckdb(mine: str, theirs: str) -> None:
    assert column_type(ARROW_TYPES[mine], "c")[0] == theirs


@pytest.mark.parametrize(("mine", "theirs"), lines("parquet/to_arrow"))
def test_types_read_from_parquet(mine: str, theirs: str) -> None:
    assert str(travelling(ARROW_TYPES[mine])) == theirs


@pytest.mark.parametrize(("mine", "theirs"), lines("parquet/new_columns"))
def test_types_written_to_parquet(mine: str, theirs: str) -> None:
    try:
        found = str(stored_as(ARROW_TYPES[mine]))
    except ValueError:
        found = "refused"
    assert found == theirs
