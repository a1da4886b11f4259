"""Asset partitions copied to and from MySQL: only a failed one is retried."""

# No future annotations: Dagster inspects the annotations of a step's context.
from contextlib import closing
from typing import Any

import dagster as dg
import pytest

from penstock_testkit import connect_mysql

from .warehouse import Warehouse, copying, days

FOUR = ("2024-01-02", "2024-01-05")
FOUR_DAYS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]


def execute(url: str, statement: str) -> Any:
    with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


@pytest.fixture
def database(mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MYSQL_URL", mysql_url)
    execute(
        mysql_url, "CREATE TABLE t (id int PRIMARY KEY, day date, region varchar(5), KEY (day))"
    )
    return mysql_url.rpartition("/")[2]


def test_partitions_are_copied_there_and_back(
    warehouse: Warehouse, mysql_url: str, database: str
) -> None:
    forward = copying(
        [
            warehouse.spec(
                target=dg.EnvVar("MYSQL_URL"), target_table=f"{database}.t", key="day",
                verify="checksums",
            )
        ],
        partitions_def=days(),
    )  # fmt: skip
    back = copying(
        [
            warehouse.spec(
                source=dg.EnvVar("MYSQL_URL"), table=f"{database}.t", key="day",
                verify="checksums",
            )
        ],
        name="back",
        partitions_def=days(),
    )  # fmt: skip
    mine = dg.AssetKey([database, "t"])
    warehouse.source.execute("UPDATE public.t SET region = 'too long' WHERE id = 250")
    first = warehouse.run(forward, keys=FOUR)
    assert first.reported(mine) == ["2024-01-02", "2024-01-04", "2024-01-05"]
    assert first.failed == [f"{database}/t 2024-01-03"]
    assert "column 'region'" in first.failure.description

    warehouse.source.execute("UPDATE public.t SET region = 'good' WHERE id = 250")
    warehouse.source.execute("UPDATE public.t SET region = 'later' WHERE id = 150")
    again = warehouse.run(forward, keys=FOUR, after=first)
    assert again.reported(mine) == ["2024-01-03"]
    assert all(evaluation.passed for evaluation in again.evaluations)

    returned = warehouse.run(back, keys=FOUR)
    assert returned.reported() == FOUR_DAYS
    assert all(evaluation.passed for evaluation in returned.evaluations)
    assert warehouse.count() == 400
    assert warehouse.value("SELECT region FROM dw.t WHERE id = 250") == "good"
    assert warehouse.value("SELECT region FROM dw.t WHERE id = 150") == "r0"

    # A backfill with one run for each day.
    for day in FOUR_DAYS[:2]:
        assert warehouse.run(forward, key=day).reported(mine) == [day]
        assert warehouse.run(back, key=day).reported() == [day]
    assert warehouse.value("SELECT region FROM dw.t WHERE id = 150") == "later"
    assert warehouse.count() == 400


def test_a_run_continues_after_a_row_is_corrected(
    warehouse: Warehouse, mysql_url: str, database: str
) -> None:
    execute(mysql_url, "INSERT INTO t VALUES (1, '2024-01-02', 'a'), (2, '2024-01-03', 'b')")
    warehouse.target.execute("ALTER TABLE dw.t ADD CHECK (region <> 'b')")
    back = copying(
        [warehouse.spec(source=dg.EnvVar("MYSQL_URL"), table=f"{database}.t", key="day")],
        partitions_def=days(),
    )
    first = warehouse.run(back, keys=FOUR)
    assert first.failed == ["dw/t 2024-01-03"]
    execute(mysql_url, "UPDATE t SET region = 'c' WHERE id = 2")
    assert warehouse.run(back, keys=FOUR, after=first).reported() == ["2024-01-03"]
    assert warehouse.value("SELECT string_agg(region, '' ORDER BY id) FROM dw.t") == "ac"
