"""Asset partitions copied to and from SQL Server: only a failed one is retried."""

# No future annotations: Dagster inspects the annotations of a step's context.
from contextlib import closing

import dagster as dg
import pytest

from penstock_testkit import connect_mssql

from .warehouse import Warehouse, copying, days

FOUR = ("2024-01-02", "2024-01-05")
FOUR_DAYS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]


@pytest.fixture(autouse=True)
def table(mssql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSSQL_URL", mssql_url)
    with closing(connect_mssql(mssql_url)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, day date, region varchar(5))")


def test_partitions_are_copied_there_and_back(warehouse: Warehouse) -> None:
    forward = copying(
        [
            warehouse.spec(
                target=dg.EnvVar("MSSQL_URL"), target_table="dbo.t", key="day", verify="counts"
            )
        ],
        partitions_def=days(),
    )
    back = copying(
        [warehouse.spec(source=dg.EnvVar("MSSQL_URL"), table="dbo.t", key="day", snapshot="none")],
        name="back",
        partitions_def=days(),
    )
    mine = dg.AssetKey(["dbo", "t"])
    warehouse.source.execute("UPDATE public.t SET region = 'too long' WHERE id = 250")
    first = warehouse.run(forward, keys=FOUR)
    assert first.reported(mine) == ["2024-01-02", "2024-01-04", "2024-01-05"]
    assert first.failed == ["dbo/t 2024-01-03"]
    assert "column 'region'" in first.failure.description

    warehouse.source.execute("UPDATE public.t SET region = 'good' WHERE id = 250")
    again = warehouse.run(forward, keys=FOUR, after=first)
    assert again.reported(mine) == ["2024-01-03"]
    assert all(evaluation.passed for evaluation in again.evaluations)

    returned = warehouse.run(back, keys=FOUR)
    assert returned.reported() == FOUR_DAYS
    assert warehouse.count() == 400
    assert warehouse.value("SELECT region FROM dw.t WHERE id = 250") == "good"
    assert warehouse.run(back, key=FOUR_DAYS[0]).reported() == FOUR_DAYS[:1]
    assert warehouse.count() == 400
