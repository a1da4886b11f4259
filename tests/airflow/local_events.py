"""DAGs that a source starts, on a real Airflow with its triggerer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock_testkit.airflow import AirflowStack, Run, until

from .lines import PATIENCE, Lines, ask, execute

DAGS = """
from airflow.sdk import DAG, Asset, AssetWatcher

from penstock_airflow import CopyTableOperator, SourceChangedTrigger

table = SourceChangedTrigger(
    source_conn_id="watched_source", target_conn_id="watched_target", table="public.lineitem",
    poll_interval=1.0,
)
files = SourceChangedTrigger(source={folder!r}, poll_interval=1.0)
changed = Asset("watched_table", watchers=[AssetWatcher(name="table", trigger=table)])
arrived = Asset("watched_files", watchers=[AssetWatcher(name="files", trigger=files)])

with DAG("on_a_watched_table", schedule=[changed], max_active_runs=1):
    CopyTableOperator(
        task_id="lines", source_conn_id="watched_source", target_conn_id="watched_target",
        table="public.lineitem", mode="upsert", incremental="xmin",
    )
with DAG("on_watched_files", schedule=[arrived]):
    CopyTableOperator(
        task_id="lines", source={folder!r}, target_conn_id="watched_target",
        target_table="public.arrived", mode="recreate",
    )
"""
KEY = "ALTER TABLE public.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)"
CHANGE = "UPDATE public.lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey = 1"


def runs_of(stack: AirflowStack, dag_id: str, count: int) -> list[Run]:
    """Wait until a DAG has a number of runs, all of them successful."""
    until(
        lambda: True if len(stack.runs(dag_id)) == count else None,
        4 * PATIENCE,
        lambda: f"{dag_id} has {len(stack.runs(dag_id))} runs\n{stack.log_tails('triggerer')}",
    )
    runs = stack.runs(dag_id)
    for run in runs:
        run.succeeded(timeout=4 * PATIENCE)
    return runs


def events_of(stack: AirflowStack, name: str) -> list[dict[str, Any]]:
    """Return the payloads of an asset's events, the first one first."""
    events = stack.rest.get("/assets/events", name_pattern=name, limit=100)["asset_events"]
    payloads = [each["extra"] for each in events if each["name"] == name]
    return [each.get("payload", each) for each in payloads]


def restart_triggerer(stack: AirflowStack) -> None:
    stack.components["triggerer"].kill()
    stack.components["triggerer"].start()
    stack.wait_until_healthy()


def test_a_table_and_files_start_dags(
    real_stack: AirflowStack, lines_alone: Lines, tmp_path: Path
) -> None:
    lines = lines_alone
    for url in (lines.source, lines.target):
        execute(url, KEY)
    for side in ("source", "target"):
        real_stack.set_connection(f"watched_{side}", lines.url(side))
    folder = tmp_path / "in"
    folder.mkdir()
    text = DAGS.format(folder=f"{folder}/*.csv")
    real_stack.add_dag(text, "on_a_watched_table")
    real_stack.unpause("on_watched_files")
    # Airflow starts the watchers of assets that it knows from an earlier look at the file.
    real_stack.add_dag(f"{text}\n", "on_a_watched_table")
    try:
        # No night has read the table yet.
        runs_of(real_stack, "on_a_watched_table", 1)
        assert ask(lines.target, "SELECT count(*) FROM public.lineitem") == lines.content[0]
        (folder / "one.csv").write_text("id,word\n1,a\n")
        runs_of(real_stack, "on_watched_files", 1)
        assert ask(lines.target, "SELECT word FROM public.arrived") == "a"
        execute(lines.source, CHANGE)
        runs_of(real_stack, "on_a_watched_table", 2)
        # Neither fires again for what has fired.
        restart_triggerer(real_stack)
        (folder / "two.csv").write_text("id,word\n2,b\n")
        runs_of(real_stack, "on_watched_files", 2)
        assert ask(lines.target, "SELECT count(*) FROM public.arrived") == 2
        runs_of(real_stack, "on_a_watched_table", 2)
        stored = json.dumps(real_stack.rest.get("/assets", name_pattern="watched", limit=100))
        for secret in ("s3cret-of-the-source", "s3cret-of-the-target"):
            assert secret not in stored
            assert secret not in real_stack.log_tails("triggerer")
    finally:
        for dag_id in ("on_a_watched_table", "on_watched_files"):
            real_stack.rest.call("PATCH", f"/dags/{dag_id}", {"is_paused": True})
