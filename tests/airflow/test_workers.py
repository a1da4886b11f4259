"""Mapped tasks that share the partitions of a run, in both Airflows: one DAG run, many checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, open_shop

# `dag.test()` runs mapped tasks one after the other, so that the first one copies everything, but
# for what makes it fail.
DAG_TEXT = """
with DAG("workers", schedule=None, start_date=START, default_args=AT_ONCE):
    copy_table(
        group_id="shared", **ORDERS, mode="truncate", partitions=6, verify="counts", workers=3,
        degree=2, retries=2,
    )
    copy_table(
        group_id="swapped", **ENDS, table="public.nation", mode="swap", indexes="defer",
        partitions=2, workers=8, degree=1, snapshot="none",
    )
    copy_table(
        group_id="empty", **ENDS, table="public.nothing", target_table="public.emptied",
        mode="truncate", workers=2,
    )
    copy_tables(
        [{"table": "public.customer", "mapped": True, "workers": 2}, "public.region"],
        **ENDS, mode="truncate", max_rate="1GB",
    )

    prepare = PrepareCopyOperator(
        task_id="prepare", **ENDS, table="public.supplier", mode="append", partitions=4
    )
    plan = PlanCopyOperator(
        task_id="plan", target_conn_id="pg_dst", run_id=prepare.output, workers=2
    )
    copy = CopyWorkerOperator.partial(task_id="copy", **ENDS).expand(partition=plan.output)
    verify = VerifyCopyOperator(task_id="verify", **ENDS, run_id=prepare.output, copied=copy.output)
    copy >> verify
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
        shop.fill(["orders", "customer", "nation", "region", "supplier"], primary_keys=True)
        shop.source.execute("CREATE TABLE nothing (n int)")
        shop.target.execute("CREATE TABLE emptied AS SELECT 1 AS n")
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop) -> DagRunResult:
    return shop.run(shop.write(DAG_TEXT), "workers").succeeded()


def test_x(shop: Shop, run: DagRunResult) -> None:
    for t in ("shared.copy", "swapped.copy", "empty.copy","public_customer.copy","copy"):
        for c in run.mapped(t):
            print(t, c.rendered_map_index, c.state, c.value)
    print(run.task("shared.copy", 0).log)
    print(run.task("shared.copy", 1).log)
    print(run.task("shared.verify").log)
    assert 0
