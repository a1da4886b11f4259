"""The tasks of a copy, in both Airflows: one DAG run and many checks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, open_shop

MOST_TASKS = 5
BRACES = "{{ 1/0 }}"
DAG_TEXT = """
with DAG("copies", schedule=None, start_date=START, default_args=AT_ONCE):
    once = copy_table(
        group_id="once", **ORDERS, mode="truncate", partitions=4, verify="counts", retries=2
    )

    @task
    def reports():
        pass

    once >> reports()
    copy_table(
        group_id="empty", **ENDS, table="public.nothing", target_table="public.emptied",
        mode="truncate",
    )
    copy_table(
        group_id="packed", **ENDS, table="public.lineitem", mode="append", partitions=40,
        degree=2,
    )
    copy_table(
        group_id="pairs", **ORDERS, target_table="dw.orders", mode="recreate", partitions=6,
        partitions_per_task=2, snapshot="none",
    )
    copy_table(
        group_id="braces", **ENDS, table="public.mood", mode="replace", strategy="values",
        key="mood", where="mood <> '{{ dag_run.conf['unwanted'] }}'",
    )
    copy_tables(
        [{"table": "public.nation"}, {"table": "public.region", "mapped": True}],
        **ENDS, mode="truncate", partitions_per_task=2,
    )
    copy_table(
        group_id="whole", **ENDS, table="public.nation", target_table="dw.nation", mode="recreate",
        strategy="whole",
    )

    prepare = PrepareCopyOperator(
        task_id="prepare", **ENDS, table="public.customer", mode="truncate", strategy="hash",
        key="c_custkey", partitions=3, snapshot="none",
    )
    plan = PlanCopyOperator(task_id="plan", target_conn_id="pg_dst", run_id=prepare.output)
    copy = CopyPartitionOperator.partial(task_id="copy", **ENDS).expand(partition=plan.output)
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
    with open_shop(
        (source_server, target_server),
        tmp_path_factory.mktemp("shop"),
        python=python,
        settings={"core.max_map_length": MOST_TASKS},
    ) as shop:
        shop.fill(["orders", "lineitem", "customer", "nation", "region"])
        (last,) = shop.source.execute("SELECT max(o_orderkey) FROM orders").fetchone() or ()
        shop.refuse("orders", "o_orderkey", last, times=1)
        shop.both(f"""
            CREATE TABLE mood (mood text, n int);
            INSERT INTO mood SELECT m, n
            FROM unnest(ARRAY['calm', 'unwanted', '{BRACES}']) AS m, generate_series(1, 10) AS n
        """)
        shop.source.execute("CREATE TABLE nothing (n int)")
        shop.target.execute("CREATE TABLE emptied AS SELECT 1 AS n; CREATE SCHEMA dw")
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop) -> DagRunResult:
    file = shop.write(DAG_TEXT)
    return shop.run(file, "copies", run_conf={"unwanted": "unwanted"}).succeeded()


def test_only_a_failed_partition_is_retried(shop: Shop, run: DagRunResult) -> None:
    copies = run.mapped("once.copy")
    assert [copy.try_number for copy in copies] == [1, 1, 1, 2]
    assert ["refused by a trigger" in copy.log for copy in copies] == [False] * 3 + [True]
    assert [copy.value["attempts"] for copy in copies] == [1, 1, 1, 2]
    assert sum(copy.value["rows"] for copy in copies) == shop.rows["orders"]
    attempts = "SELECT attempt FROM penstock.commit_record WHERE run_id = %s ORDER BY partition_id"
    found = shop.target.execute(attempts, [copies[0].value["run_id"]]).fetchall()
    assert found == [(1,), (1,), (1,), (1,)]
    shop.assert_same("orders")


def test_the_grid_labels_mapped_tasks_by_partition(run: DagRunResult) -> None:
    labels = [copy.rendered_map_index or "" for copy in run.mapped("once.copy")]
    assert labels[0].startswith("p0001 o_orderkey < ")
    assert labels[3].startswith("p0004 o_orderkey >= ")


def test_the_log_of_a_mapped_task_reports_its_work(run: DagRunResult) -> None:
    log = run.task("once.copy", 0).log
    assert "committed: p0001, " in log
    assert "rows" in log


def test_verify_reports_the_figures_of_the_run(shop: Shop, run: DagRunResult) -> None:
    verify = run.task("once.verify")
    assert verify.value["rows"] == shop.rows["orders"]
    assert verify.value["partitions"] == 4
    assert verify.value["status"] == "done"
    assert f"run {verify.value['run_id']} done" in verify.log
    assert "4 of 4 committed" in verify.log
    assert "verified by counts" in verify.log


