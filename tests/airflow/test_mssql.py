"""DAG runs to and from SQL Server, in mapped tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock_testkit import Server, connect_mssql, new_mssql_database

from .shop import Shop, open_shop

ROWS = 1000
DAG_FILE = """
KEY = {"strategy": "range", "key": "id"}

with DAG("mssql", schedule=None, start_date=START, default_args=AT_ONCE) as dag:
    there = copy_table(
        group_id="there", source_conn_id="pg_src", table="public.t", target_conn_id="ms",
        target_table="dbo.t", mode="replace", **KEY, partitions=3, verify="counts",
    )
    back = copy_table(
        group_id="back", source_conn_id="ms", table="dbo.t", target_conn_id="pg_dst",
        target_table="public.t", mode="truncate", **KEY, partitions=3, snapshot="none",
    )
    there >> back
"""


@pytest.fixture(scope="module")
def shop(
    source_server: Server,
    target_server: Server,
    mssql_server: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    with (
        new_mssql_database(mssql_server) as url,
        open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop,
    ):
        with closing(connect_mssql(url)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, note nvarchar(max), day date)")
        shop.both("CREATE TABLE t (id int PRIMARY KEY, note text, day date)")
        shop.source.execute(
            f"INSERT INTO t SELECT n, 'nöte ' || n, '2024-01-01' FROM generate_series(1, {ROWS}) n"
        )
        shop.connections["ms"] = url
        yield shop


def test_a_table_is_copied_there_and_back(shop: Shop) -> None:
    run = shop.run(shop.write(DAG_FILE), "mssql").succeeded()
    assert len(run.mapped("there.copy")) == len(run.mapped("back.copy")) == 3
    shop.assert_same("t")
