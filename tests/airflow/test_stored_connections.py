"""`dag.test()`, as `airflow dags test` runs it, with connections in Airflow's database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import unquote, urlsplit

import pytest

from penstock_testkit import Server

from .shop import Shop, open_shop

DAG_TEXT = """
with DAG("stored", schedule=None, start_date=START, default_args=AT_ONCE):
    copy_table(
        group_id="orders", **ORDERS, mode="truncate", partitions=3, verify="counts",
        await_snapshot=5,
    )
"""
INSERT = """
    INSERT INTO connection
        (conn_id, conn_type, host, port, login, password, schema, is_encrypted, is_extra_encrypted)
    VALUES (?, 'postgres', ?, ?, ?, ?, ?, 0, 0)
"""


@pytest.fixture
def shop(
    source_server: Server, target_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.fill(["orders"])
        yield shop


def test_the_snapshot_is_held_with_connections_of_the_database(shop: Shop) -> None:
    with closing(sqlite3.connect(shop.runner.database)) as database:
        for conn_id, url in shop.connections.items():
            parts = urlsplit(url)
            login, password = unquote(parts.username or ""), unquote(parts.password or "")
            database.execute(
                INSERT,
                [conn_id, parts.hostname, parts.port, login, password, parts.path.lstrip("/")],
            )
        database.commit()
    run = shop.runner.run(shop.write(DAG_TEXT), "stored").succeeded()
    assert {copy.try_number for copy in run.mapped("orders.copy")} == {1}
    assert "this process holds the snapshot" in run.output
    shop.assert_same("orders")
