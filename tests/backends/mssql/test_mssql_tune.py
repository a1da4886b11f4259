"""`penstock tune` into SQL Server drops all that it creates, and cleans up after killed runs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock import CopySpec, PlanningError, Tuning, tune
from penstock.backends.mssql.load.scratch import MssqlScratch
from penstock.spec.modes import ModeName
from penstock.tuning.sweep import SweepNote, SweepStarted

from .mssql_tables import execute, is_babelfish, rows

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TABLE = "CREATE TABLE item (id int NOT NULL PRIMARY KEY, amount int DEFAULT 7, note nvarchar(200))"
SMALL: dict[str, Any] = {"partitions": 8, "table": "public.item", "target_table": "dbo.item"}


def scratch_schemas(url: str) -> list[str]:
    found = rows(url, "SELECT name FROM sys.schemas WHERE name LIKE 'penstock[_]tune[_]%'")
    return [name for (name,) in found]


@pytest.fixture
def ends(pair: Pair, mssql_module: str) -> dict[str, Any]:
    pair.source.run(
        "CREATE TABLE item (id int PRIMARY KEY, amount int, note text)",
        "INSERT INTO item SELECT n, n, repeat('x', 100) FROM generate_series(1, 2000) AS n",
        "VACUUM ANALYZE item",
    )
    execute(
        mssql_module,
        "DROP TABLE IF EXISTS item",
        TABLE,
        "CREATE INDEX amounts ON item (amount)",
        "INSERT INTO item VALUES (-1, 1, 'mine')",
    )
    return {"source": pair.source.url, "target": mssql_module}


@pytest.mark.parametrize("mode", ["append", "recreate"])
def test_tune_measures_and_leaves_nothing_behind(ends: dict[str, Any], mode: ModeName) -> None:
    spec = CopySpec(**ends, mode=mode, **SMALL)
    # Babelfish has no ALTER INDEX.
    options = () if is_babelfish(ends["target"]) or mode == "recreate" else ("deferred",)
    *_, result = tune(spec, degrees=(2,), options=options, sample=1 << 20)
    assert isinstance(result, Tuning)
    assert len(result.figures) == 1 + len(options)
    assert rows(ends["target"], "SELECT id, note FROM item") == [(-1, "mine")]
    assert scratch_schemas(ends["target"]) == []


def test_the_scratch_table_is_like_the_target(ends: dict[str, Any]) -> None:
    tuning = tune(CopySpec(**ends, **SMALL), degrees=(2,), sample=1 << 20)
    for each in tuning:
        if isinstance(each, SweepStarted) and each.number == 1:
            break
    (name,) = scratch_schemas(ends["target"])
    indexes = (
        f"SELECT count(*) FROM sys.indexes WHERE object_id = OBJECT_ID('{name}.scratch_table')"
        " AND index_id > 0"
    )
    assert rows(ends["target"], f"SELECT count(*) FROM {name}.scratch_table") == [(2000,)]
    assert rows(ends["target"], indexes) == [(2,)]
    tuning.close()
    assert scratch_schemas(ends["target"]) == []


def test_the_next_run_drops_the_schema_of_a_killed_one(ends: dict[str, Any]) -> None:
    url = ends["target"]
    dead, alive = MssqlScratch(url, None), MssqlScratch(url, None)
    with closing(alive):
        dead.begin()
        alive.begin()
        dead.close()  # to the server, this is a process that died
        with closing(tune(CopySpec(**ends, **SMALL), degrees=(2,), sample=1 << 20)) as tuning:
            swept = next(tuning)
            assert isinstance(swept, SweepNote)
            assert dead.name in swept.text
        assert scratch_schemas(url) == [alive.name]
        alive.drop()
    assert scratch_schemas(url) == []


def test_a_missing_table_is_rejected(ends: dict[str, Any]) -> None:
    execute(ends["target"], "DROP TABLE item")
    with pytest.raises(PlanningError, match="item"):
        next(tune(CopySpec(**ends, **SMALL)))
