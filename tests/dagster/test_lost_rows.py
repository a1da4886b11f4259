"""Assets whose rows others have removed, and tables that another run is to go on loading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

import penstock
from penstock import PenstockError

from .warehouse import copying, days

if TYPE_CHECKING:
    from .warehouse import Warehouse

REFUSE = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''not now'' USING ERRCODE = ''40001''; END';
    CREATE TRIGGER refuse AFTER INSERT ON dw.t FOR EACH ROW
        WHEN (NEW.id = 950) EXECUTE FUNCTION refuse()
"""
ENDS: dict[str, Any] = {"source": "env:PG_SRC", "target": "env:PG_DST"}
CUT: dict[str, Any] = {
    "strategy": "range",
    "key": "id",
    "partitions": 4,
    "attempts": 1,
    "on_error": "continue",
}


@pytest.mark.parametrize("how", ["TRUNCATE dw.t", "DELETE FROM dw.t", "DROP TABLE dw.t"])
def test_a_table_that_was_emptied_is_appended_again(warehouse: Warehouse, how: str) -> None:
    orders = copying([warehouse.spec(mode="append")])
    assert warehouse.run(orders).ok
    assert not warehouse.run(orders).ok
    warehouse.target.execute(how.encode())
    again = warehouse.run(orders)
    assert again.ok
    assert any("are no longer in the table" in warning for warning in again.warnings)
    warehouse.check_same()
    assert not warehouse.run(orders).ok
    warehouse.check_same()


def test_rows_that_are_still_there_are_not_appended_again(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="append")])
    assert warehouse.run(orders).ok
    warehouse.target.execute("DELETE FROM dw.t WHERE id > 500")
    assert "an earlier materialization has loaded" in warehouse.run(orders).failure.description


def test_partitions_of_an_emptied_table_are_appended_again(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="append", key="day")], partitions_def=days())
    keys = ("2024-01-02", "2024-01-04")
    assert warehouse.run(orders, keys=keys).ok
    warehouse.target.execute("TRUNCATE dw.t")
    again = warehouse.run(orders, keys=keys)
    assert len(again.reported()) == 3
    assert warehouse.count() == 300
    assert not warehouse.run(orders, keys=keys).ok
    assert warehouse.count() == 300


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_a_run_that_is_executed_again_loads_a_table_that_was_emptied(
    warehouse: Warehouse, mode: str
) -> None:
    orders = copying([warehouse.spec(mode=mode)])
    first = warehouse.run(orders)
    assert first.ok
    warehouse.target.execute("TRUNCATE dw.t")
    again = warehouse.run(orders, after=first)
    assert again.ok
    assert any("starts over" in warning for warning in again.warnings)
    warehouse.check_same()


def test_a_batch_that_is_executed_again_loads_a_table_that_was_emptied(
    warehouse: Warehouse,
) -> None:
    warehouse.source.execute("CREATE TABLE public.u AS SELECT * FROM public.t")
    warehouse.target.execute("CREATE TABLE public.u (LIKE dw.t)")
    more = warehouse.spec(mode="append", table="public.u", target_table="public.u")
    orders = copying([warehouse.spec(mode="append"), more])
    first = warehouse.run(orders)
    assert first.ok
    warehouse.target.execute("TRUNCATE dw.t")
    assert warehouse.run(orders, after=first).ok
    warehouse.check_same()
    assert warehouse.count("public.u") == 1000


def test_a_retry_that_others_interfere_with_says_what_to_do(warehouse: Warehouse) -> None:
    orders = copying([warehouse.spec(mode="truncate")])
    first = warehouse.run(orders)
    warehouse.target.execute("TRUNCATE dw.t")
    retried = warehouse.run(orders, after=first, tags={"dagster/retry_number": "1"})
    assert "expected 1,000 rows" in retried.failure.description
    assert warehouse.run(orders).ok
    warehouse.check_same()


def test_a_failed_run_of_dagster_is_no_longer_in_the_way(warehouse: Warehouse) -> None:
    warehouse.target.execute(REFUSE)
    orders = copying([warehouse.spec(mode="truncate", **CUT)])
    failed = warehouse.run(orders)
    assert not failed.ok
    warehouse.target.execute("DROP TRIGGER refuse ON dw.t")
    # Outside Dagster nothing is known about the end of its run.
    penstock.watch_claims("Dagster run ", lambda _: False)
    (run_id,) = warehouse.runs()
    elsewhere = penstock.CopySpec(**ENDS, table="public.t", target_table="dw.t", mode="truncate")
    with pytest.raises(penstock.TargetBusy) as caught:
        list(penstock.copy(elsewhere))
    assert f"run {run_id}" in caught.value.message
    assert f"Dagster run {failed.run_id}" in caught.value.message
    assert warehouse.count() < 1000
    again = copying([warehouse.spec(mode="truncate")], name="another")
    assert warehouse.run(again).ok
    warehouse.check_same()


def test_a_run_of_dagster_that_goes_on_keeps_its_table(warehouse: Warehouse) -> None:
    going = dg.DagsterRun(job_name="elsewhere", status=dg.DagsterRunStatus.STARTED)
    warehouse.instance.add_run(going)
    warehouse.target.execute(REFUSE)
    spec = penstock.CopySpec(
        **ENDS,
        table="public.t",
        target_table="dw.t",
        run_id="half",
        claim=f"Dagster run {going.run_id}",
        **CUT,
    )
    with pytest.raises(PenstockError):
        list(penstock.copy(spec))
    loaded = warehouse.count()
    assert 0 < loaded < 1000
    warehouse.target.execute("DROP TRIGGER refuse ON dw.t")
    orders = copying([warehouse.spec(mode="truncate")])
    refused = warehouse.run(orders)
    assert "run half" in refused.failure.description
    assert "give-up half" in refused.failure.description
    assert warehouse.count() == loaded
    penstock.give_up("half", target="env:PG_DST")
    assert warehouse.run(orders).ok
    warehouse.check_same()