def test_the_report_covers_the_time_of_all_tasks(run: DagRunResult) -> None:
    """The figures are in the target, whichever process copied; a retried task counts twice."""
    _, found, report = run.task("once.verify").log.partition("the report, with charts")
    assert found
    assert "waiting for target" in report
    executions = report.partition("executions\n")[2].splitlines()
    ended = [line.split()[2] for line in executions[1:7]]
    assert sorted(ended) == ["done", "failed", "partial", "partial", "partial", "partial"]
    assert "attempt 1 of p0004 failed: target " in report


def test_the_table_is_an_updated_asset(shop: Shop, run: DagRunResult) -> None:
    (event,) = [event for event in run.asset_events if event.task_id == "once.verify"]
    place = shop.connections["pg_dst"].rpartition("@")[2].partition("?")[0]
    assert event.uri == f"postgres://{place}/public/orders"
    ending = run.task("once.verify").value
    names = ("run_id", "rows", "inserted", "updated", "bytes", "partitions", "seconds", "read_at")
    assert event.extra == {"uri": event.uri, **{name: ending[name] for name in names}}
    assert datetime.fromisoformat(event.extra["read_at"]).tzinfo is not None


def test_an_empty_table_has_nothing_to_copy(shop: Shop, run: DagRunResult) -> None:
    assert run.task("empty.copy").state == "skipped"
    assert run.task("empty.plan").value == []
    assert run.task("empty.verify").state == "success"
    assert run.task("empty.verify").value["rows"] == 0
    assert shop.target.execute("SELECT count(*) FROM emptied").fetchone() == (0,)


def test_a_plan_too_long_for_airflow_is_packed(shop: Shop, run: DagRunResult) -> None:
    copies = run.mapped("packed.copy")
    assert len(copies) == MOST_TASKS
    packed = [copy.value["partitions"] for copy in copies]
    assert len({name for names in packed for name in names}) > MOST_TASKS
    assert max(map(len, packed)) - min(map(len, packed)) <= 1
    assert f"{packed[0][0]} to {packed[0][-1]}: " in (copies[0].rendered_map_index or "")
    shop.assert_same("lineitem")


def test_a_mapped_task_copies_the_requested_number_of_partitions(
    shop: Shop, run: DagRunResult
) -> None:
    packed = [copy.value["partitions"] for copy in run.mapped("pairs.copy")]
    assert [len(names) for names in packed] == [2, 2, 2]
    shop.assert_same("orders", "dw.orders")


def test_templates_in_data_are_not_rendered(shop: Shop, run: DagRunResult) -> None:
    labels = [copy.rendered_map_index or "" for copy in run.mapped("braces.copy")]
    assert len([label for label in labels if BRACES in label]) == 1
    assert run.task("braces.prepare").rendered_fields["options"]["where"] == "mood <> 'unwanted'"
    shop.assert_same("mood", where="mood <> 'unwanted'")


def test_each_of_many_tables_is_a_task_or_on_request_a_group(shop: Shop, run: DagRunResult) -> None:
    for table, task in (("nation", "public_nation"), ("region", "public_region.verify")):
        assert run.task(task).value["rows"] == shop.rows[table]
        shop.assert_same(table)


def test_a_plan_of_one_partition_needs_no_snapshot_holder(shop: Shop, run: DagRunResult) -> None:
    task = run.task("public_region.snapshot")
    assert task.state == "success"
    assert "needs no shared snapshot" in task.log
    assert "as of this moment" in run.task("public_region.copy", 0).log


def test_an_unpartitioned_table_is_one_task(shop: Shop, run: DagRunResult) -> None:
    assert [name for name in run.states if name.startswith("whole.")] == ["whole.copy"]
    assert run.task("whole.copy").value["rows"] == shop.rows["nation"]


def test_operators_can_be_wired_by_hand(shop: Shop, run: DagRunResult) -> None:
    assert [copy.state for copy in run.mapped("copy")] == ["success"] * 3
    assert run.task("verify").value["rows"] == shop.rows["customer"]
    shop.assert_same("customer")


def test_nothing_is_left_behind(shop: Shop, run: DagRunResult) -> None:
    assert run.task("once.release").state == "success"
    assert run.task("reports").state == "success"
    shop.assert_no_session()
