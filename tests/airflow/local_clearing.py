"""Task instances cleared on a real Airflow: which partitions are copied again; rows appear once."""

from __future__ import annotations

from contextlib import closing

from penstock_testkit.airflow import Run, until

from ..concurrent_cases import concurrent_test
from . import copy_cases
from .lines import FEW, PARTITIONS, PATIENCE, Lines, ask, connect, execute

COUNT_TRUNCATES = """
    CREATE TABLE public.truncated (at timestamptz);
    CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO public.truncated VALUES (now()); RETURN NULL; END';
    CREATE TRIGGER note AFTER TRUNCATE ON public.lineitem EXECUTE FUNCTION public.note()
"""
WAITING = """
    SELECT count(*) FROM pg_locks
    WHERE NOT granted AND relation = 'penstock.run'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
TRUNCATED = "SELECT count(*) FROM public.truncated"
UNMAPPED = -1

# More days than run at once.
DAYS = ("1995-03-01", "1995-03-02", "1995-03-03")
DAILY = """
from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable

from penstock_airflow import copy_table

with DAG(
    "lines_daily",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(1995, 1, 1),
    catchup=False,
):
    copy_table(
        group_id="lines",
        source_conn_id="{name}_source",
        target_conn_id="{name}_target",
        table="public.lineitem",
        mode="replace",
        strategy="range",
        key="l_orderkey",
        where="l_shipdate >= '{{{{ data_interval_start | ds }}}}' "
        "AND l_shipdate < '{{{{ data_interval_end | ds }}}}'",
        partitions=2,
        partitions_per_task=2,
        # Made by two runs at the same moment, an asset that is new fails one of them.
        outlet=Asset("lines_daily"),
        retries=2,
        retry_delay=timedelta(seconds=1),
    )
"""
BY_DAY = """
    SELECT jsonb_object_agg(day, n ORDER BY day) FROM (
        SELECT l_shipdate AS day, count(*) AS n FROM public.lineitem
        WHERE l_shipdate BETWEEN '{}' AND '{}' GROUP BY 1
    ) AS days
"""


def clear_run(run: Run) -> None:
    """Clear a whole successful run, and wait for its end."""
    number = run.task("lines.verify").try_number + 1
    run.rest.call("POST", f"{run.path}/clear", {"dry_run": False})
    run.wait_for("lines.verify", states=["success"], try_number=number, timeout=4 * PATIENCE)


# First, because it takes long: the scheduler checks for a backfill's end only every 30 seconds.
@concurrent_test
def test_a_backfill_copies_every_day_once(lines: Lines) -> None:
    stack = lines.airflow
    first, *_, last = DAYS
    by_day = BY_DAY.format(first, last)
    expected = ask(lines.source, by_day)
    assert len(expected) == len(DAYS)
    stack.add_dag(DAILY.format(name=lines.name), "lines_daily")

    def check(runs: list[Run], number: int) -> None:
        assert len(runs) == len(DAYS)
        for run in runs:
            run.wait_for("lines.verify", try_number=number, timeout=4 * PATIENCE)
            run.succeeded()
        assert ask(lines.target, by_day) == expected
        assert ask(lines.target, "SELECT count(*) FROM public.lineitem") == sum(expected.values())

    check(stack.backfill("lines_daily", first, last), 1)
    # Only a copy of every day can repair this.
    execute(lines.target, "DELETE FROM public.lineitem WHERE l_linenumber = 1")
    check(stack.backfill("lines_daily", first, last, reprocess="completed"), 2)
    lines.check_no_backend()


@concurrent_test
def test_a_cleared_task_copies_again_in_mode_replace(lines: Lines) -> None:
    copy_cases.cleared_after_success(lines)


@concurrent_test
def test_a_cleared_task_keeps_committed_rows_in_mode_truncate(lines: Lines) -> None:
    execute(lines.target, COUNT_TRUNCATES)
    run = lines.run("packed")
    lines.check_done(run)
    before = lines.status(run)
    log = copy_cases.clear_copy(run, 3)
    assert "already committed; nothing was copied" in log
    lines.check_done(run)
    assert lines.status(run).committed == before.committed
    assert lines.status(run).run.prepared_at == before.run.prepared_at
    assert ask(lines.target, TRUNCATED) == 1

    clear_run(run)
    lines.check_done(run)
    assert lines.run_id(run) != before.run.run_id
    assert not {record.committed_at for record in before.committed} & set(
        lines.records(run).values()
    )
    assert ask(lines.target, TRUNCATED) == 2


@concurrent_test
def test_a_cleared_task_copies_again_in_mode_truncate_with_recopy(lines: Lines) -> None:
    execute(lines.target, COUNT_TRUNCATES)
    run = lines.run("recopy")
    lines.check_done(run)
    before = lines.records(run)
    copy_cases.clear_copy(run, 3)
    lines.check_done(run)
    assert copy_cases.changed(before, lines.records(run)) == copy_cases.pack_of(3)
    assert ask(lines.target, TRUNCATED) == 1


@concurrent_test
def test_a_task_cleared_alone_fails_once_release_has_passed(lines: Lines) -> None:
    run = lines.run("recopy")
    lines.check_done(run)
    before = lines.records(run)
    for task, index in (("lines.verify", UNMAPPED), ("lines.copy", 3)):
        run.clear(task if index == UNMAPPED else (task, index))
        run.wait_for(task, index, ["failed"], try_number=2)
        assert "Clear this task with its downstream tasks" in run.log(task, index)
        lines.check_done(run)
    assert lines.records(run) == before


def kill_release(lines: Lines, run: Run) -> None:
    """Clear `release`, and kill it while it waits for the target."""
    with closing(connect(lines.target)) as locker:
        locker.autocommit = False
        locker.execute("LOCK TABLE penstock.run IN ACCESS EXCLUSIVE MODE")
        number = run.task("lines.release").try_number + 1
        run.clear("lines.release")
        run.wait_for("lines.release", states=["running"], try_number=number)
        until(
            lambda: True if ask(lines.target, WAITING) else None,
            PATIENCE,
            lambda: f"release waits for nothing: {run.tasks()}",
        )
        run.process("lines.release").kill()
        run.wait_for("lines.release", states=["up_for_retry", "failed"], try_number=number)


@concurrent_test
def test_a_killed_release_is_retried(lines: Lines) -> None:
    run = lines.run("few")
    lines.check_done(run, partitions=FEW)
    kill_release(lines, run)
    run.wait_for("lines.release", states=["success"], try_number=3)
    lines.check_done(run, partitions=FEW)


@concurrent_test
def test_a_release_killed_on_its_last_try_fails_the_run(lines: Lines) -> None:
    run = lines.run("once")
    lines.check_done(run, partitions=FEW)
    kill_release(lines, run)
    assert run.wait() == "failed"
    lines.check_no_backend()
    run.clear_run(only_failed=True)
    lines.check_done(run, partitions=FEW)


@concurrent_test
def test_clearing_a_whole_run_adds_no_rows_in_mode_append(lines: Lines) -> None:
    run = lines.run("append")
    lines.check_done(run)
    before = lines.status(run)
    clear_run(run)
    lines.check_done(run)
    assert lines.status(run).committed == before.committed
    assert len(before.committed) == PARTITIONS
