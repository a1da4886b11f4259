"""Macros of a database file that have the names of DuckDB's own functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from penstock import CopySpec, PlanningError, copy
from penstock.events import Finished

if TYPE_CHECKING:
    from pathlib import Path

MACROS = (
    "CREATE MACRO sha256(x) AS x",
    "CREATE MACRO sum(x) AS 1",
    """CREATE MACRO "||"(a, b) AS 'other'""",
    "CREATE MACRO duckdb_tables() AS TABLE SELECT 1 AS other",
    "CREATE MACRO duckdb_functions() AS TABLE SELECT 1 AS other",
)


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS id, 'a@b.c' AS email")
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.parametrize("macro", MACROS)
def test_a_source_whose_macro_replaces_a_function_is_refused(tmp_path: Path, macro: str) -> None:
    source = database(tmp_path / "a.duckdb", macro)
    spec = CopySpec(
        source=f"duckdb:///{source}",
        target=f"duckdb:///{tmp_path}/b.duckdb",
        table="people",
        mode="recreate",
        mask=("email=hash",),
    )
    with pytest.raises(PlanningError, match="macro with the name of a function of DuckDB, found"):
        list(copy(spec))
    assert not (tmp_path / "b.duckdb").exists()


def test_so_is_a_target(tmp_path: Path) -> None:
    source, target = database(tmp_path / "a.duckdb"), database(tmp_path / "b.duckdb", MACROS[1])
    spec = CopySpec(source=f"duckdb:///{source}", target=f"duckdb:///{target}", table="people")
    with pytest.raises(PlanningError, match=r"found main\.sum"):
        list(copy(spec))
    with duckdb.connect(str(target)) as connection:
        assert connection.execute("SELECT system.main.count(*) FROM people").fetchall() == [(1,)]


def test_other_macros_are_called(tmp_path: Path) -> None:
    source = database(
        tmp_path / "a.duckdb",
        "CREATE MACRO is_mine(x) AS x = 1",
        "CREATE SCHEMA shop",
        "CREATE MACRO shop.sum(x) AS 1",
    )
    spec = CopySpec(
        source=f"duckdb:///{source}",
        target=f"duckdb:///{tmp_path}/b.duckdb",
        table="people",
        mode="recreate",
        where="is_mine(id)",
        verify="checksums",
    )
    *_, report = copy(spec)
    assert isinstance(report, Finished)
    assert (report.status, report.rows) == ("done", 1)
