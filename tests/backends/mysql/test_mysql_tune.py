"""`penstock tune` into MySQL or MariaDB: it leaves nothing behind, and removes killed tunes'
leftovers."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from penstock import CopySpec, PlanningError, Tuning, tune
from penstock.backends.mysql.load.scratch import MySqlScratch
from penstock.spec.modes import ModeName
from penstock.tuning.sweep import SweepNote, SweepStarted
from penstock_testkit.mysql import connect_mysql

from .mysql_pair import TABLE, execute, rows

SMALL: dict[str, Any] = {"partitions": 8, "table": "item"}


def new_databases(url: str) -> list[str]:
    found = rows(url, "SHOW DATABASES LIKE 'penstock\\_tune\\_%'")
    return [name for (name,) in found]


@pytest.mark.parametrize("mode", ["append", "truncate", "recreate", "swap"])
def test_each_setting_is_measured_and_nothing_left_behind(
    items: str, mysql_url: str, mode: ModeName
) -> None:
    execute(mysql_url, TABLE, "CREATE INDEX amounts ON item (amount)")
    execute(mysql_url, "INSERT INTO item VALUES (-1, 'mine', 1, 'x')")
    spec = CopySpec(source=items, target=mysql_url, mode=mode, **SMALL)
    *_, result = tune(spec, degrees=(1, 2), options=("deferred",), sample=1 << 20)
    assert isinstance(result, Tuning)
    assert len(result.figures) == 4
    assert rows(mysql_url, "SELECT id, note FROM item") == [(-1, "mine")]
    assert new_databases(mysql_url) == []


def test_the_scratch_table_is_like_the_target(items: str, mysql_url: str) -> None:
    execute(mysql_url, TABLE, "CREATE INDEX amounts ON item (amount)")
    events = tune(CopySpec(source=items, target=mysql_url, **SMALL), degrees=(2,), sample=1 << 20)
    for each in events:
        if isinstance(each, SweepStarted) and each.number == 1:
            break
    (name,) = new_databases(mysql_url)
    ((count,),) = rows(mysql_url, f"SELECT count(*) FROM {name}.scratch_table")
    assert count > 0
    found = rows(
        mysql_url,
        "SELECT DISTINCT index_name FROM information_schema.statistics "
        f"WHERE table_schema = '{name}' AND table_name = 'scratch_table' ORDER BY 1",
    )
    assert [index for (index,) in found] == ["amounts", "PRIMARY"]
    events.close()
    assert new_databases(mysql_url) == []


def test_leftovers_of_a_killed_tune_are_dropped_by_the_next(items: str, mysql_url: str) -> None:
    execute(mysql_url, TABLE)
    dead, alive = MySqlScratch(mysql_url, None), MySqlScratch(mysql_url, None)
    with closing(alive):
        dead.begin()
        alive.begin()
        dead.close()  # like a process that has died
        spec = CopySpec(source=items, target=mysql_url, **SMALL)
        with closing(tune(spec, degrees=(2,), sample=1 << 20)) as events:
            swept = next(events)
            assert isinstance(swept, SweepNote)
            assert dead.name in swept.text
        assert new_databases(mysql_url) == [alive.name]
        alive.drop()
    assert new_databases(mysql_url) == []


def test_refused_without_the_right_to_create_a_database(items: str, mysql_url: str) -> None:
    execute(mysql_url, TABLE)
    with closing(connect_mysql(mysql_url)) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT database()")
        ((database,),) = cursor.fetchall()
        cursor.execute("DROP USER IF EXISTS 'tuner'@'%'")
        cursor.execute("CREATE USER 'tuner'@'%' IDENTIFIED BY 'pw'")
        cursor.execute(f"GRANT ALL ON `{database}`.* TO 'tuner'@'%'")
        try:
            rest = mysql_url.rpartition("@")[2]
            spec = CopySpec(source=items, target=f"mysql://tuner:pw@{rest}", **SMALL)
            with pytest.raises(PlanningError, match="penstock tune: database penstock_tune_"):
                list(tune(spec, degrees=(2,), sample=1 << 20))
        finally:
            cursor.execute("DROP USER 'tuner'@'%'")
    assert new_databases(mysql_url) == []
