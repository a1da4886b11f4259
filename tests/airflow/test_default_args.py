"""`default_args` and mapped operators, run in both Airflows: each row arrives once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, open_shop

TABLES = ("orders", "customer", "nation", "region", "supplier", "lineitem")
DAG_TEXT = """
from airflow.providers.common.compat.sdk import TaskGroup

with DAG("defaults", schedule=None, start_date=START,
         default_args={**ENDS, **AT_ONCE, "mode": "truncate"}) as dag:
    CopyTableOperator(task_id="one", table="public.orders")
    copy_table(group_id="group", table="public.customer", partitions=2, snapshot="none")
    copy_tables(["public.nation"])
    CopyTableOperator.partial(task_id="many", degree=2).expand(
        table=["public.supplier", "public.region"]
    )
    with TaskGroup("inner", default_args={"mode": "upsert", "conflict_columns": ["id"]}):
        CopyTableOperator.partial(task_id="rows", table="public.numbers").expand(
            where=["id < 3", "id >= 3"]
        )
    CopyAllOperator(task_id="all", tables=["public.line*"])
"""


@pytest.fixture(scope="module", params=["3", "2"], ids=["airflow3", "airflow2"])
def shop(
    request: pytest.FixtureRequest,
    source_server: Server,
    target_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    python = request.getfixturevalue("airflow_2") if request.param == "2" else None
    servers, folder = (source_server, target_server), tmp_path_factory.mktemp("shop")
    with open_shop(servers, folder, python=python) as shop:
        shop.fill(TABLES)
        shop.both("CREATE TABLE numbers (id int PRIMARY KEY)")
        shop.source.execute("INSERT INTO numbers SELECT generate_series(1, 5)")
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop) -> DagRunResult:
    """Run the DAG twice, which would show rows that are appended twice."""
    file = shop.write(DAG_TEXT)
    shop.run(file, "defaults").succeeded()
    return shop.run(file, "defaults").succeeded()


@pytest.mark.parametrize("table", [*TABLES, "numbers"])
def test_a_mode_in_default_args_applies(run: DagRunResult, shop: Shop, table: str) -> None:
    shop.assert_same(table)


def test_mapped_tasks_are_named_by_table(run: DagRunResult) -> None:
    assert [task.rendered_map_index for task in run.mapped("many")] == [
        "public.supplier",
        "public.region",
    ]
    assert [task.rendered_map_index for task in run.mapped("inner.rows")] == [
        "public.numbers where id < 3",
        "public.numbers where id >= 3",
    ]
