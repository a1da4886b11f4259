"""A copy whose partitions several steps of one run share, one of which is killed."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import dagster as dg
import psutil
import psycopg
import pytest

from dagster_penstock import PenstockMetadataSet
from penstock_testkit.waiting import until

from .warehouse import TABLE, Run, copying, days
from .worker_definitions import job

if TYPE_CHECKING:
    from pathlib import Path

    from .warehouse import Warehouse

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

SECONDS = 90.0
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'penstock:%' AND wait_event_type = 'Lock'"
)
ALL_DAYS = {
    "dagster/asset_partition_range_start": "2024-01-01",
    "dagster/asset_partition_range_end": "2024-01-10",
}
SILENT = {"telemetry": {"enabled": False}}
FOUR = ("2024-01-02", "2024-01-05")
FOUR_DAYS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]
STEPS = {"copy.plan", "copy.worker_1", "copy.worker_2", "copy.worker_3", "copy.end"}


def workers_of(run: Run) -> dict[str, PenstockMetadataSet]:
    """Return what each worker says that it did, by step."""
    return {
        str(event.step_key): PenstockMetadataSet.extract(event.step_output_data.metadata)
        for event in run.result.all_events
        if event.event_type_value == "STEP_OUTPUT" and "worker" in str(event.step_key)
    }


def test_workers_share_a_table(warehouse: Warehouse) -> None:
    spec = warehouse.spec(mode="truncate", partitions=8, strategy="ctid", verify="counts")
    run = warehouse.run(copying([spec], workers=3))
    assert run.ok
    assert {event.step_key for event in run.result.all_events if event.step_key} == STEPS
    warehouse.check_same()
    assert run.metadata()["dagster/row_count"] == 1000
    workers = workers_of(run)
    assert [each.worker for each in workers.values()] == [1, 2, 3]
    assert sum(each.rows or 0 for each in workers.values()) == 1000
    assert [each.passed for each in run.evaluations] == [True]


def test_workers_share_asset_partitions(warehouse: Warehouse) -> None:
    orders = copying(
        [warehouse.spec(key="day", verify="checksums")], partitions_def=days(), workers=3
    )
    seen: list[int] = []

    @dg.asset(deps=[orders], partitions_def=days(), backfill_policy=dg.BackfillPolicy.single_run())
    def downstream() -> None:
        seen.append(warehouse.count())

    run = warehouse.run(orders, downstream, keys=FOUR)
    assert run.ok
    assert run.rows() == dict.fromkeys(FOUR_DAYS, 100)
    assert run.reported() == FOUR_DAYS
    assert seen == [400]
    assert sum(each.partitions or 0 for each in workers_of(run).values()) == 4
    assert sorted(str(each.partition) for each in run.evaluations) == FOUR_DAYS
    assert warehouse.instance.get_materialized_partitions(TABLE) == set(FOUR_DAYS)


def kill_one(warehouse: Warehouse, freed: threading.Event) -> None:
    """Kill one worker once all of them wait for the target's table, then free it."""
    try:
        until(
            lambda: warehouse.value(WAITING) == 3 or None,
            SECONDS,
            lambda: f"expected 3 that wait, found {warehouse.value(WAITING)}",
        )
        below = psutil.Process().children(recursive=True)
        nurseries = [each for each in below if "penstock.workers.fork_server" in _command(each)]
        parents = {each.ppid() for each in nurseries} - {each.pid for each in nurseries}
        # Those of other tests are below the process that the command line is forked from.
        steps = [each.pid for each in below if "--multiprocessing-fork" in _command(each)]
        parents.intersection_update(steps)
        assert len(parents) == 3
        os.kill(min(parents), signal.SIGKILL)
    finally:
        freed.set()


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_a_killed_step_goes_on(warehouse: Warehouse, target_url: str, tmp_path: Path) -> None:
    """The steps are processes of Dagster's own executor, and one is killed while it loads."""
    freed = threading.Event()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path), overrides=SILENT) as instance,
        ThreadPoolExecutor(2) as threads,
        psycopg.connect(target_url) as holder,
    ):
        holder.execute("LOCK TABLE dw.t IN SHARE MODE")

        def free() -> None:
            freed.wait()
            holder.rollback()

        killed = threads.submit(kill_one, warehouse, freed)
        threads.submit(free)
        with dg.execute_job(
            dg.reconstructable(job),
            instance=instance,
            tags=ALL_DAYS,
        ) as result:
            killed.result()
            assert result.success
            retried = [e for e in result.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
            (step,) = {str(event.step_key) for event in retried}
            run = Run(result, instance)
            assert len(workers_of(run)) == 3
            assert step in workers_of(run)
            assert set(run.rows().values()) == {100}
            assert len(run.reported()) == 10
            assert all(each.passed for each in run.evaluations)
    warehouse.check_same()


def test_failed_workers_go_on_from_failure(warehouse: Warehouse) -> None:
    """Each worker meets the row that is refused; what else was copied is reported."""
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 250)")
    spec = warehouse.spec(key="day", verify="counts")
    orders = copying([spec], partitions_def=days(), workers=2)
    first = warehouse.run(orders, keys=FOUR)
    assert not first.ok
    assert first.reported() == ["2024-01-02", "2024-01-04", "2024-01-05"]
    failures = [event for event in first.result.all_events if event.is_step_failure]
    assert {str(event.step_key) for event in failures} == {"copy.worker_1", "copy.worker_2"}
    data = failures[0].step_failure_data.user_failure_data
    assert data is not None
    assert data.metadata["penstock/failed"].value == ["dw/t 2024-01-03"]
    assert "copy.end" not in {event.step_key for event in first.result.all_events}

    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
    again = warehouse.run(orders, keys=FOUR, after=first)
    assert again.ok
    assert again.reported() == ["2024-01-03"]
    assert sum(each.partitions or 0 for each in workers_of(again).values()) == 1
    assert [each.passed for each in again.evaluations] == [True] * 4
    assert warehouse.count() == 400


