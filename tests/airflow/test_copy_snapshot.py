"""One snapshot of the source for all mapped tasks, held for as long as they need it.

With `dag.test()`, the process itself holds it. The tests of a real Airflow let the triggerer hold
it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import Server

from .shop import Shop, content, open_shop

DAG_TEXT = """
import time

HELD = "SELECT count(*) FROM pg_stat_activity"
HELD += " WHERE datname = current_database() AND application_name LIKE 'penstock:snapshot%'"
STOCK = {**ENDS, "table": "public.stock", "strategy": "range", "key": "id", "partitions": 3}


def on_source(*statements):
    with psycopg.connect(BaseHook.get_connection("pg_src").get_uri()) as connection:
        found = [connection.execute(statement) for statement in statements]
        return found[0].fetchone()[0]


with DAG("views", schedule=None, start_date=START, default_args=AT_ONCE) as dag:
    copy_table(group_id="shared", **STOCK, target_table="public.shared", verify="counts")
    copy_table(group_id="none", **STOCK, target_table="public.none", snapshot="none")

    @task
    def change():
        return on_source(HELD, "UPDATE stock SET n = n + 1", "DELETE FROM stock WHERE id % 7 = 0")

    @task
    def after():
        # While the process that held it still lives.
        deadline = time.monotonic() + 60
        while (held := on_source(HELD)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return held

    changed = change()
    dag.get_task("shared.snapshot") >> changed
    changed >> [dag.get_task("shared.copy"), dag.get_task("none.copy")]
    dag.get_task("shared.verify") >> after()
"""


@pytest.fixture(scope="module", params=["3", "2"], ids=["airflow3", "airflow2"])
def shop(
    request: pytest.FixtureRequest,
    source_server: Server,
    target_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    python = request.getfixturevalue("airflow_2") if request.param == "2" else None
    folder = tmp_path_factory.mktemp("shop")
    with open_shop((source_server, target_server), folder, python=python) as shop:
        shop.source.execute(
            "CREATE TABLE stock (id int PRIMARY KEY, n int);"
            "INSERT INTO stock SELECT id, 0 FROM generate_series(1, 3000) AS id;"
            "ANALYZE stock"
        )
        shop.target.execute(
            "CREATE TABLE shared (id int, n int); CREATE TABLE none (id int, n int)"
        )
        yield shop


def test_all_mapped_tasks_read_one_snapshot(shop: Shop) -> None:
    before = content(shop.source, "stock")
    run = shop.run(shop.write(DAG_TEXT), "views").succeeded()
    assert run.task("change").value == 1
    assert run.task("after").value == 0
    assert [copy.state for copy in run.mapped("shared.copy")] == ["success"] * 3
    assert content(shop.target, "shared") == before
    # Proof that the source did change before the partitions were read.
    assert content(shop.source, "stock") != before
    shop.assert_same("stock", "none")
    shop.assert_no_session()
