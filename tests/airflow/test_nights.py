"""Loads that repeat, in both Airflows: after every night, the target equals the source.

Their tasks are cleared, stopped and run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_testkit import Server

from .shop import Shop, open_shop

DAGS = """
NIGHT = {**ENDS, "mode": "upsert", "incremental": "xmin", "deletes": "hard"}
with DAG("one", schedule=None, start_date=START, default_args=AT_ONCE):
    CopyTableOperator(task_id="orders", **NIGHT, table="public.orders", outlet=Asset("orders"))

with DAG("group", schedule=None, start_date=START, default_args=AT_ONCE):
    copy_table(group_id="lines", **NIGHT, table="public.lineitem", partitions=2)
    copy_table(group_id="single", **NIGHT, table="public.customer", partitions="1000000 rows")

def made(context):
    import penstock
    from penstock_airflow.runs.run_ids import run_id_of
    ends = {"source": "env:AIRFLOW_CONN_PG_SRC", "target": "env:AIRFLOW_CONN_PG_DST"}
    spec = penstock.CopySpec(**ends, **context["task"].options)
    return spec, run_id_of(context, again=True), ends

def overtaken(context, result=None):
    # Another night ends before that of the task, which is planned.
    import dataclasses
    import penstock
    spec, run_id, _ = made(context)
    penstock.create(dataclasses.replace(spec, run_id=run_id))
    for _ in penstock.copy(spec):
        pass

def covered(context, result=None):
    # The same, and that night's snapshot is newer than the task's.
    import dataclasses
    import penstock
    spec, run_id, ends = made(context)
    run = penstock.create(dataclasses.replace(spec, run_id=run_id)).run
    first = run.plan.partitions[0].id
    for _ in penstock.resume(run_id, **ends, only=[first], finish=False):
        pass
    for _ in penstock.copy(spec):
        pass

def batch_covered(context):
    # A batch ends early; then all its tables are brought by others.
    import contextlib
    import penstock
    from penstock_airflow.arguments.batch import build_batch
    from penstock_airflow.runs.run_ids import BATCH_NAME_LENGTH, run_id_of
    ends = {"source": "env:AIRFLOW_CONN_PG_SRC", "target": "env:AIRFLOW_CONN_PG_DST"}
    task = context["task"]
    run_id = run_id_of(context, again=True, name_length=BATCH_NAME_LENGTH)
    batch = build_batch(**ends, run_id=run_id, **task._batch_arguments())
    with contextlib.closing(penstock.copy_all(batch)) as events:
        for event in events:
            if event.name == "opened":
                break
    for table in task.tables:
        for _ in penstock.copy(penstock.CopySpec(**ends, table=table, **task.options)):
            pass

with DAG("batch", schedule=None, start_date=START, default_args=AT_ONCE):
    CopyAllOperator(
        task_id="tables", **NIGHT, tables=["public.nation", "public.region"],
        pre_execute=batch_covered,
    )

with DAG("stale", schedule=None, start_date=START, default_args=AT_ONCE):
    CopyTableOperator(task_id="orders", **NIGHT, table="public.orders", pre_execute=overtaken)

with DAG("stale_group", schedule=None, start_date=START, default_args=AT_ONCE):
    prepare = PrepareCopyOperator(
        task_id="prepare", **NIGHT, table="public.customer", partitions=2, post_execute=overtaken
    )
    plan = PlanCopyOperator(task_id="plan", target_conn_id="pg_dst", run_id=prepare.output)
    copy = CopyPartitionOperator.partial(task_id="copy", **ENDS, retries=3).expand(
        partition=plan.output
    )

with DAG("covered", schedule=None, start_date=START, default_args=AT_ONCE):
    CopyTableOperator(
        task_id="orders", **NIGHT, table="public.orders", partitions=2, pre_execute=covered
    )
    prepare = PrepareCopyOperator(
        task_id="prepare", **NIGHT, table="public.lineitem", partitions=2, post_execute=covered
    )
    plan = PlanCopyOperator(task_id="plan", target_conn_id="pg_dst", run_id=prepare.output)
    copy = CopyPartitionOperator.partial(task_id="copy", **ENDS).expand(partition=plan.output)
    verify = VerifyCopyOperator(task_id="verify", **ENDS, run_id=prepare.output, copied=copy.output)
    release = ReleaseSnapshotOperator(
        task_id="release", target_conn_id="pg_dst", run_id=prepare.output
    ).as_teardown()
    copy >> verify
    [copy, verify] >> release

with DAG("all", schedule=None, start_date=START, default_args=AT_ONCE):
    CopyAllOperator(task_id="tables", **NIGHT, tables=["public.nation", "public.region"])
