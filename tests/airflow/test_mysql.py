"""DAG runs to and from MySQL, in mapped tasks and in one task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock_testkit import AnyMysqlServer, Server, connect_mysql
from penstock_testkit.airflow import DagRunResult

from ..conftest import fresh_mysql
from .shop import Shop, open_shop

ROWS = 1000
DAG_FILE = """
MYSQL = "DATABASE.t"
KEY = {"strategy": "range", "key": "id"}

with DAG("mysql", schedule=None, start_date=START, default_args=AT_ONCE) as dag:
    there = copy_table(
        group_id="there", source_conn_id="pg_src", table="public.t", target_conn_id="my",
        target_table=MYSQL, mode="replace", **KEY, partitions=3, verify="checksums",
    )
    back = copy_table(
        group_id="back", source_conn_id="my", table=MYSQL, target_conn_id="pg_dst",
        target_table="public.t", mode="truncate", **KEY, partitions=3, snapshot="none",
    )
    whole = CopyTableOperator(
        task_id="whole", source_conn_id="my", table=MYSQL, target_conn_id="pg_dst",
        target_table="public.whole", mode="recreate", **KEY, partitions=3, degree=2,
    )
    there >> back >> whole

with DAG("shared", schedule=None, start_date=START) as dag:
    copy_table(
        group_id="lines", source_conn_id="my", table=MYSQL, target_conn_id="pg_dst",
        target_table="public.t", mode="truncate", **KEY, partitions=3, snapshot="shared",
    )
"""


@pytest.fixture(scope="module")
def database(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with fresh_mysql(mysql_server) as url:
        with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id int PRIMARY KEY, note text, day date)")
        yield url


@pytest.fixture(scope="module")
def shop(
    source_server: Server,
    target_server: Server,
    database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.both("CREATE TABLE t (id int PRIMARY KEY, note text, day date)")
        shop.source.execute(
            f"INSERT INTO t SELECT n, 'nöte ' || n, '2024-01-01' FROM generate_series(1, {ROWS}) n"
        )
        shop.connections["my"] = database
        yield shop


@pytest.fixture(scope="module")
def file(shop: Shop, database: str) -> Path:
    return shop.write(DAG_FILE.replace("DATABASE", database.rpartition("/")[2]))


@pytest.fixture(scope="module")
def run(shop: Shop, file: Path) -> DagRunResult:
    return shop.run(file, "mysql").succeeded()


def test_a_table_is_copied_there_and_back(run: DagRunResult, shop: Shop) -> None:
    assert len(run.mapped("there.copy")) == len(run.mapped("back.copy")) == 3
    shop.assert_same("t")
    shop.assert_same("t", "whole")


def test_an_asset_has_one_name_for_the_database(run: DagRunResult, database: str) -> None:
    place = database.rpartition("@")[2].partition("?")[0]
    assert f"mysql://{place}/t" in {event.uri for event in run.asset_events}


def test_mapped_tasks_of_one_machine_share_a_snapshot(
    run: DagRunResult, shop: Shop, file: Path
) -> None:
    shop.target.execute("DELETE FROM t")
    shared = shop.run(file, "shared").succeeded()
    assert "snapshot adopted" in shared.task("lines.copy", 1).log
    shop.assert_same("t")
