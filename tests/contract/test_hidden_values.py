"""Values of failing rows appear nowhere unless the user asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.model.values import ERRORS, NEVER, VARIABLE

from ..cli import run_cli
from .copying import Pair
from .database import Database, SqlDatabase
from .rows import Rows

# The number is too long to occur by chance in an id, time or port.
WORDS = ("Canary", "Quetzal", "471108150042")
# Text around a value in a server's message may also be part of it.
SECRET = "O'Canary (\"471108150042\") for key 'Quetzal', violates column 'Quetzal'"
COLUMNS = {"id": "bigint", "name": "text"}
TWICE = Rows(COLUMNS, [(n, f"{SECRET} {n // 2:03}") for n in range(40)])
UNIQUE = "CREATE TABLE {} (id int, name {} UNIQUE)"
CHECKED = "CREATE TABLE {} (id int, name {} CHECK (name < 'A'))"
TEXTS = {"postgresql": "text", "duckdb": "varchar", "sqlite": "text"}
BOUNDED = {"mysql": "varchar(200)", "mssql": "nvarchar(200)"}
SHORT = {"postgresql": "varchar(9)", "mysql": "varchar(9)", "mssql": "nvarchar(9)"}
RAISED = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " RAISE '% is refused', NEW.name USING HINT = NEW.name, ERRCODE = '{}'; END $$",
    "CREATE TRIGGER refuse BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION refuse()",
)
SIGNALLED = (
    "CREATE TRIGGER refuse BEFORE INSERT ON {} FOR EACH ROW"
    " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = NEW.name",
)

CASES: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    **{f"{name}, twice": (name, (UNIQUE,), []) for name in (*TEXTS, *BOUNDED)},
    **{f"{name}, checked": (name, (CHECKED,), []) for name in (*TEXTS, *BOUNDED)},
    **{f"{name}, too long": (name, ("CREATE TABLE {} (id int, name {})",), []) for name in SHORT},
    **{
        f"postgresql, raised as {state}": (
            "postgresql",
            ("CREATE TABLE {} (id int, name {})", RAISED[0].replace("{}", state), RAISED[1]),
            [],
        )
        for state in ("P0001", "23514", "57000")
    },
    "mysql, signalled": ("mysql", ("CREATE TABLE {} (id int, name {})", *SIGNALLED), []),
    "postgresql, an index at the end": ("postgresql", (UNIQUE,), ["--mode", "swap"]),
}


def types_of(case: str, name: str) -> str:
    return SHORT[name] if "too long" in case else {**TEXTS, **BOUNDED}[name]


def run_all_commands(pair: Pair, page: Path, choice: str, *options: str) -> tuple[int, str]:
    """Return the exit code of a copy, and everything that it and other commands write and store."""
    target = ["--target", pair.ends["target"]]
    words = [*pair.words, "--degree=1", *options]
    done = [
        run_cli(*command, env={**os.environ, VARIABLE: choice})
        for command in (
            ["copy", *words, "--run-id=r"],
            ["copy", *words, "--run-id=r", "--json"],
            ["plan", *words],
            ["plan", *words, "--json"],
            ["status", "r", *target],
            ["status", "r", *target, "--json"],
            ["report", "r", *target, "--html", str(page)],
            ["report", "r", *target, "--json"],
        )
    ]
    assert all(each.returncode == 0 for each in done[4:]), [each.stderr for each in done]
    with pair.target() as catalog:
        run, journals = catalog.control.runs.find("r"), catalog.control.journals.of(["r"])["r"]
    assert run is not None
    texts = [each.stdout + each.stderr for each in done]
    return done[0].returncode, "\n".join(
        [*texts, page.read_text(), str(run.failures), str(journals)]
    )


@pytest.mark.parametrize("case", CASES)
def test_values_of_failing_rows_are_hidden(
    case: str, open_database: Callable[[str], Database], tmp_path: Path
) -> None:
    name, statements, options = CASES[case]
    pair = Pair(open_database(name), open_database(name))
    pair.mine.fill(TWICE)
    assert isinstance(pair.theirs, SqlDatabase)
    for statement in statements:
        pair.theirs.execute(statement.format(pair.theirs.table, types_of(case, name)))
    code, found = run_all_commands(pair, tmp_path / "r.html", NEVER, *options)
    assert code == 65, found
    assert [word for word in WORDS if word in found] == [], found


@pytest.mark.parametrize("name", ["postgresql", "duckdb", "mysql"])
@pytest.mark.parametrize("choice", [NEVER, ERRORS])
def test_keys_that_name_partitions_are_hidden(
    name: str, choice: str, open_database: Callable[[str], Database], tmp_path: Path
) -> None:
    pair = Pair(open_database(name), open_database(name))
    pair.make(TWICE)
    cut = ["--strategy", "values", "--key", "name"]
    code, found = run_all_commands(pair, tmp_path / "r.html", choice, *cut)
    assert code == 0, found
    assert ("Canary" in found) is (choice == ERRORS), found
    pair.check(TWICE)