"""
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey", "customer": "c_custkey"}
NAMES = {"nation": "n_nationkey", "region": "r_regionkey"}


@pytest.fixture(scope="module")
def file(shop: Shop) -> Path:
    return shop.write(DAGS)


@pytest.fixture(scope="module", params=["3", "2"], ids=["airflow3", "airflow2"])
def shop(
    request: pytest.FixtureRequest,
    source_server: Server,
    target_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    python = request.getfixturevalue("airflow_2") if request.param == "2" else None
    with open_shop(
        (source_server, target_server), tmp_path_factory.mktemp("shop"), python=python
    ) as shop:
        shop.fill([*KEYS, *NAMES], primary_keys=True)
        yield shop


def change(shop: Shop, table: str) -> None:
    """Change some rows of the source, and delete others."""
    key = (KEYS | NAMES)[table]
    comment = {"orders": "o", "lineitem": "l", "customer": "c", "nation": "n", "region": "r"}[table]
    shop.source.execute(
        f"UPDATE {table} SET {comment}_comment = 'changed' WHERE {key} % 3 = 0".encode()
    )
    shop.source.execute(
        f"DELETE FROM {table} WHERE {key} = (SELECT max({key}) FROM {table})".encode()
    )


def test_nights_in_one_task(shop: Shop, file: Path) -> None:
    first = shop.run(file, "one").succeeded().task("orders").value
    shop.assert_same("orders")
    assert first["night"]["full"] == "this is the first night"
    change(shop, "orders")
    run = shop.run(file, "one").succeeded()
    shop.assert_same("orders")
    night = run.task("orders").value["night"]
    assert (night["epoch"], night["full"], night["since"]) == (2, "", first["night"]["moment"])
    assert 0 < night["read"] < shop.rows["orders"]
    assert night["deleted"] > 0
    (event,) = run.asset_events
    for name in ("watermark", "epoch", "moment", "since", "full", "deleted"):
        assert event.extra[name] == night[name]
    assert "cannot copy the watermark" not in run.task("orders").log


def test_a_group_finds_deletes_in_its_copies_snapshot(shop: Shop, file: Path) -> None:
    shop.run(file, "group").succeeded()
    for table in ("lineitem", "customer"):
        shop.assert_same(table)
        change(shop, table)
    run = shop.run(file, "group").succeeded()
    for table, group in (("lineitem", "lines"), ("customer", "single")):
        shop.assert_same(table)
        night = run.task(f"{group}.verify").value["night"]
        assert night["epoch"] == 2
        assert night["deleted"] > 0
    shop.assert_no_session()


def test_nights_of_all_tables_in_a_batch(shop: Shop, file: Path) -> None:
    shop.run(file, "all").succeeded()
    for table in NAMES:
        shop.assert_same(table)
        change(shop, table)
    value = shop.run(file, "all").succeeded().task("tables").value
    for table in NAMES:
        shop.assert_same(table)
        assert value["tables"][f"public.{table}"]["night"]["epoch"] == 2


def test_a_run_planned_before_another_night_is_planned_again(shop: Shop, file: Path) -> None:
    change(shop, "orders")
    task = shop.run(file, "stale").succeeded().task("orders")
    shop.assert_same("orders")
    assert "starting a new run from there" in task.log
    assert task.value["run_id"].endswith("b")
    assert task.value["night"]["epoch"] >= 2


def test_copies_of_an_outdated_run_name_the_task_to_clear(shop: Shop, file: Path) -> None:
    run = shop.run(file, "stale_group")
    assert run.states["prepare"] == "success"
    for copy in run.mapped("copy"):
        assert (copy.state, copy.try_number) == ("failed", 1)
        assert "Clear the group's first task with its downstream tasks" in copy.log
    shop.assert_same("customer")


def test_a_night_covered_by_another_copies_nothing(shop: Shop, file: Path) -> None:
    change(shop, "orders")
    run = shop.run(file, "covered").succeeded()
    for table in ("orders", "lineitem"):
        shop.assert_same(table)
    for task in ("orders", "verify"):
        by = run.task(task).value["night"]["covered_by"]
        assert f"covered by run {by}, which read the source as of " in run.task(task).log
    assert {copy.state for copy in run.mapped("copy")} == {"success"}
    assert "covered by run " in run.task("release").log


def test_a_batch_covered_by_other_runs_copies_nothing(shop: Shop, file: Path) -> None:
    task = shop.run(file, "batch").succeeded().task("tables")
    for table in NAMES:
        shop.assert_same(table)
        by = task.value["tables"][f"public.{table}"]["night"]["covered_by"]
        assert f"covered by run {by}, which read" in task.log
