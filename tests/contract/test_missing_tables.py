"""A missing table is created once, in the modes that a backend lists."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from penstock import MODES, create, plan
from penstock.errors import PenstockError, PlanningError, UsageError
from penstock.model.tables import TableRef
from penstock.spec.modes import Entry, Mode, Table

from .copying import ROWS, Pair
from .database import Database, SqlDatabase
from .rows import Rows

CUT: dict[str, Any] = {"strategy": "ntile", "key": "id", "partitions": 3}
LOADING = [mode for mode in MODES.values() if mode.table is Table.TARGET]
SERVERS = ("postgresql", "mysql", "mssql", "snowflake")


def _creates_tables(pair: Pair) -> bool:
    return bool(pair.theirs.table) and bool(pair.theirs.backend.target_capabilities.creating_modes)


@pytest.mark.parametrize("mode", LOADING, ids=str)
def test_a_missing_table_is_created(inward: Pair, mode: Mode) -> None:
    """The plan says so, in case the user has mistyped its name."""
    inward.mine.make(ROWS, key="id" if mode.entry is Entry.BY_KEY else "")
    inward.mine.insert(ROWS)
    target = inward.theirs.backend.target_capabilities
    spec = inward.spec(mode=mode.name, **CUT)
    if mode not in target.creating_modes:
        with pytest.raises((PlanningError, UsageError)):
            plan(spec)
        return
    first = plan(spec)
    if inward.theirs.table:  # otherwise the URL identifies the target by itself
        assert [
            each for each in first.warnings if "missing in the target, and created there" in each
        ]
    for _ in range(2):
        inward.copy(mode=mode.name, **CUT)
    inward.check(times=2 if mode.only_adds else 1)
    assert not [each for each in plan(spec).warnings if "missing in the target" in each]


def test_two_runs_find_the_table_missing(inward: Pair) -> None:
    """Both are planned before one of them creates the table."""
    if not _creates_tables(inward):
        pytest.skip("the backend makes no tables of a name")
    inward.mine.fill(ROWS)
    mode = _mode(inward)
    days = {"a": "id < 150", "b": "id >= 150"}
    for run_id, where in days.items():
        create(inward.spec(mode=mode, run_id=run_id, where=where, **CUT))
    for run_id in days:
        inward.resume(run_id)
    inward.check()


def _mode(pair: Pair) -> str:
    modes = {mode.name for mode in pair.theirs.backend.target_capabilities.creating_modes}
    return "replace" if "replace" in modes else "append"


@pytest.mark.parametrize("other_name", SERVERS)
@pytest.mark.parametrize("name", SERVERS)
def test_concurrent_runs_create_the_table_once(
    open_database: Callable[[str], Database], name: str, other_name: str
) -> None:
    """They prepare at the same moment, as far as threads allow."""
    if other_name != name and "postgresql" not in (other_name, name):
        pytest.skip("two servers, one of which tells all that there is to tell")
    pair = Pair(open_database(other_name), open_database(name))
    pair.mine.fill(ROWS)
    days = [f"day = '{day}'" for day in sorted({row[1] for row in ROWS.rows})[:6]]
    for number, where in enumerate(days):
        create(pair.spec(mode="replace", run_id=f"r{number}", where=where, **CUT))
    with ThreadPoolExecutor(len(days)) as pool:
        runs = [pool.submit(pair.resume, f"r{number}") for number in range(len(days))]
        assert {run.result().status for run in runs} == {"done"}
    pair.check(Rows(ROWS.columns, [row for row in ROWS.rows if f"day = '{row[1]}'" in days]))


def test_another_table_created_in_the_meantime_stays_unchanged(inward: Pair) -> None:
    """It is created between planning and the first step."""
    theirs = inward.theirs
    if not _creates_tables(inward) or not isinstance(theirs, SqlDatabase):
        pytest.skip("the backend makes no tables of a name")
    if theirs.name == "clickhouse":
        pytest.skip("it moves nothing between tables of other columns")
    inward.mine.fill(ROWS)
    create(inward.spec(mode=_mode(inward), run_id="r", **CUT))
    theirs.fill(Rows({"id": "text", "day": "date"}, [("x", ROWS.rows[0][1])]))
    with pytest.raises(PenstockError):
        inward.resume("r")
    assert len(theirs.read()) == 1


def test_a_missing_schema_is_refused(inward: Pair) -> None:
    """A schema that is nearly right is one that the user has mistyped."""
    if not _creates_tables(inward):
        pytest.skip("the backend makes no tables of a name")
    inward.mine.make(ROWS)
    schema = TableRef.parse(inward.theirs.table, "table").schema
    mode = _mode(inward)
    inward.theirs.make(ROWS)  # so that a schema is there, whose name is known
    near = f"{schema or 'public'}x"
    spec = inward.spec(mode=mode, target_table=f"{near}.there", **CUT)
    with pytest.raises(PlanningError, match=f"schema '{near}' does not exist; .* pass --create"):
        plan(spec)
    planned = plan(replace(spec, create=True))
    (warning,) = [each for each in planned.warnings if "created there" in each]
    assert f"table {near}.there" in warning
