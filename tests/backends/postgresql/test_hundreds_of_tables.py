"""Batches with more tables than fit in one window: planned, copied and reported."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from penstock import BatchPlan, BatchSpec, PartitionPlan, plan_all, report
from penstock.engine.windows import WINDOW
from penstock.model.codec import from_json
from penstock.model.journal import PHASES

from ..conftest import Pair

TABLES = WINDOW + 20


@pytest.fixture
def many(pair: Pair) -> Pair:
    """Many tables, one of which cannot be copied."""
    pair.source.run(
        "CREATE TABLE t0 (id int PRIMARY KEY, at timestamptz)",
        *(f"CREATE TABLE t{number} (LIKE t0 INCLUDING ALL)" for number in range(1, TABLES)),
        *(f"INSERT INTO t{number} VALUES ({number}, now())" for number in range(TABLES)),
        "CREATE VIEW v AS SELECT 1 AS x",
    )
    pair.target.run("CREATE TABLE t7 (id int)", "CREATE VIEW in_the_way AS SELECT id FROM t7")
    return pair


def spec(pair: Pair) -> BatchSpec:
    return BatchSpec(
        source=pair.source.url,
        target=pair.target.url,
        tables=("public.*",),
        defaults={"mode": "recreate"},
    )


def test_plans_arrive_one_by_one_and_are_not_retained(many: Pair) -> None:
    """Each is the plan of the table alone, and nothing of an earlier window is retained."""
    plans, alive = {}, []
    gc.collect()  # plans of other tests
    for found in plan_all(spec(many)):
        if isinstance(found, BatchPlan):
            end = found
            continue
        plans[found.table] = (found.plan and found.plan.fingerprint, found.error)
        del found
        alive.append(sum(isinstance(each, PartitionPlan) for each in gc.get_objects()))
    assert (end.tables, end.failed, len(plans)) == (TABLES, 1, TABLES)
    assert [item.kind for item in end.not_copied] == ["views"]
    fingerprint, error = plans["public.t7"]
    assert fingerprint is None
    assert "depend" in str(error and error["message"])
    assert plans["public.t9"] == (many.plan("public.t9", mode="recreate").fingerprint, None)
    assert max(alive) <= WINDOW
    assert many.target.connection.execute("SELECT to_regclass('t9')").fetchone() == (None,)


def test_the_command_line_copies_them(many: Pair) -> None:
    options = (*many.ends, "--tables", "public.*", "--mode", "recreate")
    text = many.cli("plan-all", *options)
    assert text.returncode == 65, text.stderr
    assert text.stdout.startswith(f"{TABLES} tables\n")
    assert f"{TABLES - 1 - 20} more tables" in text.stdout
    assert "public.t7: --mode recreate: public.t7 cannot be dropped" in text.stdout
    assert len(text.stdout.splitlines()) < 60
    lines = many.cli("plan-all", *options, "--json").stdout.splitlines()
    *tables, end = map(json.loads, lines)
    assert end["tables"] == len(tables) == TABLES
    plan = next(each["plan"] for each in tables if each["table"] == "public.t9")
    assert from_json(PartitionPlan, plan).load.table.name == "t9"


def test_a_batch_is_logged_by_the_hundred_and_reported_in_full(many: Pair, tmp_path: Path) -> None:
    options = (*many.ends, "--tables", "public.*", "--mode", "recreate", "--run-id", "night")
    done = many.cli("copy-all", *options)
    assert done.returncode == 65, done.stderr
    assert len(done.stderr.splitlines()) < 40
    assert f"planned: {WINDOW - 1} tables, " in done.stderr
    assert done.stderr.count("cannot be copied") == 1
    assert f"{TABLES - 1} of {TABLES} done" in done.stdout
    assert "public.t7" in done.stdout
    found = report("night", target=many.target.url)
    assert found.what == f"{TABLES} tables"
    assert len(found.runs) == TABLES - 1
    # Including those whose journals were written before the end of the batch.
    assert all(run.executions and run.spent for run in found.runs)
    assert set(found.phases) == set(PHASES)
    assert sum(found.phases.values()) == pytest.approx(found.seconds, rel=0.2)
    page = tmp_path / "night.html"
    shown = many.cli("report", "night", "--target", many.target.url, "--html", str(page))
    assert len(shown.stdout.splitlines()) < 60
    html = page.read_text(encoding="utf-8")
    assert html.index("Slowest tables") < html.index("<details><summary>All of them")
    assert html.count("<tr><td>public.t") == TABLES - 1 + 10


def test_the_status_of_a_batch_lists_unfinished_tables(many: Pair) -> None:
    options = ["--tables", "public.t*", "--exclude", "t7", "--mode", "recreate"]
    assert many.cli("copy-all", *many.ends, *options, "--run-id", "night").returncode == 0
    many.target.run(
        "UPDATE penstock.run SET status = 'failed' WHERE spec ->> 'table' = 'public.t9'"
    )
    status = many.cli("status", "night", "--target", many.target.url)
    assert status.returncode == 0, status.stderr
    assert f"{TABLES - 2} done" in status.stdout
    assert "1 failed" in status.stdout
    listed = [line for line in status.stdout.splitlines() if "public.t" in line]
    assert len(listed) == 1
    assert "public.t9" in listed[0]


def test_events_are_written_as_they_happen(many: Pair) -> None:
    options = (*many.ends, "--tables", "public.t*", "--mode", "recreate", "--json")
    events = [json.loads(line) for line in many.cli("copy-all", *options).stdout.splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("batch_started", "batch_finished")
    names = [event["event"] for event in events]
    # The second window is planned after the first one has ended.
    assert names.index("finished") < len(names) - 1 - names[::-1].index("planned")
    assert set(events[-1]["phases"]) == set(PHASES)
    tables = {each["table"]: each for each in events[-1]["tables"]}
    assert (tables["public.t9"]["rows"], tables["public.t9"]["status"]) == (1, "done")
    (warned,) = [event for event in events if event["event"] == "warning"]
    assert warned["error"]["error"] == "PlanningError"