def test_a_whole_table_goes_on_from_failure_with_its_rows_as_they_are_now(
    warehouse: Warehouse,
) -> None:
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 250)")
    spec = warehouse.spec(mode="truncate", partitions=4, strategy="range", key="id", attempts=1)
    orders = copying([spec], workers=2)
    first = warehouse.run(orders)
    assert not first.ok
    warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
    assert warehouse.run(orders, after=first).ok
    warehouse.check_same()


def test_a_difference_is_found_while_the_snapshot_is_held(warehouse: Warehouse) -> None:
    """The step at the end reports what a worker has compared, and does not compare again."""
    warehouse.target.execute(
        "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.id = 250 THEN NEW.region := 'x'; END IF; RETURN NEW; END $$"
    )
    warehouse.target.execute(
        "CREATE TRIGGER other BEFORE INSERT ON dw.t FOR EACH ROW EXECUTE FUNCTION other()"
    )
    spec = warehouse.spec(key="day", verify="checksums")
    run = warehouse.run(copying([spec], partitions_def=days(), workers=2), keys=FOUR)
    assert run.ok
    failed = [str(each.partition) for each in run.evaluations if not each.passed]
    assert (failed, len(run.evaluations)) == (["2024-01-03"], 4)
    verified = [
        "penstock/verified" in event.step_output_data.metadata
        for event in run.result.all_events
        if event.event_type_value == "STEP_OUTPUT" and "worker" in str(event.step_key)
    ]
    assert any(verified)


def test_what_several_workers_cannot_share(warehouse: Warehouse) -> None:
    spec, per_day = warehouse.spec(), warehouse.spec(key="day")
    one_each = dg.BackfillPolicy.multi_run()
    for specs, options, message in (
        ([spec], {"workers": 1}, "workers: expected a number of at least 2, found 1"),
        (
            [spec, warehouse.spec(target_table="dw.u")],
            {"workers": 2},
            "workers: expected one copy, found 2",
        ),
        (
            [warehouse.spec(mode="upsert", incremental="id", lookback="0", key="id")],
            {"workers": 2},
            "workers: expected a copy of all rows, found one with incremental",
        ),
        (
            [per_day],
            {"workers": 2, "partitions_def": days(), "backfill_policy": one_each},
            "workers: expected a backfill policy with several partitions in a run",
        ),
    ):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
            copying(specs, **options)


def test_a_reexecution_from_failure_runs_the_failed_steps(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """The run was planned before, and its good partitions stay."""
    warehouse.target.execute("ALTER TABLE dw.t ADD CONSTRAINT no CHECK (id <> 250)")
    recipe = dg.reconstructable(job)
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=SILENT) as instance:
        with dg.execute_job(recipe, instance=instance, tags=ALL_DAYS) as first:
            assert not first.success
            assert len(Run(first, instance).reported()) == 9
        warehouse.target.execute("ALTER TABLE dw.t DROP CONSTRAINT no")
        options = dg.ReexecutionOptions.from_failure(first.run_id, instance)
        with dg.execute_job(
            recipe,
            instance=instance,
            # As Dagster's page sets it.
            tags={
                **ALL_DAYS,
                "dagster/is_resume_retry": "true",
                "dagster/parent_run_id": first.run_id,
                "dagster/root_run_id": first.run_id,
            },
            reexecution_options=options,
        ) as again:
            assert again.success
            steps = {str(event.step_key) for event in again.all_events if event.step_key}
            assert steps == STEPS - {"copy.plan"}
            run = Run(again, instance)
            assert run.reported() == ["2024-01-03"]
            assert len(run.evaluations) == 10
    warehouse.check_same()
